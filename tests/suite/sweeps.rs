//! Sweeps: from axes to runs, cohorts, failures, statistics, verdicts.

use crate::training::{options, outcome, tiny};
use loglinear::burn::tensor::Device;
use loglinear::frame::{axis_effects, best_less_last, kind_differences, read_parquet, summaries};
use loglinear::polars::prelude::*;
use loglinear::sweep::*;
use loglinear::train::{Job, RunConfig, RunFolder, RunResult, Status, train};
use std::collections::BTreeSet;
use std::path::Path;

fn sweep_options() -> SweepOptions {
    SweepOptions { train: options(), others: Vec::new(), cohort: None, memory: None }
}

/// Two kinds × two seeds × two numbers of pairs, 40 steps.
fn small() -> Sweep {
    let mut config = tiny();
    config.train.steps = 40;
    Sweep { lambda_sequences: 1, ..Sweep::new("small") }
        .base(&config)
        .axis("model.lambda.kind", ["fixed", "mlp-softplus"])
        .axis("seed", [0, 1])
        .axis("task.pairs", [2, 4])
}

fn names(sweep: &Sweep) -> Vec<String> {
    sweep.runs().unwrap().into_iter().map(|run| run.name).collect()
}

#[test]
fn axes_make_every_combination_less_the_excluded_plus_the_included() {
    let text = r#"
        name = "axes"
        [base]
        task.name = "mqar"
        task.seq_len = 32
        [axes]
        seed = [0, 1]
        task.pairs = [2, 4]
        "model.lambda.kind" = ["fixed", "mlp-softplus"]
        evaluation.seq_len = [32, 64]
        protocol = [{ name = "text" }, { name = "release", model.lambda.activation = "gelu" }]
        [[exclude]]
        model.lambda.kind = "fixed"
        protocol = "release"
        [[include]]
        model.mixer = "linear"
        seed = [0, 7]
    "#;
    let runs = Sweep::parse(text).unwrap().runs().unwrap();
    assert_eq!(runs.len(), 2 * 2 * 3 + 2);
    let found = runs.iter().find(|run| run.name == "mlp-softplus-release-k4-seed1").unwrap();
    assert_eq!(found.config.seed, 1);
    assert_eq!(found.config.model.max_seq_len, 64, "the longest length that is evaluated");
    assert_eq!(found.config.model.lambda.activation.to_possible_value().unwrap().get_name(), "gelu");
    assert!(runs.iter().all(|run| run.name != "fixed-release-k2-seed0"));
    let baseline = runs.iter().find(|run| run.name == "linear-seed7").unwrap();
    assert_eq!((baseline.config.model.kind(), baseline.config.seed), ("linear-attention", 7));
    let distinct: BTreeSet<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(distinct.len(), runs.len());
}

use clap::ValueEnum as _;

