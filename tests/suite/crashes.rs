//! A sweep that is killed, shared or out of room: the program, as a user calls it.

use crate::training::outcome;
use loglinear::random::Generator;
use loglinear::sweep::{RunState, SweepFolder};
use loglinear::train::{Checkpoint, RunFolder};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Eight runs in four cohorts, a second or two.
const SWEEP: &str = r#"
name = "crash"
lambda_sequences = 1
[base]
task = { name = "mqar", pairs = 4, seq_len = 16, train_examples = 640, validation_examples = 100 }
train = { steps = 60, batch = 32, eval_every = 10 }
model.d_model = 32
[axes]
seed = [0, 1, 2, 3]
model.lambda.kind = ["fixed", "mlp-softplus"]
evaluation.seq_len = [16, 32]
"#;

fn start(folder: &Path, out: &str) -> Child {
    let file = folder.join("crash.toml");
    std::fs::write(&file, SWEEP).unwrap();
    Command::new(env!("CARGO_BIN_EXE_loglinear"))
        .args(["sweep", "crash.toml", "--quiet", "--out", out])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn finish(child: Child) -> (bool, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Every run of `found` is that of `expected`, λ and evaluations included.
fn assert_same(found: &Path, expected: &Path) {
    let runs = SweepFolder::open(expected).unwrap();
    for run in runs.runs() {
        let (a, b) = (found.join(&run.name), expected.join(&run.name));
        assert_eq!(outcome(&a), outcome(&b), "{}", run.name);
        for file in ["lambda.parquet", "evaluation.json", "config.toml"] {
            let read = |folder: &Path| std::fs::read(folder.join(file)).unwrap();
            assert!(read(&a) == read(&b), "{file} of {}", run.name);
        }
    }
}

/// What a run has written says where it goes on: at most one evaluation is ahead of its checkpoint.
fn assert_little_is_lost(out: &Path) {
    let Ok(folder) = SweepFolder::open(out) else { return };
    for run in folder.runs() {
        let Ok(found) = RunFolder::open(folder.run_path(run)) else { continue };
        let Some(last) = found.metrics().unwrap().last().map(|row| row.step) else { continue };
        let checkpoint = found.file("checkpoint.safetensors");
        let step =
            if checkpoint.is_file() { Checkpoint::read_progress(&checkpoint).unwrap().step } else { 0 };
        assert!(step + run.config.train.eval_every >= last, "{}: {step} against {last}", run.name);
    }
}

#[test]
fn a_sweep_killed_again_and_again_ends_as_an_undisturbed_one() {
    let folder = tempfile::tempdir().unwrap();
    let (success, message) = finish(start(folder.path(), "whole/sweep"));
    assert!(success, "{message}");
    let mut draws = Generator::new(4, "kills");
    let out = folder.path().join("parts/sweep");
    let (mut kills, mut ended) = (0, false);
    while !ended {
        let mut child = start(folder.path(), "parts/sweep");
        // Later each time, so that a slow machine gets past the start.
        let delay = 20 + draws.below(200 + 60 * kills);
        std::thread::sleep(Duration::from_millis(delay as u64));
        ended = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        let (success, message) = finish(child);
        assert!(success || !ended, "only a kill stops it: {message}");
        assert!(!message.contains("error"), "{message}");
        assert_little_is_lost(&out);
        kills += usize::from(!ended);
        assert!(kills < 100, "no progress between kills");
    }
    let sittings = SweepFolder::open(&out).unwrap().sittings().unwrap();
    assert!(sittings.len() >= 2, "a killed sitting has left its name: {sittings:?}");
    assert_eq!(sittings.last().unwrap().device, "cpu");
    assert!(kills >= 3, "killed {kills} times: the sweep is too short");
    assert_same(&out, &folder.path().join("whole/sweep"));
}

#[test]
fn what_a_kill_leaves_of_a_first_write_is_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("sweep");
    let run = out.join("fixed-seed0");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(out.join("sweep.toml"), SWEEP).unwrap();
    for name in ["lock", "config.tmp"] {
        std::fs::write(run.join(name), "").unwrap();
    }
    let (success, message) = finish(start(folder.path(), "sweep"));
    assert!(success, "{message}");
    let fresh = folder.path().join("fresh");
    std::fs::create_dir_all(&fresh).unwrap();
    std::fs::write(fresh.join("sweep.tmp"), "name = ").unwrap();
    let (success, message) = finish(start(folder.path(), "fresh"));
    assert!(success, "{message}");
}

#[test]
fn a_second_sweep_in_the_same_folder_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path(), "shared");
    let lock = folder.path().join("shared/lock");
    let waited = (0..500).find(|_| {
        std::thread::sleep(Duration::from_millis(10));
        lock.exists() && std::fs::File::open(&lock).unwrap().try_lock().is_err()
    });
    assert!(waited.is_some(), "the first sweep takes its folder");
    let (success, message) = finish(start(folder.path(), "shared"));
    assert!(!success && message.contains("another process is training this sweep"), "{message}");
    let (success, message) = finish(first);
    assert!(success, "{message}");
    let states = SweepFolder::open(folder.path().join("shared")).unwrap().states().unwrap();
    assert!(states.iter().all(|state| matches!(state, RunState::Ended(_))));
}

/// Needs the right to mount, as root or in a user namespace: `cargo test -- --ignored full_disk`.
#[test]
#[ignore = "mounts a small tmpfs"]
#[cfg(target_os = "linux")]
fn a_sweep_on_a_full_disk_says_so_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let (success, message) = finish(start(folder.path(), "whole/sweep"));
    assert!(success, "{message}");
    // Room for some of the runs, then for all. What is written is copied out before the mount ends.
    let script = r#"
        set -u
        mkdir disk && mount -t tmpfs -o size=8m none disk || exit 9
        head -c 6m /dev/zero >disk/filler
        "$0" sweep crash.toml --quiet --out disk/sweep >/dev/null 2>full.txt && exit 8
        mkdir half && cp -r disk/sweep half
        rm disk/filler
        "$0" sweep crash.toml --quiet --out disk/sweep >/dev/null 2>room.txt || exit 7
        mkdir parts && cp -r disk/sweep parts
        umount disk
    "#;
    let call = |unshare: &[&str]| {
        let program = unshare.first().copied().unwrap_or("sh");
        let rest =
            unshare.iter().skip(1).copied().chain(if unshare.is_empty() { vec![] } else { vec!["sh"] });
        let binary = env!("CARGO_BIN_EXE_loglinear");
        let mut command = Command::new(program);
        command.args(rest).args(["-c", script, binary]).current_dir(folder.path());
        command.status().unwrap().code()
    };
    let mut code = call(&["unshare", "-Urm"]);
    if code == Some(9) || code == Some(1) {
        let _ = std::fs::remove_dir(folder.path().join("disk"));
        code = call(&[]);
    }
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    assert_eq!(code, Some(0), "full: {}, with room: {}", read("full.txt"), read("room.txt"));
    let message = read("full.txt");
    assert!(message.contains("No space left on device") && message.contains("disk/sweep"), "{message}");
    assert_little_is_lost(&folder.path().join("half/sweep"));
    assert_same(&folder.path().join("parts/sweep"), &folder.path().join("whole/sweep"));
}
