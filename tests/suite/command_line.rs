//! The binary, as a user calls it.

use std::path::Path;
use std::process::{Command, Output};

fn loglinear(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loglinear")).args(arguments).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Arguments of a training that takes a second.
const SMALL: &[&str] = &[
    "train",
    "--seq-len",
    "16",
    "--pairs",
    "4",
    "--d-model",
    "16",
    "--steps",
    "20",
    "--eval-every",
    "10",
    "--train-examples",
    "128",
    "--validation-examples",
    "32",
    "--batch",
    "16",
    "--out",
    "runs",
];

fn small(more: &[&'static str]) -> Vec<&'static str> {
    SMALL.iter().chain(more).copied().collect()
}

#[test]
fn train_eval_lambda_and_figure_work_on_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = loglinear(arguments, folder.path());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let table = run(&small(&["--lambda", "fixed", "mlp-softmax", "--seed", "0", "1", "--quiet"]));
    assert_eq!(table.lines().filter(|line| line.contains("completed")).count(), 4, "{table}");
    // A finished training is not done again.
    let again = run(&small(&["--lambda", "fixed", "mlp-softmax", "--seed", "0", "1", "--quiet"]));
    assert_eq!(again, table);

    let evaluation = run(&["eval", "runs", "--seq-len", "16"]);
    assert_eq!(evaluation.lines().filter(|line| line.contains("seed")).count(), 4, "{evaluation}");
    let json = run(&["eval", "runs/fixed-seed0", "--json"]);
    let value: serde_json::Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!(value["scored"], 32 * 4);

    run(&["lambda", "runs/fixed-seed1", "--out", "lambda.parquet", "--sequences", "2"]);
    assert!(folder.path().join("lambda.parquet").is_file());
    for name in ["accuracy", "curves", "loss", "levels", "histogram"] {
        run(&["figure", name, "runs", "--out", &format!("figures/{name}.svg")]);
        assert!(folder.path().join(format!("figures/{name}.svg")).is_file());
    }
    run(&["figure", "heatmap", "runs/mlp-softmax-seed0", "--sequence", "1", "--out", "figures/heatmap"]);
    run(&["figure", "partition", "--position", "9", "--out", "figures/partition.png"]);
    assert!(folder.path().join("figures/heatmap.png").is_file());
    let refused: [(&[&str], &str); 5] = [
        (&["lambda", "runs/fixed-seed0", "--out", "runs/fixed-seed0/config.toml"], ".parquet"),
        (&["lambda", "runs/fixed-seed0", "--out", "x.parquet", "--seq-len", "32"], "max_seq_len = 16"),
        (&["eval", "runs", "--seq-len", "32"], "max_seq_len = 16"),
        (&["eval", "runs", "--examples", "0"], "number of sequences"),
        (&["figure", "heatmap", "runs/fixed-seed0", "--out", "x", "--sequence", "32"], "below 32"),
    ];
    for (arguments, named) in refused {
        let output = loglinear(arguments, folder.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(named), "{arguments:?}: {}", text(&output.stderr));
    }
    let twice = run(&["eval", "runs", "runs/fixed-seed0", "--data-seed", "7", "--examples", "16"]);
    assert_eq!(twice.lines().filter(|line| line.contains("seed")).count(), 4, "{twice}");
    assert!(run(&["info"]).contains("device     cpu"));
}

#[test]
fn json_progress_is_one_object_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let output = loglinear(&small(&["--json"]), folder.path());
    let events: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["evaluation", "evaluation", "result"]);
    assert_eq!(events[2]["values"]["steps"], 20);
}

