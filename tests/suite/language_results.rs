//! Results of language models in collected frames, claims and the page of figures, from made-up records.

use crate::language_pictures::{TEXT, decoding, lambda, positions, with};
use loglinear::frame::{RunRecord, collect, ended_runs, summaries, write_parquet};
use loglinear::paper::{self, Outcome};
use loglinear::polars::prelude::*;
use loglinear::sweep::{SweepRun, claims_table, preset};
use loglinear::train::{MetricsRow, RunResult, Status};

/// What a run of a preset could have come to: MLP-λ has a lower loss than Fixed λ.
fn record(run: SweepRun) -> RunRecord {
    let kind = run.config.model.kind().to_owned();
    let steps = run.config.train.steps;
    let loss = |step: usize| {
        let lower = if kind == "mlp-softplus" { 0.03 } else { 0.0 };
        5.4 - lower + 0.002 * run.config.seed as f64 + 2.0 * (-4.0 * step as f64 / steps as f64).exp()
    };
    let row = |step: usize| MetricsRow {
        step,
        train_loss: loss(step) + 0.1,
        validation_loss: loss(step),
        accuracy: 0.2,
        best_accuracy: 0.2,
        learning_rate: 3e-4,
        gradient_norm: 1.0,
        seconds: step as f64,
    };
    let metrics: Vec<MetricsRow> = (1..=10).map(|part| row(part * steps / 10)).collect();
    let result = RunResult {
        status: Status::Completed,
        kind: kind.clone(),
        seed: run.config.seed,
        steps,
        accuracy: Some(0.2),
        best_accuracy: Some(0.2),
        best_step: Some(steps),
        validation_loss: Some(loss(steps)),
        target_offset: run.config.task.target_offset(),
        seconds: 1.0,
        device_memory: None,
        cohort: 1,
        device: "cuda:0".to_owned(),
        version: "0.1.0".to_owned(),
    };
    let empty = RunRecord::without_results(run.name, run.config, run.settings, "completed");
    RunRecord { result: Some(result), metrics, ..empty }
}

/// The collected frame of a preset as if it had been trained.
fn collected(name: &str) -> DataFrame {
    collect(&preset(name).unwrap().runs().unwrap().into_iter().map(record).collect::<Vec<_>>()).unwrap()
}

#[test]
fn perplexity_is_collected_and_decides_claims() {
    let (name, frame) = ("paper/wikitext-103", collected("paper/wikitext-103"));
    let runs = ended_runs(&frame).unwrap();
    let number = |name: &str| {
        runs.column(name).unwrap().cast(&DataType::Float64).unwrap().f64().unwrap().get(0).unwrap()
    };
    assert_eq!(number("perplexity"), number("validation_loss").exp());
    assert_eq!((number("target_offset"), number("d_model")), (2.0, 256.0));
    assert_eq!(runs.column("corpus").unwrap().str().unwrap().get(0), Some("wikitext-103"));
    let table = claims_table(&frame, &preset(name).unwrap().claims).unwrap();
    let verdicts: Vec<&str> = table.column("verdict").unwrap().str().unwrap().iter().flatten().collect();
    let found = summaries(&frame, "perplexity").unwrap().frame;
    assert_eq!(found.height(), 6, "three kinds at two sizes");
    let longer = summaries(&collected("wikitext-2"), "perplexity").unwrap();
    assert_eq!(
        (longer.frame.height(), longer.frame.column("n").unwrap().u32().unwrap().get(0)),
        (3, Some(3))
    );
    // Three per cent lower, at both widths, and softmax as Fixed λ.
    assert_eq!(verdicts, ["supported", "supported", "contradicted", "supported"]);
    let mqar = collected("paper/mqar-small");
    for name in ["perplexity", "target_offset", "corpus"] {
        assert_eq!(mqar.column(name).unwrap().null_count(), mqar.height(), "{name} is a text's");
    }
}

#[test]
fn the_share_of_parameters_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let claims = paper::claims(&paper::Results::find(folder.path()).unwrap()).unwrap();
    let ids: Vec<&str> = claims.paper.column("id").unwrap().str().unwrap().iter().flatten().collect();
    assert!(ids.contains(&"language-d512-softplus-below-fixed"));
    assert!(!ids.iter().any(|id| id.starts_with("wikitext-2")), "another text than the paper's");
    let overhead = claims.paper.clone().lazy().filter(col("id").eq(lit("overhead"))).collect().unwrap();
    let cell = |name: &str| overhead.column(name).unwrap().get(0).unwrap().to_string();
    assert_eq!(cell("verdict"), "\"supported\"");
    assert!(
        cell("ours").starts_with("66.66") && cell("low") == "null" && cell("n") == "0",
        "{}",
        cell("ours")
    );
}

#[test]
fn the_page_draws_a_language_model_where_there_are_results() {
    let folder = tempfile::tempdir().unwrap();
    let (from, out) = (folder.path().join("results"), folder.path().join("figures"));
    std::fs::create_dir_all(&from).unwrap();
    let drawn = |text: &str| -> Vec<bool> {
        let made = paper::figures(&from, &out, "").unwrap();
        let page = std::fs::read_to_string(out.join("README.md")).unwrap();
        assert!(page.contains(text), "{text} is not on the page");
        let names =
            ["perplexity", "language-curves", "perplexity-by-position", "decoding-cost", "lambda-text"];
        let of = |name: &str| made.entries.iter().find(|entry| entry.name == name).unwrap();
        names.map(|name| matches!(of(name).outcome, Outcome::Drawn(..))).to_vec()
    };
    let missing =
        "| perplexity | `loglinear sweep wikitext-2 --device cuda:0` |\n| language-curves | `loglinear sweep";
    assert_eq!(drawn(missing), [false; 5]);
    let sweep = preset("wikitext-2").unwrap();
    let at = from.join("wikitext-2");
    write_parquet(&mut collected("wikitext-2"), at.join("collected.parquet")).unwrap();
    std::fs::write(at.join("sweep.toml"), sweep.to_toml()).unwrap();
    std::fs::write(at.join("sittings.jsonl"), "").unwrap();
    assert_eq!(drawn("another corpus"), [true, true, false, false, false]);
    let of_run = |frame: DataFrame, run: &str| {
        let names = lit(format!("wikitext-2/{run}"));
        frame.lazy().filter(col("run").eq(names)).collect().unwrap()
    };
    for run in sweep.runs().unwrap() {
        let place = at.join(&run.name);
        write_parquet(&mut of_run(positions(1024), &run.name), place.join("positions.parquet")).unwrap();
        std::fs::write(place.join("config.toml"), run.config.to_toml()).unwrap();
        if run.name == "mlp-softplus-seed0" {
            let head = with(&lambda(TEXT), "head", lit(0).cast(DataType::UInt32));
            let mut first = with(&head, "layer", lit(0).cast(DataType::UInt32));
            write_parquet(&mut first, place.join("lambda.parquet")).unwrap();
        }
    }
    write_parquet(&mut decoding(4096, 1e-4), from.join("decoding.parquet")).unwrap();
    assert_eq!(drawn("## lambda-text"), [true; 5]);
    let positions = std::fs::read_to_string(out.join("perplexity-by-position.svg")).unwrap();
    assert!(positions.contains("n = 3") && positions.contains("windows of 1024"));
}
