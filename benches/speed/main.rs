//! How fast: `cargo bench --bench speed -- step|operator|language [ARGUMENTS]`, without arguments the first two.
//!
//! On a GPU: `LOGLINEAR_DEVICE=cuda:0 cargo bench --features cuda --bench speed -- …`. `LOGLINEAR_PEER` names what is
//! measured beside, as each benchmark says.

mod language;
mod operator;
mod step;

use loglinear::burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use loglinear::cohort::Parameters;
use loglinear::device;
use loglinear::model::{Model, ModelConfig, Precision};
use loglinear::train::Adam;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let name = std::env::var("LOGLINEAR_DEVICE").unwrap_or_else(|_| "cpu".to_owned());
    let on = device::parse(&name).unwrap();
    match arguments.split_first() {
        None => {
            step::run(&on, &[]);
            operator::run(&on, &[]);
        }
        Some((name, rest)) => match name.as_str() {
            "step" => step::run(&on, rest),
            "operator" => operator::run(&on, rest),
            "language" => language::run(&on, rest),
            other => {
                eprintln!("unknown benchmark `{other}`; allowed: step, operator, language");
                std::process::exit(2);
            }
        },
    }
}

/// A cohort before its first step: model, parameters, optimiser, and which runs are alive.
fn cohort(
    on: &Device,
    config: ModelConfig,
    precision: Precision,
    runs: usize,
) -> (Model, Parameters, Adam, Tensor<1, Bool>) {
    let model = Model::new(config).unwrap().with_precision(precision);
    let seeds: Vec<u64> = (0..runs as u64).collect();
    let parameters = Parameters::initialise(model.specs(), &seeds, on, DType::F32);
    let adam = Adam::new(&parameters);
    (model, parameters, adam, Tensor::from_data(TensorData::new(vec![true; runs], [runs]), on))
}
