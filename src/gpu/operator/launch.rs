//! Launches of the operator's kernels, and the sizes that they share.

use super::chunk::LayoutLaunch;
use super::tree::{LayoutsLaunch, TreeLaunch};
use super::{Attention, decay, forward, query, source, state, tree};
use crate::gpu::{Arithmetic, DeviceTensor, empty, readable, tile};
use burn::tensor::DType;
use cubecl::prelude::{CubeCount, CubeDim, Float};

/// One call's tensors and sizes.
pub(super) struct Launch {
    pub(super) q: DeviceTensor,
    k: DeviceTensor,
    v: DeviceTensor,
    log_decay: DeviceTensor,
    lambda: DeviceTensor,
    arithmetic: Arithmetic,
    /// Elements that a unit reads at once: 16 bytes.
    pub(super) width: usize,
    /// Heads of all sequences.
    rows: usize,
    heads: usize,
    seq_len: usize,
    chunks: usize,
    key_blocks: usize,
    value_blocks: usize,
    /// Of every height, the index of its first node.
    heights: Vec<usize>,
    nodes: usize,
}

/// Numbers of parts of a head's state gradients: all, and those that are segments of a block.
struct Items {
    all: usize,
    partial: usize,
}

/// Block states and whole log-decays of a tree.
struct States {
    states: DeviceTensor,
    totals: DeviceTensor,
}

impl Launch {
    pub(super) fn new(op: &Attention, [q, k, v, log_decay, lambda]: &[DeviceTensor; 5]) -> Self {
        let width = 16 / q.dtype.size();
        let [n, t, h, key_dim] = q.meta.shape().dims();
        let value_dim = v.meta.shape().dims::<4>()[3];
        let chunks = t.div_ceil(tile::SIDE);
        let (mut heights, mut nodes) = (Vec::new(), 0);
        let mut at_height = chunks;
        while at_height > 0 {
            heights.push(nodes);
            nodes += at_height;
            at_height /= 2;
        }
        let arithmetic = if q.dtype == DType::BF16 { Arithmetic::Bf16 } else { op.arithmetic };
        Self {
            q: readable(q, width),
            k: readable(k, width),
            v: readable(v, width),
            log_decay: log_decay.clone(),
            lambda: readable(lambda, 1),
            arithmetic,
            width,
            rows: n * h,
            heads: h,
            seq_len: t,
            chunks,
            key_blocks: key_dim.div_ceil(tile::SIDE),
            value_blocks: value_dim.div_ceil(tile::SIDE),
            heights,
            nodes,
        }
    }

    fn tree(&self) -> TreeLaunch {
        TreeLaunch::new(
            self.chunks as u32,
            self.nodes as u32,
            self.value_blocks as u32,
            self.key_blocks as u32,
            self.heads as u32,
            self.seq_len as u32,
        )
    }

    fn layouts(&self, grad: Option<&DeviceTensor>) -> LayoutsLaunch {
        let of = |tensor: &DeviceTensor| {
            let (shape, strides) = (tensor.meta.shape(), tensor.meta.strides());
            let columns = if shape.num_dims() == 4 { shape[3] } else { 1 };
            LayoutLaunch::new(strides[0] as u32, strides[1] as u32, strides[2] as u32, columns as u32)
        };
        let row_major = || {
            let columns = self.v.meta.shape()[3];
            let position = self.heads * columns;
            let sequence = self.seq_len * position;
            LayoutLaunch::new(sequence as u32, position as u32, columns as u32, columns as u32)
        };
        LayoutsLaunch::new(
            of(&self.q),
            of(&self.k),
            of(&self.v),
            grad.map_or_else(row_major, of),
            of(&self.log_decay),
            of(&self.lambda),
        )
    }

    /// Elements of a node.
    fn node(&self) -> usize {
        self.key_blocks * self.value_blocks * tile::SIDE * tile::SIDE
    }

    fn units() -> CubeDim {
        CubeDim::new_1d(tile::UNITS as u32)
    }

    /// A cube for each of `count` parts of every head, and for each tile.
    fn cubes(&self, count: usize, tiles: usize) -> CubeCount {
        CubeCount::Static((self.rows * count) as u32, tiles as u32, 1)
    }

