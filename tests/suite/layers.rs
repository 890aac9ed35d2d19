//! Layers on the device under test in f32, values and gradients at awkward sizes, against f64 on the CPU. On a GPU
//! these are its fused kernels, on the CPU the host's.

use crate::fixture::{assert_close, device, values};
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use loglinear::burn;
use loglinear::cohort::{Parameters, embedding, gelu, layer_norm, linear, linear_many, softmax, softplus};
use loglinear::lambda::{
    Activation, Hidden, InitProtocol, LambdaConfig, LambdaInput, LambdaKind, LambdaMap, Mlp, Normalisation,
    Scope,
};
use loglinear::model::{IGNORED, Mixer, Model, ModelConfig, cross_entropy};
use loglinear::random::Generator;
use loglinear::train::{Adam, OptimizerKind, TrainConfig};

/// What f32 costs, everywhere: products of factors of f32 are not rounded to fewer bits.
const TOLERANCE: f64 = 1e-5;

/// Random numbers that f32 holds.
fn draw(count: usize, seed: u64) -> Vec<f64> {
    let mut generator = Generator::new(seed, "layers");
    (0..count).map(|_| f64::from(generator.normal() as f32)).collect()
}

/// Output and gradients of a function of tensors of the given shapes.
fn run<const D: usize>(
    device: &Device,
    dtype: DType,
    shapes: &[[usize; 3]],
    f: &impl Fn(Vec<Tensor<3>>) -> Tensor<D>,
) -> Vec<Vec<f64>> {
    let tensor = |(i, shape): (usize, &[usize; 3])| -> Tensor<3> {
        let data = TensorData::new(draw(shape.iter().product(), i as u64), *shape);
        Tensor::from_data(data, (&device.clone().autodiff(), dtype)).require_grad()
    };
    let inputs: Vec<Tensor<3>> = shapes.iter().enumerate().map(tensor).collect();
    let out = f(inputs.clone());
    let dims = out.dims();
    let upstream = TensorData::new(draw(dims.iter().product(), 99), dims);
    let upstream = Tensor::<D>::from_data(upstream, (&device.clone().autodiff(), dtype));
    let mut gradients = (out.clone() * upstream).sum().backward();
    let mut results = vec![values(out.inner())];
    results.extend(inputs.iter().map(|input| values(input.grad_remove(&mut gradients).unwrap())));
    results
}

#[track_caller]
fn check<const D: usize>(what: &str, shapes: &[[usize; 3]], f: impl Fn(Vec<Tensor<3>>) -> Tensor<D>) {
    let expected = run(&Device::flex(), DType::F64, shapes, &f);
    let found = run(&device(), DType::F32, shapes, &f);
    let again = run(&device(), DType::F32, shapes, &f);
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let part = if i == 0 { "value".to_owned() } else { format!("gradient {i}") };
        assert_close(&format!("{what} {shapes:?}: {part}"), found, expected, TOLERANCE);
    }
    assert!(found == again, "{what} {shapes:?}: other numbers at the second run");
}

fn array<const N: usize>(inputs: Vec<Tensor<3>>) -> [Tensor<3>; N] {
    inputs.try_into().unwrap()
}

#[test]
fn linear_maps_equal_their_definition() {
    // R, M, I, O.
    let sizes = [
        [2, 130, 64, 64],
        [1, 70, 100, 202],
        [2, 67, 9, 9],
        [3, 1100, 64, 1],
        [2, 600, 68, 130],
        [1, 1, 5, 3],
        [1, 64, 202, 128],
    ];
    for [r, m, i, o] in sizes {
        check("linear", &[[r, m, i], [r, o, i]], |inputs| {
            let [x, weight] = array(inputs);
            linear(x, weight, None)
        });
        check("affine", &[[r, m, i], [r, o, i], [r, 1, o]], |inputs| {
            let [x, weight, bias] = array(inputs);
            linear(x, weight, Some(bias))
        });
    }
}

