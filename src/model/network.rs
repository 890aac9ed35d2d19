//! A model of either architecture: a pure function of its parameters.

use super::head::{self, Loss, Scores};
use super::{Mixer, ModelConfig, language, recall};
use crate::attention::ChunkSize;
use crate::cohort::{Parameters, Products, Spec, embedding, embedding_gradient, linear, linear_as, plain};
use crate::host;
use crate::lambda::LambdaMap;
use crate::{Error, Result};
use burn::tensor::{DType, Int, Tensor};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Arithmetic of a training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Single precision throughout.
    #[default]
    F32,
    /// Single precision, but on a GPU the factors of products are sums of two bf16 numbers, 16 bits of mantissa, as
    /// in PyTorch's `high`. The CPU computes as for f32.
    High,
    /// The language model's matrix products of activations and weights in bfloat16; weights, norms, the
    /// operator and its state, the loss and the optimiser stay in f32, the operator's products as in `high`. GPUs
    /// only.
    Bf16,
}

impl Precision {
    /// How products of what stays in f32 are computed.
    fn products(self) -> Products {
        match self {
            Self::F32 => Products::Full,
            Self::High | Self::Bf16 => Products::High,
        }
    }

    /// x Wᵀ for x [R, M, I], W [R, O, I]; the result is in the type of x.
    pub(super) fn linear(self, x: Tensor<3>, weight: Tensor<3>) -> Tensor<3> {
        match self {
            Self::F32 | Self::High => linear_as(self.products(), x, weight, None),
            Self::Bf16 => {
                let dtype = x.dtype();
                linear(x.cast(DType::BF16), weight.cast(DType::BF16), None).cast(dtype)
            }
        }
    }

    /// a b; the result is in the type of a.
    pub(super) fn matmul(self, a: Tensor<3>, b: Tensor<3>) -> Tensor<3> {
        match self {
            Self::F32 | Self::High => a.matmul(b),
            Self::Bf16 => {
                let dtype = a.dtype();
                a.cast(DType::BF16).matmul(b.cast(DType::BF16)).cast(dtype)
            }
        }
    }
}

/// Logits and what was looked at on the way.
#[derive(Clone, Debug)]
pub struct Captured {
    /// Logits [runs, batch × time, vocab].
    pub logits: Tensor<3>,
    /// λ of every layer [runs, batch × time, heads, levels]; empty for the baselines.
    pub lambda: Vec<Tensor<4>>,
}

/// A model, without its parameters: those are a [`Parameters`] of the caller's.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) config: ModelConfig,
    pub(super) map: Arc<dyn LambdaMap>,
    pub(super) chunk: ChunkSize,
    precision: Precision,
}

impl Model {
    /// A model with the λ map that its configuration names.
    ///
    /// # Errors
    ///
    /// If a field of the configuration is out of range.
    pub fn new(config: ModelConfig) -> Result<Self> {
        let map = config.lambda.map()?;
        Self::with_lambda(config, map)
    }

    /// A model with a λ map of the caller's own.
    ///
    /// # Errors
    ///
    /// If a field of the configuration is out of range.
    pub fn with_lambda(config: ModelConfig, map: Arc<dyn LambdaMap>) -> Result<Self> {
        config.validate()?;
        if config.mixer == Mixer::LogLinear && config.lambda.name() != map.kind() {
            let expected = format!("`{}`, the name in model.lambda", config.lambda.name());
            return Err(Error::value("kind() of the λ map", expected, map.kind()));
        }
        let chunk = ChunkSize::new(config.chunk)?;
        Ok(Self { config, map, chunk, precision: Precision::F32 })
    }

    /// The same model with other arithmetic.
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// The configuration.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Name of the λ kind, or of the baseline.
    pub fn kind(&self) -> String {
        match self.config.mixer {
            Mixer::LogLinear => self.map.kind(),
            _ => self.config.kind().to_owned(),
        }
    }

