//! Frames of run folders and the figures drawn from them.

use crate::training::{options, tiny};
use loglinear::fenwick;
use loglinear::frame::*;
use loglinear::lambda::{LambdaConfig, LambdaKind};
use loglinear::model::Mixer;
use loglinear::polars::prelude::*;
use loglinear::train::{Job, RunFolder, train};
use loglinear::visualization::*;
use std::path::Path;

/// Three λ kinds × 2 seeds, briefly trained.
fn trained(at: &Path) -> Vec<RunFolder> {
    let mut jobs = Vec::new();
    for kind in LambdaKind::ALL {
        for seed in [0, 1] {
            let mut config = tiny();
            config.seed = seed;
            config.model.heads = 2;
            config.model.lambda = LambdaConfig::release(kind);
            jobs.push(Job { config, folder: at.join(format!("{}-{seed}", kind.name())), lambda: None });
        }
    }
    train(&jobs, &options()).unwrap();
    RunFolder::find(at).unwrap()
}

fn png_size(png: &[u8]) -> (u32, u32) {
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn frames_and_figures_of_a_small_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let folders = trained(folder.path());
    assert_eq!(folders.len(), 6);

    let table = runs(&folders).unwrap();
    assert_eq!(table.height(), 6);
    assert_eq!(table.column("status").unwrap().str().unwrap().get(0), Some("completed"));
    let share = table.column("lambda_parameters").unwrap().u32().unwrap();
    assert_eq!(share.get(0), Some(2 * 2 * 5), "Fixed λ: layers × heads × levels");

    let rows = evaluations(&folders).unwrap();
    assert_eq!(rows.height(), 6 * 3);
    for name in ["run", "kind", "seed", "step", "train_loss", "accuracy", "seconds"] {
        assert!(rows.column(name).is_ok(), "{name}");
    }

    let mut lambda = run_lambda(&folders[2], 3, None, None, &options().device).unwrap();
    assert_eq!(lambda.height(), 2 * 2 * 3 * 16 * 5, "layers × heads × sequences × positions × levels");
    let columns: Vec<String> = lambda.get_column_names().iter().map(|name| name.to_string()).collect();
    let expected = [
        "run", "kind", "layer", "head", "sequence", "position", "token", "region", "level", "present",
        "lambda",
    ];
    assert_eq!(columns, expected);
    let at = |name: &str| lambda.column(name).unwrap().cast(&DataType::UInt32).unwrap();
    let (positions, levels, present) = (at("position"), at("level"), at("present"));
    for row in 0..lambda.height() {
        let get = |column: &Column| column.u32().unwrap().get(row).unwrap();
        let buckets = fenwick::buckets(get(&positions) as usize);
        let holds = buckets.iter().any(|bucket| bucket.level == get(&levels) as usize);
        assert_eq!(get(&present) == 1, holds, "row {row}");
    }
    let file = folder.path().join("lambda.parquet");
    write_parquet(&mut lambda, &file).unwrap();
    assert!(read_parquet(&file).unwrap().equals(&lambda));

    let run = lambda.column("run").unwrap().str().unwrap().get(0).unwrap().to_owned();
    let figures = [
        (
            "accuracy",
            accuracy_against_pairs(&table, None).unwrap(),
            vec!["number of key/value pairs k", "n = 2"],
        ),
        ("curves", learning_curves(&rows, Quantity::Accuracy).unwrap(), vec!["MLP-λ (softmax), n = 2", "%"]),
        ("loss", learning_curves(&rows, Quantity::TrainLoss).unwrap(), vec!["cross-entropy (nats)"]),
        (
            "heatmap",
            lambda_heatmap(&lambda, &run, 2, Cells::All).unwrap(),
            vec!["layer 1, head 1", "query", "level"],
        ),
        ("levels", lambda_by_level(&lambda).unwrap(), vec!["level (0 = the position itself)"]),
        ("histogram", lambda_histogram(&lambda).unwrap(), vec!["Distribution of λ", "values"]),
        ("partition", fenwick_partition(13).unwrap(), vec!["level 4", "target t"]),
    ];
    for (name, figure, texts) in figures {
        for text in texts {
            assert!(figure.svg().contains(text), "{name} lacks `{text}`");
        }
        let number = |attribute: &str| -> u32 {
            let (_, rest) = figure.svg().split_once(&format!("{attribute}=\"")).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        assert_eq!(png_size(figure.png()), (2 * number("width"), 2 * number("height")), "{name}");
        figure.save(folder.path().join("figures").join(name)).unwrap();
        assert!(folder.path().join(format!("figures/{name}.svg")).is_file());
        assert!(folder.path().join(format!("figures/{name}.png")).is_file());
    }
}

#[test]
fn what_can_not_be_drawn_says_why() {
    let frame = df!("run" => ["a"], "sequence" => [0], "kind" => ["fixed"], "layer" => [0], "head" => [0],
        "position" => [0], "level" => [0], "lambda" => [0.5], "region" => ["key"], "present" => [true])
    .unwrap();
    let message = lambda_heatmap(&frame, "b", 0, Cells::Present).unwrap_err().to_string();
    assert!(message.contains("`b`") && message.contains("runs a"), "{message}");
    assert!(lambda_histogram(&frame.head(Some(0))).unwrap_err().to_string().contains("no rows"));
    let message = learning_curves(&frame, Quantity::Accuracy).unwrap_err().to_string();
    assert!(message.contains("step") || message.contains("task"), "{message}");
    for value in [f64::INFINITY, 1e30] {
        let values = Column::new("lambda".into(), [value]);
        let huge = frame.clone().hstack(&[]).unwrap().with_column(values).unwrap().clone();
        let message = lambda_heatmap(&huge, "a", 0, Cells::All).map(|_| ());
        assert!(value.is_infinite() || message.unwrap_err().to_string().contains("diverge"));
        let message = lambda_histogram(&huge).unwrap_err().to_string();
        assert!(message.contains("finite") || message.contains("diverge"), "{message}");
        let message = lambda_by_level(&huge).unwrap_err().to_string();
        assert!(message.contains("finite") || message.contains("diverge"), "{message}");
    }
    let mixed = df!("run" => ["a", "b"], "kind" => ["fixed", "fixed"], "task" => ["mqar", "induction"],
        "seq_len" => [8, 8], "pairs" => [2, 2], "step" => [1, 1], "accuracy" => [0.1, 0.2])
    .unwrap();
    let message = learning_curves(&mixed, Quantity::Accuracy).unwrap_err().to_string();
    assert!(message.contains("one task") && message.contains("induction"), "{message}");
    let without = df!("run" => ["a"], "kind" => ["fixed"], "task" => ["induction"], "seq_len" => [8],
        "pairs" => [None::<u32>], "best_accuracy" => [0.5])
    .unwrap();
    assert!(accuracy_against_pairs(&without, None).unwrap_err().to_string().contains("runs of MQAR"));
    let message = fenwick_partition(3).unwrap().save("figures/a.pdf").unwrap_err().to_string();
    assert!(message.contains(".svg or .png") && message.contains("a.pdf"), "{message}");
    assert!(fenwick_partition(128).unwrap_err().to_string().contains("below 128"));
    assert!(fenwick_partition(0).is_ok());
}

#[test]
fn lambda_of_a_baseline_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = tiny();
    config.model.mixer = Mixer::Softmax;
    config.train.steps = 1;
    let job = Job { config, folder: folder.path().join("run"), lambda: None };
    train(std::slice::from_ref(&job), &options()).unwrap();
    let run = RunFolder::open(&job.folder).unwrap();
    let message = run_lambda(&run, 1, None, None, &options().device).unwrap_err().to_string();
    assert!(message.contains("softmax-attention") && message.contains("log-linear"), "{message}");
}