#[test]
fn many_linear_maps_of_one_input_equal_their_definition() {
    let shapes = [[2, 600, 64], [2, 64, 64], [2, 64, 64], [2, 70, 64], [2, 1, 64], [2, 9, 64]];
    for used in [5, 2] {
        check(&format!("the first {used} of five maps"), &shapes, |inputs| {
            let [x, a, b, c, d, e] = array(inputs);
            // One that nothing depends on has no gradient of its own: it is added with weight 0.
            let unused = [&a, &b, &c, &d, &e].map(|weight| weight.clone().sum() * 0.0);
            let unused = unused.into_iter().reduce(|a, b| a + b).unwrap();
            let outputs = linear_many(&x, [a, b, c, d, e]);
            let outputs = outputs.into_iter().take(used).collect();
            Tensor::cat(outputs, 2) + unused.reshape([1, 1, 1])
        });
    }
}

#[test]
fn norms_equal_their_definition() {
    for [r, m, d] in [[2, 300, 64], [1, 5, 7], [3, 257, 33], [1, 40, 100], [2, 9, 512]] {
        check("norm", &[[r, m, d], [r, 1, d], [r, 1, d]], |inputs| {
            let [x, weight, bias] = array(inputs);
            layer_norm(x, None, weight, bias, 1e-5)
        });
        check("norm of a sum", &[[r, m, d + 1], [r, m, d + 1], [r, 1, d + 1], [r, 1, d + 1]], |inputs| {
            let [x, residual, weight, bias] = array(inputs);
            layer_norm(x, Some(residual), weight, bias, 1e-5)
        });
    }
}

#[test]
fn pointwise_functions_equal_their_definition() {
    for shape in [[2, 100, 64], [1, 1, 1], [3, 7, 9], [1, 33, 100]] {
        check("gelu", &[shape], |inputs| gelu(inputs[0].clone() * 3.0));
        check("softplus", &[shape], |inputs| softplus(inputs[0].clone() * 10.0));
        if shape[2] > 1 {
            check("softmax", &[shape], |inputs| softmax(inputs[0].clone() * 3.0));
        }
    }
}

#[test]
fn an_embedding_equals_its_definition() {
    for [r, vocab, d, b, t] in [[2, 128, 64, 5, 130], [1, 37, 6, 2, 3], [3, 300, 70, 1, 600]] {
        let tokens: Vec<i64> = (0..r * b * t).map(|i| (i * i % vocab) as i64).collect();
        check("embedding", &[[r, vocab, d]], |inputs| {
            let data = TensorData::new(tokens.clone(), [r, b, t]);
            let tokens = Tensor::<3, Int>::from_data(data, &loglinear::device::plain(&inputs[0].device()));
            embedding(inputs[0].clone(), tokens).unwrap()
        });
    }
}

#[test]
fn a_loss_equals_its_definition() {
    for [r, b, t, vocab] in [[2, 3, 100, 128], [3, 1, 300, 37], [1, 2, 2, 1000]] {
        let target = |i: usize| match i {
            // The last run has no targets, where there are several.
            _ if r > 1 && i >= (r - 1) * b * t => IGNORED,
            _ if i % 7 == 3 => IGNORED,
            _ => (i * i % vocab) as i64,
        };
        let targets: Vec<i64> = (0..r * b * t).map(target).collect();
        check("loss", &[[r, b * t, vocab]], |inputs| {
            let data = TensorData::new(targets.clone(), [r, b, t]);
            let targets = Tensor::<3, Int>::from_data(data, &loglinear::device::plain(&inputs[0].device()));
            cross_entropy(inputs[0].clone() * 2.0, targets).unwrap()
        });
    }
}

#[test]
fn lambda_of_the_mlp_equals_its_definition() {
    for (levels, hidden, heads, tokens) in [(9, 64, 1, 1100), (5, 7, 3, 50), (16, 33, 2, 70), (17, 20, 1, 30)]
    {
        for activation in [Activation::Gelu, Activation::None] {
            for normalisation in [Normalisation::Softplus, Normalisation::Softmax] {
                let map = Mlp {
                    normalisation,
                    activation,
                    hidden: Hidden::Width(hidden),
                    init: InitProtocol::Release,
                };
                let all = |device: &Device, dtype| {
                    lambda_and_gradients(&map, device, dtype, [tokens, heads, levels])
                };
                let (found, expected) = (all(&device(), DType::F32), all(&Device::flex(), DType::F64));
                for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let what =
                        format!("{levels} levels, {hidden} hidden, {activation:?} {normalisation:?} {i}");
                    assert_close(&what, found, expected, TOLERANCE);
                }
            }
        }
    }
}

