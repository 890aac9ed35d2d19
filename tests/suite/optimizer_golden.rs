//! Five Adam steps with clipping by the global norm, against PyTorch.

use crate::fixture::{Fixture, assert_close, device, f32_tolerance, values};
use crate::model_golden::{CASES, model, parameters};
use burn::tensor::{Bool, DType, Tensor, TensorData};
use loglinear::burn;
use loglinear::model::cross_entropy;
use loglinear::random::Generator;
use loglinear::train::{Adam, OptimizerKind, TrainConfig};

fn check(dtype: DType, tolerance: f64) {
    let config = TrainConfig { clip: 0.5, learning_rate: 1e-2, ..TrainConfig::default() };
    for (kind, file) in CASES {
        let (model, fixture) = (model(kind), Fixture::open(file));
        let mut now = parameters(&model, &fixture, "init", dtype);
        let mut adam = Adam::new(&now);
        let mut alive: Tensor<1, Bool> = Tensor::from_data(TensorData::new(vec![true], [1]), &device());
        let (mut losses, mut norms) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let leaves = now.require_grad();
            let tokens = fixture.integers::<2>("tokens", &device()).unsqueeze_dim(0);
            let targets = fixture.integers::<2>("targets", &device()).unsqueeze_dim(0);
            let loss = cross_entropy(model.forward(&leaves, tokens).unwrap(), targets).unwrap();
            let mut gradients = loss.clone().sum().backward();
            let gradients = leaves.take_gradients(&mut gradients);
            let loss = loss.inner();
            let outcome = adam.step(&config, now.flatten(), gradients, &loss, alive, &[1e-2]);
            losses.extend(values(loss));
            norms.extend(values(outcome.norms));
            alive = outcome.alive;
            now = now.unflatten(outcome.parameters);
        }
        let close = |key: &str, found: &[f64]| {
            assert_close(&format!("{file} {key} {dtype:?}"), found, fixture.values(key), tolerance);
        };
        close("adam.losses", &losses);
        close("adam.grad_norms", &norms);
        if dtype == DType::F32 && !loglinear::device::is_cpu(&device()) {
            // Adam divides by the gradient's size: where that is near 0, TF32 decides its sign, and a
            // parameter that starts at 0 has no other value to be compared with. See f64.
            continue;
        }
        for (index, spec) in now.specs().iter().enumerate() {
            close(&format!("after.{}", spec.name), &now.values_of(index, 0));
        }
    }
}

#[test]
fn five_adam_steps_with_clipping_equal_pytorch_in_f64() {
    check(DType::F64, 1e-8);
}

#[test]
fn five_adam_steps_with_clipping_equal_pytorch_in_f32() {
    check(DType::F32, f32_tolerance(5e-3, 1e-2));
}

/// One step of PyTorch's Adam or AdamW on one number, written out.
fn reference(config: &TrainConfig, state: &mut [f64; 3], gradient: f64, rate: f64, step: i32, decay: f64) {
    let [value, first, second] = state;
    let mut gradient = gradient;
    match config.optimizer {
        OptimizerKind::Adam => gradient += decay * *value,
        OptimizerKind::AdamW => *value *= 1.0 - rate * decay,
    }
    *first = config.beta1 * *first + (1.0 - config.beta1) * gradient;
    *second = config.beta2 * *second + (1.0 - config.beta2) * gradient * gradient;
    let first = *first / (1.0 - config.beta1.powi(step));
    let second = *second / (1.0 - config.beta2.powi(step));
    *value -= rate * first / (second.sqrt() + config.epsilon);
}

#[test]
fn weight_decay_clipping_and_rates_are_per_run_and_as_in_pytorch() {
    const RUNS: usize = 3;
    const COUNT: usize = 4;
    let tensor = |values: Vec<f64>| {
        Tensor::<2>::from_data(TensorData::new(values, [RUNS, COUNT]), (&device(), DType::F64))
    };
    for optimizer in [OptimizerKind::Adam, OptimizerKind::AdamW] {
        let config = TrainConfig { optimizer, weight_decay: 0.1, clip: 1.0, ..TrainConfig::default() };
        let rates = [1e-2, 3e-2, 1e-1];
        let mut generator = Generator::new(4, "optimizer");
        let mut draw =
            |scale: f64| -> Vec<f64> { (0..RUNS * COUNT).map(|_| scale * generator.normal()).collect() };
        let start = draw(1.0);
        let mut expected: Vec<[f64; 3]> = start.iter().map(|&value| [value, 0.0, 0.0]).collect();
        let mut parameters = tensor(start);
        // The last parameter is spared by weight decay.
        let mask =
            Tensor::from_data(TensorData::new(vec![1.0, 1.0, 1.0, 0.0], [1, COUNT]), (&device(), DType::F64));
        let zeros = parameters.zeros_like();
        let mut adam = Adam { first: zeros.clone(), second: zeros, steps: 0, decayed: Some(mask) };
        let mut alive: Tensor<1, Bool> =
            Tensor::from_data(TensorData::new(vec![true; RUNS], [RUNS]), &device());
        for step in 1..=6 {
            // Run 2 meets a NaN at step 4 and stays as it was.
            let mut gradients = draw(if step % 2 == 0 { 5.0 } else { 0.1 });
            if step == 4 {
                gradients[2 * COUNT] = f64::NAN;
            }
            for run in 0..RUNS {
                if run == 2 && step >= 4 {
                    continue;
                }
                let part = &gradients[run * COUNT..][..COUNT];
                let norm = part.iter().map(|x| x * x).sum::<f64>().sqrt();
                let factor = (1.0 / (norm + 1e-6)).min(1.0);
                for (i, (state, gradient)) in expected[run * COUNT..].iter_mut().zip(part).enumerate() {
                    let decay = if i == COUNT - 1 { 0.0 } else { config.weight_decay };
                    reference(&config, state, gradient * factor, rates[run], step, decay);
                }
            }
            let losses = Tensor::<1>::zeros([RUNS], (&device(), DType::F64));
            let outcome = adam.step(&config, parameters, tensor(gradients), &losses, alive, &rates);
            (parameters, alive) = (outcome.parameters, outcome.alive);
        }
        let expected: Vec<f64> = expected.iter().map(|state| state[0]).collect();
        assert_close(&format!("{optimizer:?}"), &values(parameters), &expected, 1e-12);
        assert_eq!(alive.into_data().iter::<bool>().collect::<Vec<_>>(), [true, true, false]);
    }
}