    /// Declarations of all parameters, in order.
    pub fn specs(&self) -> Vec<Spec> {
        match &self.config.language {
            None => recall::specs(self),
            Some(config) => language::specs(self, config),
        }
    }

    pub(super) fn lambda_specs(&self) -> Vec<Spec> {
        self.map.specs(self.config.heads, self.config.levels())
    }

    /// Number of parameters of all layers' λ maps.
    pub(super) fn lambda_parameters(&self) -> usize {
        match self.config.mixer {
            Mixer::LogLinear => {
                self.config.layers * self.lambda_specs().iter().map(Spec::count).sum::<usize>()
            }
            _ => 0,
        }
    }

    /// Logits [runs, batch × time, vocab] for tokens [runs, batch, time].
    ///
    /// # Errors
    ///
    /// If tokens and parameters have different numbers of runs, the sequence is longer than
    /// `max_seq_len`, or a parameter is missing.
    pub fn forward(&self, parameters: &Parameters, tokens: Tensor<3, Int>) -> Result<Tensor<3>> {
        let hidden = self.hidden(parameters, tokens, |_| ())?;
        Ok(self.linear(hidden, self.head(parameters)?))
    }

    /// As [`forward`](Self::forward), with every layer's λ besides.
    ///
    /// # Errors
    ///
    /// As [`forward`](Self::forward).
    pub fn capture(&self, parameters: &Parameters, tokens: Tensor<3, Int>) -> Result<Captured> {
        let mut lambda = Vec::new();
        let hidden = self.hidden(parameters, tokens, |layer| lambda.push(layer))?;
        Ok(Captured { logits: self.linear(hidden, self.head(parameters)?), lambda })
    }

    /// Every layer's λ [runs, batch × time, heads, levels], without logits.
    ///
    /// # Errors
    ///
    /// As [`forward`](Self::forward).
    pub fn lambda(&self, parameters: &Parameters, tokens: Tensor<3, Int>) -> Result<Vec<Tensor<4>>> {
        let mut lambda = Vec::new();
        self.hidden(parameters, tokens, |layer| lambda.push(layer))?;
        Ok(lambda)
    }

    /// Cross-entropy of every run against targets [runs, batch, time]: the sum over scored positions
    /// divided by `scored`, a number for each run. Logits are computed a block of rows at a time and never
    /// held together if there are many.
    ///
    /// # Errors
    ///
    /// As [`forward`](Self::forward), and on the CPU if a target is not a token.
    pub fn loss(
        &self,
        parameters: &Parameters,
        tokens: Tensor<3, Int>,
        targets: Tensor<3, Int>,
        scored: &[usize],
    ) -> Result<Loss> {
        let hidden = self.hidden(parameters, tokens, |_| ())?;
        head::loss(hidden, self.head(parameters)?, targets, scored, self.precision)
    }

    /// Cross-entropy of every run \[runs\] as [`loss`](Self::loss) has it, and its gradient with respect to all
    /// parameters, [runs, parameters] in the order of the specs.
    ///
    /// # Errors
    ///
    /// As [`loss`](Self::loss).
    pub fn differentiate(
        &self,
        parameters: &Parameters,
        tokens: Tensor<3, Int>,
        targets: Tensor<3, Int>,
        scored: &[usize],
    ) -> Result<(Tensor<1>, Tensor<2>)> {
        let leaves = parameters.require_grad();
        let table = parameters.get(self.embedding())?;
        if self.config.language.is_none() || host::applies(&table) {
            let loss = self.loss(&leaves, tokens, targets, scored)?;
            return Ok((loss.values, leaves.take_gradients(&mut loss.objective.sum().backward())));
        }
        // Table and head are not in the graph: their gradients, the largest, come from elsewhere.
        self.check(parameters, &tokens)?;
        let (vocab, batch) = (table.dims()[1], tokens.dims()[1]);
        let embedded = plain(&embedding(table, tokens.clone())?).autodiff().require_grad();
        let hidden = language::layers(self, &leaves, embedded.clone(), batch, None, |_| ())?;
        let weight = plain(&self.head(parameters)?);
        let block = head::block_rows(&hidden, &weight);
        let found =
            head::differentiate(plain(&hidden), weight, targets, scored, self.precision, block, true)?;
        let Some([of_hidden, of_head]) = found.gradients else {
            return Err(Error::value("gradient of the head", "present", "none"));
        };
        let mut gradients = head::product(hidden, of_hidden).sum().backward();
        let grad = embedded.grad_remove(&mut gradients).unwrap_or_else(|| plain(&embedded).zeros_like());
        let of_table = embedding_gradient(tokens, grad, vocab);
        let given = [(self.embedding(), of_table), (language::HEAD, of_head)];
        Ok((found.values, leaves.take_gradients_but(&mut gradients, &given)))
    }

