//! A training step of the recall model: on the CPU beside PyTorch in the same run, on a GPU for
//! cohorts.
//!
//! - `cargo bench --bench speed -- step` times T 64, 128 and 256 on the CPU. With
//!   `LOGLINEAR_PEER="python3 …/bench_torch_cpu.py"` (any command that prints `… T=64: 57.5 ms …` a
//!   line) it runs the peer too and prints ratios.
//! - `LOGLINEAR_DEVICE=cuda:0 cargo bench --features cuda --bench speed -- step` times the first step and
//!   the steady state of cohorts at T 256 and 1024, beside what `LOGLINEAR_PEER=FILE` says that
//!   `bench_fla.py step` printed in the same run.
//! - `… --bench speed -- step RUNS T f32|high` times one cohort, for a profiler.
//! - `… --bench speed -- step cohorts [T …]` times cohorts of 1 to 16 (T 16, 64 and 256 unless given).

use super::cohort;
use burn::tensor::{Device, Int, Tensor, TensorData};
use loglinear::burn;
use loglinear::device;
use loglinear::kernel_cache::Compiled;
use loglinear::lambda::{LambdaConfig, LambdaKind};
use loglinear::model::{IGNORED, ModelConfig, Precision};
use loglinear::random::Generator;
use loglinear::task::{MqarConfig, TaskConfig};
use loglinear::train::{Interrupt, Job, Options, ProgressMode, RunConfig, TrainConfig, train};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

const BATCH: usize = 64;

pub fn run(on: &Device, arguments: &[String]) {
    println!("recall model, d 64, 2 layers, MLP-λ (softplus), batch {BATCH}, all positions scored");
    match arguments.split_first() {
        Some((first, lengths)) if first == "cohorts" => {
            let lengths: Vec<usize> =
                lengths.iter().map(|length| length.parse().expect("T is a number")).collect();
            cohort_cost(on, if lengths.is_empty() { &[16, 64, 256] } else { &lengths });
        }
        Some((runs, rest)) if rest.len() == 2 => {
            let number = |text: &String| text.parse::<usize>().expect("RUNS T f32|high");
            let precision = if rest[1] == "high" { Precision::High } else { Precision::F32 };
            let (runs, seq_len) = (number(runs), number(&rest[0]));
            let times = device::enter(on, || step_times_in(on, precision, runs, seq_len, 4, 10));
            println!("{runs} runs, T {seq_len}, {}: {:.2} ms a step", rest[1], median(&times[1..]));
        }
        _ if device::is_cpu(on) => beside_peer(on),
        _ => cohorts(on),
    }
}

/// What batching runs costs and gains.
fn cohort_cost(on: &Device, lengths: &[usize]) {
    println!("ms a run-step (median of 5 samples) by cohort size");
    for &seq_len in lengths {
        for runs in [1, 2, 4, 8, 16] {
            let steps = if device::is_cpu(on) { (512 / (runs * seq_len)).max(1) } else { 5 };
            let times = device::enter(on, || step_times(on, runs, seq_len, 7, steps));
            let step = median(&times[2..]);
            println!(
                "T {seq_len}, cohort of {runs}: {step:.2} ms a step, {:.2} ms a run-step",
                step / runs as f64
            );
        }
    }
}

fn beside_peer(on: &Device) {
    let peer = std::env::var("LOGLINEAR_PEER").ok().map(|command| peer_times(&command));
    for seq_len in [64, 128, 256] {
        let times = device::enter(on, || step_times(on, 1, seq_len, 18, 1));
        let ours = median(&times[3..]);
        let beside = peer
            .as_ref()
            .and_then(|times| times.get(&seq_len))
            .map_or_else(String::new, |theirs| format!(", peer {theirs:.1} ms, ratio {:.2}", ours / theirs));
        println!("T {seq_len}: {ours:.1} ms a step (median of 15){beside}");
    }
}

/// Runs, T and arithmetic that a GPU is timed at.
const SIZES: [(usize, usize, Precision); 8] = [
    (1, 256, Precision::F32),
    (4, 256, Precision::F32),
    (12, 256, Precision::F32),
    (12, 256, Precision::High),
    (24, 256, Precision::High),
    (5, 1024, Precision::F32),
    (5, 1024, Precision::High),
    (1, 1024, Precision::High),
];

fn cohorts(on: &Device) {
    let start = Instant::now();
    let peer = std::env::var("LOGLINEAR_PEER").ok().map(|path| std::fs::read_to_string(path).unwrap());
    println!(
        "{:>5} {:>5} {:>5} | {:>9} {:>9} {:>9} {:>9} | {:>9} {:>6}",
        "runs", "T", "type", "first ms", "step ms", "a run ms", "GiB used", "peer ms", "ratio"
    );
    for (runs, seq_len, precision) in SIZES {
        let times = device::enter(on, || step_times_in(on, precision, runs, seq_len, 8, 10));
        let steady = median(&times[2..]);
        let run = steady / runs as f64;
        // A line of the peer's: `step BATCH T D MS ms`.
        let theirs = peer.as_deref().and_then(|text| {
            let key = format!("step {BATCH} {seq_len} 64 ");
            text.lines().find_map(|line| line.strip_prefix(&key)?.split(' ').next()?.parse::<f64>().ok())
        });
        let used = device::used_memory(on).map_or(0.0, |bytes| bytes as f64 / f64::from(1 << 30));
        println!(
            "{runs:>5} {seq_len:>5} {:>5} | {:>9.0} {steady:>9.2} {run:>9.3} {used:>9.1} | {:>9} {:>6}",
            format!("{precision:?}").to_lowercase(),
            times[0],
            theirs.map_or("-".to_owned(), |ms| format!("{ms:.2}")),
            theirs.map_or("-".to_owned(), |ms| format!("{:.1}", ms / run)),
        );
        if let Some(compiled) = Compiled::news() {
            println!("{compiled}");
        }
    }
    println!("median of 6 × 10 steps");
    trainings(on);
    println!("{:.1} s since the start", start.elapsed().as_secs_f64());
}