#[test]
fn a_wrong_sweep_says_what_and_where() {
    let cases = [
        ("colour = 3", "colour"),
        ("[axes]\nseed = []", "axes.seed: expected at least one value"),
        ("[axes]\nseed = 3", "axes.seed: expected a list of values, found 3"),
        ("[axes]\nseed = [1, 1]", "axes.seed: expected different values, found 1 twice"),
        ("[axes]\ntask.pair = [4]", "unknown field `pair`"),
        ("[axes]\ntask.pairs = [4, 40]", "run `k40`: task.pairs must be 1 to 32"),
        ("[axes]\nmodel.lambda.kind = [\"mpl\"]", "unknown variant `mpl`"),
        ("[axes]\nprotocol = [{ seed = 1 }]", "axes.protocol: expected a text `name`"),
        ("[axes]\nevaluation.seq_len = [0]", "axes.evaluation.seq_len: expected lengths ≥ 1"),
        ("[axes]\nevaluation.seq_len = [16]", "evaluated at 16: task.pairs"),
        ("[base]\nseed = \"x\"", "run `run`: invalid type"),
        ("[base]\ntrain.steps.x = 1", "invalid type"),
        ("[axes]\nseed = [0]\n[[exclude]]\nseed = 0", "everything is excluded"),
        ("[axes]\nseed = [0]\n[[exclude]]\nseed = 5", "matches no run"),
        ("[axes]\nseed = [0]\n[[exclude]]\ntask.pairs = 5", "expected one of the axes [seed]"),
        ("[axes]\nseed = [0]\n[[include]]\nseed = 0", "found `seed0` and `seed0`, which are the same"),
        ("[axes]\nseed = [0, 1]\nz = [{ name = \"a\", seed = 5 }]", "expected that one axis sets `seed`"),
        ("[axes]\ntrain.learning_rate = [1, 1.0]", "which are the same"),
        (
            "[axes]\nmodel.mixer = [\"linear\"]\nmodel.lambda.kind = [\"fixed\", \"mlp-softmax\"]",
            "which are the same",
        ),
        ("[axes]\nz = [{ name = \"..\" }]", "found `..`"),
        ("[axes]\nz = [{ name = \"lock\" }]", "found `lock`"),
        ("lambda_sequences = 100000", "lambda_sequences: expected at most 1000"),
        (
            "[[claims]]\nid = \"a\"\nclaim = \"b\"\nmeasure = \"bets\"\nof = { kind = \"fixed\" }\nsupported = { at_least = 1.0 }\nleast_runs = 1",
            "found `bets`",
        ),
        (
            "[[claims]]\nid = \"a\"\nclaim = \"b\"\nmeasure = \"accuracy\"\nof = { kindd = \"fixed\" }\nsupported = { at_least = 1.0 }\nleast_runs = 1",
            "found `kindd`",
        ),
        (
            "[[claims]]\nid = \"a\"\nclaim = \"b\"\nmeasure = \"accuracy\"\nof = { kind = \"fixed\" }\nsupported = { at_least = 0.9, at_most = 0.1 }\nleast_runs = 1",
            "at_least ≤ at_most",
        ),
        ("[[claims]]\nid = \"a\"\nclaim = \"b\"", "claim a: measure: expected a column"),
        (
            "[[claims]]\nid = \"a\"\nclaim = \"b\"\nmeasure = \"accuracy\"\nof = { kind = \"fixed\" }",
            "claim a: supported",
        ),
    ];
    for (text, named) in cases {
        let base = if text.contains("[base]") { "" } else { "[base]\ntask.name = \"mqar\"\n" };
        let text = match text.split_once('\n') {
            None => format!("name = \"s\"\n{text}\n{base}"),
            _ => format!("name = \"s\"\n{base}{text}"),
        };
        let message = Sweep::parse(&text).unwrap_err().to_string();
        assert!(message.contains(named) && message.contains('s'), "{text}\n→ {message}");
    }
    assert!(Sweep::parse("description = \"no name\"").unwrap_err().to_string().contains("name"));
    for name in ["../elsewhere", "/tmp/x", "a//b", "a b"] {
        assert!(
            Sweep::parse(&format!("name = \"{name}\"")).unwrap_err().to_string().contains(name),
            "{name}"
        );
    }
    assert!(preset("paper/mqr").unwrap_err().to_string().contains("paper/mqar"));
}

#[test]
fn every_preset_is_whole_and_the_small_ones_are_small() {
    let positions = |sweep: &Sweep| -> f64 {
        let runs = sweep.runs().unwrap();
        let cost = |config: &RunConfig| (config.train.steps * config.task.task().seq_len()) as f64;
        runs.iter().map(|run| cost(&run.config)).sum()
    };
    let published = [("paper/mqar", 72), ("paper/mqar-128", 45), ("paper/selective-copying", 45)];
    for (name, runs) in published {
        assert_eq!(preset(name).unwrap().runs().unwrap().len(), runs, "{name}");
    }
    for name in preset_names() {
        let sweep = preset(name).unwrap();
        assert_eq!(sweep.name, name);
        assert!(!sweep.description.is_empty() && !sweep.claims.is_empty(), "{name}");
        assert_eq!(Sweep::parse(&sweep.to_toml()).unwrap(), sweep, "{name} as it is recorded");
        if name.ends_with("-small") {
            // At T 16 a position costs about 0.17 ms on two cores: ten minutes are 3.5 million.
            assert!(positions(&sweep) < 2e6, "{name}: {:.1e}", positions(&sweep));
            assert!(preset(name.trim_end_matches("-small")).is_ok());
        }
    }
    assert!(claims_elsewhere().unwrap().iter().all(|claim| !claim.not_tested.is_empty()));
}

