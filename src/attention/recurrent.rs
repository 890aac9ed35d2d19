//! The form for decoding: O(log T) states per head, like a binary counter.

use super::{ChunkSize, Inputs, chunkwise};
use crate::fenwick;
use crate::{Error, Result};
use burn::tensor::{DType, Device, Tensor};

/// What a decoder does at positions that need more levels than λ has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BeyondLevels {
    /// Levels past the last reuse the last λ.
    ReuseLast,
    /// [`FenwickState::step`] fails.
    #[default]
    Error,
}

/// Arguments of one step: q, k [N, H, K], v [N, H, V], log_decay [N, H], λ [N, H, L].
#[derive(Clone, Debug)]
pub struct StepInputs {
    /// Queries [N, H, K].
    pub q: Tensor<3>,
    /// Keys [N, H, K].
    pub k: Tensor<3>,
    /// Values [N, H, V].
    pub v: Tensor<3>,
    /// Log-decay [N, H], ≤ 0.
    pub log_decay: Tensor<2>,
    /// Level weights [N, H, L].
    pub lambda: Tensor<3>,
}

/// Memory of a decoder: one state [K, V] for each level present at its position.
#[derive(Clone, Debug)]
pub struct FenwickState {
    dims: [usize; 4],
    levels: Vec<Option<Tensor<4>>>,
    position: usize,
    beyond: BeyondLevels,
    device: Device,
    dtype: DType,
}

impl FenwickState {
    /// Empty memory of N sequences with H heads, key size K and value size V.
    pub fn new(dims: [usize; 4], beyond: BeyondLevels, device: &Device, dtype: DType) -> Self {
        Self { dims, levels: Vec::new(), position: 0, beyond, device: device.clone(), dtype }
    }

    /// Number of positions seen.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Number of states held, at most `num_levels(position)`.
    pub fn num_states(&self) -> usize {
        self.levels.iter().flatten().count()
    }

    /// Bytes of all states.
    pub fn bytes(&self) -> usize {
        self.num_states() * self.dims.iter().product::<usize>() * self.dtype.size()
    }

    /// Sees one position and returns its output [N, H, V].
    ///
    /// # Errors
    ///
    /// If a shape doesn't fit, or the position needs more levels than λ has and the policy is
    /// [`BeyondLevels::Error`]. The memory is unchanged then.
    pub fn step(&mut self, inputs: StepInputs) -> Result<Tensor<3>> {
        let StepInputs { q, k, v, log_decay, lambda } = inputs;
        let [n, h, key_dim, value_dim] = self.dims;
        check("q", [n, h, key_dim], q.dims())?;
        check("k", [n, h, key_dim], k.dims())?;
        check("v", [n, h, value_dim], v.dims())?;
        check("log_decay", [n, h], log_decay.dims())?;
        let have = lambda.dims()[2];
        check("lambda", [n, h, have.max(1)], lambda.dims())?;
        self.check_levels(self.position + 1, have)?;
        let decay = log_decay.exp().reshape([n, h, 1, 1]);
        for state in self.levels.iter_mut().flatten() {
            *state = state.clone() * decay.clone();
        }
        self.merge();
        self.levels.resize(self.levels.len().max(1), None);
        self.levels[0] = Some(k.reshape([n, h, key_dim, 1]).matmul(v.reshape([n, h, 1, value_dim])));
        self.position += 1;

        let q = q.reshape([n, h, 1, key_dim]);
        let mut y = Tensor::zeros([n, h, value_dim], (&self.device, self.dtype));
        for (level, state) in self.levels.iter().enumerate() {
            if let Some(state) = state {
                let read = q.clone().matmul(state.clone()).reshape([n, h, value_dim]);
                y = y + read * lambda.clone().narrow(2, level.min(have - 1), 1);
            }
        }
        Ok(y)
    }

    /// Sees a whole sequence at once, in chunks, and returns its outputs [N, T, H, V]. Steps then
    /// continue as if every position had been a step.
    ///
    /// # Errors
    ///
    /// If the memory isn't empty, or as [`extend`](Self::extend).
    pub fn prefill(&mut self, inputs: Inputs, chunk: ChunkSize) -> Result<Tensor<4>> {
        if self.position > 0 {
            return Err(Error::value(
                "state",
                "empty before a prefill",
                format!("{} positions", self.position),
            ));
        }
        self.extend(inputs, chunk)
    }

