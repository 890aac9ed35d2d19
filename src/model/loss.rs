//! Cross-entropy over scored positions, per run.

use crate::cohort::integers;
use crate::host::{self, Operand};
use crate::{Error, Result};
use burn::tensor::{Int, Tensor, activation};

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
        let target = |target: i64| match usize::try_from(target) {
            Ok(target) if target < vocab => Ok(Some(target)),
            _ if target == IGNORED => Ok(None),
            _ => Err(Error::value("targets", format!("in 0..{vocab} or {IGNORED}"), target)),
        };
        let targets = integers(targets).into_iter().map(target).collect::<Result<_>>()?;
        return Ok(host::apply(host::loss::CrossEntropy { targets }, [Operand::new(logits)]));
    }
    let targets = targets.reshape([runs, tokens, 1]);
    let scored = targets.clone().not_equal_scalar(IGNORED);
    let safe = targets.mask_fill(scored.clone().bool_not(), 0);
    let log_likelihood = activation::log_softmax(logits, 2).gather(2, safe);
    let dtype = log_likelihood.dtype();
    let weights = scored.float().cast(dtype);
    let count = weights.clone().sum_dim(1).clamp_min(1.0);
    Ok((log_likelihood * weights).sum_dim(1).neg().div(count).reshape([runs]))
}
