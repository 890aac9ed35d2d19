//! The head's loss, without ever holding the logits of all positions.
//!
//! GPT-2's vocabulary makes logits the largest thing of a language model by far: 32 768 positions are 6.6 GB,
//! and the loss keeps several such arrays for its gradient. Here a block of rows is projected, scored and
//! differentiated at once, and only the gradients of what the head saw and of its weight are kept.

use super::Precision;
use super::head_block::{block_elsewhere, pad, score_elsewhere};
use super::loss::cross_entropy_over;
use crate::cohort::{linear, plain};
#[cfg(feature = "cuda")]
use crate::gpu;
use crate::host;
use crate::{Error, Result};
use burn::tensor::{Int, Tensor};

/// Most logits of a block.
const MOST_LOGITS: usize = 1 << 28;
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
    precision: Precision,
) -> Result<Loss> {
    let block = block_rows(&hidden, &weight);
    if is_fused(&hidden, &weight) && hidden.dims()[1] <= block {
        let values = cross_entropy_over(precision.linear(hidden, weight), targets, scored)?;
        return Ok(Loss { values: plain(&values), objective: values });
    }
    let tracked = hidden.is_autodiff();
    let found = differentiate(plain(&hidden), plain(&weight), targets, scored, precision, block, tracked)?;
    let objective = match found.gradients {
        None => found.values.clone(),
        Some([of_hidden, of_weight]) => product(hidden, of_hidden) + product(weight, of_weight),
    };
    Ok(Loss { values: found.values, objective })
}

/// Whether logits and their cross-entropy are fused operations, which keep nothing but the logits.
fn is_fused(
    hidden: &Tensor<3>,
    #[cfg_attr(not(feature = "cuda"), expect(unused))] weight: &Tensor<3>,
) -> bool {
    #[cfg(feature = "cuda")]
    if gpu::single(hidden) {
        return gpu::linear::fits(weight.dims()) && gpu::loss::fits(weight.dims()[1]);
    }
    host::applies(hidden)
}

/// Whether a GPU's step in single precision takes logits and loss of a head [runs, vocab, width] whole, over `rows`
/// positions a run: [`loss`] then is the cross-entropy of all logits.
#[cfg(feature = "cuda")]
pub(crate) fn is_whole(head: [usize; 3], rows: usize) -> bool {
    let [runs, vocab, _] = head;
    gpu::linear::fits(head) && gpu::loss::fits(vocab) && rows <= rows_of(MOST_LOGITS, runs * vocab)
}

fn rows_of(most: usize, logits: usize) -> usize {
    (most / logits).max(64)
}

/// Σ value · gradient for every run \[R\]: a number whose gradient with respect to the value is the one given.
pub(super) fn product(value: Tensor<3>, gradient: Tensor<3>) -> Tensor<1> {
    let runs = value.dims()[0];
    (value * gradient.autodiff()).sum_dim(2).sum_dim(1).reshape([runs])
}

/// A loss outside the autodiff graph, with its gradients.
pub(super) struct Differentiated {
    /// Cross-entropy in nats, \[runs\].
    pub(super) values: Tensor<1>,
    /// Gradients of hidden [R, M, D] and of the weight [R, V, D], if they are asked for.
    pub(super) gradients: Option<[Tensor<3>; 2]>,
}

/// The loss, `block` rows of every run at a time, of tensors outside the autodiff graph.
pub(super) fn differentiate(
    hidden: Tensor<3>,
    weight: Tensor<3>,
    targets: Tensor<3, Int>,
    scored: &[usize],
    precision: Precision,
    block: usize,
    tracked: bool,
) -> Result<Differentiated> {
    let [runs, rows, _] = hidden.dims();
    let vocab = weight.dims()[1];
    let targets = targets.reshape([runs, 1, rows]);
    let on_host = host::applies(&hidden);
    let weight = if on_host { weight } else { pad(weight) };
    let mut total: Option<(Tensor<1>, Option<Tensor<3>>)> = None;
    let mut of_hidden = Vec::new();
    for start in (0..rows).step_by(block) {
        let length = block.min(rows - start);
        let part = hidden.clone().narrow(1, start, length);
        let targets = targets.clone().narrow(2, start, length);
        let found = match on_host {
            true => block_on_host(part, weight.clone(), targets, scored, tracked)?,
            false => block_elsewhere(part, weight.clone(), targets, scored, (precision, vocab), tracked),
        };
        let mut of_weight = None;
        if let Some([of_part, of_matrix]) = found.gradients {
            of_hidden.push(of_part);
            of_weight = Some(of_matrix);
        }
        total = Some(match total {
            None => (found.values, of_weight),
            Some((values, sum)) => {
                let both = sum.zip(of_weight).map(|(sum, of_weight)| sum + of_weight);
                (values + found.values, both)
            }
        });
    }
    let (values, of_weight) = total.ok_or_else(|| Error::value("positions", "at least one", 0))?;
    let gradients = of_weight.map(|grad| [Tensor::cat(of_hidden, 1), grad.narrow(1, 0, vocab)]);
    Ok(Differentiated { values, gradients })
}

