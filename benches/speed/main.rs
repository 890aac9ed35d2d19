//! How fast: `cargo bench --bench speed -- step|operator|language [ARGUMENTS]`, without arguments the first two.
//!
//! On a GPU: `LOGLINEAR_DEVICE=cuda:0 cargo bench --features cuda --bench speed -- …`. `LOGLINEAR_PEER` names what is
//! measured beside, as each benchmark says.

mod language;
mod operator;
mod step;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.split_first() {
        None => {
            step::run(&[]);
            operator::run(&[]);
        }
        Some((name, rest)) => match name.as_str() {
            "step" => step::run(rest),
            "operator" => operator::run(rest),
            "language" => language::run(rest),
            other => {
                eprintln!("unknown benchmark `{other}`; allowed: step, operator, language");
                std::process::exit(2);
            }
        },
    }
}
