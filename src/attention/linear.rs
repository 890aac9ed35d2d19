//! Baseline: linear attention with scalar decay (Mamba-2, gated linear attention).

use super::ChunkSize;
use super::materialised::causal_decay;
use burn::tensor::Tensor;

/// y_t = Σ_{s ≤ t} exp(g_{s+1} + … + g_t) (q_t · k_s) v_s. Shapes as the operator's without λ.
///
/// One state [K, V] is carried from chunk to chunk: O(T) time and memory.
pub fn linear(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, log_decay: Tensor<3>, chunk: ChunkSize) -> Tensor<4> {
    LinearState::default().extend(q, k, v, log_decay, chunk)
}

/// Memory of a decoder: one state [N, H, K, V], whatever the position.
#[derive(Clone, Debug, Default)]
pub struct LinearState {
    state: Option<Tensor<4>>,
}

impl LinearState {
    /// Bytes of the state.
    pub fn bytes(&self) -> usize {
        self.state.as_ref().map_or(0, super::bytes)
    }

    /// Sees the next positions and returns their outputs [N, T, H, V].
    pub fn extend(
        &mut self,
        q: Tensor<4>,
        k: Tensor<4>,
        v: Tensor<4>,
        log_decay: Tensor<3>,
        chunk: ChunkSize,
    ) -> Tensor<4> {
        let t = q.dims()[1];
        let device = q.device();
        let mut outputs = Vec::new();
        for start in (0..t).step_by(chunk.get()) {
            let length = chunk.get().min(t - start);
            let [q, k, v] =
                [&q, &k, &v].map(|tensor| tensor.clone().narrow(1, start, length).swap_dims(1, 2));
            let log_decay = log_decay.clone().narrow(1, start, length);
            let cumulative = log_decay.clone().swap_dims(1, 2).cumsum(2).unsqueeze_dim::<4>(3);
            let total = cumulative.clone().narrow(2, length - 1, 1);
            let weights = causal_decay(log_decay, &device) * q.clone().matmul(k.clone().swap_dims(2, 3));
            let mut y = weights.matmul(v.clone());
            let added = (k * (total.clone() - cumulative.clone()).exp()).swap_dims(2, 3).matmul(v);
            self.state = Some(match self.state.take() {
                None => added,
                Some(state) => {
                    y = y + (q * cumulative.exp()).matmul(state.clone());
                    state * total.exp() + added
                }
            });
            outputs.push(y);
        }
        Tensor::cat(outputs, 2).swap_dims(1, 2)
    }
}