/// Runs and T that are timed as a training takes their steps, data and readings included: recorded, unless
/// `LOGLINEAR_RECORD=0` says no.
const TRAININGS: [(usize, usize); 4] = [(1, 256), (5, 256), (12, 256), (5, 1024)];

/// Milliseconds of a step inside `train`, from the difference of a long and a short training.
fn trainings(on: &Device) {
    for (runs, seq_len) in TRAININGS {
        let seconds = |steps: usize| {
            let folder = tempfile::tempdir().unwrap();
            let config = |seed: usize| {
                let (examples, validation) = (64 * BATCH, BATCH);
                let task = MqarConfig {
                    seq_len,
                    train_examples: examples,
                    validation_examples: validation,
                    ..MqarConfig::default()
                };
                let lambda = LambdaConfig::release(LambdaKind::MlpSoftplus);
                RunConfig {
                    task: TaskConfig::Mqar(task),
                    model: ModelConfig { max_seq_len: seq_len, lambda, ..ModelConfig::default() },
                    train: TrainConfig {
                        steps,
                        batch: BATCH,
                        eval_every: steps,
                        target: 0.0,
                        ..TrainConfig::default()
                    },
                    seed: seed as u64,
                }
            };
            let job = |seed| Job {
                config: config(seed),
                folder: folder.path().join(seed.to_string()),
                lambda: None,
            };
            let jobs: Vec<Job> = (0..runs).map(job).collect();
            let options = Options {
                device: on.clone(),
                progress: ProgressMode::Quiet,
                interrupt: Interrupt::default(),
            };
            let start = Instant::now();
            train(&jobs, &options).unwrap();
            start.elapsed().as_secs_f64()
        };
        seconds(150);
        let (short, long) = (seconds(150), seconds(1150));
        println!(
            "{runs} runs, T {seq_len}, f32, inside a training: {:.2} ms a step, {:.3} ms a run-step",
            long - short,
            (long - short) / runs as f64
        );
    }
}

fn step_times(on: &Device, runs: usize, seq_len: usize, samples: usize, steps: usize) -> Vec<f64> {
    step_times_in(on, Precision::F32, runs, seq_len, samples, steps)
}

/// Milliseconds of a step (forward, backward, clipping, Adam) in each of `samples` samples of
/// `steps` steps; the first sample is one step.
fn step_times_in(
    on: &Device,
    precision: Precision,
    runs: usize,
    seq_len: usize,
    samples: usize,
    steps: usize,
) -> Vec<f64> {
    let config = ModelConfig {
        max_seq_len: seq_len,
        lambda: LambdaConfig::release(LambdaKind::MlpSoftplus),
        ..ModelConfig::default()
    };
    let (model, mut parameters, mut adam, mut alive) = cohort(on, config, precision, runs);
    let settings = TrainConfig::default();
    let rates = vec![1e-3; runs];
    let (tokens, targets) = data(on, runs, seq_len);
    let scored = vec![BATCH * (seq_len - 1); runs];
    let mut times = Vec::new();
    for sample in 0..samples {
        let steps = if sample == 0 { 1 } else { steps };
        let start = Instant::now();
        for _ in 0..steps {
            let (losses, gradients) =
                model.differentiate(&parameters, tokens.clone(), targets.clone(), &scored).unwrap();
            let flat = parameters.flatten();
            let outcome = adam.step(&settings, flat, gradients, &losses, alive, &rates);
            alive = outcome.alive;
            parameters = parameters.unflatten(outcome.parameters);
        }
        // Reading one number waits for everything queued before it.
        assert!(alive.clone().all().into_scalar::<bool>());
        times.push(start.elapsed().as_secs_f64() * 1e3 / steps as f64);
    }
    times
}

/// Random tokens, each position scored against the next token.
fn data(on: &Device, runs: usize, seq_len: usize) -> (Tensor<3, Int>, Tensor<3, Int>) {
    let mut generator = Generator::new(0, "bench");
    let tokens: Vec<i64> = (0..runs * BATCH * seq_len).map(|_| generator.below(128) as i64).collect();
    let mut targets = tokens.clone();
    for row in targets.chunks_mut(seq_len) {
        row.rotate_left(1);
        row[seq_len - 1] = IGNORED;
    }
    let tensor = |values: Vec<i64>| Tensor::from_data(TensorData::new(values, [runs, BATCH, seq_len]), on);
    (tensor(tokens), tensor(targets))
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Milliseconds by T that a peer's command prints.
fn peer_times(command: &str) -> BTreeMap<usize, f64> {
    let output = Command::new("sh").args(["-c", command]).output().expect("sh runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "`{command}` failed: {}", String::from_utf8_lossy(&output.stderr));
    print!("{text}");
    let times = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once("T=")?;
        let (seq_len, rest) = rest.split_once(": ")?;
        Some((seq_len.parse().ok()?, rest.split(' ').next()?.parse().ok()?))
    });
    times.collect()
}