#[test]
fn a_sweep_trains_collects_and_is_not_trained_again() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("sweep");
    let sweep = small().axis("evaluation.seq_len", [16, 32]);
    let first = run(&sweep, &out, &SweepOptions { cohort: Some(4), ..sweep_options() }).unwrap();
    assert!(first.failures.is_empty());
    assert!(first.states.iter().all(|state| matches!(state, RunState::Ended(r) if r.cohort == 4)));
    // Runs of 2 and of 4 pairs trained in one cohort, as each would alone.
    let alone = folder.path().join("alone");
    let chosen = &sweep.runs().unwrap()[5];
    train(&[Job { config: chosen.config.clone(), folder: alone.clone(), lambda: None }], &options()).unwrap();
    assert_eq!(outcome(&out.join(&chosen.name)), outcome(&alone));

    let collected = read_parquet(out.join("collected.parquet")).unwrap();
    assert_eq!(collected.height(), 8 * (2 + 1), "two evaluations on the way, one at the other length");
    let unique = |name: &str| collected.column(name).unwrap().unique().unwrap().len();
    assert_eq!((unique("run"), unique("seed"), unique("pairs"), unique("eval_seq_len")), (8, 2, 2, 2));
    let readings = collected.column("lambda_level_variation").unwrap();
    assert_eq!(readings.null_count(), 0, "λ was recorded");
    assert!(RunFolder::open(out.join(&chosen.name)).unwrap().length_evaluations().unwrap().is_some());

    let modified = |name: &str| out.join(name).metadata().unwrap().modified().unwrap();
    let checkpoint = format!("{}/checkpoint.safetensors", chosen.name);
    let before = modified(&checkpoint);
    let again = run(&sweep, &out, &sweep_options()).unwrap();
    assert_eq!(again.states, first.states);
    assert_eq!(modified(&checkpoint), before);

    // Results that were recorded without their runs are not overwritten.
    let recorded = folder.path().join("recorded");
    std::fs::create_dir(&recorded).unwrap();
    for file in ["sweep.toml", "collected.parquet"] {
        std::fs::copy(out.join(file), recorded.join(file)).unwrap();
    }
    let message = run(&sweep, &recorded, &sweep_options()).unwrap_err().to_string();
    assert!(message.contains("results of 8 runs, of which 0"), "{message}");

    let more = sweep.clone().axis("seed", [0, 1, 2]);
    let extended = run(&more, &out, &sweep_options()).unwrap();
    assert_eq!(extended.states.len(), 12);
    assert_eq!(modified(&checkpoint), before, "what was there is not trained again");
    let message = run(&sweep, &out, &sweep_options()).unwrap_err().to_string();
    assert!(message.contains("another sweep"), "fewer runs: {message}");

    let mut other = more.axis("seed", [0, 1, 2, 3]);
    other.claims = claims_elsewhere().unwrap();
    let message = run(&other, &out, &sweep_options()).unwrap_err().to_string();
    assert!(message.contains("another sweep") && message.contains("found"), "{message}");
    std::fs::create_dir(folder.path().join("other")).unwrap();
    std::fs::write(folder.path().join("other/thesis.tex"), "mine").unwrap();
    let message = run(&other, &folder.path().join("other"), &sweep_options()).unwrap_err().to_string();
    assert!(message.contains("other files and no sweep"), "{message}");
    assert_eq!(std::fs::read_dir(folder.path().join("other")).unwrap().count(), 1);
}

