//! The head's loss, without ever holding the logits of all positions.
//!
//! GPT-2's vocabulary makes logits the largest thing of a language model by far: 32 768 positions are 6.6 GB,
//! and the loss keeps several such arrays for its gradient. Here a block of rows is projected, scored and
//! differentiated at once, and only the gradients of what the head saw and of its weight are kept.

use super::loss::{IGNORED, cross_entropy_over};
use crate::cohort::plain;
use crate::host;
use crate::{Error, Result};
use burn::tensor::{Int, Tensor};

/// Most logits of a block.
const MOST_LOGITS: usize = 1 << 27;
/// The same where memory is a machine's and not a GPU's.
const MOST_ON_HOST: usize = 1 << 25;

/// A loss of every run.
#[derive(Clone, Debug)]
pub struct Loss {
    /// Cross-entropy in nats, \[runs\], outside the autodiff graph.
    pub values: Tensor<1>,
    /// A number \[runs\] whose gradient is the loss's; its value means nothing.
    pub objective: Tensor<1>,
}

/// What each position made of its target.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// Cross-entropy in nats, run by run, position by position; 0 where nothing is scored.
    pub losses: Vec<f32>,
    /// Whether the target has the largest logit; false where nothing is scored.
    pub correct: Vec<bool>,
}

/// Loss of hidden [R, M, D] projected by a head's weight [R, V, D] against targets [R, …] of M a run.
pub(super) fn loss(
    hidden: Tensor<3>,
    weight: Tensor<3>,
    targets: Tensor<3, Int>,
    scored: &[usize],
    project: impl Fn(Tensor<3>, Tensor<3>) -> Tensor<3>,
) -> Result<Loss> {
    let block = block_rows(&hidden, &weight);
    loss_in_blocks(hidden, weight, targets, scored, project, block)
}

fn loss_in_blocks(
    hidden: Tensor<3>,
    weight: Tensor<3>,
    targets: Tensor<3, Int>,
    scored: &[usize],
    project: impl Fn(Tensor<3>, Tensor<3>) -> Tensor<3>,
    block: usize,
) -> Result<Loss> {
    let [runs, rows, _] = hidden.dims();
    let targets = targets.reshape([runs, 1, rows]);
    if rows <= block {
        let values = cross_entropy_over(project(hidden, weight), targets, scored)?;
        return Ok(Loss { values: plain(&values), objective: values });
    }
    let tracked = hidden.is_autodiff();
    let mut total: Option<Tensor<1>> = None;
    let (mut hidden_grads, mut weight_grad) = (Vec::new(), None::<Tensor<3>>);
    for start in (0..rows).step_by(block) {
        let length = block.min(rows - start);
        let mut part = plain(&hidden).narrow(1, start, length);
        let mut matrix = plain(&weight);
        if tracked {
            part = part.autodiff().require_grad();
            matrix = matrix.autodiff().require_grad();
        }
        let targets = targets.clone().narrow(2, start, length);
        let values = cross_entropy_over(project(part.clone(), matrix.clone()), targets, scored)?;
        if tracked {
            let mut gradients = values.clone().sum().backward();
            let missing = || Error::value("gradient of the head", "present", "none");
            hidden_grads.push(part.grad_remove(&mut gradients).ok_or_else(missing)?);
            let grad = matrix.grad_remove(&mut gradients).ok_or_else(missing)?;
            weight_grad = Some(match weight_grad {
                None => grad,
                Some(sum) => sum + grad,
            });
        }
        let values = plain(&values);
        total = Some(match total {
            None => values,
            Some(sum) => sum + values,
        });
    }
    let values = total.ok_or_else(|| Error::value("positions", "at least one", 0))?;
    let Some(weight_grad) = weight_grad else {
        return Ok(Loss { objective: values.clone(), values });
    };
    // A function that is linear in both arguments, with the gradients just computed.
    let inner = |value: Tensor<3>, grad: Tensor<3>| -> Tensor<1> {
        (value * grad.autodiff()).sum_dim(2).sum_dim(1).reshape([runs])
    };
    let objective = inner(hidden, Tensor::cat(hidden_grads, 1)) + inner(weight, weight_grad);
    Ok(Loss { values, objective })
}

