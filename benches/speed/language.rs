//! A training step of the language model: where its time goes, tokens a second, memory.
//!
//! `LOGLINEAR_DEVICE=cuda:0 cargo bench --features cuda --bench speed -- language [D RUNS BATCH PRECISION]…`, by
//! default a short list of sizes. Windows of 512 random tokens, GPT-2's vocabulary, MLP-λ (softplus), AdamW.

use super::cohort;
use burn::tensor::{Device, Int, Tensor, TensorData};
use loglinear::burn;
use loglinear::device;
use loglinear::kernel_cache::Compiled;
use loglinear::lambda::{LambdaConfig, LambdaKind};
use loglinear::model::{Mixer, ModelConfig, Precision};
use loglinear::random::Generator;
use loglinear::train::TrainConfig;
use std::time::Instant;

/// Positions of a window.
const TIME: usize = 512;

pub fn run(on: &Device, arguments: &[String]) {
    println!(
        "language model, 6 layers, T {TIME}, MLP-λ (softplus) unless named, on {}",
        device::hardware(on)
    );
    let default = ["256 1 1 f32"];
    let sizes: Vec<String> = if arguments.is_empty() {
        default.map(str::to_owned).to_vec()
    } else {
        arguments.chunks(4).map(|size| size.join(" ")).collect()
    };
    for size in sizes {
        let parts: Vec<&str> = size.split(' ').collect();
        let [d_model, runs, batch] =
            [0, 1, 2].map(|i| parts[i].parse::<usize>().expect("D RUNS BATCH PRECISION"));
        let precision = if parts[3].starts_with("bf16") { Precision::Bf16 } else { Precision::F32 };
        let mixer = match parts[3].split_once('/') {
            Some((_, "softmax")) => Mixer::Softmax,
            Some((_, "linear")) => Mixer::Linear,
            _ => Mixer::LogLinear,
        };
        device::enter(on, || measure(on, &size, d_model, runs, batch, precision, mixer));
    }
}

fn measure(
    on: &Device,
    size: &str,
    d_model: usize,
    runs: usize,
    batch: usize,
    precision: Precision,
    mixer: Mixer,
) {
    let config = ModelConfig {
        d_model,
        heads: d_model / 64,
        mixer,
        lambda: LambdaConfig::text(LambdaKind::MlpSoftplus),
        ..ModelConfig::language()
    };
    let (model, mut parameters, mut adam, mut alive) = cohort(on, config, precision, runs);
    let train = TrainConfig::language();
    let rates = vec![3e-4; runs];
    let (tokens, targets) = data(on, runs, batch);
    let scored = vec![batch * TIME; runs];
    let on_cpu = device::is_cpu(on);
    let (samples, warm) = if on_cpu { (3, 1) } else { (14, 4) };
    let mut phases = [0.0; 3];
    let mut steps = Vec::new();
    for sample in 0..samples {
        // The last half without stops between the parts, as a training runs.
        let split = sample < samples / 2;
        let start = Instant::now();
        let mut mark = start;
        let mut phase = |i: usize| {
            if split {
                on.sync().unwrap();
                if sample >= warm {
                    phases[i] += mark.elapsed().as_secs_f64() * 1e3;
                }
                mark = Instant::now();
            }
        };
        let (values, gradients) =
            model.differentiate(&parameters, tokens.clone(), targets.clone(), &scored).unwrap();
        phase(0);
        let flat = parameters.flatten();
        phase(1);
        let outcome = adam.step(&train, flat, gradients, &values, alive, &rates);
        alive = outcome.alive;
        parameters = parameters.unflatten(outcome.parameters);
        phase(2);
        assert!(alive.clone().all().into_scalar::<bool>());
        let step = start.elapsed().as_secs_f64() * 1e3;
        if sample == 0 {
            println!("{size}: first step {step:.0} ms");
            if let Some(compiled) = Compiled::news() {
                println!("{compiled}");
            }
        }
        if !split {
            steps.push(step);
        }
    }
    steps.sort_by(f64::total_cmp);
    let step = steps[steps.len() / 2];
    let [gradients, gather, update] =
        phases.map(|ms| ms / (samples / 2 - warm.min(samples / 2 - 1)).max(1) as f64);
    let memory = device::used_memory(on).map_or_else(String::new, |bytes| {
        format!(", {:.1} GiB in use on the device", bytes as f64 / (1 << 30) as f64)
    });
    println!(
        "{size}: {step:.1} ms a step, {:.0} tokens/s{memory}; with stops: gradients \
         {gradients:.1}, gathering parameters {gather:.1}, AdamW {update:.1} ms",
        (runs * batch * TIME) as f64 / step * 1e3
    );
}

/// Random tokens, each position scored against the next.
fn data(on: &Device, runs: usize, batch: usize) -> (Tensor<3, Int>, Tensor<3, Int>) {
    let mut generator = Generator::new(0, "bench");
    let tokens: Vec<i32> = (0..runs * batch * TIME).map(|_| generator.below(50_257) as i32).collect();
    let mut targets = tokens.clone();
    targets.rotate_left(1);
    let tensor = |values: Vec<i32>| Tensor::from_data(TensorData::new(values, [runs, batch, TIME]), on);
    (tensor(tokens), tensor(targets))
}