#[test]
fn the_figures_of_the_repository_are_those_of_its_recorded_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let made = loglinear::paper::figures(&root.join("data/results"), folder.path(), "test").unwrap();
    let names: Vec<&String> = made.entries.iter().map(|entry| &entry.name).collect();
    assert!(made.claims.paper.height() > 20, "every claim is listed");
    let mut drawn = 0;
    for entry in &made.entries {
        let file = |folder: &Path| std::fs::read_to_string(folder.join(&entry.name).with_extension("svg"));
        if matches!(entry.outcome, loglinear::paper::Outcome::Drawn(..)) {
            drawn += 1;
            let recorded = file(&root.join("figures")).unwrap_or_default();
            assert!(recorded == file(folder.path()).unwrap(), "figures/{}.svg is out of date", entry.name);
        }
    }
    assert!(drawn >= 15, "only perplexity lacks results: {names:?}");
    let page = std::fs::read_to_string(root.join("figures/README.md")).unwrap();
    for entry in &made.entries {
        assert!(page.contains(&entry.name), "{} is on the page", entry.name);
    }
}

#[test]
fn figures_of_other_results_leave_with_their_page() {
    let (results, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let out = folder.path().join("figures");
    let figures = || loglinear::paper::figures(results.path(), &out, "test").unwrap();
    assert_eq!(figures().removed, Vec::<String>::new());
    let mut page = std::fs::read_to_string(out.join("README.md")).unwrap();
    page.push_str("\n![gone](gone.png)\n\n![../outside](../outside.png)\n");
    for file in ["README.md", "gone.svg", "another.png", "../outside.png"] {
        std::fs::write(out.join(file), &page).unwrap();
    }
    assert_eq!(figures().removed, ["gone"]);
    let there = |file: &str| out.join(file).exists();
    assert!(!there("gone.svg") && there("another.png") && there("../outside.png"));
    assert!(there("fenwick-partition.svg"));
}

#[test]
fn a_grid_holds_every_figure_at_its_place() {
    let (small, large) = (fenwick_partition(7).unwrap(), fenwick_partition(40).unwrap());
    let both = grid(&[small.clone(), large.clone(), small.clone()], 2).unwrap();
    let (width, height) = (small.size().0 + large.size().0, large.size().1 + small.size().1);
    assert_eq!(both.size(), (width, height));
    assert_eq!(png_size(both.png()), (2 * width, 2 * height));
    let at = format!("<svg x=\"{}\" y=\"0\"", small.size().0);
    assert!(both.svg().contains(&at) && both.svg().contains(&format!("y=\"{}\"", large.size().1)));
    assert_eq!(both.svg().matches("<svg ").count(), 4);
    // One figure alone keeps its pixels.
    let decode = |png: &[u8]| {
        let mut reader = png::Decoder::new(png).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size()];
        reader.next_frame(&mut pixels).unwrap();
        pixels
    };
    assert_eq!(decode(grid(std::slice::from_ref(&small), 3).unwrap().png()), decode(small.png()));
    let message = grid(&[], 2).unwrap_err().to_string();
    assert!(message.contains("at least one figure") && grid(&[small], 0).is_err(), "{message}");
}

#[test]
fn scaling_names_the_exponent_and_refuses_what_has_no_logarithm() {
    let lengths = [64_u32, 128, 256, 512];
    let cost: Vec<f64> = lengths.iter().map(|&t| 1e-3 * f64::from(t).powi(2)).collect();
    let frame = df!("series" => ["quadratic"; 4], "seq_len" => lengths, "ms" => cost).unwrap();
    let figure = scaling(&frame, "ms", "Cost", "milliseconds").unwrap();
    for text in ["quadratic (T^2.00)", "milliseconds", "512", "Cost"] {
        assert!(figure.svg().contains(text), "{text}");
    }
    let zero = df!("series" => ["a"], "seq_len" => [64_u32], "ms" => [0.0]).unwrap();
    let message = scaling(&zero, "ms", "Cost", "milliseconds").unwrap_err().to_string();
    assert!(message.contains("positive") && message.contains('0'), "{message}");
}
