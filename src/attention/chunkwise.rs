//! The form for training: O(T log T) time, memory linear in T up to the log factor.
//!
//! On the CPU it is one operation of our own with a hand-derived backward (`host::attention`);
//! elsewhere the same algorithm as tensor operations, below. Neither loops over time: all chunks of
//! a height are one batched product.

use super::Inputs;
use super::materialised::causal_decay;
#[cfg(feature = "cuda")]
use crate::gpu::{self, Operand as DeviceOperand};
use crate::host::{self, Operand};
use crate::{Error, Result, fenwick};
#[cfg(feature = "cuda")]
use burn::tensor::DType;
use burn::tensor::{Device, Tensor, TensorData};

/// Positions per chunk: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSize(usize);

impl ChunkSize {
    /// A chunk of `size` positions.
    ///
    /// # Errors
    ///
    /// If `size` isn't a power of two.
    pub fn new(size: usize) -> Result<Self> {
        if size.is_power_of_two() {
            Ok(Self(size))
        } else {
            Err(Error::value("chunk size", "a power of two (1, 2, 4, …)", size))
        }
    }

    /// Positions per chunk.
    pub fn get(self) -> usize {
        self.0
    }

    /// This size, or the smallest that holds the whole sequence if that is less.
    fn for_length(self, seq_len: usize) -> usize {
        self.0.min(seq_len.next_power_of_two())
    }
}

impl Default for ChunkSize {
    fn default() -> Self {
        Self(64)
    }
}

/// The operator in chunks, for any T ≥ 1. Output [N, T, H, V].
pub fn chunkwise(inputs: Inputs, chunk: ChunkSize) -> Tensor<4> {
    #[cfg(feature = "cuda")]
    if gpu::applies(&inputs.q) {
        return fused(inputs);
    }
    if !host::applies(&inputs.q) {
        return chunkwise_portable(inputs, chunk);
    }
    let [n, t, h, _, _] = inputs.dims();
    let op = host::attention::Attention { chunk: chunk.for_length(t) };
    host::apply(
        op,
        [
            Operand::new(inputs.q),
            Operand::new(inputs.k),
            Operand::new(inputs.v),
            Operand::new(inputs.log_decay.reshape([n, t, h, 1])),
            Operand::new(inputs.lambda),
        ],
    )
}

/// [`chunkwise`] by the kernels for GPUs, whose chunk is 64. Decay and λ are f32 there; K and V are padded to
/// what a unit reads at once.
#[cfg(feature = "cuda")]
fn fused(inputs: Inputs) -> Tensor<4> {
    let value_dim = inputs.v.dims()[3];
    let padded = |tensor: Tensor<4>| {
        let [n, t, h, cols] = tensor.dims();
        let missing = cols.next_multiple_of(8) - cols;
        if missing == 0 {
            return tensor;
        }
        let zeros = Tensor::zeros([n, t, h, missing], (&tensor.device(), tensor.dtype()));
        Tensor::cat(vec![tensor, zeros], 3)
    };
    let [q, k, v] = [inputs.q, inputs.k, inputs.v].map(|tensor| DeviceOperand::new(padded(tensor)));
    let log_decay = DeviceOperand::new(inputs.log_decay.cast(DType::F32));
    let lambda = DeviceOperand::new(inputs.lambda.cast(DType::F32));
    let y = gpu::apply::<_, 5, 4>(
        gpu::operator::Attention { arithmetic: inputs.products.into() },
        [q, k, v, log_decay, lambda],
    );
    if y.dims()[3] == value_dim { y } else { y.narrow(3, 0, value_dim) }
}

