//! The notebook kernel, as a reader meets it: what cells share, and what a failing cell does.
//!
//! These need what `loglinear lab` installs and take a minute, so they run where that is wanted:
//! `cargo test --release --test kernel -- --ignored`.

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loglinear"));
    command.arg("lab").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs cells in a fresh kernel; those that start with `#[fails]` are expected to fail.
fn execute(cells: &[&str], folder: &Path) -> Output {
    let cell = |(number, source): (usize, &&str)| {
        let (source, tags) = match source.strip_prefix("#[fails]") {
            Some(source) => (source.trim_start(), json!({ "tags": ["raises-exception"] })),
            None => (*source, json!({})),
        };
        json!({
            "cell_type": "code", "id": format!("cell{number}"), "execution_count": null,
            "metadata": tags, "outputs": [], "source": source
        })
    };
    let notebook = json!({
        "cells": cells.iter().enumerate().map(cell).collect::<Vec<_>>(),
        "metadata": { "kernelspec": { "display_name": "Rust", "language": "rust", "name": "loglinear" } },
        "nbformat": 4, "nbformat_minor": 5
    });
    let path = folder.join("cells.ipynb");
    std::fs::write(&path, notebook.to_string()).unwrap();
    lab(&["--execute", path.to_str().unwrap(), "--in-place"])
}

/// What the last cell of a run that passed wrote to standard output.
fn last_output(cells: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = execute(cells, folder.path());
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let notebook: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("cells.ipynb")).unwrap()).unwrap();
    let outputs = notebook["cells"].as_array().unwrap().last().unwrap()["outputs"].clone();
    let lines = outputs[0]["text"].as_array().expect("the last cell prints").clone();
    lines.iter().map(|line| line.as_str().unwrap()).collect()
}

