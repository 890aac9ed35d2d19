//! Cross-entropy over scored positions on the CPU.

use super::linear::{dims, sum_over_blocks};
use super::softmax::exponentials;
use super::{Contiguous, HostOp, HostTensor, Scalar, tensor, vectorised, with_scalar};
use rayon::prelude::*;
use std::sync::Arc;

/// Mean cross-entropy of every run: logits [R, M, V] → loss [R]. Positions without a target do not
/// count; a run without any target has loss 0.
#[derive(Clone, Debug)]
pub(crate) struct CrossEntropy {
    /// Target token of every row [R, M], if scored.
    pub(crate) targets: Arc<[Option<usize>]>,
}

impl HostOp<1> for CrossEntropy {
    fn forward(&self, [logits]: &[HostTensor; 1]) -> HostTensor {
        with_scalar!(logits, forward(&self.targets, logits))
    }

    fn backward(
        &self,
        [logits]: &[HostTensor; 1],
        grad: HostTensor,
        _: [bool; 1],
    ) -> [Option<HostTensor>; 1] {
        [Some(with_scalar!(logits, backward(&self.targets, logits, &grad)))]
    }
}

fn forward<S: Scalar>(targets: &[Option<usize>], logits: &HostTensor) -> HostTensor {
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
    let losses = totals.iter().zip(counts(targets, rows)).map(|(total, n)| S::of(total / n));
    tensor(losses.collect(), [runs])
}

fn backward<S: Scalar>(targets: &[Option<usize>], logits: &HostTensor, grad: &HostTensor) -> HostTensor {
    let [runs, rows, vocab] = dims(logits);
    let (logits, grad) = (Contiguous::new(logits), Contiguous::new(grad));
    let logits = logits.slice::<S>();
    let weights: Vec<S> =
        grad.slice::<S>().iter().zip(counts(targets, rows)).map(|(grad, n)| S::of(grad.wide() / n)).collect();
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

/// Number of scored rows of every run, at least 1.
fn counts(targets: &[Option<usize>], rows: usize) -> impl Iterator<Item = f64> + '_ {
    targets.chunks(rows.max(1)).map(|run| run.iter().flatten().count().max(1) as f64)
}