/// λ, and gradients of d and of the map's parameters.
fn lambda_and_gradients(
    map: &Mlp,
    device: &Device,
    dtype: DType,
    [tokens, heads, levels]: [usize; 3],
) -> [Vec<f64>; 3] {
    const RUNS: usize = 2;
    let cohorts: Vec<Parameters> = (0..RUNS)
        .map(|run| {
            let specs = map.specs(heads, levels);
            let lookup = |name: &str| {
                let index = specs.iter().position(|spec| spec.name == name)?;
                Some(draw(specs[index].count(), (10 * run + index) as u64))
            };
            Parameters::load(specs.clone(), device, dtype, lookup).unwrap()
        })
        .collect();
    let leaves = Parameters::stack(&cohorts).unwrap().require_grad();
    let shape = [RUNS, tokens, heads, levels];
    let tensor = |seed| {
        let data = TensorData::new(draw(shape.iter().product(), seed), shape);
        Tensor::<4>::from_data(data, (&device.clone().autodiff(), dtype))
    };
    let d = tensor(50).require_grad();
    let x = Tensor::zeros([RUNS, tokens, 1], (&device.clone().autodiff(), dtype));
    let input = LambdaInput { d: d.clone(), x, batch: 1, seq_len: tokens };
    let lambda = map.forward(input, Scope::new(&leaves, "")).unwrap();
    let mut gradients = (lambda.clone() * tensor(51)).sum().backward();
    let of_d = values(d.grad_remove(&mut gradients).unwrap());
    [values(lambda.inner()), of_d, values(leaves.take_gradients(&mut gradients))]
}

fn tensor_of<const D: usize>(values: Vec<i64>, shape: [usize; D], device: &Device) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

#[test]
fn a_recall_model_s_loss_gradient_and_scores_in_f32_equal_those_in_f64() {
    let (runs, batch, time, vocab) = (3, 2, 70, 40);
    let ids: Vec<i64> = (0..runs * batch * time).map(|i| (i * i % 37) as i64).collect();
    let targets: Vec<i64> = ids.iter().map(|&id| if id % 5 == 1 { IGNORED } else { (id + 3) % 40 }).collect();
    let kinds = [LambdaKind::Fixed, LambdaKind::MlpSoftplus, LambdaKind::MlpSoftmax];
    let mixers = kinds.map(|kind| (Mixer::LogLinear, kind)).into_iter();
    for (mixer, kind) in
        mixers.chain([(Mixer::Linear, LambdaKind::Fixed), (Mixer::Softmax, LambdaKind::Fixed)])
    {
        let config = ModelConfig {
            vocab,
            d_model: 32,
            heads: 2,
            max_seq_len: time,
            mixer,
            lambda: LambdaConfig::release(kind),
            ..ModelConfig::default()
        };
        let model = Model::new(config).unwrap();
        let all = |device: &Device, dtype| {
            let parameters = Parameters::initialise(model.specs(), &[1, 2, 3], device, dtype);
            let shape = [runs, batch, time];
            let tokens = tensor_of(ids.clone(), shape, device);
            let targets = tensor_of(targets.clone(), shape, device);
            let scored = [50, 60, 70];
            let (loss, gradient) =
                model.differentiate(&parameters, tokens.clone(), targets.clone(), &scored).unwrap();
            let scores = model.score(&parameters, tokens, targets).unwrap();
            let losses: Vec<f64> = scores.losses.iter().map(|&loss| f64::from(loss)).collect();
            ([values(loss), values(gradient), losses], scores.correct)
        };
        let (found, hits) = all(&device(), DType::F32);
        let (expected, expected_hits) = all(&Device::flex(), DType::F64);
        // Mixers other than the log-linear one are tensor operations, whose products a GPU rounds to TF32.
        let exact = mixer == Mixer::LogLinear || loglinear::device::is_cpu(&device());
        let tolerance = if exact { 1e-4 } else { 1e-2 };
        for (what, (found, expected)) in
            ["loss", "gradient", "losses"].iter().zip(found.iter().zip(&expected))
        {
            assert_close(&format!("{mixer:?} {kind:?}: {what}"), found, expected, tolerance);
        }
        let other = hits.iter().zip(&expected_hits).filter(|(a, b)| a != b).count();
        assert!(other <= 2, "{mixer:?} {kind:?}: {other} hits differ");
    }
}

