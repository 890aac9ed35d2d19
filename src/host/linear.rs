//! Batched linear maps on the CPU: y = x Wᵀ (+ b) for every run.

use super::{
    Contiguous, HostOp, HostTensor, MatMut, MatRef, Scalar, product, tensor, vectorised, with_scalar,
};
use rayon::prelude::*;

/// Rows that one task multiplies. Fixed, so that sums over rows have one order on every machine.
pub(super) const BLOCK: usize = 512;

/// y = x Wᵀ with x [R, M, I] and W [R, O, I]; y [R, M, O].
#[derive(Clone, Debug)]
pub(crate) struct Linear;

/// y = x Wᵀ + b, with b [R, 1, O] besides.
#[derive(Clone, Debug)]
pub(crate) struct Affine;

impl HostOp<2> for Linear {
    fn forward(&self, [x, w]: &[HostTensor; 2]) -> HostTensor {
        with_scalar!(x, forward(x, w, None))
    }

    fn backward(
        &self,
        [x, w]: &[HostTensor; 2],
        grad: HostTensor,
        [need_x, need_w]: [bool; 2],
    ) -> [Option<HostTensor>; 2] {
        [need_x.then(|| with_scalar!(x, grad_x(w, &grad))), need_w.then(|| with_scalar!(x, grad_w(x, &grad)))]
    }
}

impl HostOp<3> for Affine {
    fn forward(&self, [x, w, b]: &[HostTensor; 3]) -> HostTensor {
        with_scalar!(x, forward(x, w, Some(b)))
    }

    fn backward(
        &self,
        [x, w, _]: &[HostTensor; 3],
        grad: HostTensor,
        [need_x, need_w, need_b]: [bool; 3],
    ) -> [Option<HostTensor>; 3] {
        [
            need_x.then(|| with_scalar!(x, grad_x(w, &grad))),
            need_w.then(|| with_scalar!(x, grad_w(x, &grad))),
            need_b.then(|| with_scalar!(x, grad_b(&grad))),
        ]
    }
}

pub(super) fn dims(tensor: &HostTensor) -> [usize; 3] {
    tensor.layout().shape().dims()
}

fn forward<S: Scalar>(x: &HostTensor, w: &HostTensor, b: Option<&HostTensor>) -> HostTensor {
    let ([runs, rows, inputs], [_, outputs, _]) = (dims(x), dims(w));
    let (x, w, b) = (Contiguous::new(x), Contiguous::new(w), b.map(Contiguous::new));
    let (x, w) = (x.slice::<S>(), w.slice::<S>());
    let mut out = vec![S::ZERO; runs * rows * outputs];
    out.par_chunks_mut((rows * outputs).max(1)).enumerate().for_each(|(r, out)| {
        let w = MatRef::new(&w[r * outputs * inputs..], outputs, inputs, inputs);
        let bias = b.as_ref().map(|b| &b.slice::<S>()[r * outputs..][..outputs]);
        out.par_chunks_mut(BLOCK * outputs).enumerate().for_each(|(i, out)| {
            let block = out.len() / outputs;
            if let Some(bias) = bias {
                out.chunks_mut(outputs).for_each(|row| row.copy_from_slice(bias));
            }
            let x = MatRef::new(&x[(r * rows + i * BLOCK) * inputs..], block, inputs, inputs);
            product(MatMut::new(out, block, outputs, outputs), bias.is_some(), x, w.t());
        });
    });
    tensor(out, [runs, rows, outputs])
}

