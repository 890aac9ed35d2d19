//! Training the language model on a text: cohorts, accumulation, resuming, evaluation, and the commands.

use crate::fixture::device;
use crate::training::{options, outcome};
use loglinear::frame::{decoding_cost, position_losses, read_parquet, text_lambda};
use loglinear::model::{LanguageConfig, Mixer, ModelConfig, Precision};
use loglinear::task::{Dataset, Split, TaskConfig, TextConfig, Tokenizer};
use loglinear::train::{Interrupt, Job, Options, RunConfig, RunFolder, TrainConfig, evaluate, train};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A corpus folder with a text that is easy to learn.
fn corpus(folder: &Path) -> PathBuf {
    let path = folder.join("corpus");
    std::fs::create_dir_all(&path).unwrap();
    for (split, lines) in [("train", 60), ("valid", 12), ("test", 12)] {
        let text: String =
            (0..lines).map(|i| format!(" The cat number {} sat on the mat .\n", i % 5)).collect();
        std::fs::write(path.join(format!("wiki.{split}.tokens")), text).unwrap();
    }
    path
}

fn tiny(corpus: &Path) -> RunConfig {
    RunConfig {
        seed: 0,
        task: TaskConfig::Text(TextConfig { corpus: corpus.into(), seq_len: 16, ..TextConfig::default() }),
        model: ModelConfig {
            d_model: 4,
            layers: 1,
            heads: 2,
            max_seq_len: 64,
            chunk: 8,
            language: Some(LanguageConfig { state: 4, expand: 1, conv: 4, mlp_ratio: 1 }),
            ..ModelConfig::language()
        },
        train: TrainConfig {
            steps: 4,
            batch: 4,
            eval_every: 2,
            warmup: 1,
            learning_rate: 0.01,
            ..TrainConfig::language()
        },
    }
}

fn job(config: RunConfig, folder: &Path) -> Job {
    Job { config, folder: folder.to_owned(), lambda: None }
}

#[test]
fn runs_on_a_text_in_one_cohort_equal_the_same_runs_alone_and_name_their_target() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = corpus(folder.path());
    let at = |group: &str, i: u64| folder.path().join(group).join(i.to_string());
    let configs: Vec<RunConfig> = (0..2).map(|seed| RunConfig { seed, ..tiny(&corpus) }).collect();
    let jobs: Vec<Job> = configs.iter().map(|config| job(config.clone(), &at("both", config.seed))).collect();
    let results = train(&jobs, &options()).unwrap();
    for (config, result) in configs.iter().zip(&results) {
        assert_eq!((result.cohort, result.target_offset), (2, Some(1)));
        train(&[job(config.clone(), &at("alone", config.seed))], &options()).unwrap();
        assert_eq!(outcome(&at("both", config.seed)), outcome(&at("alone", config.seed)));
        let (perplexity, loss) = (result.perplexity().unwrap(), result.validation_loss.unwrap());
        assert!((perplexity.ln() - loss).abs() < 1e-12 && loss < 50_257_f64.ln());
    }
}

#[test]
fn an_interrupted_run_on_a_text_equals_an_uninterrupted_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny(&corpus(folder.path()));
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    train(&[job(config.clone(), &whole)], &options()).unwrap();
    // Stops at once, and later after the steps that a first part has taken.
    let interrupt = Interrupt::default();
    interrupt.request();
    train(&[job(config.clone(), &parts)], &Options { interrupt, ..options() }).unwrap();
    let first = RunConfig { train: TrainConfig { steps: 4, ..config.train.clone() }, ..config.clone() };
    let stop = Interrupt::default();
    let watched = stop.clone();
    let metrics = parts.join("metrics.jsonl");
    let watcher = std::thread::spawn(move || {
        while std::fs::metadata(&metrics).map_or(0, |file| file.len()) == 0 {
            std::thread::yield_now();
        }
        watched.request();
    });
    train(&[job(first, &parts)], &Options { interrupt: stop, ..options() }).unwrap();
    watcher.join().unwrap();
    train(&[job(config, &parts)], &options()).unwrap();
    assert_eq!(outcome(&parts), outcome(&whole));
}

