//! Properties of the operator: agreement of its forms on random shapes, gradients by finite
//! differences, baselines, decoding, and errors for wrong arguments.

use crate::fixture::{assert_close, device, values};
use burn::tensor::{DType, Tensor, TensorData};
use loglinear::attention::*;
use loglinear::random::Generator;
use loglinear::{burn, fenwick};
use proptest::prelude::*;

/// N, T, H, K, V.
type Dims = [usize; 5];

fn random<const D: usize>(shape: [usize; D], generator: &mut Generator, f: impl Fn(f64) -> f64) -> Tensor<D> {
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| f(generator.normal())).collect();
    Tensor::from_data(TensorData::new(values, shape), (&device().autodiff(), DType::F64))
}

struct Case {
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    log_decay: Tensor<3>,
    lambda: Tensor<4>,
    seed: Tensor<4>,
}

impl Case {
    fn random([n, t, h, k, v]: Dims, seed: u64) -> Self {
        let generator = &mut Generator::new(seed, "attention");
        let levels = fenwick::num_levels(t);
        Self {
            q: random([n, t, h, k], generator, |x| x).require_grad(),
            k: random([n, t, h, k], generator, |x| x).require_grad(),
            v: random([n, t, h, v], generator, |x| x).require_grad(),
            log_decay: random([n, t, h], generator, |x| -0.2 * x.abs()).require_grad(),
            lambda: random([n, t, h, levels], generator, |x| x.exp()).require_grad(),
            seed: random([n, t, h, v], generator, |x| x),
        }
    }

    fn inputs(&self) -> Inputs {
        let Self { q, k, v, log_decay, lambda, .. } = self;
        Inputs::new(q.clone(), k.clone(), v.clone(), log_decay.clone(), lambda.clone()).unwrap()
    }

