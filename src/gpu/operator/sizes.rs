//! What the launches of the operator's kernels share: one call's tensors and sizes.

use super::chunk::LayoutLaunch;
use super::tree::{LayoutsLaunch, TreeLaunch};
use super::{Attention, state};
use crate::gpu::{Arithmetic, DeviceTensor, readable, tile};
use burn::tensor::DType;
use cubecl::prelude::{CubeCount, CubeDim};

/// One call's tensors and sizes.
pub(super) struct Launch {
    pub(super) q: DeviceTensor,
    pub(super) k: DeviceTensor,
    pub(super) v: DeviceTensor,
    pub(super) log_decay: DeviceTensor,
    pub(super) lambda: DeviceTensor,
    pub(super) arithmetic: Arithmetic,
    /// Elements that a unit reads at once: 16 bytes.
    pub(super) width: usize,
    /// Heads of all sequences.
    pub(super) rows: usize,
    pub(super) heads: usize,
    pub(super) seq_len: usize,
    pub(super) chunks: usize,
    pub(super) key_blocks: usize,
    pub(super) value_blocks: usize,
    /// Of every height, the index of its first node.
    pub(super) heights: Vec<usize>,
    pub(super) nodes: usize,
}

/// Numbers of parts of a head's state gradients: all, and those that are segments of a block.
pub(super) struct Items {
    pub(super) all: usize,
    pub(super) partial: usize,
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

    pub(super) fn tree(&self) -> TreeLaunch {
        TreeLaunch::new(
            self.chunks as u32,
            self.nodes as u32,
            self.value_blocks as u32,
            self.key_blocks as u32,
            self.heads as u32,
            self.seq_len as u32,
        )
    }

    pub(super) fn layouts(&self, grad: Option<&DeviceTensor>) -> LayoutsLaunch {
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
    pub(super) fn node(&self) -> usize {
        self.key_blocks * self.value_blocks * tile::SIDE * tile::SIDE
    }

    pub(super) fn units() -> CubeDim {
        CubeDim::new_1d(tile::UNITS as u32)
    }

    /// A cube for each of `count` parts of every head, and for each tile.
    pub(super) fn cubes(&self, count: usize, tiles: usize) -> CubeCount {
        CubeCount::Static((self.rows * count) as u32, tiles as u32, 1)
    }

    /// Parts of the work for the gradients of states, as `state::state_gradients` counts them.
    pub(super) fn items(&self) -> Items {
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
}
