//! A training step of the recall model on the CPU, beside PyTorch in the same run.
//!
//! `cargo bench --bench cpu_step` times ours. With `LOGLINEAR_PEER="python3 …/bench_torch_cpu.py"`
//! (any command that prints `… T=64: 57.5 ms …` a line) it runs the peer too and prints ratios.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use loglinear::burn;
use loglinear::cohort::Parameters;
use loglinear::device;
use loglinear::lambda::{LambdaConfig, LambdaKind};
use loglinear::model::{IGNORED, RecallConfig, RecallModel, cross_entropy};
use loglinear::random::Generator;
use loglinear::train::{Adam, TrainConfig};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

const BATCH: usize = 64;
const WARM_UP: usize = 3;
const STEPS: usize = 15;

fn main() {
    let peer = std::env::var("LOGLINEAR_PEER").ok().map(|command| peer_times(&command));
    println!("recall model, d 64, 2 layers, MLP-λ (softplus), batch {BATCH}, all positions scored");
    for seq_len in [64, 128, 256] {
        let ours = device::enter(&Device::flex(), || step_time(seq_len));
        let beside = peer
            .as_ref()
            .and_then(|times| times.get(&seq_len))
            .map_or_else(String::new, |theirs| format!(", peer {theirs:.1} ms, ratio {:.2}", ours / theirs));
        println!("T {seq_len}: {ours:.1} ms a step (median of {STEPS}){beside}");
    }
}

/// Median milliseconds of a step: forward, backward, clipping, Adam.
fn step_time(seq_len: usize) -> f64 {
    let device = Device::flex();
    let config = RecallConfig {
        max_seq_len: seq_len,
        lambda: LambdaConfig::release(LambdaKind::MlpSoftplus),
        ..RecallConfig::default()
    };
    let model = RecallModel::new(config).unwrap();
    let mut parameters = Parameters::initialise(model.specs(), &[0], &device, DType::F32);
    let mut adam = Adam::new(&parameters.flatten());
    let mut alive = Tensor::from_data(TensorData::new(vec![true], [1]), &device);
    let train = TrainConfig::default();
    let mut generator = Generator::new(0, "bench");
    let tokens: Vec<i64> = (0..BATCH * seq_len).map(|_| generator.below(128) as i64).collect();
    let mut targets = tokens.clone();
    for row in targets.chunks_mut(seq_len) {
        row.rotate_left(1);
        row[seq_len - 1] = IGNORED;
    }
    let tensor =
        |values: Vec<i64>| Tensor::<3, Int>::from_data(TensorData::new(values, [1, BATCH, seq_len]), &device);
    let (tokens, targets) = (tensor(tokens), tensor(targets));
    let mut times = Vec::new();
    for _ in 0..WARM_UP + STEPS {
        let start = Instant::now();
        let leaves = parameters.require_grad();
        let logits = model.forward(&leaves, tokens.clone()).unwrap();
        let losses = cross_entropy(logits, targets.clone());
        let mut gradients = losses.clone().sum().backward();
        let gradients = leaves.take_gradients(&mut gradients);
        let flat = parameters.flatten();
        let outcome = adam.step(&train, flat, gradients, &losses.inner(), alive, &[1e-3]);
        alive = outcome.alive;
        parameters = parameters.unflatten(outcome.parameters);
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let mut times = times.split_off(WARM_UP);
    times.sort_by(f64::total_cmp);
    times[STEPS / 2]
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