    /// Output, then gradients of q, k, v, log_decay, λ.
    fn results(&self, form: impl Fn(Inputs) -> Tensor<4>) -> Vec<Vec<f64>> {
        let out = form(self.inputs());
        let mut grads = (out.clone() * self.seed.clone()).sum().backward();
        let mut results = vec![values(out.inner())];
        for tensor in [&self.q, &self.k, &self.v, &self.lambda] {
            results.push(values(tensor.grad_remove(&mut grads).unwrap()));
        }
        let zeros = || self.log_decay.clone().inner().zeros_like();
        results.push(values(self.log_decay.grad_remove(&mut grads).unwrap_or_else(zeros)));
        results
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn chunkwise_equals_the_definition_on_random_shapes(
        n in 1..3_usize, t in 1..150_usize, h in 1..4_usize, k in 1..9_usize, v in 1..9_usize,
        height in 0..8_u32, seed in 0..1000_u64,
    ) {
        let case = Case::random([n, t, h, k, v], seed);
        let chunk = ChunkSize::new(1 << height).unwrap();
        let expected = case.results(|inputs| materialised(&inputs));
        for form in [chunkwise, chunkwise_portable] {
            for (found, expected) in case.results(|inputs| form(inputs, chunk)).iter().zip(&expected) {
                assert_close("result", found, expected, 1e-11);
            }
        }
    }
}

#[test]
fn hand_derived_gradients_equal_finite_differences() {
    const STEP: f64 = 1e-5;
    let case = Case::random([1, 21, 2, 3, 2], 7);
    let chunk = ChunkSize::new(4).unwrap();
    let expected = case.results(|inputs| chunkwise(inputs, chunk));
    let loss = |q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>, g: &Tensor<3>, l: &Tensor<4>| -> f64 {
        let inputs =
            Inputs::from_trusted_values(q.clone(), k.clone(), v.clone(), g.clone(), l.clone()).unwrap();
        (chunkwise(inputs, chunk) * case.seed.clone()).sum().inner().into_scalar::<f64>()
    };
    let Case { q, k, v, log_decay, lambda, .. } = &case;
    fn moved<const D: usize>(tensor: &Tensor<D>, index: usize, by: f64) -> Tensor<D> {
        let mut data: Vec<f64> = tensor.to_data().iter().collect();
        data[index] += by;
        Tensor::from_data(TensorData::new(data, tensor.dims()), (&tensor.device(), DType::F64))
    }
    let slope = |f: &dyn Fn(f64) -> f64| (f(STEP) - f(-STEP)) / (2.0 * STEP);
    for index in 0..21 * 2 * 2 {
        let found = [
            slope(&|by| loss(&moved(q, index, by), k, v, log_decay, lambda)),
            slope(&|by| loss(q, &moved(k, index, by), v, log_decay, lambda)),
            slope(&|by| loss(q, k, &moved(v, index, by), log_decay, lambda)),
            slope(&|by| loss(q, k, v, log_decay, &moved(lambda, index, by))),
        ];
        for (name, (found, expected)) in found.iter().zip(&expected[1..5]).enumerate() {
            assert_close(&format!("input {name}, element {index}"), &[*found], &[expected[index]], 1e-5);
        }
    }
    for index in 0..21 * 2 {
        let found = slope(&|by| loss(q, k, v, &moved(log_decay, index, by), lambda));
        let scale = expected[5].iter().fold(0.0_f64, |max, x| max.max(x.abs()));
        assert!((found - expected[5][index]).abs() < 1e-7 * scale, "log_decay, element {index}");
    }
}

#[test]
fn lambda_of_one_is_linear_attention() {
    for dims in [[2, 1, 1, 3, 2], [1, 100, 2, 4, 5], [2, 130, 1, 3, 3]] {
        let mut case = Case::random(dims, 3);
        case.lambda = case.lambda.clone().inner().ones_like().autodiff().require_grad();
        let chunk = ChunkSize::new(16).unwrap();
        let expected = case.results(|inputs| {
            let Parts { q, k, v, log_decay, lambda } = inputs.parts();
            // λ enters with factor 0, so that the same gradients exist.
            linear(q.clone(), k.clone(), v.clone(), log_decay.clone(), chunk)
                + lambda.clone().sum_dim(3).mul_scalar(0.0)
        });
        for (index, (found, expected)) in
            case.results(|inputs| chunkwise(inputs, chunk)).iter().zip(&expected).enumerate()
        {
            if index != 4 {
                assert_close(&format!("{dims:?}, result {index}"), found, expected, 1e-11);
            }
        }
    }
}

#[test]
fn softmax_attention_equals_its_definition() {
    let [n, t, h, k, v] = [2, 9, 2, 3, 4];
    let case = Case::random([n, t, h, k, v], 5);
    let out = values(softmax(case.q.clone(), case.k.clone(), case.v.clone()).inner());
    let [q, keys, vals] = [&case.q, &case.k, &case.v].map(|tensor| values(tensor.clone().inner()));
    let at = |data: &[f64], cols: usize, n: usize, t: usize, h: usize| -> Vec<f64> {
        data[((n * 9 + t) * 2 + h) * cols..][..cols].to_vec()
    };
    let mut expected = Vec::new();
    for sequence in 0..n {
        for target in 0..t {
            for head in 0..h {
                let query = at(&q, k, sequence, target, head);
                let weights: Vec<f64> = (0..=target)
                    .map(|s| {
                        at(&keys, k, sequence, s, head).iter().zip(&query).map(|(a, b)| a * b).sum::<f64>()
                    })
                    .map(|score| (score / (k as f64).sqrt()).exp())
                    .collect();
                let total: f64 = weights.iter().sum();
                for column in 0..v {
                    let sum: f64 =
                        (0..=target).map(|s| weights[s] * at(&vals, v, sequence, s, head)[column]).sum();
                    expected.push(sum / total);
                }
            }
        }
    }
    assert_close("output", &out, &expected, 1e-12);
}

fn steps(state: &mut FenwickState, inputs: &Inputs, from: usize) -> loglinear::Result<Tensor<4>> {
    let [n, t, h, _, v] = inputs.dims();
    let Parts { q, k, v: val, log_decay, lambda } = inputs.parts();
    let at = |tensor: &Tensor<4>, i: usize| {
        let cols = tensor.dims()[3];
        tensor.clone().inner().narrow(1, i, 1).reshape([n, h, cols])
    };
    let outputs: Vec<_> = (from..t)
        .map(|i| {
            let inputs = StepInputs {
                q: at(q, i),
                k: at(k, i),
                v: at(val, i),
                log_decay: log_decay.clone().inner().narrow(1, i, 1).reshape([n, h]),
                lambda: at(lambda, i),
            };
            Ok(state.step(inputs)?.reshape([n, 1, h, v]))
        })
        .collect::<loglinear::Result<_>>()?;
    Ok(Tensor::cat(outputs, 1))
}

fn first(inputs: &Inputs, t: usize) -> Inputs {
    let Parts { q, k, v, log_decay, lambda } = inputs.parts();
    let cut = |tensor: &Tensor<4>| tensor.clone().inner().narrow(1, 0, t);
    Inputs::new(cut(q), cut(k), cut(v), log_decay.clone().inner().narrow(1, 0, t), cut(lambda)).unwrap()
}

#[test]
fn prefill_then_steps_equals_one_pass() {
    let dims = [2, 77, 2, 3, 4];
    let inputs = Case::random(dims, 11).inputs();
    let whole = values(materialised(&first(&inputs, 77)));
    let chunk = ChunkSize::new(16).unwrap();
    for length in [1, 2, 31, 32, 33, 64, 76] {
        let mut state = FenwickState::new([2, 2, 3, 4], BeyondLevels::Error, &device(), DType::F64);
        let start = state.prefill(first(&inputs, length), chunk).unwrap();
        let rest = steps(&mut state, &inputs, length).unwrap();
        assert_close(&format!("prefill {length}"), &values(Tensor::cat(vec![start, rest], 1)), &whole, 1e-11);
        assert_eq!(state.position(), 77);
        assert_eq!(state.num_states(), fenwick::buckets(76).len());
        assert_eq!(state.bytes(), state.num_states() * 2 * 2 * 3 * 4 * 8);
    }
}

#[test]
fn past_the_levels_of_lambda_a_decoder_reuses_the_last_or_fails() {
    let inputs = Case::random([1, 20, 1, 2, 2], 13).inputs();
    let Parts { q, k, v, log_decay, lambda } = inputs.parts();
    let few = lambda.clone().inner().narrow(3, 0, 3);
    let last = few.clone().narrow(3, 2, 1);
    let extended = Tensor::cat(vec![few.clone(), last.clone(), last.clone(), last], 3);
    let plain = |tensor: &Tensor<4>| tensor.clone().inner();
    let full = Inputs::new(plain(q), plain(k), plain(v), log_decay.clone().inner(), extended).unwrap();
    let expected = values(materialised(&full));
    let step = |state: &mut FenwickState, i: usize| {
        let at =
            |tensor: &Tensor<4>| tensor.clone().inner().narrow(1, i, 1).reshape([1, 1, tensor.dims()[3]]);
        state.step(StepInputs {
            q: at(q),
            k: at(k),
            v: at(v),
            log_decay: log_decay.clone().inner().narrow(1, i, 1).reshape([1, 1]),
            lambda: few.clone().narrow(1, i, 1).reshape([1, 1, 3]),
        })
    };
    let mut reuse = FenwickState::new([1, 1, 2, 2], BeyondLevels::ReuseLast, &device(), DType::F64);
    let found: Vec<f64> = (0..20).flat_map(|i| values(step(&mut reuse, i).unwrap())).collect();
    assert_close("reused λ", &found, &expected, 1e-12);

    let mut strict = FenwickState::new([1, 1, 2, 2], BeyondLevels::Error, &device(), DType::F64);
    (0..4).for_each(|i| assert!(step(&mut strict, i).is_ok()));
    let message = step(&mut strict, 4).unwrap_err().to_string();
    assert!(message.contains("lambda") && message.contains("4 levels"), "{message}");
    assert_eq!(strict.position(), 4);
}

#[test]
fn wrong_arguments_are_named() {
    let build = |change: &dyn Fn(&mut Case)| {
        let mut case = Case::random([1, 10, 2, 3, 4], 1);
        change(&mut case);
        let Case { q, k, v, log_decay, lambda, .. } = case;
        Inputs::new(q, k, v, log_decay, lambda).map(|_| ()).unwrap_err().to_string()
    };
    let nan = |tensor: &Tensor<4>| {
        let mut data: Vec<f64> = tensor.to_data().iter().collect();
        data[5] = f64::NAN;
        Tensor::from_data(TensorData::new(data, tensor.dims()), (&device(), DType::F64))
    };
    type Change<'a> = &'a dyn Fn(&mut Case);
    let expectations: [(&str, &str, Change<'_>); 7] = [
        ("k must", "[1, 9, 2, 3]", &|c| c.k = c.k.clone().narrow(1, 0, 9)),
        ("v must", "[1, 10, 1, 4]", &|c| c.v = c.v.clone().narrow(2, 0, 1)),
        ("log_decay must", "[1, 10, 1]", &|c| c.log_decay = c.log_decay.clone().narrow(2, 0, 1)),
        ("lambda must", "5 levels", &|c| c.lambda = c.lambda.clone().narrow(3, 0, 4)),
        ("log_decay must", "≤ 0", &|c| c.log_decay = c.log_decay.clone().neg()),
        ("q must", "NaN at [0, 0, 1, 2]", &|c| c.q = nan(&c.q)),
        ("lambda must", "finite", &|c| c.lambda = c.lambda.clone().div_scalar(0.0)),
    ];
    for (argument, detail, change) in expectations {
        let message = build(change);
        assert!(message.starts_with(argument) && message.contains(detail), "{message}");
    }
    assert!(ChunkSize::new(48).unwrap_err().to_string().contains("power of two"));
}