fn grad_x<S: Scalar>(w: &HostTensor, grad: &HostTensor) -> HostTensor {
    let ([runs, rows, outputs], [_, _, inputs]) = (dims(grad), dims(w));
    let (w, grad) = (Contiguous::new(w), Contiguous::new(grad));
    let (w, grad) = (w.slice::<S>(), grad.slice::<S>());
    let mut out = vec![S::ZERO; runs * rows * inputs];
    out.par_chunks_mut((rows * inputs).max(1)).enumerate().for_each(|(r, out)| {
        let w = MatRef::new(&w[r * outputs * inputs..], outputs, inputs, inputs);
        out.par_chunks_mut(BLOCK * inputs).enumerate().for_each(|(i, out)| {
            let block = out.len() / inputs;
            let grad = MatRef::new(&grad[(r * rows + i * BLOCK) * outputs..], block, outputs, outputs);
            product(MatMut::new(out, block, inputs, inputs), false, grad, w);
        });
    });
    tensor(out, [runs, rows, inputs])
}

fn grad_w<S: Scalar>(x: &HostTensor, grad: &HostTensor) -> HostTensor {
    let ([runs, rows, outputs], [_, _, inputs]) = (dims(grad), dims(x));
    let (x, grad) = (Contiguous::new(x), Contiguous::new(grad));
    let (x, grad) = (x.slice::<S>(), grad.slice::<S>());
    let out = sum_over_blocks(runs, rows, outputs * inputs, |first, block, out| {
        let grad = MatRef::new(&grad[first * outputs..], block, outputs, outputs);
        let x = MatRef::new(&x[first * inputs..], block, inputs, inputs);
        product(MatMut::new(out, outputs, inputs, inputs), false, grad.t(), x);
    });
    tensor(out, [runs, outputs, inputs])
}

fn grad_b<S: Scalar>(grad: &HostTensor) -> HostTensor {
    let [runs, rows, outputs] = dims(grad);
    let grad = Contiguous::new(grad);
    let grad = grad.slice::<S>();
    let out = sum_over_blocks(runs, rows, outputs, |first, block, out: &mut [S]| {
        vectorised(|| {
            for row in grad[first * outputs..][..block * outputs].chunks(outputs) {
                for (out, &value) in out.iter_mut().zip(row) {
                    *out += value;
                }
            }
        });
    });
    tensor(out, [runs, 1, outputs])
}

/// For every run, the sum over blocks of rows of what `body(first_row, rows, partial)` leaves in a
/// zeroed buffer of `size` values. Blocks run in parallel and are added in order.
pub(super) fn sum_over_blocks<S: Scalar>(
    runs: usize,
    rows: usize,
    size: usize,
    body: impl Fn(usize, usize, &mut [S]) + Sync,
) -> Vec<S> {
    // The rows of an output without columns: what a block is told is only how many it has.
    let mut nothing = vec![(); runs * rows];
    map_blocks(runs, rows, 1, &mut nothing, size, |first, block, partial| body(first, block.len(), partial))
}

/// As [`sum_over_blocks`], for a body that also writes its block's rows of `out`, of `cols` values.
pub(super) fn map_blocks<S: Scalar, O: Send>(
    runs: usize,
    rows: usize,
    cols: usize,
    out: &mut [O],
    size: usize,
    body: impl Fn(usize, &mut [O], &mut [S]) + Sync,
) -> Vec<S> {
    let blocks = rows.div_ceil(BLOCK);
    let mut partials = vec![S::ZERO; runs * blocks * size];
    let by_run =
        partials.par_chunks_mut((blocks * size).max(1)).zip(out.par_chunks_mut((rows * cols).max(1)));
    by_run.enumerate().for_each(|(run, (partials, out))| {
        let by_block = partials.par_chunks_mut(size.max(1)).zip(out.par_chunks_mut((BLOCK * cols).max(1)));
        by_block
            .enumerate()
            .for_each(|(block, (partial, out))| body(run * rows + block * BLOCK, out, partial));
    });
    let mut sums = Vec::with_capacity(runs * size);
    for run in partials.chunks_mut((blocks * size).max(1)) {
        let (first, others) = run.split_at_mut(size);
        vectorised(|| {
            for other in others.chunks(size) {
                for (total, &value) in first.iter_mut().zip(other) {
                    *total += value;
                }
            }
        });
        sums.extend_from_slice(first);
    }
    sums
}