    /// As [`differentiate`](Self::differentiate) of the recall model, the divisor of each run the number of its scored
    /// positions, at least 1, counted on the device.
    #[cfg(feature = "cuda")]
    pub(crate) fn differentiate_mean(
        &self,
        parameters: &Parameters,
        tokens: Tensor<3, Int>,
        targets: Tensor<3, Int>,
    ) -> Result<(Tensor<1>, Tensor<2>)> {
        let leaves = parameters.require_grad();
        let losses = super::cross_entropy(self.forward(&leaves, tokens)?, targets)?;
        let mut gradients = losses.clone().sum().backward();
        Ok((plain(&losses), leaves.take_gradients(&mut gradients)))
    }

    /// Cross-entropy of every position, and whether its target has the largest logit.
    ///
    /// # Errors
    ///
    /// As [`loss`](Self::loss).
    pub fn score(
        &self,
        parameters: &Parameters,
        tokens: Tensor<3, Int>,
        targets: Tensor<3, Int>,
    ) -> Result<Scores> {
        let hidden = self.hidden(parameters, tokens, |_| ())?;
        head::scores(hidden, self.head(parameters)?, targets, self.precision)
    }

    /// What the head sees [runs, batch × time, d_model].
    fn hidden(
        &self,
        parameters: &Parameters,
        tokens: Tensor<3, Int>,
        see_lambda: impl FnMut(Tensor<4>),
    ) -> Result<Tensor<3>> {
        self.check(parameters, &tokens)?;
        match &self.config.language {
            None => recall::hidden(self, parameters, tokens, see_lambda),
            Some(_) => language::hidden(self, parameters, tokens, None, see_lambda),
        }
    }

    fn check(&self, parameters: &Parameters, tokens: &Tensor<3, Int>) -> Result<()> {
        let [runs, _, seq_len] = tokens.dims();
        if runs != parameters.runs() {
            let expected = format!("[runs = {}, batch, time]", parameters.runs());
            return Err(Error::Shape { argument: "tokens", expected, found: tokens.dims().to_vec() });
        }
        if seq_len > self.config.max_seq_len {
            let expected = format!("[runs, batch, time ≤ max_seq_len = {}]", self.config.max_seq_len);
            return Err(Error::Shape { argument: "tokens", expected, found: tokens.dims().to_vec() });
        }
        Ok(())
    }

    /// Name of the embedding's table.
    fn embedding(&self) -> &'static str {
        if self.config.language.is_some() { language::EMBEDDING } else { "embedding.weight" }
    }

    /// Weight of the linear head [runs, vocab, d_model].
    pub(super) fn head(&self, parameters: &Parameters) -> Result<Tensor<3>> {
        let name = if self.config.language.is_some() { language::HEAD } else { "head.weight" };
        parameters.get(name)
    }

    /// How products of f32 are computed.
    pub(super) fn products(&self) -> Products {
        self.precision.products()
    }

    /// x Wᵀ in the model's precision; the result is in that of x.
    pub(super) fn linear(&self, x: Tensor<3>, weight: Tensor<3>) -> Tensor<3> {
        self.precision.linear(x, weight)
    }
}