#[test]
fn a_batch_in_parts_takes_the_same_steps() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny(&corpus(folder.path()));
    let losses = |accumulate: usize| {
        let mut config = config.clone();
        // Two-ahead targets, so that not every position counts.
        if let TaskConfig::Text(text) = &mut config.task {
            text.target_offset = 2;
        }
        config.train.accumulate = accumulate;
        let at = folder.path().join(accumulate.to_string());
        train(&[job(config, &at)], &options()).unwrap();
        RunFolder::open(at).unwrap().metrics().unwrap()
    };
    let whole = losses(1);
    for parts in [2, 4] {
        for (a, b) in losses(parts).iter().zip(&whole) {
            assert!((a.train_loss - b.train_loss).abs() < 1e-5, "{a:?} {b:?}");
            assert!((a.validation_loss - b.validation_loss).abs() < 1e-4, "{a:?} {b:?}");
            assert!((a.gradient_norm / b.gradient_norm - 1.0).abs() < 1e-3, "{a:?} {b:?}");
        }
    }
}

#[test]
fn validation_counts_every_token_once_whatever_the_batch_and_agrees_with_the_losses_by_position() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny(&corpus(folder.path()));
    let at = folder.path().join("run");
    let result = &train(&[job(config.clone(), &at)], &options()).unwrap()[0];
    let run = RunFolder::open(&at).unwrap();
    let model = run.model(None).unwrap();
    let (parameters, step) = run.parameters(&model, &device()).unwrap();
    assert_eq!(step, 4);
    let set = || Dataset::open(&config.task, 0, Split::Validation).unwrap();
    let windows = set().len();
    for batch in [1, 3, 4, 100] {
        let found = evaluate(&model, &parameters, &[set()], batch, &device()).unwrap()[0];
        assert_eq!(found.scored, windows * 16);
        assert!((found.loss - result.validation_loss.unwrap()).abs() < 1e-5, "batch {batch}: {found:?}");
    }
    let frame = position_losses(&run, None, Split::Validation, None, &device()).unwrap();
    let mean = frame.column("loss").unwrap().f64().unwrap().into_no_null_iter().sum::<f64>() / 16.0;
    assert!((mean - result.validation_loss.unwrap()).abs() < 1e-5);
    let longer = position_losses(&run, Some(40), Split::Test, None, &device()).unwrap();
    assert_eq!(longer.height(), 40);
    let message = position_losses(&run, Some(65), Split::Test, None, &device()).unwrap_err().to_string();
    assert!(message.contains("64"), "{message}");
}

#[test]
fn λ_of_a_text_of_ones_own_has_a_row_for_every_token_head_and_level_with_the_tokens_text() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("run");
    train(&[job(tiny(&corpus(folder.path())), &at)], &options()).unwrap();
    let run = RunFolder::open(&at).unwrap();
    let text = " The café sat";
    let frame = text_lambda(&run, text, None, &device()).unwrap();
    let tokens = Tokenizer::gpt2().encode(text);
    assert_eq!(frame.height(), tokens.len() * 2 * 7);
    let column = frame.column("text").unwrap().str().unwrap();
    let pieces: Vec<&str> = (0..tokens.len()).map(|i| column.get(7 * i).unwrap()).collect();
    assert_eq!(pieces.concat(), text);
    let message = text_lambda(&run, &" cat".repeat(100), None, &device()).unwrap_err().to_string();
    assert!(message.contains("1 to 64") && message.contains("100 tokens"), "{message}");
}

#[test]
fn what_can_not_train_is_refused_by_the_field() {
    let folder = tempfile::tempdir().unwrap();
    let base = tiny(&corpus(folder.path()));
    let refused = |change: fn(&mut RunConfig)| {
        let mut config = base.clone();
        change(&mut config);
        train(&[job(config, &folder.path().join("run"))], &options()).unwrap_err().to_string()
    };
    for (change, field) in [
        ((|c| c.train.precision = Precision::Bf16) as fn(&mut RunConfig), "train.precision"),
        (|c| c.train.accumulate = 3, "train.accumulate"),
        (|c| c.model.vocab = 100, "model.vocab"),
        (|c| c.model.heads = 3, "model.heads"),
        (
            |c| c.model.language = Some(LanguageConfig { conv: 0, ..LanguageConfig::default() }),
            "model.language.conv",
        ),
        (|c| (c.model.mixer, c.model.heads) = (Mixer::Softmax, 4), "model.heads"),
        (|c| c.model.max_seq_len = 8, "model.max_seq_len"),
    ] {
        let message = refused(change);
        assert!(message.contains(field), "{field}: {message}");
    }
    assert!(!folder.path().join("run").exists());
}

