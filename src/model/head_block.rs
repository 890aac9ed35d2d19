//! A block of the head as tensor operations: logits are read and written as seldom as those allow.

use super::Precision;
use super::head::Differentiated;
use super::loss::IGNORED;
use burn::tensor::{IndexingUpdateOp, Int, Tensor, TensorData};

/// One block written out: logits are read and written as seldom as tensor operations allow. The weight's rows
/// past `vocab` are padding.
pub(super) fn block_elsewhere(
    hidden: Tensor<3>,
    weight: Tensor<3>,
    targets: Tensor<3, Int>,
    scored: &[usize],
    (precision, vocab): (Precision, usize),
    tracked: bool,
) -> Differentiated {
    let [runs, rows, _] = hidden.dims();
    let (device, dtype) = (hidden.device(), hidden.dtype());
    let targets = targets.reshape([runs, rows, 1]);
    let counts = targets.clone().not_equal_scalar(IGNORED);
    let safe = targets.mask_fill(counts.clone().bool_not(), 0);
    let factors: Vec<f64> = scored.iter().map(|&count| 1.0 / count.max(1) as f64).collect();
    let factors = Tensor::<3>::from_data(TensorData::new(factors, [runs, 1, 1]), (&device, dtype));
    let weights = counts.float().cast(dtype) * factors;

    let Softmax { exponentials, sum, at_target } =
        softmax(hidden.clone(), weight.clone(), safe.clone(), (precision, vocab));
    let values = ((sum.clone().log() - at_target) * weights.clone()).sum_dim(1).reshape([runs]);
    let gradients = tracked.then(|| {
        let probabilities = exponentials * (weights.clone() / sum);
        let grad = probabilities.scatter(2, safe, weights.neg(), IndexingUpdateOp::Add);
        let of_hidden = precision.matmul(grad.clone(), weight);
        [of_hidden, precision.matmul(grad.swap_dims(1, 2), hidden)]
    });
    Differentiated { values, gradients }
}

/// Reduces the last axis of [R, M, V] in two steps where V is large: a GPU gives a row one thread.
fn over_vocab(x: Tensor<3>, reduce: impl Fn(Tensor<3>) -> Tensor<3>) -> Tensor<3> {
    const WIDTH: usize = 128;
    let [runs, rows, vocab] = x.dims();
    if vocab <= WIDTH || !vocab.is_multiple_of(WIDTH) {
        return reduce(x);
    }
    let parts = vocab / WIDTH;
    reduce(reduce(x.reshape([runs, rows * parts, WIDTH])).reshape([runs, rows, parts]))
}

/// Logit of a row of padding: it has no share of any sum.
const PADDING: f32 = -1e30;

/// A weight [R, V, D] with rows of zeros up to a multiple of 128. GPT-2's 50 257 is odd, and a GPU reads rows
/// of odd length one number at a time.
pub(super) fn pad(weight: Tensor<3>) -> Tensor<3> {
    let [runs, vocab, dim] = weight.dims();
    let padded = vocab.next_multiple_of(128);
    if vocab < 128 || padded == vocab {
        return weight;
    }
    let zeros = Tensor::zeros([runs, padded - vocab, dim], (&weight.device(), weight.dtype()));
    Tensor::cat(vec![weight, zeros], 1)
}

/// Loss and hit of every row of a block.
pub(super) fn score_elsewhere(
    hidden: Tensor<3>,
    weight: Tensor<3>,
    targets: Tensor<3, Int>,
    (precision, vocab): (Precision, usize),
) -> (Vec<f32>, Vec<bool>) {
    let [runs, rows, _] = hidden.dims();
    let targets = targets.reshape([runs, rows, 1]);
    let counts = targets.clone().not_equal_scalar(IGNORED);
    let safe = targets.mask_fill(counts.clone().bool_not(), 0);
    let Softmax { sum, at_target, .. } = softmax(hidden, weight, safe, (precision, vocab));
    // The target's logit is the largest if nothing is above it.
    let correct = at_target.clone().greater_equal_elem(0.0).bool_and(counts.clone());
    let losses = (sum.log() - at_target).mask_fill(counts.bool_not(), 0.0);
    (losses.into_data().iter().collect(), correct.into_data().iter().collect())
}

/// Parts of the softmax of a block's logits.
struct Softmax {
    /// e to logit less the row's largest [R, M, V'].
    exponentials: Tensor<3>,
    /// Their sums [R, M, 1].
    sum: Tensor<3>,
    /// The target's logit less the row's largest [R, M, 1].
    at_target: Tensor<3>,
}

fn softmax(
    hidden: Tensor<3>,
    weight: Tensor<3>,
    targets: Tensor<3, Int>,
    (precision, vocab): (Precision, usize),
) -> Softmax {
    let (device, dtype, padded) = (hidden.device(), hidden.dtype(), weight.dims()[1]);
    let mut logits = precision.linear(hidden, weight);
    if padded > vocab {
        let mask: Vec<f32> = (0..padded).map(|i| if i < vocab { 0.0 } else { PADDING }).collect();
        let mask = Tensor::<3>::from_data(TensorData::new(mask, [1, 1, padded]), (&device, dtype));
        logits = logits + mask;
    }
    let max = over_vocab(logits.clone(), |x| x.max_dim(2));
    let at_target = logits.clone().gather(2, targets) - max.clone();
    let exponentials = (logits - max).exp();
    let sum = over_vocab(exponentials.clone(), |x| x.sum_dim(2));
    Softmax { exponentials, sum, at_target }
}
