//! Log-linear attention, in all its forms, and the baselines it is compared with.
//!
//! For each head, with level(t, s) from [`crate::fenwick`],
//!
//! ```text
//! y_t = Σ_{s ≤ t}  λ_t[level(t,s)] · exp(g_{s+1} + … + g_t) · (q_t · k_s) · v_s
//! ```
//!
//! where g ≤ 0 is the log of Mamba-2's scalar decay. There is no 1/√K scale. [`materialised`] is the
//! O(T²) definition, [`chunkwise`] the O(T log T) form for training, [`FenwickState`] the recurrent
//! form with O(log T) states. λ ≡ 1 makes it [`linear`] attention with decay.
//!
//! Source: Guo et al., *Log-Linear Attention* (arXiv 2506.04761), equations 4 and 6.

mod chunkwise;
mod linear;
mod materialised;
mod recurrent;
mod softmax;

pub use chunkwise::{ChunkSize, chunkwise, chunkwise_portable};
pub use linear::{LinearState, linear};
pub use materialised::materialised;
pub use recurrent::{BeyondLevels, FenwickState, StepInputs};
pub use softmax::{SoftmaxCache, softmax};

use crate::cohort::Products;
use crate::{Error, Result, fenwick};
use burn::tensor::Tensor;

/// Arguments of the operator, checked.
#[derive(Clone, Debug)]
pub struct Inputs {
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    log_decay: Tensor<3>,
    lambda: Tensor<4>,
    products: Products,
}

/// The tensors of [`Inputs`], to read.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Queries [N, T, H, K].
    pub q: &'a Tensor<4>,
    /// Keys [N, T, H, K].
    pub k: &'a Tensor<4>,
    /// Values [N, T, H, V].
    pub v: &'a Tensor<4>,
    /// Log-decay [N, T, H].
    pub log_decay: &'a Tensor<3>,
    /// Level weights [N, T, H, L].
    pub lambda: &'a Tensor<4>,
}

impl Inputs {
    /// Checks shapes and values: q, k [N, T, H, K], v [N, T, H, V], log_decay [N, T, H] and
    /// λ [N, T, H, L] with L ≥ `num_levels(T)`.
    ///
    /// Values are read back from the device; in a training loop use
    /// [`from_trusted_values`](Self::from_trusted_values).
    ///
    /// # Errors
    ///
    /// Names the argument if a shape doesn't fit, λ has too few levels, log_decay is positive
    /// somewhere, or a value is NaN or infinite.
    pub fn new(
        q: Tensor<4>,
        k: Tensor<4>,
        v: Tensor<4>,
        log_decay: Tensor<3>,
        lambda: Tensor<4>,
    ) -> Result<Self> {
        let inputs = Self::from_trusted_values(q, k, v, log_decay, lambda)?;
        for (name, tensor) in
            [("q", &inputs.q), ("k", &inputs.k), ("v", &inputs.v), ("lambda", &inputs.lambda)]
        {
            finite(name, tensor)?;
        }
        finite("log_decay", &inputs.log_decay)?;
        let largest = inputs.log_decay.clone().max().into_scalar::<f64>();
        if largest > 0.0 {
            return Err(Error::value("log_decay", "≤ 0 everywhere (the log of a decay in (0, 1])", largest));
        }
        Ok(inputs)
    }

    /// Checks shapes only. The caller knows that values are finite and log_decay ≤ 0.
    ///
    /// # Errors
    ///
    /// Names the argument whose shape doesn't fit.
    pub fn from_trusted_values(
        q: Tensor<4>,
        k: Tensor<4>,
        v: Tensor<4>,
        log_decay: Tensor<3>,
        lambda: Tensor<4>,
    ) -> Result<Self> {
        let [n, t, h, key_dim] = q.dims();
        let named = |letters: &str, sizes: &[usize]| format!("{letters} = {sizes:?}, as q has it");
        if q.dims().contains(&0) {
            return Err(shape("q", "[N, T, H, K] with every size ≥ 1".to_owned(), &q.dims()));
        }
        if k.dims() != q.dims() {
            return Err(shape("k", named("[N, T, H, K]", &[n, t, h, key_dim]), &k.dims()));
        }
        if v.dims()[..3] != [n, t, h] || v.dims()[3] == 0 {
            return Err(shape("v", named("[N, T, H, V ≥ 1] with [N, T, H]", &[n, t, h]), &v.dims()));
        }
        if log_decay.dims() != [n, t, h] {
            return Err(shape("log_decay", named("[N, T, H]", &[n, t, h]), &log_decay.dims()));
        }
        let levels = fenwick::num_levels(t);
        if lambda.dims()[..3] != [n, t, h] {
            return Err(shape("lambda", named("[N, T, H, L] with [N, T, H]", &[n, t, h]), &lambda.dims()));
        }
        if lambda.dims()[3] < levels {
            let expected = format!("[N, T, H, L] with L ≥ {levels} levels, which T = {t} needs");
            return Err(shape("lambda", expected, &lambda.dims()));
        }
        Ok(Self { q, k, v, log_decay, lambda, products: Products::Full })
    }

    /// How the fused kernels on a GPU compute products of f32. Nothing else looks at it.
    #[must_use]
    pub fn with_products(self, products: Products) -> Self {
        Self { products, ..self }
    }

    /// The tensors.
    pub fn parts(&self) -> Parts<'_> {
        let Self { q, k, v, log_decay, lambda, .. } = self;
        Parts { q, k, v, log_decay, lambda }
    }

    /// The given positions of every sequence.
    pub(crate) fn narrow(&self, start: usize, length: usize) -> Self {
        let part = |tensor: &Tensor<4>| tensor.clone().narrow(1, start, length);
        Self {
            q: part(&self.q),
            k: part(&self.k),
            v: part(&self.v),
            log_decay: self.log_decay.clone().narrow(1, start, length),
            lambda: part(&self.lambda),
            products: self.products,
        }
    }

    /// N, T, H, K, V.
    pub fn dims(&self) -> [usize; 5] {
        let [n, t, h, k] = self.q.dims();
        [n, t, h, k, self.v.dims()[3]]
    }
}

fn shape(argument: &'static str, expected: String, found: &[usize]) -> Error {
    Error::Shape { argument, expected, found: found.to_vec() }
}

fn finite<const D: usize>(argument: &'static str, tensor: &Tensor<D>) -> Result<()> {
    if tensor.clone().is_finite().all().into_scalar::<bool>() {
        return Ok(());
    }
    let values: Vec<f64> = tensor.clone().into_data().iter().collect();
    let bad = values.iter().enumerate().find(|(_, value)| !value.is_finite());
    let found = bad.map_or_else(String::new, |(index, value)| {
        format!("{value} at {:?}", position(index, &tensor.dims()))
    });
    Err(Error::value(argument, "finite everywhere", found))
}

fn position(mut index: usize, dims: &[usize]) -> Vec<usize> {
    let mut position: Vec<usize> = dims
        .iter()
        .rev()
        .map(|&size| {
            let place = index % size;
            index /= size;
            place
        })
        .collect();
    position.reverse();
    position
}

/// Bytes that a tensor's elements take.
pub(crate) fn bytes<const D: usize>(tensor: &Tensor<D>) -> usize {
    tensor.dims().iter().product::<usize>() * tensor.dtype().size()
}