/// One block with the fused operations of the CPU, as a graph of its own.
fn block_on_host(
    mut hidden: Tensor<3>,
    mut weight: Tensor<3>,
    targets: Tensor<3, Int>,
    scored: &[usize],
    tracked: bool,
) -> Result<Differentiated> {
    if !tracked {
        let values = cross_entropy_over(linear(hidden, weight, None), targets, scored)?;
        return Ok(Differentiated { values, gradients: None });
    }
    hidden = hidden.autodiff().require_grad();
    weight = weight.autodiff().require_grad();
    let values = cross_entropy_over(linear(hidden.clone(), weight.clone(), None), targets, scored)?;
    let mut gradients = values.clone().sum().backward();
    let mut grad = |leaf: Tensor<3>| {
        leaf.grad_remove(&mut gradients)
            .ok_or_else(|| Error::value("gradient of the head", "present", "none"))
    };
    Ok(Differentiated { gradients: Some([grad(hidden)?, grad(weight)?]), values: plain(&values) })
}

/// Losses and hits of all positions, run by run.
pub(super) fn scores(
    hidden: Tensor<3>,
    weight: Tensor<3>,
    targets: Tensor<3, Int>,
    precision: Precision,
) -> Result<Scores> {
    let ([runs, rows, _], vocab) = (hidden.dims(), weight.dims()[1]);
    let targets = targets.reshape([runs, 1, rows]);
    let block = block_rows(&hidden, &weight);
    let (on_host, fused) = (host::applies(&hidden), is_fused(&hidden, &weight));
    let weight = if fused { weight } else { pad(weight) };
    let mut by_run = vec![Scores::default(); runs];
    for start in (0..rows).step_by(block) {
        let length = block.min(rows - start);
        let part = hidden.clone().narrow(1, start, length);
        let targets = targets.clone().narrow(2, start, length);
        let (losses, correct) = match on_host {
            true => super::loss::score_on_host(plain(&linear(part, weight.clone(), None)), targets)?,
            #[cfg(feature = "cuda")]
            false if fused => gpu::loss::score(&precision.linear(part, weight.clone()), targets),
            false => score_elsewhere(part, weight.clone(), targets, (precision, vocab)),
        };
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

/// Rows of a block: as many as the limit on logits allows, all runs together.
pub(super) fn block_rows(hidden: &Tensor<3>, weight: &Tensor<3>) -> usize {
    let [runs, vocab, _] = weight.dims();
    let most = if crate::device::is_cpu(&hidden.device()) { MOST_ON_HOST } else { MOST_LOGITS };
    rows_of(most, runs * vocab)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::IGNORED;
    use crate::random::Generator;
    use burn::tensor::{DType, Device, TensorData};

    #[test]
    fn loss_and_gradients_don_t_depend_on_the_size_of_a_block_or_the_way() {
        let device = Device::flex();
        let mut generator = Generator::new(0, "head");
        let mut draw = |shape: [usize; 3]| -> Tensor<3> {
            let values: Vec<f64> = (0..shape.iter().product()).map(|_| generator.normal()).collect();
            Tensor::from_data(TensorData::new(values, shape), (&device, DType::F64))
        };
        let (hidden, weight) = (draw([2, 10, 4]), draw([2, 6, 4]));
        let targets: Vec<i64> = (0..20).map(|i| if i % 7 == 3 { IGNORED } else { i % 6 }).collect();
        let targets = Tensor::<3, Int>::from_data(TensorData::new(targets, [2, 2, 5]), &device);
        let all = |block: usize, elsewhere: bool| -> Vec<f64> {
            let (hidden, weight, scored) = (hidden.clone(), weight.clone(), [9, 8]);
            let found = match elsewhere {
                false => differentiate(hidden, weight, targets.clone(), &scored, Precision::F32, block, true)
                    .unwrap(),
                true => {
                    let targets = targets.clone().reshape([2, 1, 10]);
                    // Two rows of padding, as where the vocabulary is odd.
                    let zeros = Tensor::zeros([2, 2, 4], (&device, DType::F64));
                    let padded = Tensor::cat(vec![weight, zeros], 1);
                    let found = block_elsewhere(hidden, padded, targets, &scored, (Precision::F32, 6), true);
                    let gradients = found.gradients.map(|[a, b]| [a, b.narrow(1, 0, 6)]);
                    Differentiated { gradients, ..found }
                }
            };
            let grads = found.gradients.unwrap().into_iter();
            let grads = grads.flat_map(|grad| grad.into_data().iter::<f64>().collect::<Vec<_>>());
            found.values.into_data().iter::<f64>().chain(grads).collect()
        };
        let whole = all(10, false);
        for (block, elsewhere) in [(1, false), (3, false), (5, false), (10, true)] {
            for (found, expected) in all(block, elsewhere).iter().zip(&whole) {
                assert!((found - expected).abs() < 1e-12, "block {block}: {found} against {expected}");
            }
        }
    }
}
