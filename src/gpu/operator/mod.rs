//! Log-linear attention on GPUs: fused kernels, parallel over chunks.
//!
//! Forward: states of chunks, their tree, outputs. Backward: states and tree again, gradients of the states that
//! were read, then those of queries and of sources, and the decay's. Memory is linear in T: the tree has 2 T / 64
//! matrices [K, V] a head.
//!
//! [`tree`] explains the states, [`query`] the gradients. Source: Guo et al., *Log-Linear Attention* (arXiv
//! 2506.04761), section 3; the chunkwise form is that of `host::attention`.

mod chunk;
mod decay;
mod forward;
mod launch;
mod query;
mod sizes;
mod source;
mod state;
mod tree;

use super::{Arithmetic, DeviceOp, DeviceTensor, readable};
use crate::host::only_needed;
use burn::tensor::DType;
use half::bf16;
use sizes::Launch;

/// The operator with inputs q, k [N, T, H, K], v [N, T, H, V] in f32 or bf16, and log_decay [N, T, H] and
/// λ [N, T, H, L] in f32; output [N, T, H, V]. K and V are multiples of 8.
#[derive(Clone, Debug)]
pub(crate) struct Attention {
    /// How numbers are multiplied, where they are f32.
    pub(crate) arithmetic: Arithmetic,
}

impl DeviceOp<5> for Attention {
    fn forward(&self, inputs: &[DeviceTensor; 5]) -> DeviceTensor {
        let launch = Launch::new(self, inputs);
        match launch.q.dtype {
            DType::BF16 => launch.forward::<bf16>(),
            _ => launch.forward::<f32>(),
        }
    }

    fn backward(
        &self,
        inputs: &[DeviceTensor; 5],
        grad: DeviceTensor,
        needed: [bool; 5],
    ) -> [Option<DeviceTensor>; 5] {
        let launch = Launch::new(self, inputs);
        let grad = readable(&grad, launch.width);
        let grads = match launch.q.dtype {
            DType::BF16 => launch.backward::<bf16>(&grad),
            _ => launch.backward::<f32>(&grad),
        };
        only_needed(grads, needed)
    }
}