#[test]
fn adam_in_f32_equals_itself_in_f64_and_freezes_runs() {
    const RUNS: usize = 4;
    // More than one slice of a run; one that is not whole.
    const COUNT: usize = 5001;
    for (optimizer, weight_decay, masked) in [
        (OptimizerKind::Adam, 0.0, false),
        (OptimizerKind::Adam, 0.1, true),
        (OptimizerKind::AdamW, 0.1, true),
    ] {
        let config = TrainConfig { optimizer, weight_decay, clip: 20.0, ..TrainConfig::default() };
        let all = |device: &Device, dtype| {
            let matrix = |values: Vec<f64>, rows: usize| {
                Tensor::<2>::from_data(TensorData::new(values, [rows, COUNT]), (device, dtype))
            };
            let mask = (0..COUNT).map(|i| f64::from(u8::from(i % 3 > 0))).collect();
            let mut parameters = matrix(draw(RUNS * COUNT, 1), RUNS);
            let zeros = parameters.zeros_like();
            let decayed = masked.then(|| matrix(mask, 1));
            let mut adam = Adam { first: zeros.clone(), second: zeros, steps: 0, decayed };
            let mut alive =
                Tensor::<1, Bool>::from_data(TensorData::new(vec![true, true, true, true], [RUNS]), device);
            let mut results = Vec::new();
            for step in 0..4 {
                let mut gradients = draw(RUNS * COUNT, 2 + step);
                let mut losses = vec![1.0; RUNS];
                // Run 1 meets an infinite gradient, run 2 a loss that is no number, run 3 a rate without bounds.
                if step == 1 {
                    gradients[2 * COUNT - 1] = f64::INFINITY;
                }
                if step == 2 {
                    losses[2] = f64::NAN;
                }
                let rates = [1e-2, 2e-2, 3e-2, if step == 3 { f64::INFINITY } else { 1e-3 }];
                let losses = Tensor::<1>::from_data(TensorData::new(losses, [RUNS]), (device, dtype));
                let outcome = adam.step(&config, parameters, matrix(gradients, RUNS), &losses, alive, &rates);
                (parameters, alive) = (outcome.parameters, outcome.alive);
                results.push(values(outcome.norms).into_iter().filter(|norm| norm.is_finite()).collect());
                let living: Vec<bool> = alive.clone().into_data().iter().collect();
                assert_eq!(living, [true, step < 1, step < 2, step < 3], "step {step}");
            }
            results.extend([values(parameters), values(adam.first), values(adam.second)]);
            results
        };
        let (found, expected) = (all(&device(), DType::F32), all(&Device::flex(), DType::F64));
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_close(&format!("{optimizer:?} {weight_decay} {i}"), found, expected, TOLERANCE);
        }
    }
}

#[test]
fn parameters_become_a_matrix_and_back() {
    let model = Model::new(ModelConfig { vocab: 30, d_model: 12, ..ModelConfig::default() }).unwrap();
    let parameters = Parameters::initialise(model.specs(), &[1, 2], &device(), DType::F32);
    let flat = parameters.flatten();
    assert_eq!(flat.dims(), [2, parameters.count()]);
    let back = parameters.unflatten(flat.clone());
    for (index, spec) in parameters.specs().iter().enumerate() {
        for run in 0..2 {
            let name = &spec.name;
            assert_eq!(parameters.values_of(index, run), back.values_of(index, run), "{name} of run {run}");
        }
    }
    assert_eq!(values(back.flatten()), values(flat));
    assert_eq!(values(back.select(&[1]).flatten()), values(parameters.flatten().narrow(0, 1, 1)));
}