    /// Sees the next T positions at once, in chunks, and returns their outputs [N, T, H, V]: the same as T
    /// steps. From a position that is a multiple of a power of two ≥ T it is one batched pass; from another,
    /// a pass for each block of the binary tree up to such a one.
    ///
    /// # Errors
    ///
    /// If a shape doesn't fit the memory's, or a position needs more levels than λ has and the policy is
    /// [`BeyondLevels::Error`]. The memory is unchanged then.
    pub fn extend(&mut self, inputs: Inputs, chunk: ChunkSize) -> Result<Tensor<4>> {
        let [n, t, h, key_dim, value_dim] = inputs.dims();
        check("q", self.dims, [n, h, key_dim, value_dim])?;
        self.check_levels(self.position + t, inputs.lambda.dims()[3])?;
        let mut outputs = Vec::new();
        let mut start = 0;
        while start < t {
            let aligned = if self.position == 0 { t } else { 1 << self.position.trailing_zeros() };
            let length = aligned.min(t - start);
            outputs.push(self.block(inputs.narrow(start, length), chunk));
            start += length;
        }
        Ok(Tensor::cat(outputs, 1))
    }

    /// Sees a block that is aligned: the position is a multiple of a power of two ≥ its length. Every source
    /// before it then keeps one level for the whole block.
    fn block(&mut self, inputs: Inputs, chunk: ChunkSize) -> Tensor<4> {
        let [_, t, _, _, _] = inputs.dims();
        self.merge();
        let by_head = |tensor: &Tensor<4>| tensor.clone().swap_dims(1, 2);
        let (k, v) = (by_head(&inputs.k), by_head(&inputs.v));
        let cumulative = inputs.log_decay.clone().swap_dims(1, 2).cumsum(2).unsqueeze_dim::<4>(3);
        let total = cumulative.clone().narrow(2, t - 1, 1);
        let decay = cumulative.clone().exp();
        let have = inputs.lambda.dims()[3];
        let mut read = None;
        if self.num_states() > 0 {
            let (q, lambda) = (by_head(&inputs.q), by_head(&inputs.lambda));
            let q = q * decay;
            let through = self.levels.iter().enumerate().filter_map(|(level, state)| {
                let lambda = lambda.clone().narrow(3, level.min(have - 1), 1);
                Some(q.clone().matmul(state.clone()?) * lambda)
            });
            read = through.reduce(|sum, y| sum + y);
            let total = total.clone().exp();
            for state in self.levels.iter_mut().flatten() {
                *state = state.clone() * total.clone();
            }
        }
        let k = k * (total - cumulative).exp();
        for bucket in fenwick::buckets(t - 1) {
            let part = |tensor: &Tensor<4>| tensor.clone().narrow(2, bucket.range.start, bucket.range.len());
            self.levels.resize(self.levels.len().max(bucket.level + 1), None);
            self.levels[bucket.level] = Some(part(&k).swap_dims(2, 3).matmul(part(&v)));
        }
        self.position += t;
        let y = chunkwise(inputs, chunk);
        match read {
            Some(read) => y + read.swap_dims(1, 2),
            None => y,
        }
    }

    /// Merges the levels below that of the lowest set bit of the position, as a binary counter carries.
    fn merge(&mut self) {
        let Some(target) = fenwick::merge_level(self.position) else { return };
        let merged =
            self.levels.iter_mut().take(target).filter_map(Option::take).reduce(|sum, state| sum + state);
        self.levels.resize(self.levels.len().max(target + 1), None);
        self.levels[target] = merged;
    }

    /// Checks that λ has the levels that the position before `end` needs, unless the policy is to reuse its last.
    fn check_levels(&self, end: usize, have: usize) -> Result<()> {
        let need = fenwick::num_levels(end);
        if need > have && self.beyond == BeyondLevels::Error {
            let expected = format!("at least {need} levels at position {} (policy: error)", end - 1);
            return Err(Error::value("lambda", expected, have));
        }
        Ok(())
    }
}

fn check<const D: usize>(argument: &'static str, expected: [usize; D], found: [usize; D]) -> Result<()> {
    if expected == found {
        Ok(())
    } else {
        Err(Error::Shape { argument, expected: format!("{expected:?}"), found: found.to_vec() })
    }
}