#[test]
fn several_devices_share_the_cohorts() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = small();
    let alone = run(&sweep, &folder.path().join("alone"), &sweep_options()).unwrap();
    let out = folder.path().join("shared");
    let others = vec![Device::flex(), Device::flex()];
    let shared = run(&sweep, &out, &SweepOptions { others, cohort: Some(1), ..sweep_options() }).unwrap();
    assert!(shared.failures.is_empty());
    for run in sweep.runs().unwrap() {
        assert_eq!(outcome(&out.join(&run.name)), outcome(&folder.path().join("alone").join(&run.name)));
    }
    assert_eq!(shared.states.len(), alone.states.len());
    let sittings = shared.folder.sittings().unwrap();
    assert_eq!(sittings.len(), 1);
    assert_eq!((sittings[0].device.as_str(), sittings[0].ended), ("cpu,cpu,cpu", 8));
}

#[test]
fn a_run_that_stops_early_leaves_the_others_as_they_would_be() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = tiny();
    (config.train.steps, config.train.eval_every, config.train.target) = (60, 10, 0.025);
    let sweep = Sweep::new("early").base(&config).axis("seed", [0, 1, 2, 3, 4, 5]);
    let out = folder.path().join("sweep");
    let together = run(&sweep, &out, &SweepOptions { cohort: Some(6), ..sweep_options() }).unwrap();
    let steps: BTreeSet<usize> = together
        .states
        .iter()
        .map(|state| match state {
            RunState::Ended(result) => result.steps,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(steps.len() > 1, "some stop before others: {steps:?}");
    for run in sweep.runs().unwrap() {
        let alone = folder.path().join("alone").join(&run.name);
        train(&[Job { config: run.config, folder: alone.clone(), lambda: None }], &options()).unwrap();
        assert_eq!(outcome(&out.join(&run.name)), outcome(&alone), "{}", run.name);
    }
}

#[test]
fn a_run_that_fails_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("sweep");
    let sweep = small();
    let all = names(&sweep);
    let ill = |name: &str| out.join(name);
    std::fs::create_dir_all(ill(&all[1])).unwrap();
    // What another program left, a checkpoint that isn't one, and metrics without their checkpoint.
    std::fs::write(out.join("sweep.toml"), sweep.to_toml()).unwrap();
    std::fs::write(ill(&all[1]).join("thesis.tex"), "mine").unwrap();
    std::fs::create_dir_all(ill(&all[2])).unwrap();
    let config = sweep.runs().unwrap()[2].config.to_toml();
    std::fs::write(ill(&all[2]).join("config.toml"), config).unwrap();
    std::fs::write(ill(&all[2]).join("checkpoint.safetensors"), "torn").unwrap();
    let outcome = run(&sweep, &out, &sweep_options()).unwrap();
    let expected = BTreeSet::from([&all[1], &all[2]]);
    assert_eq!(outcome.failures.keys().collect::<BTreeSet<_>>(), expected);
    assert!(outcome.failures[&all[1]].contains("other files"));
    assert!(outcome.failures[&all[2]].contains("not a whole checkpoint"));
    let ended = outcome.states.iter().filter(|state| matches!(state, RunState::Ended(_))).count();
    assert_eq!(ended, 6);
    assert_eq!(std::fs::read_to_string(ill(&all[1]).join("thesis.tex")).unwrap(), "mine");
    let collected = read_parquet(out.join("collected.parquet")).unwrap();
    let failed = collected.column("status").unwrap().str().unwrap().iter().filter(|s| *s == Some("failed"));
    assert_eq!(failed.count(), 2);

    std::fs::remove_dir_all(ill(&all[1])).unwrap();
    std::fs::remove_file(ill(&all[2]).join("checkpoint.safetensors")).unwrap();
    let mended = run(&sweep, &out, &sweep_options()).unwrap();
    assert!(mended.failures.is_empty() && !out.join("failures.json").exists());
    assert!(mended.states.iter().all(|state| matches!(state, RunState::Ended(_))));
}