#[test]
fn decoding_cost_measures_states_that_grow_like_the_logarithm_and_a_cache_that_grows_like_the_text() {
    let base = ModelConfig { max_seq_len: 256, ..tiny(Path::new("unused")).model };
    let configs = [Mixer::LogLinear, Mixer::Linear, Mixer::Softmax].map(|mixer| ModelConfig {
        mixer,
        heads: 2,
        vocab: 50,
        ..base.clone()
    });
    let frame = decoding_cost(&configs, &[15, 63, 127], &device(), |_, _, _| ()).unwrap();
    let entries: Vec<u32> = frame.column("entries").unwrap().u32().unwrap().into_no_null_iter().collect();
    // 15 positions seen: the last is 14 = 0b1110, three bits and the position itself.
    assert_eq!(entries, [4, 6, 7, 1, 1, 1, 15, 63, 127]);
    assert!(frame.column("milliseconds").unwrap().f64().unwrap().into_no_null_iter().all(|ms| ms > 0.0));
    let message = decoding_cost(&configs, &[5, 5], &device(), |_, _, _| ()).unwrap_err().to_string();
    assert!(message.contains("growing"), "{message}");
}

fn loglinear(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loglinear")).args(arguments).current_dir(folder).output().unwrap()
}

fn said(folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = loglinear(folder, arguments);
    let [out, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{arguments:?}: {errors}");
    (out, errors)
}

#[test]
fn a_run_trains_evaluates_generates_and_exports_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    corpus(at);
    let base = [
        "train",
        "--task",
        "text",
        "--corpus",
        "corpus",
        "--seq-len",
        "16",
        "--d-model",
        "4",
        "--layers",
        "1",
        "--heads",
        "2",
        "--state",
        "4",
        "--max-seq-len",
        "64",
        "--steps",
        "30",
        "--batch",
        "4",
        "--eval-every",
        "30",
        "--warmup",
        "1",
        "--lr",
        "0.03",
        "--quiet",
    ];
    let with = |more: &[&'static str]| base.iter().chain(more).copied().collect::<Vec<_>>();
    let (table, _) = said(at, &with(&["--lambda", "fixed", "mlp-softplus", "--out", "runs"]));
    assert!(table.contains("t+1") && table.contains("validation perplexity"), "{table}");

    let run = "runs/mlp-softplus-seed0";
    let (table, _) = said(at, &["eval", "runs", "--split", "test", "--seq-len", "32"]);
    assert!(table.contains("perplexity") && table.contains("t+1"), "{table}");
    said(at, &["eval", "runs", "--by-position", "positions.parquet"]);
    assert_eq!(read_parquet(at.join("positions.parquet")).unwrap().height(), 32);

    let prompt = ["generate", run, "--prompt", " The cat number", "--tokens", "9"];
    let generate = |more: &[&'static str]| said(at, &prompt.iter().chain(more).copied().collect::<Vec<_>>());
    let (text, cost) = generate(&["--greedy"]);
    assert!(text.starts_with(" The cat number") && text.len() > 16, "{text}");
    assert!(cost.contains("ms a token") && cost.contains("state"), "{cost}");
    assert_eq!(generate(&["--greedy"]).0, text);
    assert_eq!(generate(&["--temperature", "0", "--quiet"]), (text, String::new()));
    let sampled = generate(&["--seed", "1", "--top-k", "50", "--top-p", "0.9"]).0;
    assert_eq!(generate(&["--seed", "1", "--top-k", "50", "--top-p", "0.9"]).0, sampled);
    let json: serde_json::Value = serde_json::from_str(&generate(&["--json", "--seed", "1"]).0).unwrap();
    assert_eq!(json["tokens"].as_array().unwrap().len(), 9);
    // Past the model's 7 levels the policy is named, or the error.
    let long = ["generate", run, "--prompt", " The cat", "--tokens", "80"];
    let (_, notes) = said(at, &long);
    assert!(notes.contains("policy: reuse-last") && notes.contains("training at T = 16 used 5"), "{notes}");
    let strict = loglinear(at, &[&long[..], &["--beyond", "error"]].concat());
    let refusal = String::from_utf8_lossy(&strict.stderr);
    assert!(
        strict.stdout.is_empty() && refusal.contains("--tokens") && refusal.contains("at most 62"),
        "{refusal}"
    );

    let (export, _) = said(at, &["export", "runs/fixed-seed0", "--out", "model.safetensors"]);
    assert!(export.contains("parameters"), "{export}");
    let again = loglinear(at, &["export", "runs/fixed-seed0", "--out", "model.safetensors"]);
    assert_eq!(again.status.code(), Some(2));
    said(at, &["lambda", run, "--text", " The mat", "--out", "lambda.parquet"]);
    assert!(read_parquet(at.join("lambda.parquet")).unwrap().column("text").is_ok());

    // What predicts token t+2 says nothing of the next one.
    said(at, &with(&["--target-offset", "2", "--out", "two"]));
    let refused = loglinear(at, &["generate", "two/mlp-softplus-seed0", "--prompt", "x"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("t+2"));
}
