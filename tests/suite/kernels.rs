//! The device's own kernel of the operator at awkward shapes, in the precisions that it has, against the definition
//! in f64 on the CPU. The one form that these tests call is what training uses: the fused kernels on a GPU.

use crate::fixture::{device, error, f32_tolerance, values};
use burn::tensor::{DType, Device, Tensor, TensorData};
use loglinear::attention::*;
use loglinear::cohort::Products;
use loglinear::random::Generator;
use loglinear::{burn, fenwick};

/// N, T, H, K, V: no T is a multiple of a chunk but one, no K and V of a tile but some.
const SHAPES: [[usize; 5]; 7] = [
    [1, 1, 1, 4, 3],
    [2, 63, 1, 16, 16],
    [1, 130, 2, 64, 64],
    [2, 200, 1, 5, 7],
    [1, 700, 2, 128, 72],
    [3, 256, 1, 64, 64],
    // More chunks than a segment of the state gradients has, and an incomplete last block.
    [1, 2900, 1, 64, 64],
];

struct Case {
    values: Vec<(Vec<f64>, Vec<usize>)>,
}

impl Case {
    fn random([n, t, h, k, v]: [usize; 5], decay: f64, dtype: DType) -> Self {
        let generator = &mut Generator::new((t * k) as u64, "kernels");
        let mut draw = |shape: &[usize], f: &dyn Fn(f64) -> f64| {
            // Numbers that the type holds, so that it sees what the definition sees.
            let kept = if dtype == DType::BF16 { 0xffff_0000 } else { u32::MAX };
            let round = |x: f64| f64::from(f32::from_bits((x as f32).to_bits() & kept));
            let count: usize = shape.iter().product();
            ((0..count).map(|_| round(f(generator.normal()))).collect(), shape.to_vec())
        };
        let levels = fenwick::num_levels(t);
        let values = vec![
            draw(&[n, t, h, k], &|x| x * 0.5),
            draw(&[n, t, h, k], &|x| x * 0.5),
            draw(&[n, t, h, v], &|x| x),
            draw(&[n, t, h], &|x| -decay * x.abs()),
            draw(&[n, t, h, levels], &|x| x.exp()),
            draw(&[n, t, h, v], &|x| x),
        ];
        Self { values }
    }

    fn tensor<const D: usize>(&self, index: usize, device: &Device, dtype: DType) -> Tensor<D> {
        let (values, shape) = &self.values[index];
        Tensor::from_data(TensorData::new(values.clone(), shape.clone()), (&device.clone().autodiff(), dtype))
    }

    /// Output and gradients of q, k, v, log_decay, λ.
    fn run(&self, device: &Device, dtype: DType, form: impl Fn(Inputs) -> Tensor<4>) -> Vec<Vec<f64>> {
        let [q, k, v, lambda] = [0, 1, 2, 4].map(|i| self.tensor::<4>(i, device, dtype).require_grad());
        let log_decay = self.tensor::<3>(3, device, dtype).require_grad();
        let inputs =
            Inputs::from_trusted_values(q.clone(), k.clone(), v.clone(), log_decay.clone(), lambda.clone());
        let out = form(inputs.unwrap());
        let mut grads = (out.clone() * self.tensor(5, device, dtype)).sum().backward();
        let mut results = vec![values(out.inner())];
        for tensor in [&q, &k, &v, &lambda] {
            results.push(values(tensor.grad_remove(&mut grads).unwrap()));
        }
        let zeros = || log_decay.clone().inner().zeros_like();
        results.push(values(log_decay.grad_remove(&mut grads).unwrap_or_else(zeros)));
        results
    }
}

fn check(dtype: DType, tolerance: f64) {
    check_form(dtype, tolerance, |inputs| chunkwise(inputs, ChunkSize::default()));
}

fn check_form(dtype: DType, tolerance: f64, form: fn(Inputs) -> Tensor<4>) {
    let mut failures = Vec::new();
    for shape in SHAPES {
        // Mild decay; decay that ends within a chunk.
        for decay in [0.02, 3.0] {
            let case = Case::random(shape, decay, dtype);
            let expected = case.run(&Device::flex(), DType::F64, |inputs| materialised(&inputs));
            let found = case.run(&device(), dtype, form);
            for (name, (found, expected)) in
                ["y", "q", "k", "v", "lambda", "log_decay"].iter().zip(found.iter().zip(&expected))
            {
                let error = error(found, expected);
                println!("{shape:?} decay {decay} {dtype:?} {name}: {error:.1e}");
                if error.is_nan() || error > tolerance {
                    failures.push(format!("{shape:?} decay {decay} {name}: {error:e}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "past {tolerance:e}: {failures:#?}");
}

#[test]
fn the_operator_in_f32_equals_its_definition_at_awkward_shapes() {
    check(DType::F32, f32_tolerance(1e-5, 1e-5));
}

#[test]
fn the_operator_with_high_products_stays_near_its_definition_at_awkward_shapes() {
    check_form(DType::F32, f32_tolerance(1e-5, 1e-4), |inputs| {
        chunkwise(inputs.with_products(Products::High), ChunkSize::default())
    });
}

#[test]
fn the_operator_in_bf16_equals_its_definition_at_awkward_shapes() {
    // The CPU's kernels are for f32 and f64: bf16 takes tensor operations there, which round at every one.
    check(DType::BF16, f32_tolerance(2e-1, 2e-2));
}
