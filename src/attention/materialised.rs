//! The definition, written out: O(T²) time and memory. The oracle of the other forms.

use super::Inputs;
use crate::fenwick;
use burn::tensor::{Bool, Device, Tensor, TensorData};

/// The operator with its T × T weights in memory. Output [N, T, H, V].
///
/// Plain tensor operations throughout, so its gradients come from Burn's autodiff and are
/// independent of the hand-derived ones.
pub fn materialised(inputs: &Inputs) -> Tensor<4> {
    let [n, t, h, _, _] = inputs.dims();
    let device = inputs.q.device();
    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(|tensor| tensor.clone().swap_dims(1, 2));
    let lambda = inputs.lambda.clone().swap_dims(1, 2);
    let weights = causal_decay(inputs.log_decay.clone(), &device) * q.matmul(k.swap_dims(2, 3));
    let levels = fenwick::num_levels(t);
    let mut by_level = Tensor::zeros([n, h, t, t], (&device, inputs.q.dtype()));
    for level in 0..levels {
        let at_level =
            mask(t, &device, |target, source| source <= target && fenwick::level(target, source) == level);
        let lambda = lambda.clone().narrow(3, level, 1).expand([n, h, t, t]);
        by_level = by_level.mask_where(at_level.expand([n, h, t, t]), lambda);
    }
    (weights * by_level).matmul(v).swap_dims(1, 2)
}

/// exp(g_{s+1} + … + g_t) for s ≤ t, else 0: [N, H, T, T] from log_decay [N, T, H].
///
/// Each sum runs over its own terms: a difference of long cumulative sums would lose precision
/// where the decay is strong.
pub(super) fn causal_decay(log_decay: Tensor<3>, device: &Device) -> Tensor<4> {
    let [n, t, h] = log_decay.dims();
    let all = [n, h, t, t];
    let future = mask(t, device, |target, source| source > target);
    let outside = mask(t, device, |target, source| source >= target).expand(all);
    let terms = log_decay.swap_dims(1, 2).reshape([n, h, t, 1]).expand(all).mask_fill(outside, 0.0);
    terms.cumsum(2).mask_fill(future.expand(all), f32::NEG_INFINITY).exp()
}

/// Boolean [1, 1, T, T] in (target, source).
pub(super) fn mask(t: usize, device: &Device, holds: impl Fn(usize, usize) -> bool) -> Tensor<4, Bool> {
    let values: Vec<bool> = (0..t * t).map(|i| holds(i / t, i % t)).collect();
    Tensor::from_data(TensorData::new(values, [1, 1, t, t]), device)
}
