//! Baseline: causal softmax attention.

use burn::tensor::{Bool, Tensor, TensorData, activation};

/// y_t = Σ_{s ≤ t} softmax_s(q_t · k_s / √K) v_s. Shapes q, k [N, T, H, K], v [N, T, H, V]; output
/// [N, T, H, V]. O(T²) time and memory.
pub fn softmax(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    SoftmaxCache::default().extend(q, k, v)
}

/// Memory of a decoder: all keys and values so far, [N, H, T, K] and [N, H, T, V].
#[derive(Clone, Debug, Default)]
pub struct SoftmaxCache {
    kept: Option<[Tensor<4>; 2]>,
}

impl SoftmaxCache {
    /// Number of positions seen.
    pub fn position(&self) -> usize {
        self.kept.as_ref().map_or(0, |[k, _]| k.dims()[2])
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.kept.iter().flatten().map(super::bytes).sum()
    }

    /// Sees the next positions and returns their outputs [N, T, H, V].
    pub fn extend(&mut self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
        let [n, t, h, key_dim] = q.dims();
        let device = q.device();
        let before = self.position();
        let [q, k, v] = [q, k, v].map(|tensor| tensor.swap_dims(1, 2));
        let [k, v] = match self.kept.take() {
            None => [k, v],
            Some([old_k, old_v]) => [Tensor::cat(vec![old_k, k], 2), Tensor::cat(vec![old_v, v], 2)],
        };
        self.kept = Some([k.clone(), v.clone()]);
        let mut scores = q.matmul(k.swap_dims(2, 3)) / (key_dim as f64).sqrt();
        if t > 1 {
            let total = before + t;
            let future: Vec<bool> = (0..t * total).map(|i| i % total > before + i / total).collect();
            let future = Tensor::<4, Bool>::from_data(TensorData::new(future, [1, 1, t, total]), &device);
            scores = scores.mask_fill(future.expand([n, h, t, total]), f32::NEG_INFINITY);
        }
        activation::softmax(scores, 3).matmul(v).swap_dims(1, 2)
    }
}