    /// Parts of the work for the gradients of states, as `state::state_gradients` counts them.
    fn items(&self) -> Items {
        let last = self.chunks - 1;
        let (mut all, mut partial) = (0, 0);
        for height in 0..self.heights.len() {
            let segments = ((1 << height) / state::SEGMENT).max(1);
            let here = (last >> height).div_ceil(2) * segments;
            all += here;
            partial += if segments > 1 { here } else { 0 };
        }
        Items { all, partial }
    }

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
                    self.k.clone().into_buffer_arg(),
                    self.v.clone().into_buffer_arg(),
                    self.log_decay.clone().into_buffer_arg(),
                    states.clone().into_buffer_arg(),
                    totals.clone().into_buffer_arg(),
                    self.tree(),
                    self.layouts(None),
                    self.arithmetic,
                );
                // Blocks of this height and above are read if a later chunk has this bit.
                for height in 1..=(self.chunks - 1).ilog2() as usize {
                    let (size, parents) = (self.node() / self.width, self.chunks >> height);
                    let count = self.rows * parents * size;
                    tree::merge_states::launch_unchecked::<E>(
                        client,
                        CubeCount::Static(count.div_ceil(256) as u32, 1, 1),
                        CubeDim::new_1d(256),
                        self.width,
                        states.clone().into_buffer_arg(),
                        totals.clone().into_buffer_arg(),
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
                self.q.clone().into_buffer_arg(),
                self.k.clone().into_buffer_arg(),
                self.v.clone().into_buffer_arg(),
                self.log_decay.clone().into_buffer_arg(),
                self.lambda.clone().into_buffer_arg(),
                states.into_buffer_arg(),
                totals.into_buffer_arg(),
                y.clone().into_buffer_arg(),
                self.tree(),
                self.layouts(None),
                self.arithmetic,
            );
        }
        y
    }

    pub(super) fn backward<E: Float>(&self, grad: &DeviceTensor) -> [DeviceTensor; 5] {
        let States { states, totals } = self.states::<E>();
        let like = |tensor: &DeviceTensor| empty(tensor, tensor.meta.shape().clone(), tensor.dtype);
        let [q_grad, k_grad, v_grad] = [&self.q, &self.k, &self.v].map(like);
        let (decay_grad, lambda_grad) = (like(&self.log_decay), like(&self.lambda));
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
                self.q.clone().into_buffer_arg(),
                self.k.clone().into_buffer_arg(),
                self.v.clone().into_buffer_arg(),
                grad.clone().into_buffer_arg(),
                self.log_decay.clone().into_buffer_arg(),
                self.lambda.clone().into_buffer_arg(),
                states.into_buffer_arg(),
                totals.clone().into_buffer_arg(),
                q_grad.clone().into_buffer_arg(),
                lambda_grad.clone().into_buffer_arg(),
                row_flows.clone().into_buffer_arg(),
                self.tree(),
                self.layouts(Some(grad)),
                levels,
                self.arithmetic,
            );
            let gradients = empty(&self.q, [self.rows * self.nodes, self.node()], self.q.dtype);
            let Items { all, partial } = self.items();
            if all > 0 {
                let segment_sums = empty(&self.q, [(self.rows * partial).max(1), self.node()], DType::F32);
                state::state_gradients::launch_unchecked::<E>(
                    client,
                    self.cubes(all, self.key_blocks * self.value_blocks),
                    units,
                    self.width,
                    self.q.clone().into_buffer_arg(),
                    grad.clone().into_buffer_arg(),
                    self.log_decay.clone().into_buffer_arg(),
                    self.lambda.clone().into_buffer_arg(),
                    totals.clone().into_buffer_arg(),
                    gradients.clone().into_buffer_arg(),
                    segment_sums.clone().into_buffer_arg(),
                    self.tree(),
                    self.layouts(Some(grad)),
                    all as u32,
                    partial as u32,
                    self.arithmetic,
                );
                if partial > 0 {
                    let size = self.node() / 2;
                    let count = self.rows * partial * size;
                    state::add_segments::launch_unchecked::<E>(
                        client,
                        CubeCount::Static(count.div_ceil(256) as u32, 1, 1),
                        CubeDim::new_1d(256),
                        segment_sums.into_buffer_arg(),
                        gradients.clone().into_buffer_arg(),
                        self.tree(),
                        partial as u32,
                        size as u32,
                        count as u32,
                    );
                }
            }
            source::source_gradients::launch_unchecked::<E>(
                client,
                self.cubes(self.chunks, 1),
                units,
                self.width,
                self.q.clone().into_buffer_arg(),
                self.k.clone().into_buffer_arg(),
                self.v.clone().into_buffer_arg(),
                grad.clone().into_buffer_arg(),
                self.log_decay.clone().into_buffer_arg(),
                self.lambda.clone().into_buffer_arg(),
                gradients.into_buffer_arg(),
                totals.into_buffer_arg(),
                k_grad.clone().into_buffer_arg(),
                v_grad.clone().into_buffer_arg(),
                column_flows.clone().into_buffer_arg(),
                self.tree(),
                self.layouts(Some(grad)),
                self.key_blocks * self.value_blocks == 1,
                self.arithmetic,
            );
            let spans = self.seq_len.div_ceil(decay::SPAN);
            let sums = empty(&self.q, [self.rows * spans], DType::F64);
            decay::decay_sums::launch_unchecked(
                client,
                self.cubes(spans, 1),
                CubeDim::new_1d(256),
                row_flows.clone().into_buffer_arg(),
                column_flows.clone().into_buffer_arg(),
                sums.clone().into_buffer_arg(),
                self.seq_len as u32,
                spans as u32,
            );
            decay::decay_gradient::launch_unchecked(
                client,
                self.cubes(spans, 1),
                CubeDim::new_1d(256),
                row_flows.into_buffer_arg(),
                column_flows.into_buffer_arg(),
                sums.into_buffer_arg(),
                decay_grad.clone().into_buffer_arg(),
                self.seq_len as u32,
                spans as u32,
                self.heads as u32,
            );
        }
        [q_grad, k_grad, v_grad, decay_grad, lambda_grad]
    }
}
