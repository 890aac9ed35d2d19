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
        let need = fenwick::num_levels(self.position + 1);
        if need > have && self.beyond == BeyondLevels::Error {
            let position = self.position;
            let expected = format!("at least {need} levels at position {position} (policy: error)");
            return Err(Error::value("lambda", expected, have));
        }
        let decay = log_decay.exp().reshape([n, h, 1, 1]);
        for state in self.levels.iter_mut().flatten() {
            *state = state.clone() * decay.clone();
        }
        if let Some(target) = fenwick::merge_level(self.position) {
            let merged =
                self.levels.iter_mut().take(target).filter_map(Option::take).reduce(|sum, state| sum + state);
            self.levels.resize(self.levels.len().max(target + 1), None);
            self.levels[target] = merged;
        } else {
            self.levels.resize(1, None);
        }
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
    /// If the memory isn't empty, or a shape doesn't fit its own.
    pub fn prefill(&mut self, inputs: Inputs, chunk: ChunkSize) -> Result<Tensor<4>> {
        if self.position > 0 {
            return Err(Error::value(
                "state",
                "empty before a prefill",
                format!("{} positions", self.position),
            ));
        }
        let [n, t, h, key_dim, value_dim] = inputs.dims();
        check("q", self.dims, [n, h, key_dim, value_dim])?;
        let [k, v] = [&inputs.k, &inputs.v].map(|tensor| tensor.clone().swap_dims(1, 2));
        let cumulative = inputs.log_decay.clone().swap_dims(1, 2).cumsum(2);
        let to_end = (cumulative.clone().narrow(2, t - 1, 1) - cumulative).exp().unsqueeze_dim::<4>(3);
        let k = k * to_end;
        let mut levels = vec![None; fenwick::num_levels(t)];
        for bucket in fenwick::buckets(t - 1) {
            let part = |tensor: &Tensor<4>| tensor.clone().narrow(2, bucket.range.start, bucket.range.len());
            levels[bucket.level] = Some(part(&k).swap_dims(2, 3).matmul(part(&v)));
        }
        self.levels = levels;
        self.position = t;
        Ok(chunkwise(inputs, chunk))
    }
}

fn check<const D: usize>(argument: &'static str, expected: [usize; D], found: [usize; D]) -> Result<()> {
    if expected == found {
        Ok(())
    } else {
        Err(Error::Shape { argument, expected: format!("{expected:?}"), found: found.to_vec() })
    }
}
