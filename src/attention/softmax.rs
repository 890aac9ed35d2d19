//! Baseline: causal softmax attention.

use super::materialised::mask;
use burn::tensor::{Tensor, activation};

/// y_t = Σ_{s ≤ t} softmax_s(q_t · k_s / √K) v_s. Shapes q, k [N, T, H, K], v [N, T, H, V]; output
/// [N, T, H, V]. O(T²) time and memory.
pub fn softmax(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    let [n, t, h, key_dim] = q.dims();
    let future = mask(t, &q.device(), |target, source| source > target).expand([n, h, t, t]);
    let [q, k, v] = [q, k, v].map(|tensor| tensor.swap_dims(1, 2));
    let scores = q.matmul(k.swap_dims(2, 3)) / (key_dim as f64).sqrt();
    activation::softmax(scores.mask_fill(future, f32::NEG_INFINITY), 3).matmul(v).swap_dims(1, 2)
}
