//! Layer normalisation on the CPU, alone or fused with the residual sum before it.

use super::linear::{BLOCK, dims, map_blocks};
use super::{Contiguous, HostOp, HostTensor, Scalar, dot, sum, tensor, vectorised, with_scalar};
use rayon::prelude::*;

/// LayerNorm(x) over the last axis, with x [R, M, D], weight and bias [R, 1, D].
#[derive(Clone, Debug)]
pub(crate) struct LayerNorm {
    pub(crate) epsilon: f64,
}

/// LayerNorm(x + residual), inputs x, residual, weight, bias.
#[derive(Clone, Debug)]
pub(crate) struct AddLayerNorm {
    pub(crate) epsilon: f64,
}

impl HostOp<3> for LayerNorm {
    fn forward(&self, [x, weight, bias]: &[HostTensor; 3]) -> HostTensor {
        with_scalar!(x, forward(self.epsilon, x, None, weight, bias))
    }

    fn backward(
        &self,
        [x, weight, _]: &[HostTensor; 3],
        grad: HostTensor,
        _: [bool; 3],
    ) -> [Option<HostTensor>; 3] {
        let [x, weight, bias] = with_scalar!(x, backward(self.epsilon, x, None, weight, &grad));
        [Some(x), Some(weight), Some(bias)]
    }
}

impl HostOp<4> for AddLayerNorm {
    fn forward(&self, [x, residual, weight, bias]: &[HostTensor; 4]) -> HostTensor {
        with_scalar!(x, forward(self.epsilon, x, Some(residual), weight, bias))
    }

    fn backward(
        &self,
        [x, residual, weight, _]: &[HostTensor; 4],
        grad: HostTensor,
        _: [bool; 4],
    ) -> [Option<HostTensor>; 4] {
        let [x, weight, bias] = with_scalar!(x, backward(self.epsilon, x, Some(residual), weight, &grad));
        [Some(x.clone()), Some(x), Some(weight), Some(bias)]
    }
}

/// Writes (x + residual − mean) / std of one row into `out` and returns 1 / std.
#[inline(always)]
fn normalise<S: Scalar>(epsilon: f64, x: &[S], residual: Option<&[S]>, out: &mut [S]) -> S {
    out.copy_from_slice(x);
    if let Some(residual) = residual {
        for (out, &value) in out.iter_mut().zip(residual) {
            *out += value;
        }
    }
    let scale = S::of(1.0 / x.len() as f64);
    let mean = sum(out) * scale;
    for out in out.iter_mut() {
        *out = *out - mean;
    }
    let variance = dot(out, out) * scale;
    let inverse = S::ONE / (variance + S::of(epsilon)).sqrt_fast();
    for out in out.iter_mut() {
        *out *= inverse;
    }
    inverse
}

fn forward<S: Scalar>(
    epsilon: f64,
    x: &HostTensor,
    residual: Option<&HostTensor>,
    weight: &HostTensor,
    bias: &HostTensor,
) -> HostTensor {
    let [runs, rows, dim] = dims(x);
    let (x, residual) = (Contiguous::new(x), residual.map(Contiguous::new));
    let (weight, bias) = (Contiguous::new(weight), Contiguous::new(bias));
    let mut out = vec![S::ZERO; runs * rows * dim];
    out.par_chunks_mut((rows * dim).max(1)).enumerate().for_each(|(r, out)| {
        let weight = &weight.slice::<S>()[r * dim..][..dim];
        let bias = &bias.slice::<S>()[r * dim..][..dim];
        out.par_chunks_mut(BLOCK * dim).enumerate().for_each(|(i, out)| {
            let first = (r * rows + i * BLOCK) * dim;
            let x = &x.slice::<S>()[first..][..out.len()];
            let residual = residual.as_ref().map(|tensor| &tensor.slice::<S>()[first..][..out.len()]);
            vectorised(|| {
                for (row, out) in out.chunks_mut(dim).enumerate() {
                    let row = row * dim..(row + 1) * dim;
                    normalise(epsilon, &x[row.clone()], residual.map(|tensor| &tensor[row]), out);
                    for ((out, &weight), &bias) in out.iter_mut().zip(weight).zip(bias) {
                        *out = *out * weight + bias;
                    }
                }
            });
        });
    });
    tensor(out, [runs, rows, dim])
}

/// Gradients of the normalised input (also the residual's), the weight and the bias.
fn backward<S: Scalar>(
    epsilon: f64,
    x: &HostTensor,
    residual: Option<&HostTensor>,
    weight: &HostTensor,
    grad: &HostTensor,
) -> [HostTensor; 3] {
    let [runs, rows, dim] = dims(x);
    let (x, residual) = (Contiguous::new(x), residual.map(Contiguous::new));
    let (weight, grad) = (Contiguous::new(weight), Contiguous::new(grad));
    let (x, grad) = (x.slice::<S>(), grad.slice::<S>());
    let mut out = vec![S::ZERO; runs * rows * dim];
    let sums = map_blocks(runs, rows, dim, &mut out, 2 * dim, |first, out, partial| {
        let weight = &weight.slice::<S>()[first / rows * dim..][..dim];
        let residual = residual.as_ref().map(|tensor| &tensor.slice::<S>()[first * dim..]);
        let (x, grad) = (&x[first * dim..], &grad[first * dim..]);
        let (weight_sum, bias_sum) = partial.split_at_mut(dim);
        let (mut hat, mut scaled) = (vec![S::ZERO; dim], vec![S::ZERO; dim]);
        let scale = S::of(1.0 / dim as f64);
        vectorised(|| {
            for (row, out) in out.chunks_mut(dim).enumerate() {
                let at = row * dim..(row + 1) * dim;
                let residual = residual.map(|tensor| &tensor[at.clone()]);
                let inverse = normalise(epsilon, &x[at.clone()], residual, &mut hat);
                let sums = weight_sum.iter_mut().zip(bias_sum.iter_mut());
                let row = grad[at].iter().zip(weight).zip(&hat).zip(&mut scaled);
                for ((weight_sum, bias_sum), (((&grad, &weight), &hat), scaled)) in sums.zip(row) {
                    *scaled = grad * weight;
                    *weight_sum += grad * hat;
                    *bias_sum += grad;
                }
                let (mean, slope) = (sum(&scaled) * scale, dot(&scaled, &hat) * scale);
                for ((out, &scaled), &hat) in out.iter_mut().zip(&scaled).zip(&hat) {
                    *out = inverse * (scaled - mean - hat * slope);
                }
            }
        });
    });
    let part = |offset: usize| -> Vec<S> {
        sums.chunks((2 * dim).max(1)).flat_map(|run| run[offset..][..dim].iter().copied()).collect()
    };
    [tensor(out, [runs, rows, dim]), tensor(part(0), [runs, 1, dim]), tensor(part(dim), [runs, 1, dim])]
}
