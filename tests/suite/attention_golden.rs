//! The operator against golden tensors of flash-linear-attention's reference, in every form.

use crate::fixture::{Fixture, assert_close, device, f32_tolerance, values};
use burn::tensor::{DType, Tensor};
use loglinear::attention::*;
use loglinear::burn;

const CHUNKS: [usize; 5] = [1, 2, 16, 64, 128];
const NAMES: [&str; 5] = ["q", "k", "v", "log_decay", "lam"];

type Form = Box<dyn Fn(Inputs) -> Tensor<4>>;

fn forms() -> Vec<(String, Form)> {
    let chunkwise = |size: usize, form: fn(Inputs, ChunkSize) -> Tensor<4>, name: &str| -> (String, Form) {
        let chunk = ChunkSize::new(size).unwrap();
        (format!("{name} {size}"), Box::new(move |inputs| form(inputs, chunk)))
    };
    let mut forms: Vec<(String, Form)> =
        vec![("materialised".to_owned(), Box::new(|inputs| materialised(&inputs)))];
    if !loglinear::device::is_cpu(&device()) {
        // The kernels' chunk is their own.
        forms.push(chunkwise(64, loglinear::attention::chunkwise, "fused"));
        forms.push(chunkwise(32, chunkwise_portable, "chunkwise"));
        return forms;
    }
    forms.push(("recurrent".to_owned(), Box::new(recurrent)));
    for size in CHUNKS {
        forms.push(chunkwise(size, loglinear::attention::chunkwise, "chunkwise"));
        forms.push(chunkwise(size, chunkwise_portable, "portable chunkwise"));
    }
    forms
}

/// The operator step by step, from an empty state.
fn recurrent(inputs: Inputs) -> Tensor<4> {
    let parts = inputs.parts();
    let [n, t, h, k, v] = inputs.dims();
    let device = parts.q.device();
    let mut state = FenwickState::new([n, h, k, v], BeyondLevels::Error, &device, parts.q.dtype());
    let at = |tensor: &Tensor<4>, i: usize| {
        let cols = tensor.dims()[3];
        tensor.clone().narrow(1, i, 1).reshape([n, h, cols])
    };
    let outputs = (0..t)
        .map(|i| {
            let inputs = StepInputs {
                q: at(parts.q, i),
                k: at(parts.k, i),
                v: at(parts.v, i),
                log_decay: parts.log_decay.clone().narrow(1, i, 1).reshape([n, h]),
                lambda: at(parts.lambda, i),
            };
            state.step(inputs).unwrap().reshape([n, 1, h, v])
        })
        .collect();
    Tensor::cat(outputs, 1)
}

/// Output and the five gradients of sum(out · grad_out).
fn run(fixture: &Fixture, case: &str, form: &Form, dtype: DType) -> Vec<Vec<f64>> {
    let device = device().autodiff();
    let leaf = |name: &str| fixture.tensor::<4>(&format!("{case}.{name}"), &device, dtype).require_grad();
    let [q, k, v, lambda] = ["q", "k", "v", "lam"].map(leaf);
    let log_decay = fixture.tensor::<3>(&format!("{case}.log_decay"), &device, dtype).require_grad();
    let inputs = Inputs::new(q.clone(), k.clone(), v.clone(), log_decay.clone(), lambda.clone()).unwrap();
    let out = form(inputs);
    let seed = fixture.tensor::<4>(&format!("{case}.grad_out"), &device, dtype);
    let mut grads = (out.clone() * seed).sum().backward();
    let mut results = vec![values(out.inner())];
    for tensor in [&q, &k, &v] {
        results.push(values(tensor.grad_remove(&mut grads).unwrap()));
    }
    // At T = 1 nothing depends on the decay, so a form may leave it out of its graph.
    let zeros = || log_decay.clone().inner().zeros_like();
    results.push(values(log_decay.grad_remove(&mut grads).unwrap_or_else(zeros)));
    results.push(values(lambda.grad_remove(&mut grads).unwrap()));
    results
}

fn check(file: &str, cases: &[&str], dtype: DType, tolerance: f64) {
    let fixture = Fixture::open(file);
    let on_cpu = loglinear::device::is_cpu(&device());
    let tolerance = if dtype == DType::F32 { f32_tolerance(tolerance, 5e-3) } else { tolerance };
    for (i, case) in cases.iter().enumerate() {
        for (name, form) in forms() {
            // Every shape costs a GPU seconds of compilation in tensor operations: two of them, and f64 on one.
            // The fused kernels are for all shapes, and for f32; their products don't round to TF32.
            let fused = name.starts_with("fused");
            let chosen = match dtype {
                DType::F32 => fused || (2..4).contains(&i),
                _ => !fused && i == 2,
            };
            if !on_cpu && !chosen && !file.contains("extreme") {
                continue;
            }
            let tolerance = if fused && dtype == DType::F32 { 1e-4 } else { tolerance };
            let results = run(&fixture, case, &form, dtype);
            let expected = ["out".to_owned()].into_iter().chain(NAMES.map(|name| format!("grad_{name}")));
            for (found, key) in results.iter().zip(expected) {
                let what = format!("{case} {name} {dtype:?} {key}");
                assert_close(&what, found, fixture.values(&format!("{case}.{key}")), tolerance);
            }
        }
    }
}

#[test]
fn every_form_equals_the_golden_tensors_in_f64() {
    check("op_dev.safetensors", &["t1", "t5", "t64", "t100", "t128"], DType::F64, 1e-10);
}

#[test]
fn every_form_equals_the_golden_tensors_in_f32() {
    check("op_dev.safetensors", &["t1", "t5", "t64", "t100", "t128"], DType::F32, 2e-5);
}

#[test]
fn extreme_decay_and_lambda_equal_the_golden_tensors_in_f64() {
    check("op_extreme.safetensors", &["strong", "nodecay", "lamzero", "lambig"], DType::F64, 1e-10);
}

#[test]
fn extreme_decay_and_lambda_stay_finite_and_right_in_f32() {
    check("op_extreme.safetensors", &["strong", "nodecay", "lamzero", "lambig"], DType::F32, 2e-5);
}