/// Runs cells that must fail, and returns what is said about it.
fn failure(cells: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = execute(cells, folder.path());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
#[ignore = "needs what `loglinear lab` installs"]
fn gradients_across_cells_are_right() {
    let found = last_output(&[
        "use loglinear::notebook::prelude::*;\n\
         let device = device::parse(\"cpu\")?.autodiff();\n\
         let x = Tensor::<1>::from_floats([2.0, 3.0], &device).require_grad();",
        "let w = Tensor::<1>::from_floats([5.0, 7.0], &device).require_grad();",
        "let gradients = (x.clone() * w.clone()).sum().backward();",
        "for t in [&x, &w] {\n\
             let gradient: Vec<f32> = t.grad(&gradients).unwrap().into_data().iter().collect();\n\
             println!(\"{gradient:?}\");\n\
         }",
    ]);
    assert_eq!(found, "[5.0, 7.0]\n[2.0, 3.0]\n");
}

#[test]
#[ignore = "needs what `loglinear lab` installs"]
fn what_one_cell_makes_is_used_ten_cells_later() {
    let mut cells = vec![
        "use loglinear::notebook::prelude::*;\n\
         let device = device::parse(\"cpu\")?;\n\
         let model = Model::new(ModelConfig { max_seq_len: 16, ..Default::default() })?;\n\
         let parameters = cohort::Parameters::initialise(model.specs(), &[0], &device, DType::F64);\n\
         let tokens = Tensor::<3, Int>::from_data(TensorData::new((1..=16i64).collect(), [1, 1, 16]), &device);\n\
         let field: Tensor<4> = model.capture(&parameters, tokens.clone())?.lambda[0].clone();\n\
         let frame = df!(\"level\" => [0u32, 1, 2], \"lambda\" => [0.5, 1.0, 1.5])?;",
    ];
    cells.extend(["let between = 1 + 1;"; 10]);
    cells.push(
        "let again = model.capture(&parameters, tokens.clone())?.lambda[0].clone();\n\
         let apart: f64 = (again - field.clone()).abs().max().into_scalar();\n\
         let fresh = Tensor::<1>::zeros([2], &device).dims();\n\
         let mean = frame.column(\"lambda\")?.f64()?.mean();\n\
         println!(\"{apart} {:?} {fresh:?} {mean:?}\", field.dims());",
    );
    // 16 positions have levels 0 to 4.
    assert_eq!(last_output(&cells).trim(), "0 [1, 16, 1, 5] [2] Some(1.0)");
}

#[test]
#[ignore = "needs what `loglinear lab` installs"]
fn a_panic_an_error_and_a_wrong_type_fail_the_run() {
    let first = "use loglinear::notebook::prelude::*;";
    let panic = failure(&[
        first,
        "let values = [1, 2];\nlet third = values[std::hint::black_box(2_usize)];",
        "1 + 1",
    ]);
    assert!(panic.contains("cell 2/3") && panic.contains("panic: index out of bounds"), "{panic}");
    let error = failure(&[first, "let runs = Trained::open(\"no-such-folder\")?;"]);
    assert!(error.contains("cell 2/2") && error.contains("no-such-folder"), "{error}");
    let wrong = failure(&[first, "let number: usize = \"text\";"]);
    assert!(wrong.contains("mismatched types"), "{wrong}");
}

#[test]
#[ignore = "needs what `loglinear lab` installs"]
fn variables_survive_a_panic_and_an_error() {
    let found = last_output(&[
        "use loglinear::notebook::prelude::*;\nlet kept = df!(\"a\" => [1, 2, 3])?;",
        "#[fails] let lost: u32 = None.unwrap();",
        "#[fails] let lost = frame::read_parquet(\"no-such.parquet\")?;",
        "println!(\"{}\", kept.height());",
    ]);
    assert_eq!(found.trim(), "3");
}

/// A configuration that trains in a second.
const SMALL: &str = "let experiment = Experiment::new(folder)
    .task(TaskConfig::Mqar(MqarConfig {
        seq_len: 16, pairs: 4, train_examples: 128, validation_examples: 32, ..Default::default()
    }))
    .configure(|config| {
        config.model.d_model = 16;
        config.train.batch = 16;
        config.train.steps = 20;
        config.train.eval_every = 10;
    });";

#[test]
#[ignore = "needs what `loglinear lab` installs"]
fn both_ways_to_train_write_the_same_run_folder() {
    let folder = tempfile::tempdir().unwrap();
    let place = format!("let folder = {:?};", folder.path());
    let found = last_output(&[
        "use loglinear::notebook::prelude::*;",
        // The baseline once more, written by hand: softplus(Lp d) with Lp = 1 at first.
        "#[derive(Debug)]
         struct Own;
         impl LambdaMap for Own {
             fn kind(&self) -> String { \"own\".to_owned() }
             fn specs(&self, heads: usize, levels: usize) -> Vec<Spec> {
                 vec![Spec::new(\"lp\", &[heads, levels], Init::Constant(1.0))]
             }
             fn forward(&self, input: LambdaInput, parameters: Scope<'_>) -> loglinear::Result<Tensor<4>> {
                 let [runs, _, heads, levels] = input.d.dims();
                 Ok(cohort::softplus(input.d * parameters.get(\"lp\")?.reshape([runs, 1, heads, levels])))
             }
         }",
        &format!("{place}\n{SMALL}"),
        "let there = experiment.clone().lambda([LambdaKind::Fixed]).seeds([3]).run()?;\n\
         let here = experiment.clone().seeds([3]).run_here(Own)?;",
        "let lambda = here.lambda(2)?;\n\
         println!(\"{} {}\", there.evaluations.column(\"train_loss\")? == \
             here.evaluations.column(\"train_loss\")?, lambda.height());",
    ]);
    // The same arithmetic gives the same losses, bit for bit; 2 layers × 2 × 16 positions × 5 levels.
    assert_eq!(found.trim(), "true 320");
    for run in ["fixed-seed3", "own-seed3"] {
        for file in ["config.toml", "metrics.jsonl", "checkpoint.safetensors", "result.json"] {
            assert!(folder.path().join(run).join(file).is_file(), "{run}/{file}");
        }
    }
}

#[test]
#[ignore = "needs what `loglinear lab` installs"]
fn an_interrupted_training_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let output = lab(&["--python", "tests/kernel_interrupt.py", place]);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}
