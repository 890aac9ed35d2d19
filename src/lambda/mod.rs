//! λ maps: how a model weighs the levels of its memory.
//!
//! A map turns the intermediate `d_t = x_t W_d` (one number a head and level, as in the released
//! baseline) into λ. Three are built in ([`Linear`], and [`Mlp`] with softplus or softmax); a reader
//! adds her own by implementing [`LambdaMap`].
//!
//! Source: *Adaptive Memory Decay for Log-Linear Attention* (arXiv 2605.06946), section 3. Where its
//! text and its released code differ, [`LambdaConfig`] has a field for each difference.

mod config;
mod linear;
mod mlp;

pub use config::{Activation, Hidden, InitProtocol, LambdaConfig, LambdaKind};
pub use linear::Linear;
pub use mlp::{Mlp, Normalisation};

use crate::cohort::{Parameters, Spec};
use crate::{Error, Result};
use burn::tensor::Tensor;
use std::fmt::Debug;

/// What a λ map sees, for every run and token at once.
#[derive(Clone, Debug)]
pub struct LambdaInput {
    /// Intermediate d [runs, tokens, heads, levels]. Tokens are batch × time, time fastest.
    pub d: Tensor<4>,
    /// The layer's input x [runs, tokens, features], for maps that look beyond d.
    pub x: Tensor<3>,
    /// Sequences per run.
    pub batch: usize,
    /// Positions per sequence.
    pub seq_len: usize,
}

/// Parameters of one map in one layer, by the names that it declared.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    parameters: &'a Parameters,
    prefix: &'a str,
}

impl<'a> Scope<'a> {
    /// Parameters whose names start with `prefix`.
    pub fn new(parameters: &'a Parameters, prefix: &'a str) -> Self {
        Self { parameters, prefix }
    }

    /// Value [runs, rows, columns] of a declared parameter; a vector has one row.
    ///
    /// # Errors
    ///
    /// If no parameter of that name was declared.
    pub fn get(&self, name: &str) -> Result<Tensor<3>> {
        self.parameters.get(&format!("{}{name}", self.prefix))
    }
}

/// A map from a token's features to the weights of its memory levels.
///
/// Everything is batched over runs: a parameter declared with shape [a, b] arrives as [runs, a, b].
pub trait LambdaMap: Debug + Send + Sync {
    /// Short name of the kind, as it appears in configurations, frames and legends.
    fn kind(&self) -> String;

    /// Parameters of one layer.
    fn specs(&self, heads: usize, levels: usize) -> Vec<Spec>;

    /// λ [runs, tokens, heads, levels].
    ///
    /// # Errors
    ///
    /// If a parameter is missing.
    fn forward(&self, input: LambdaInput, parameters: Scope<'_>) -> Result<Tensor<4>>;
}

/// Runs a map and checks the shape of what it returns.
pub(crate) fn evaluate(map: &dyn LambdaMap, input: LambdaInput, scope: Scope<'_>) -> Result<Tensor<4>> {
    let expected = input.d.dims();
    let lambda = map.forward(input, scope)?;
    if lambda.dims() == expected {
        Ok(lambda)
    } else {
        let expected = format!("{expected:?} ([runs, tokens, heads, levels]) from λ map `{}`", map.kind());
        Err(Error::Shape { argument: "lambda", expected, found: lambda.dims().to_vec() })
    }
}
