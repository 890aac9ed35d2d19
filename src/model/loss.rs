//! Cross-entropy over scored positions, per run.

use crate::cohort::integers;
#[cfg(feature = "cuda")]
use crate::gpu::{self, Operand as DeviceOperand};
use crate::host::{self, Operand};
use crate::{Error, Result};
use burn::tensor::{Int, Tensor, TensorData, activation};
use std::sync::Arc;

/// Target of a position that isn't scored (PyTorch's `ignore_index`).
pub const IGNORED: i64 = -100;

/// Mean cross-entropy of every run, as a tensor \[runs\], over its scored positions.
///
/// Shapes: logits [runs, batch × time, vocab], targets [runs, batch, time]; the output at position i
/// is scored against target i, unless that is [`IGNORED`]. A run without scored positions has
/// loss 0.
///
/// # Errors
///
/// On the CPU, if a target is neither [`IGNORED`] nor below vocab; a GPU doesn't check.
pub fn cross_entropy(logits: Tensor<3>, targets: Tensor<3, Int>) -> Result<Tensor<1>> {
    let [runs, tokens, vocab] = logits.dims();
    if host::applies(&logits) {
        let targets = checked(targets, vocab)?;
        let counts = targets.chunks(tokens.max(1)).map(|run| run.iter().flatten().count().max(1));
        let divisors = counts.collect();
        return Ok(host::apply(host::loss::CrossEntropy { targets, divisors }, [Operand::new(logits)]));
    }
    #[cfg(feature = "cuda")]
    if gpu::single(&logits) && gpu::loss::fits(vocab) {
        return Ok(gpu::apply(gpu::loss::CrossEntropy::mean(targets), [DeviceOperand::new(logits)]));
    }
    let (sums, scored) = sums(logits, targets);
    Ok(sums.div(scored.sum_dim(1).clamp_min(1.0)).reshape([runs]))
}

/// Sum of the cross-entropy of every run over its scored positions, divided by a number of its own.
pub(super) fn cross_entropy_over(
    logits: Tensor<3>,
    targets: Tensor<3, Int>,
    divisors: &[usize],
) -> Result<Tensor<1>> {
    let [runs, _, vocab] = logits.dims();
    let divisors: Vec<usize> = divisors.iter().map(|&divisor| divisor.max(1)).collect();
    if host::applies(&logits) {
        let targets = checked(targets, vocab)?;
        return Ok(host::apply(host::loss::CrossEntropy { targets, divisors }, [Operand::new(logits)]));
    }
    #[cfg(feature = "cuda")]
    if gpu::single(&logits) && gpu::loss::fits(vocab) {
        let op = gpu::loss::CrossEntropy::over(targets, &divisors);
        return Ok(gpu::apply(op, [DeviceOperand::new(logits)]));
    }
    let factors: Vec<f64> = divisors.iter().map(|&divisor| 1.0 / divisor as f64).collect();
    let factors = TensorData::new(factors, [runs]);
    let factors = Tensor::<1>::from_data(factors, (&logits.device(), logits.dtype()));
    Ok(sums(logits, targets).0.reshape([runs]) * factors)
}

/// Sums [runs, 1, 1] as tensor operations, and which positions count [runs, tokens, 1].
fn sums(logits: Tensor<3>, targets: Tensor<3, Int>) -> (Tensor<3>, Tensor<3>) {
    let [runs, tokens, _] = logits.dims();
    let targets = targets.reshape([runs, tokens, 1]);
    let scored = targets.clone().not_equal_scalar(IGNORED);
    let safe = targets.mask_fill(scored.clone().bool_not(), 0);
    let log_likelihood = activation::log_softmax(logits, 2).gather(2, safe);
    let dtype = log_likelihood.dtype();
    let weights = scored.float().cast(dtype);
    ((log_likelihood * weights.clone()).sum_dim(1).neg(), weights)
}

/// Loss and hit of every row on the CPU.
pub(super) fn score_on_host(logits: Tensor<3>, targets: Tensor<3, Int>) -> Result<(Vec<f32>, Vec<bool>)> {
    let targets = checked(targets, logits.dims()[2])?;
    Ok(host::loss::scores(&targets, logits))
}

fn checked(targets: Tensor<3, Int>, vocab: usize) -> Result<Arc<[Option<usize>]>> {
    let target = |target: i64| match usize::try_from(target) {
        Ok(target) if target < vocab => Ok(Some(target)),
        _ if target == IGNORED => Ok(None),
        _ => Err(Error::value("targets", format!("in 0..{vocab} or {IGNORED}"), target)),
    };
    integers(targets).into_iter().map(target).collect()
}