#[test]
fn cohorts_fit_memory_and_start_where_runs_stand() {
    let runs = small().runs().unwrap();
    let mut states = vec![RunState::Waiting; 8];
    let one = memory(&runs[0].config);
    let sizes = |budget: u64, most: usize, states: &[RunState]| -> Vec<usize> {
        Plan::new(&runs, states, budget, most).cohorts.iter().map(|cohort| cohort.runs.len()).collect()
    };
    assert_eq!(sizes(u64::MAX, 16, &states), [4, 4], "one cohort a kind");
    assert_eq!(sizes(u64::MAX, 3, &states), [2, 2, 2, 2], "evenly");
    assert_eq!(sizes(one / 2, 16, &states), [1; 8], "at least one");
    states[0] = RunState::Started { step: 20, accuracy: None };
    assert_eq!(sizes(u64::MAX, 16, &states), [4, 4], "those behind catch up");
    states[3] = RunState::Started { step: 30, accuracy: None };
    let plan = Plan::new(&runs, &states, u64::MAX, 2);
    assert_eq!((plan.cohorts[0].runs.as_slice(), plan.cohorts[0].step), (&[3, 0][..], 20));
    let steps = |run: usize| runs[run].config.train.steps;
    assert_eq!(plan.positions, 16.0 * (0..8).map(steps).sum::<usize>() as f64 - 16.0 * 50.0);
    assert!(memory(&runs[7].config) > one, "an MLP takes more");
}

/// A collected frame without training: accuracy by kind, seed and pairs.
fn made_up(at: &Path, accuracy: impl Fn(&RunConfig) -> f64) -> DataFrame {
    let sweep = small();
    run(&sweep, at, &sweep_options()).unwrap();
    for run in sweep.runs().unwrap() {
        let path = at.join(&run.name).join("metrics.jsonl");
        let value = accuracy(&run.config);
        let line = |step: usize, accuracy: f64| {
            format!(
                "{{\"step\":{step},\"train_loss\":1.0,\"validation_loss\":1.0,\"accuracy\":{accuracy},\
                 \"best_accuracy\":{value},\"learning_rate\":0.001,\"gradient_norm\":1.0,\"seconds\":1.0}}\n"
            )
        };
        std::fs::write(path, line(20, value) + &line(40, value - 0.01)).unwrap();
        let path = at.join(&run.name).join("result.json");
        let mut result: RunResult = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        result.best_accuracy = Some(value);
        std::fs::write(path, serde_json::to_vec(&result).unwrap()).unwrap();
    }
    SweepFolder::open(at).unwrap().collect().unwrap()
}