/// [`chunkwise`] as tensor operations, on any device.
pub fn chunkwise_portable(inputs: Inputs, chunk: ChunkSize) -> Tensor<4> {
    let [n, t, h, key_dim, value_dim] = inputs.dims();
    let size = chunk.for_length(t);
    let chunks = t.div_ceil(size).next_power_of_two();
    let b = n * h;
    let per_chunk = |tensor: Tensor<4>| {
        let cols = tensor.dims()[3];
        let rows = tensor.swap_dims(1, 2).reshape([b, t, cols]);
        pad(rows, chunks * size).reshape([b, chunks, size, cols])
    };
    let grid = Grid { b, chunks, size };
    let q = per_chunk(inputs.q);
    let k = per_chunk(inputs.k);
    let v = per_chunk(inputs.v);
    let lambda = per_chunk(inputs.lambda);
    // Log-decay from the chunk's start, so that no long sum is subtracted from another.
    let log_decay = per_chunk(inputs.log_decay.reshape([n, t, h, 1]));
    let decay = log_decay.clone().cumsum(2);
    let total = decay.clone().narrow(2, size - 1, 1);

    let mut y = intra(&grid, q.clone(), k.clone(), v.clone(), log_decay, lambda.clone());
    if chunks > 1 {
        let to_end = (total.clone() - decay.clone()).exp();
        let mut states = (k * to_end).swap_dims(2, 3).matmul(v);
        let mut blocks = total.reshape([b, chunks]);
        for height in 0..chunks.trailing_zeros() as usize {
            let level = size.trailing_zeros() as usize + 1 + height;
            let pairs = chunks >> (height + 1);
            let states_by_pair = states.reshape([b, pairs, 2, key_dim * value_dim]);
            let [left, right] = [0, 1]
                .map(|i| states_by_pair.clone().narrow(2, i, 1).reshape([b, pairs, key_dim, value_dim]));
            let weight = lambda.clone().narrow(3, level, 1).reshape([b, chunks, size]);
            y = y + grid.read(height, &q, &decay, weight, left.clone());
            let totals = blocks.reshape([b, pairs, 2]);
            let right_total = totals.clone().narrow(2, 1, 1);
            states = left * right_total.reshape([b, pairs, 1, 1]).exp() + right;
            blocks = totals.sum_dim(2).reshape([b, pairs]);
        }
    }
    y.reshape([b, chunks * size, value_dim]).narrow(1, 0, t).reshape([n, h, t, value_dim]).swap_dims(1, 2)
}

/// Sequences × heads, chunks, positions per chunk.
struct Grid {
    b: usize,
    chunks: usize,
    size: usize,
}

impl Grid {
    /// What the right half of each pair of blocks reads from the left: [B, chunks, C, V], zero in
    /// the left halves. `weight` is λ at this height's level.
    fn read(
        &self,
        height: usize,
        q: &Tensor<4>,
        decay: &Tensor<4>,
        weight: Tensor<3>,
        left: Tensor<4>,
    ) -> Tensor<4> {
        let Self { b, chunks, size } = *self;
        let (half, pairs) = (1 << height, chunks >> (height + 1));
        let [_, _, key_dim, value_dim] = left.dims();
        let right_half = |tensor: Tensor<4>| {
            let cols = tensor.dims()[3];
            tensor.reshape([b, pairs, 2, half * size * cols]).narrow(2, 1, 1).reshape([
                b * pairs,
                half,
                size,
                cols,
            ])
        };
        let decay = right_half(decay.clone());
        // Decay of the whole chunks between the half's start and the target's chunk.
        let totals = decay.clone().narrow(2, size - 1, 1);
        let before = totals.clone().cumsum(1) - totals;
        let factor = (decay + before).exp() * right_half(weight.reshape([b, chunks, size, 1]));
        let reads = (right_half(q.clone()) * factor).reshape([b, pairs, half * size, key_dim]).matmul(left);
        Tensor::cat(vec![reads.zeros_like(), reads], 2).reshape([b, chunks, size, value_dim])
    }
}

/// Pairs inside a chunk, by the masked product. Shapes [B, chunks, C, …].
fn intra(
    grid: &Grid,
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    log_decay: Tensor<4>,
    lambda: Tensor<4>,
) -> Tensor<4> {
    let Grid { b, chunks, size } = *grid;
    let device = q.device();
    let all = [b, chunks, size, size];
    let log_decay = log_decay.reshape([b, chunks, size]).swap_dims(1, 2);
    let weights = causal_decay(log_decay, &device) * q.matmul(k.swap_dims(2, 3));
    // λ picked by level, as a product with one indicator matrix [levels, source] per target.
    let levels = fenwick::num_levels(size);
    let picked = lambda
        .narrow(3, 0, levels)
        .reshape([b * chunks, size, levels])
        .swap_dims(0, 1)
        .matmul(indicators(size, &device, weights.dtype()))
        .swap_dims(0, 1)
        .reshape(all);
    (weights * picked).matmul(v)
}

/// 1 where `level(target, source) = level`: [target, level, source].
fn indicators(size: usize, device: &Device, dtype: burn::tensor::DType) -> Tensor<3> {
    let levels = fenwick::num_levels(size);
    let values: Vec<f32> = (0..size * levels * size)
        .map(|i| {
            let (target, level, source) = (i / size / levels, i / size % levels, i % size);
            f32::from(source <= target && fenwick::level(target, source) == level)
        })
        .collect();
    Tensor::from_data(TensorData::new(values, [size, levels, size]), (device, dtype))
}

/// Zeros after the last position, up to `length` positions.
fn pad(rows: Tensor<3>, length: usize) -> Tensor<3> {
    let [b, t, cols] = rows.dims();
    if t == length {
        return rows;
    }
    let zeros = Tensor::zeros([b, length - t, cols], (&rows.device(), rows.dtype()));
    Tensor::cat(vec![rows, zeros], 1)
}
