//! Baseline: causal softmax attention.

use crate::host::{self, Operand};
use burn::tensor::{Bool, Tensor, TensorData, activation};

/// y_t = Σ_{s ≤ t} softmax_s(q_t · k_s / √K) v_s. Shapes q, k [N, T, H, K], v [N, T, H, V]; output
/// [N, T, H, V]. O(T²) time and memory.
pub fn softmax(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    SoftmaxCache::default().extend(q, k, v)
}

/// Positions up to which a part of the cache grows; full parts are never copied again.
const PART: usize = 1024;

/// Memory of a decoder: all keys and values so far, in parts [N, H, T', K] and [N, H, T', V].
#[derive(Clone, Debug, Default)]
pub struct SoftmaxCache {
    parts: Vec<[Tensor<4>; 2]>,
}

impl SoftmaxCache {
    /// Number of positions seen.
    pub fn position(&self) -> usize {
        self.parts.iter().map(|[k, _]| k.dims()[2]).sum()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.parts.iter().flatten().map(super::bytes).sum()
    }

    /// Sees the next positions and returns their outputs [N, T, H, V].
    pub fn extend(&mut self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
        let [n, t, h, key_dim] = q.dims();
        let device = q.device();
        let [q, k, v] = [q / (key_dim as f64).sqrt(), k, v].map(|tensor| tensor.swap_dims(1, 2));
        let before = self.position();
        match self.parts.pop() {
            Some([old_k, old_v]) if old_k.dims()[2] + t <= PART => {
                self.parts.push([Tensor::cat(vec![old_k, k], 2), Tensor::cat(vec![old_v, v], 2)]);
            }
            full => self.parts.extend(full.into_iter().chain([[k, v]])),
        }
        let scores = self.parts.iter().map(|[k, _]| q.clone().matmul(k.clone().swap_dims(2, 3)));
        let mut scores: Vec<Tensor<4>> = scores.collect();
        // Only the last part can hold positions after a target.
        if let Some(last) = scores.pop() {
            let length = last.dims()[3];
            let first = before + t - length;
            let future: Vec<bool> =
                (0..t * length).map(|i| first + i % length > before + i / length).collect();
            let future = Tensor::<4, Bool>::from_data(TensorData::new(future, [1, 1, t, length]), &device);
            let last = if t > 1 {
                last.mask_fill(future.expand([n, h, t, length]), f32::NEG_INFINITY)
            } else {
                last
            };
            scores.push(last);
        }
        let weights = normalise(Tensor::cat(scores, 3));
        let mut start = 0;
        let reads = self.parts.iter().map(|[_, v]| {
            let length = v.dims()[2];
            start += length;
            weights.clone().narrow(3, start - length, length).matmul(v.clone())
        });
        let y = reads.reduce(|sum, y| sum + y);
        y.unwrap_or_else(|| q.zeros_like()).swap_dims(1, 2)
    }
}

/// Softmax over the last axis.
fn normalise(scores: Tensor<4>) -> Tensor<4> {
    if host::applies(&scores) {
        return host::apply(host::softmax::Softmax, [Operand::new(scores)]);
    }
    activation::softmax(scores, 3)
}