#[test]
fn statistics_and_verdicts_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let mlp = |config: &RunConfig| config.model.kind() == "mlp-softplus";
    let pairs = |config: &RunConfig| config.to_toml().contains("pairs = 4");
    let accuracy = |config: &RunConfig| {
        let base = if pairs(config) { 0.3 } else { 0.9 };
        base + if mlp(config) { 0.05 } else { 0.0 } + 0.02 * config.seed as f64
    };
    let collected = made_up(&folder.path().join("sweep"), accuracy);
    let number = |frame: &DataFrame, name: &str, row: usize| {
        frame.column(name).unwrap().cast(&DataType::Float64).unwrap().f64().unwrap().get(row).unwrap()
    };
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");

    let found = summaries(&collected, "best_accuracy").unwrap();
    assert!(found.sentence.contains("bootstrap"));
    assert_eq!(found.frame.height(), 4);
    // First Fixed λ at 2 pairs: 0.90 and 0.92.
    assert_eq!(found.frame.column("kind").unwrap().str().unwrap().get(0), Some("fixed"));
    near(number(&found.frame, "mean", 0), 0.91);
    near(number(&found.frame, "std_population", 0), 0.01);
    near(number(&found.frame, "std_sample", 0), 0.02 / 2_f64.sqrt());
    near(number(&found.frame, "low", 0), 0.90);
    near(number(&found.frame, "collapse_rate", 0), 0.0);

    let found = kind_differences(&collected, "best_accuracy").unwrap().frame;
    assert_eq!(found.height(), 2, "one for each number of pairs");
    assert_eq!(found.column("first").unwrap().str().unwrap().get(0), Some("mlp-softplus"));
    near(number(&found, "mean", 0), 0.05);
    assert_eq!((number(&found, "wins", 0), number(&found, "losses", 0)), (2.0, 0.0));
    near(number(&found, "p_value", 0), 0.5);

    let found = axis_effects(&collected, "best_accuracy").unwrap().frame;
    assert_eq!(found.height(), 2, "pairs, for each kind");
    near(number(&found, "mean", 0), -0.6);
    assert_eq!(number(&found, "n", 0), 2.0);

    let found = best_less_last(&collected).unwrap().frame;
    near(number(&found, "mean", 0), 0.01);
    assert_eq!(number(&found, "wins", 0), 2.0);

    let claims: Vec<Claim> = Sweep::parse(&format!(
        "name = \"c\"\n{}",
        [
            ("of = { kind = \"mlp-softplus\" }\nminus = { kind = \"fixed\" }", "{ at_least = 0.04 }", 2),
            ("of = { kind = \"fixed\" }\nminus = { kind = \"mlp-softplus\" }", "{ at_least = 0.0 }", 2),
            ("of = { kind = \"fixed\", pairs = 2 }", "{ at_least = 0.91 }", 2),
            ("of = { kind = \"fixed\", pairs = 2 }", "{ at_least = 0.1 }", 3),
            ("of = { kind = \"fixed\", pairs = 32 }", "{ at_least = 0.1 }", 1),
        ]
        .iter()
        .enumerate()
        .map(|(i, (of, supported, least))| format!(
            "[[claims]]\nid = \"c{i}\"\nclaim = \"x\"\nmeasure = \"best_accuracy\"\n{of}\nsupported = {supported}\n\
             least_runs = {least}\n"
        ))
        .collect::<String>()
    ))
    .unwrap()
    .claims;
    let table = claims_table(&collected, &claims).unwrap();
    let verdicts: Vec<&str> = table.column("verdict").unwrap().str().unwrap().iter().flatten().collect();
    assert_eq!(verdicts, ["supported", "contradicted", "not supported", "not tested", "not tested"]);
    near(number(&table, "ours", 0), 0.05);
    near(number(&table, "of", 0) - number(&table, "minus", 0), 0.05);
    assert_eq!(number(&table, "n", 0), 4.0, "two seeds × two numbers of pairs");

    let wrong = Claim { of: toml::from_str("color = 2").unwrap(), ..claims[0].clone() };
    let message = claims_table(&collected, &[wrong]).unwrap_err().to_string();
    assert!(message.contains("color") && message.contains("pairs"), "{message}");
    let message = summaries(&collected, "acuracy").unwrap_err().to_string();
    assert!(message.contains("acuracy") && message.contains("best_accuracy"), "{message}");
}

#[test]
fn a_diverged_run_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = tiny();
    config.train.steps = 40;
    let sweep = Sweep::new("rates").base(&config).axis("train.learning_rate", [1e-3, 1e38]);
    let outcome = run(&sweep, folder.path().join("s").as_path(), &sweep_options()).unwrap();
    assert!(matches!(&outcome.states[1], RunState::Ended(result) if result.status == Status::Diverged));
    let collected = outcome.folder.collect().unwrap();
    let found = summaries(&collected, "best_accuracy").unwrap().frame;
    let missing = found.column("missing").unwrap().u32().unwrap();
    assert_eq!((found.height(), missing.get(0), missing.get(1)), (2, Some(0), Some(1)));
}
