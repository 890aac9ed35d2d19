//! Softmax over the last axis on the CPU.

use super::{Contiguous, HostOp, HostTensor, Scalar, dot, sum, tensor, vectorised, with_scalar};
use rayon::prelude::*;

/// Rows that one task handles.
const BLOCK: usize = 512;

/// exp(x − max) / Σ exp(x − max) over the last axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Softmax;

impl HostOp<1> for Softmax {
    fn forward(&self, [x]: &[HostTensor; 1]) -> HostTensor {
        with_scalar!(x, forward(x))
    }

    fn backward(&self, [x]: &[HostTensor; 1], grad: HostTensor, _: [bool; 1]) -> [Option<HostTensor>; 1] {
        [Some(with_scalar!(x, backward(x, &grad)))]
    }
}

/// Writes exp(x − max) of a row and returns its sum and maximum.
#[inline(always)]
pub(super) fn exponentials<S: Scalar>(x: &[S], out: &mut [S]) -> (S, S) {
    let max = x.iter().fold(x[0], |max, &x| max.max_of(x));
    for (out, &x) in out.iter_mut().zip(x) {
        *out = (x - max).exp_fast();
    }
    (sum(out), max)
}

/// Writes the softmax of a row.
#[inline(always)]
fn normalise<S: Scalar>(x: &[S], out: &mut [S]) {
    let scale = S::ONE / exponentials(x, out).0;
    for out in out {
        *out *= scale;
    }
}

fn columns(x: &HostTensor) -> usize {
    x.layout().shape().iter().next_back().copied().unwrap_or(1).max(1)
}

fn forward<S: Scalar>(x: &HostTensor) -> HostTensor {
    let (shape, cols) = (x.layout().shape().clone(), columns(x));
    let x = Contiguous::new(x);
    let x = x.slice::<S>();
    let mut out = vec![S::ZERO; x.len()];
    out.par_chunks_mut(BLOCK * cols).zip(x.par_chunks(BLOCK * cols)).for_each(|(out, x)| {
        let rows = out.chunks_mut(cols).zip(x.chunks(cols));
        vectorised(|| rows.for_each(|(out, x)| normalise(x, out)));
    });
    tensor(out, shape)
}

fn backward<S: Scalar>(x: &HostTensor, grad: &HostTensor) -> HostTensor {
    let (shape, cols) = (x.layout().shape().clone(), columns(x));
    let (x, grad) = (Contiguous::new(x), Contiguous::new(grad));
    let (x, grad) = (x.slice::<S>(), grad.slice::<S>());
    let mut out = vec![S::ZERO; x.len()];
    let blocks = out.par_chunks_mut(BLOCK * cols).zip(x.par_chunks(BLOCK * cols));
    blocks.zip(grad.par_chunks(BLOCK * cols)).for_each(|((out, x), grad)| {
        let rows = out.chunks_mut(cols).zip(x.chunks(cols)).zip(grad.chunks(cols));
        vectorised(|| {
            rows.for_each(|((out, x), grad)| {
                normalise(x, out);
                let mean = dot(out, grad);
                for (out, &grad) in out.iter_mut().zip(grad) {
                    *out *= grad - mean;
                }
            });
        });
    });
    tensor(out, shape)
}