#[test]
fn a_configuration_file_is_all_a_run_needs() {
    let folder = tempfile::tempdir().unwrap();
    assert!(loglinear(&small(&["--seed", "3", "--quiet"]), folder.path()).status.success());
    let config = "runs/mlp-softplus-seed3/config.toml";
    let again = ["train", "--config", config, "--out", "again", "--quiet"];
    assert!(loglinear(&again, folder.path()).status.success());
    let read = |root: &str| {
        let at = folder.path().join(root).join("mlp-softplus-seed3/metrics.jsonl");
        let text = std::fs::read_to_string(at).unwrap();
        let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        rows.map(|row| (row["train_loss"].clone(), row["accuracy"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(read("runs"), read("again"));
}

#[test]
fn wrong_usage_exits_with_2_and_failures_with_1() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.toml"), "[train]\nstep = 3\n").unwrap();
    let cases: [(&[&str], i32, &str); 14] = [
        (&["trian"], 2, "train"),
        (&["train", "--pairs", "100"], 2, "1 to 32"),
        (&["train", "--device", "tpu"], 2, "cpu, cuda"),
        (&["train", "--lambda", "mlp"], 2, "mlp-softplus"),
        (&["train", "--task", "induction", "--pairs", "3"], 2, "--pairs"),
        (&["train", "--hidden", "0"], 2, "2L"),
        (&["train", "--config", "bad.toml"], 2, "step"),
        (&["figure", "partition", "--position", "500", "--out", "x"], 2, "below 128"),
        (&["train", "--seed", "0", "0"], 2, "0 twice"),
        (&["train", "--d-model", "18446744073709551615"], 2, "model.d_model"),
        (&["train", "--train-examples", "1000000000000"], 2, "task.train_examples"),
        (&["figure", "partition", "--out", "x.pdf"], 1, ".svg or .png"),
        (&["eval", "nowhere"], 1, "nowhere"),
        (&["lambda", ".", "--out", "x.parquet"], 1, "config.toml"),
    ];
    for (arguments, code, named) in cases {
        let output = loglinear(arguments, folder.path());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.contains(named), "{arguments:?}: {message}");
        assert!(!message.contains("panicked"), "{message}");
    }
    assert!(!folder.path().join("runs").exists(), "a refused command leaves nothing behind");
    for command in ["quickstart", "train", "eval", "lambda", "figure", "cache", "info"] {
        let help = text(&loglinear(&[command, "--help"], folder.path()).stdout);
        assert!(help.contains("Example"), "{command}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_goes_away_and_a_full_disk_are_no_panics() {
    let folder = tempfile::tempdir().unwrap();
    let shell = |line: &str| {
        let line = line.replace("loglinear", env!("CARGO_BIN_EXE_loglinear"));
        Command::new("bash").args(["-c", &line]).current_dir(folder.path()).output().unwrap()
    };
    let output = shell("set -o pipefail; loglinear info | head -0");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let output = shell("loglinear info > /dev/full");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("standard output") && !message.contains("panicked"), "{message}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_a_run_that_the_same_command_finishes() {
    let folder = tempfile::tempdir().unwrap();
    let long: Vec<&str> = small(&["--steps", "400", "--target", "0", "--quiet"])
        .into_iter()
        .enumerate()
        // The first `--steps 20` gives way to the longer one.
        .filter(|&(i, _)| !(7..9).contains(&i))
        .map(|(_, argument)| argument)
        .collect();
    let mut child = Command::new(env!("CARGO_BIN_EXE_loglinear"))
        .args(&long)
        .current_dir(folder.path())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let metrics = folder.path().join("runs/mlp-softplus-seed0/metrics.jsonl");
    while std::fs::read(&metrics).map_or(0, |bytes| bytes.len()) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "ended before its first evaluation");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    // The shell's own `kill`: a bare machine may have no other.
    Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("same command again"), "{}", text(&output.stderr));
    let run = folder.path().join("runs/mlp-softplus-seed0");
    assert!(run.join("checkpoint.safetensors").is_file() && !run.join("result.json").exists());
    assert!(loglinear(&long, folder.path()).status.success());
    assert!(run.join("result.json").is_file());
    let steps = std::fs::read_to_string(&metrics).unwrap().lines().count();
    assert_eq!(steps, 40, "every evaluation once");
}

#[test]
fn lab_names_what_it_can_not_use() {
    let folder = tempfile::tempdir().unwrap();
    let usage = |arguments: &[&str], parts: &[&str]| {
        let output = loglinear(arguments, folder.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let message = text(&output.stderr);
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    usage(&["lab", "--device", "tpu"], &["tpu", "cuda:N"]);
    usage(&["lab", "--in-place"], &["--execute"]);
    usage(&["lab", "--execute", "--check"], &["--check"]);
    // Outside a checkout there is nothing to compile.
    let mut outside = Command::new(env!("CARGO_BIN_EXE_loglinear"));
    outside.args(["lab", "--check"]).current_dir(folder.path()).env_remove("CARGO_MANIFEST_DIR");
    let output = outside.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("checkout of loglinear"), "{}", text(&output.stderr));
}

#[test]
fn lab_check_says_what_is_missing_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let mut check = Command::new(env!("CARGO_BIN_EXE_loglinear"));
    check.args(["lab", "--check"]).current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", &target);
    let output = check.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let report = text(&output.stdout);
    for part in ["JupyterLab", "evcxr", "compiled library", "Rust (loglinear)", "missing", "standard library"]
    {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert!(text(&output.stderr).contains("steps are not ready"));
    assert!(!target.exists(), "--check made something");
}
