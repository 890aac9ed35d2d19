//! `sweep`, `status`, `collect`, `statistics`, `claims` and `paper figures`, as a user calls them.

use std::path::Path;
use std::process::{Command, Output};

fn loglinear(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loglinear")).args(arguments).current_dir(folder).output().unwrap()
}

/// Standard output of a call that succeeds.
fn said(folder: &Path, arguments: &[&str]) -> String {
    let output = loglinear(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Exit code and standard error of a call that fails.
fn refused(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = loglinear(folder, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A small sweep under a preset's name, so that its figures are those of the paper.
fn write_sweep(folder: &Path, name: &str, more: &str) {
    let text = format!(
        r#"
        name = "{name}"
        description = "a test"
        lambda_sequences = 1
        [base]
        train = {{ steps = 20, batch = 16, eval_every = 10 }}
        model.d_model = 16
        {more}
        "#
    );
    std::fs::write(folder.join("sweep.toml"), text).unwrap();
}

const MQAR: &str = r#"
task = { name = "mqar", seq_len = 16, train_examples = 64, validation_examples = 32 }
[axes]
seed = [0, 1]
task.pairs = [2, 4]
model.lambda.kind = ["fixed", "mlp-softplus"]
[[claims]]
id = "test"
claim = "MLP-λ is better"
published = "somewhere"
measure = "best_accuracy"
of = { kind = "mlp-softplus" }
minus = { kind = "fixed" }
supported = { at_least = 0.9 }
least_runs = 4
"#;

#[test]
fn from_a_file_to_figures() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_sweep(at, "paper/mqar-small", MQAR);
    let plan = said(at, &["sweep", "sweep.toml", "--dry-run"]);
    assert!(plan.contains("8 runs in runs/paper/mqar-small, 0 ended, in 4 cohorts"), "{plan}");
    assert!(!at.join("runs").exists(), "a dry run writes nothing");

    let first = said(at, &["sweep", "sweep.toml", "--quiet"]);
    assert!(first.contains("NOT SUPPORTED") || first.contains("CONTRADICTED"), "{first}");
    assert!(first.contains("collapse_rate") && first.contains("collected.parquet"), "{first}");
    let again = said(at, &["sweep", "sweep.toml", "--quiet"]);
    assert_eq!(first, again);
    let sweep = "runs/paper/mqar-small";
    let status = said(at, &["status", "runs"]);
    assert!(status.contains("8 of 8 runs ended") && status.contains("mlp-softplus-k4-seed1"), "{status}");
    let json = said(at, &["status", sweep, "--json"]);
    let row: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!((row["state"].as_str(), row["step"].as_u64()), (Some("completed"), Some(20)));

    assert!(said(at, &["collect", sweep, "--out", "all.parquet"]).contains("16 evaluations"));
    let statistics = said(at, &["statistics", "all.parquet", "--out", "tables"]);
    for sentence in ["bootstrap interval", "less that of `second`", "all else and the seed equal"] {
        assert!(statistics.contains(sentence), "{statistics}");
    }
    for name in ["summaries", "kind-differences", "axis-effects", "best-less-last"] {
        assert!(at.join("tables").join(name).with_extension("parquet").is_file(), "{name}");
    }
    let claims = said(at, &["claims", "runs"]);
    assert!(claims.contains("[test]") && claims.contains("NOT TESTED: In a language model"), "{claims}");

    std::fs::write(at.join(sweep).join("notes.md"), "Repeated on another machine.\n").unwrap();
    let drawn = said(at, &["paper", "figures", "--from", "runs"]);
    let page = std::fs::read_to_string(at.join("figures/README.md")).unwrap();
    for name in [
        "mqar-accuracy-T16",
        "mqar-curves",
        "lambda-heatmap",
        "lambda-grid",
        "lambda-by-level",
        "lambda-histogram",
    ] {
        assert!(at.join("figures").join(name).with_extension("svg").is_file(), "{name}: {drawn}");
        assert!(page.contains(&format!("![{name}]({name}.png)")), "{page}");
    }
    assert!(drawn.contains("ablations: not drawn; needs `loglinear sweep ablation/activation`"), "{drawn}");
    let hash = sha256(&at.join(sweep).join("collected.parquet"));
    assert!(page.contains(&hash), "the page proves what was read");
    assert!(!page.contains(&at.display().to_string()), "no path of this machine");
    assert!(page.contains("| MLP-λ is better | somewhere |"), "{page}");
    assert!(page.contains("Not the checked-in preset of this name"), "{page}");
    assert!(page.contains("\n\nRepeated on another machine.\n"), "{page}");
    std::fs::write(at.join("README.md"), "# My thesis").unwrap();
    let (_, message) = refused(at, &["paper", "figures", "--from", "runs", "--out", "."]);
    assert!(message.contains("README.md") && message.contains("another text"), "{message}");

    // An ended run that was changed is not taken for what it was.
    let metrics = at.join(sweep).join("fixed-k2-seed0/metrics.jsonl");
    let text = std::fs::read_to_string(&metrics).unwrap();
    std::fs::write(&metrics, text.split_inclusive('\n').next().unwrap()).unwrap();
    let status = said(at, &["status", sweep]);
    assert!(
        status.contains("7 of 8 runs ended") && status.contains("metrics.jsonl ends at step 10"),
        "{status}"
    );
    let (_, message) = refused(at, &["sweep", "sweep.toml", "--quiet"]);
    assert!(message.contains("1 run failed") && message.contains("fixed-k2-seed0"), "{message}");
    std::fs::write(&metrics, text).unwrap();
    let config = at.join(sweep).join("fixed-k4-seed0/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("learning_rate = 0.001", "learning_rate = 0.5")).unwrap();
    let (_, message) = refused(at, &["sweep", "sweep.toml", "--quiet"]);
    assert!(message.contains("found `learning_rate = 0.5`"), "{message}");
    std::fs::write(&config, text).unwrap();
    // What can be made again is.
    std::fs::write(at.join(sweep).join("fixed-k4-seed0/lambda.parquet"), "torn").unwrap();
    said(at, &["sweep", "sweep.toml", "--quiet"]);
}

/// SHA-256 as coreutils has it.
fn sha256(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn presets_are_listed_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let list = said(folder.path(), &["sweep", "--list"]);
    for name in ["paper/mqar ", "paper/mqar-small", "ablation/best-vs-last", "72"] {
        assert!(list.contains(name), "{list}");
    }
    let text = said(folder.path(), &["sweep", "ablation/init-small", "--show"]);
    std::fs::write(folder.path().join("mine.toml"), text).unwrap();
    let plan = said(folder.path(), &["sweep", "mine.toml", "--dry-run", "--cohort", "3"]);
    assert!(plan.contains("15 runs"), "{plan}");
}

#[test]
fn a_sweep_stops_in_time_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    // A field that stands twice is an error of TOML, with its place.
    write_sweep(folder.path(), "timed", "train.steps = 3");
    let (code, message) = refused(folder.path(), &["sweep", "sweep.toml"]);
    assert!(code == Some(2) && message.contains("sweep.toml") && message.contains("line"), "{message}");
    write_sweep(folder.path(), "timed", MQAR);
    let text = std::fs::read_to_string(folder.path().join("sweep.toml")).unwrap();
    std::fs::write(folder.path().join("sweep.toml"), text.replace("steps = 20", "steps = 1000000")).unwrap();
    let arguments = ["sweep", "sweep.toml", "--quiet", "--max-minutes", "0.01"];
    let (code, message) = refused(folder.path(), &arguments);
    assert!(code == Some(1) && message.contains("8 of 8 runs to go"), "{message}");
    let status = said(folder.path(), &["status", "runs/timed", "--json"]);
    assert!(status.contains("\"started\""), "{status}");
}

#[test]
fn wrong_arguments_name_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let cases: [(&[&str], i32, &str); 9] = [
        (&["sweep"], 2, "PRESET|FILE"),
        (&["sweep", "paper/mqr"], 2, "paper/mqar-small"),
        (&["sweep", "absent.toml"], 2, "absent.toml"),
        (&["sweep", "paper/mqar", "--max-minutes", "0"], 2, "--max-minutes"),
        (&["sweep", "paper/mqar", "--cohort", "0"], 2, "--cohort"),
        (&["sweep", "paper/mqar", "--memory", "0"], 2, "--memory"),
        (&["status", "."], 1, "sweep.toml"),
        (&["collect", ".", "--out", "x.csv"], 2, ".parquet"),
        (&["paper", "figures"], 2, "data/results"),
    ];
    for (arguments, expected, named) in cases {
        let (code, message) = refused(at, arguments);
        assert!(code == Some(expected) && message.contains(named), "{arguments:?}: {code:?} {message}");
    }
    assert_eq!(std::fs::read_dir(at).unwrap().count(), 0, "nothing was written");
}