/// Losses and hits of all positions, run by run.
pub(super) fn scores(
    hidden: Tensor<3>,
    weight: Tensor<3>,
    targets: Tensor<3, Int>,
    project: impl Fn(Tensor<3>, Tensor<3>) -> Tensor<3>,
) -> Result<Scores> {
    let [runs, rows, _] = hidden.dims();
    let targets = targets.reshape([runs, 1, rows]);
    let block = block_rows(&hidden, &weight);
    let mut by_run = vec![Scores::default(); runs];
    for start in (0..rows).step_by(block) {
        let length = block.min(rows - start);
        let logits = project(hidden.clone().narrow(1, start, length), weight.clone());
        let (losses, correct) = score_rows(logits, targets.clone().narrow(2, start, length))?;
        for (run, scores) in by_run.iter_mut().enumerate() {
            scores.losses.extend_from_slice(&losses[run * length..][..length]);
            scores.correct.extend_from_slice(&correct[run * length..][..length]);
        }
    }
    let mut all = Scores::default();
    for scores in by_run {
        all.losses.extend(scores.losses);
        all.correct.extend(scores.correct);
    }
    Ok(all)
}

/// Loss and hit of every row of logits [R, M, V] against targets [R, 1, M].
fn score_rows(logits: Tensor<3>, targets: Tensor<3, Int>) -> Result<(Vec<f32>, Vec<bool>)> {
    let [runs, rows, _] = logits.dims();
    if host::applies(&logits) {
        return super::loss::score_on_host(plain(&logits), targets);
    }
    let targets = targets.reshape([runs, rows, 1]);
    let scored = targets.clone().not_equal_scalar(IGNORED);
    let safe = targets.clone().mask_fill(scored.clone().bool_not(), 0);
    let correct = logits.clone().argmax(2).equal(safe.clone()).bool_and(scored.clone());
    let losses = burn::tensor::activation::log_softmax(logits, 2).gather(2, safe).neg();
    let losses = losses.mask_fill(scored.bool_not(), 0.0);
    Ok((losses.into_data().iter().collect(), correct.into_data().iter().collect()))
}

/// Rows of a block: as many as the limit on logits allows, all runs together.
fn block_rows(hidden: &Tensor<3>, weight: &Tensor<3>) -> usize {
    let [runs, vocab, _] = weight.dims();
    let most = if crate::device::is_cpu(&hidden.device()) { MOST_ON_HOST } else { MOST_LOGITS };
    (most / (runs * vocab)).max(64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cohort::linear;
    use crate::random::Generator;
    use burn::tensor::{DType, Device, TensorData};

    #[test]
    fn loss_and_gradients_don_t_depend_on_the_size_of_a_block() {
        let device = Device::flex();
        let mut generator = Generator::new(0, "head");
        let mut draw = |shape: [usize; 3]| -> Tensor<3> {
            let values: Vec<f64> = (0..shape.iter().product()).map(|_| generator.normal()).collect();
            Tensor::from_data(TensorData::new(values, shape), (&device, DType::F64))
        };
        let (hidden, weight) = (draw([2, 10, 4]), draw([2, 6, 4]));
        let targets: Vec<i64> = (0..20).map(|i| if i % 7 == 3 { IGNORED } else { i % 6 }).collect();
        let targets = Tensor::<3, Int>::from_data(TensorData::new(targets, [2, 2, 5]), &device);
        let all = |block: usize| -> Vec<f64> {
            let leaf = |tensor: &Tensor<3>| tensor.clone().autodiff().require_grad();
            let (hidden, weight) = (leaf(&hidden), leaf(&weight));
            let project = |x, w| linear(x, w, None);
            // As layers below would make it: what the head sees is not a leaf itself.
            let seen = hidden.clone() * 2.0;
            let loss =
                loss_in_blocks(seen, weight.clone(), targets.clone(), &[9, 8], project, block).unwrap();
            let mut gradients = loss.objective.sum().backward();
            let grads = [&hidden, &weight].map(|leaf| leaf.grad_remove(&mut gradients).unwrap());
            let grads = grads.into_iter().flat_map(|grad| grad.into_data().iter::<f64>().collect::<Vec<_>>());
            loss.values.into_data().iter::<f64>().chain(grads).collect()
        };
        let whole = all(10);
        for block in [1, 3, 5] {
            for (found, expected) in all(block).iter().zip(&whole) {
                assert!((found - expected).abs() < 1e-12, "block {block}: {found} against {expected}");
            }
        }
    }
}
