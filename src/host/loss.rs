//! Cross-entropy over scored positions on the CPU.

use super::linear::{dims, sum_over_blocks};
use super::softmax::exponentials;
use super::{Contiguous, HostOp, HostTensor, Operand, Scalar, tensor, vectorised, with_scalar};
use burn::tensor::{DType, Tensor};
use rayon::prelude::*;
use std::sync::Arc;

/// Cross-entropy of every run: logits [R, M, V] → loss [R], the sum over rows with a target divided by the
/// run's divisor.
#[derive(Clone, Debug)]
pub(crate) struct CrossEntropy {
    /// Target token of every row [R, M], if scored.
    pub(crate) targets: Arc<[Option<usize>]>,
    /// By what the sum of every run is divided \[R\], at least 1: its number of scored rows, for a mean.
    pub(crate) divisors: Vec<usize>,
}

impl HostOp<1> for CrossEntropy {
    fn forward(&self, [logits]: &[HostTensor; 1]) -> HostTensor {
        with_scalar!(logits, forward(self, logits))
    }

    fn backward(
        &self,
        [logits]: &[HostTensor; 1],
        grad: HostTensor,
        _: [bool; 1],
    ) -> [Option<HostTensor>; 1] {
        [Some(with_scalar!(logits, backward(self, logits, &grad)))]
    }
}

fn forward<S: Scalar>(op: &CrossEntropy, logits: &HostTensor) -> HostTensor {
    let targets = &*op.targets;
    let [runs, rows, vocab] = dims(logits);
    let logits = Contiguous::new(logits);
    let logits = logits.slice::<S>();
    let totals = sum_over_blocks(runs, rows, 1, |first, block, total: &mut [f64]| {
        let mut scratch = vec![S::ZERO; vocab];
        vectorised(|| {
            for row in first..first + block {
                if let Some(target) = targets[row] {
                    let logits = &logits[row * vocab..][..vocab];
                    let (sum, max) = exponentials(logits, &mut scratch);
                    total[0] += sum.wide().ln() - (logits[target] - max).wide();
                }
            }
        });
    });
    let losses = totals.iter().zip(&op.divisors).map(|(total, &n)| S::of(total / n as f64));
    tensor(losses.collect(), [runs])
}

fn backward<S: Scalar>(op: &CrossEntropy, logits: &HostTensor, grad: &HostTensor) -> HostTensor {
    let targets = &*op.targets;
    let [runs, rows, vocab] = dims(logits);
    let (logits, grad) = (Contiguous::new(logits), Contiguous::new(grad));
    let logits = logits.slice::<S>();
    let weights: Vec<S> =
        grad.slice::<S>().iter().zip(&op.divisors).map(|(grad, &n)| S::of(grad.wide() / n as f64)).collect();
    let mut out = vec![S::ZERO; runs * rows * vocab];
    out.par_chunks_mut(vocab.max(1)).zip(targets.par_iter()).enumerate().with_min_len(64).for_each(
        |(row, (out, target))| {
            if let Some(target) = *target {
                vectorised(|| {
                    let (sum, _) = exponentials(&logits[row * vocab..][..vocab], out);
                    let weight = weights[row / rows];
                    let scale = weight / sum;
                    for out in out.iter_mut() {
                        *out *= scale;
                    }
                    out[target] += -weight;
                });
            }
        },
    );
    tensor(out, [runs, rows, vocab])
}

/// Cross-entropy of every row of logits [R, M, V], and whether its target has the largest one; 0 and false
/// where there is no target.
pub(crate) fn scores(targets: &[Option<usize>], logits: Tensor<3>) -> (Vec<f32>, Vec<bool>) {
    match Operand::new(logits).primitive() {
        logits if logits.dtype() == DType::F64 => score_rows::<f64>(targets, &logits),
        logits => score_rows::<f32>(targets, &logits),
    }
}

fn score_rows<S: Scalar>(targets: &[Option<usize>], logits: &HostTensor) -> (Vec<f32>, Vec<bool>) {
    let vocab = dims(logits)[2];
    let logits = Contiguous::new(logits);
    let rows = logits.slice::<S>().par_chunks(vocab).zip(targets);
    let score = |scratch: &mut Vec<S>, (logits, target): (&[S], &Option<usize>)| match *target {
        None => (0.0, false),
        Some(target) => vectorised(|| {
            let (sum, max) = exponentials(logits, scratch);
            ((sum.wide().ln() - (logits[target] - max).wide()) as f32, logits[target] >= max)
        }),
    };
    rows.with_min_len(64).map_init(|| vec![S::ZERO; vocab], score).unzip()
}
