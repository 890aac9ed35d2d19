//! Launches of the operator's kernels.

use super::sizes::{Items, Launch};
use super::{decay, forward, query, source, state, tree};
use crate::gpu::launch::elementwise;
use crate::gpu::{DeviceTensor, empty};
use burn::tensor::DType;
use cubecl::prelude::{BufferArg, CubeDim, Float};

/// Block states and whole log-decays of a tree.
struct States {
    states: DeviceTensor,
    totals: DeviceTensor,
}

impl Launch {
    fn states<E: Float>(&self) -> States {
        let states = empty(&self.q, [self.rows * self.nodes, self.node()], self.q.dtype);
        let totals = empty(&self.q, [self.rows * self.nodes], DType::F32);
        if self.chunks > 1 {
            let client = &self.q.client;
            // SAFETY: the shapes are those that the kernels were written for.
            unsafe {
                tree::chunk_states::launch_unchecked::<E>(
                    client,
                    self.cubes(self.chunks, self.key_blocks * self.value_blocks),
                    Self::units(),
                    self.width,
                    arg(&self.k),
                    arg(&self.v),
                    arg(&self.log_decay),
                    arg(&states),
                    arg(&totals),
                    self.tree(),
                    self.layouts(None),
                    self.arithmetic,
                );
                // Blocks of this height and above are read if a later chunk has this bit.
                for height in 1..=(self.chunks - 1).ilog2() as usize {
                    let (size, parents) = (self.node() / self.width, self.chunks >> height);
                    let count = self.rows * parents * size;
                    let (cubes, units) = elementwise(count);
                    tree::merge_states::launch_unchecked::<E>(
                        client,
                        cubes,
                        units,
                        self.width,
                        arg(&states),
                        arg(&totals),
                        self.nodes as u32,
                        self.heights[height - 1] as u32,
                        self.heights[height] as u32,
                        parents as u32,
                        size as u32,
                        count as u32,
                    );
                }
            }
        }
        States { states, totals }
    }

    pub(super) fn forward<E: Float>(&self) -> DeviceTensor {
        let States { states, totals } = self.states::<E>();
        let y = empty(&self.q, self.v.meta.shape().clone(), self.q.dtype);
        // SAFETY: as above.
        unsafe {
            forward::outputs::launch_unchecked::<E>(
                &self.q.client,
                self.cubes(self.chunks, self.value_blocks),
                Self::units(),
                self.width,
                arg(&self.q),
                arg(&self.k),
                arg(&self.v),
                arg(&self.log_decay),
                arg(&self.lambda),
                arg(&states),
                arg(&totals),
                arg(&y),
                self.tree(),
                self.layouts(None),
                self.arithmetic,
            );
        }
        y
    }

    pub(super) fn backward<E: Float>(&self, grad: &DeviceTensor) -> [DeviceTensor; 5] {
        let States { states, totals } = self.states::<E>();
        let [q_grad, k_grad, v_grad] = [&self.q, &self.k, &self.v].map(like);
        let lambda_grad = like(&self.lambda);
        let flows = || empty(&self.q, [self.log_decay.meta.shape().num_elements()], DType::F32);
        let (row_flows, column_flows) = (flows(), flows());
        let (client, units) = (&self.q.client, Self::units());
        let levels = self.lambda.meta.shape().dims::<4>()[3];
        // SAFETY: as above.
        unsafe {
            query::query_gradients::launch_unchecked::<E>(
                client,
                self.cubes(self.chunks, 1),
                units,
                self.width,
                arg(&self.q),
                arg(&self.k),
                arg(&self.v),
                arg(grad),
                arg(&self.log_decay),
                arg(&self.lambda),
                arg(&states),
                arg(&totals),
                arg(&q_grad),
                arg(&lambda_grad),
                arg(&row_flows),
                self.tree(),
                self.layouts(Some(grad)),
                levels,
                self.arithmetic,
            );
            // Their memory is free for their gradients.
            drop(states);
            let gradients = self.state_gradients::<E>(grad, &totals);
            source::source_gradients::launch_unchecked::<E>(
                client,
                self.cubes(self.chunks, 1),
                units,
                self.width,
                arg(&self.q),
                arg(&self.k),
                arg(&self.v),
                arg(grad),
                arg(&self.log_decay),
                arg(&self.lambda),
                arg(&gradients),
                arg(&totals),
                arg(&k_grad),
                arg(&v_grad),
                arg(&column_flows),
                self.tree(),
                self.layouts(Some(grad)),
                self.key_blocks * self.value_blocks == 1,
                self.arithmetic,
            );
        }
        let decay_grad = self.decay_gradient(&row_flows, &column_flows);
        [q_grad, k_grad, v_grad, decay_grad, lambda_grad]
    }

    /// Gradients of the states that were read.
    fn state_gradients<E: Float>(&self, grad: &DeviceTensor, totals: &DeviceTensor) -> DeviceTensor {
        let gradients = empty(&self.q, [self.rows * self.nodes, self.node()], self.q.dtype);
        let Items { all, partial } = self.items();
        if all == 0 {
            return gradients;
        }
        let segment_sums = empty(&self.q, [(self.rows * partial).max(1), self.node()], DType::F32);
        // SAFETY: as above.
        unsafe {
            state::state_gradients::launch_unchecked::<E>(
                &self.q.client,
                self.cubes(all, self.key_blocks * self.value_blocks),
                Self::units(),
                self.width,
                arg(&self.q),
                arg(grad),
                arg(&self.log_decay),
                arg(&self.lambda),
                arg(totals),
                arg(&gradients),
                arg(&segment_sums),
                self.tree(),
                self.layouts(Some(grad)),
                all as u32,
                partial as u32,
                self.arithmetic,
            );
            if partial > 0 {
                let size = self.node() / 2;
                let count = self.rows * partial * size;
                let (cubes, units) = elementwise(count);
                state::add_segments::launch_unchecked::<E>(
                    &self.q.client,
                    cubes,
                    units,
                    arg(&segment_sums),
                    arg(&gradients),
                    self.tree(),
                    partial as u32,
                    size as u32,
                    count as u32,
                );
            }
        }
        gradients
    }

    fn decay_gradient(&self, row_flows: &DeviceTensor, column_flows: &DeviceTensor) -> DeviceTensor {
        let decay_grad = like(&self.log_decay);
        let spans = self.seq_len.div_ceil(decay::SPAN);
        let sums = empty(&self.q, [self.rows * spans], DType::F64);
        // SAFETY: as above.
        unsafe {
            decay::decay_sums::launch_unchecked(
                &self.q.client,
                self.cubes(spans, 1),
                CubeDim::new_1d(256),
                arg(row_flows),
                arg(column_flows),
                arg(&sums),
                self.seq_len as u32,
                spans as u32,
            );
            decay::decay_gradient::launch_unchecked(
                &self.q.client,
                self.cubes(spans, 1),
                CubeDim::new_1d(256),
                arg(row_flows),
                arg(column_flows),
                arg(&sums),
                arg(&decay_grad),
                self.seq_len as u32,
                spans as u32,
                self.heads as u32,
            );
        }
        decay_grad
    }
}

/// A result of a tensor's shape and type.
fn like(tensor: &DeviceTensor) -> DeviceTensor {
    empty(tensor, tensor.meta.shape().clone(), tensor.dtype)
}

/// A tensor as a kernel's argument.
fn arg(tensor: &DeviceTensor) -> BufferArg {
    tensor.clone().into_buffer_arg()
}
