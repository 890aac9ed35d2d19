//! The recall model of the synthetic tasks.
//!
//! tokens → embedding → layers × { LayerNorm(W_o mix(x) + x) } → LayerNorm → linear head. In a layer
//! q, k, v, d and Δ are projections without bias, g = −exp(A_log) · softplus(Δ + Δ_bias), and v is
//! not scaled by Δ.

use super::{INIT_STD, Mixer, ModelConfig};
use crate::attention::{ChunkSize, Inputs, chunkwise, linear as linear_attention, softmax};
use crate::cohort::{Init, Parameters, Spec, embedding, layer_norm, linear, linear_many, softplus};
use crate::lambda::{self, LambdaInput, LambdaMap, Scope};
use crate::{Error, Result};
use burn::tensor::{Int, Tensor};
use std::sync::Arc;

/// ε of every layer normalisation (PyTorch's default).
const NORM_EPSILON: f64 = 1e-5;

/// Logits and what was looked at on the way.
#[derive(Clone, Debug)]
pub struct Captured {
    /// Logits [runs, batch × time, vocab].
    pub logits: Tensor<3>,
    /// λ of every layer [runs, batch × time, heads, levels]; empty for the baselines.
    pub lambda: Vec<Tensor<4>>,
}

/// The recall model, without its parameters: those are a [`Parameters`] of the caller's.
#[derive(Clone, Debug)]
pub struct Model {
    config: ModelConfig,
    map: Arc<dyn LambdaMap>,
    chunk: ChunkSize,
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
        Ok(Self { config, map, chunk })
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
        let ModelConfig { vocab, d_model, layers, heads, .. } = self.config;
        let normal = || Init::Normal { std: INIT_STD };
        let norm = |prefix: &str| {
            [("weight", 1.0), ("bias", 0.0)]
                .map(|(name, value)| Spec::new(format!("{prefix}.{name}"), &[d_model], Init::Constant(value)))
        };
        let mut specs = vec![Spec::new("embedding.weight", &[vocab, d_model], normal())];
        for layer in 0..layers {
            let mut add = |name: &str, shape: &[usize], init| {
                specs.push(Spec::new(format!("layers.{layer}.{name}"), shape, init));
            };
            for name in ["q.weight", "k.weight", "v.weight"] {
                add(name, &[d_model, d_model], normal());
            }
            if self.config.mixer != Mixer::Softmax {
                add("dt.weight", &[heads, d_model], normal());
                add("dt_bias", &[heads], Init::InverseSoftplus { low: 0.001, high: 0.1 });
                let a_log = (1..=heads).map(|head| libm::log(head as f64)).collect();
                add("a_log", &[heads], Init::Values(a_log));
            }
            if self.config.mixer == Mixer::LogLinear {
                add("d_proj.weight", &[heads * self.config.levels(), d_model], normal());
                for spec in self.lambda_specs() {
                    add(&spec.name, &spec.shape, spec.init);
                }
            }
            // Scaled by the number of residual additions up to a layer's end, as in GPT-2.
            let std = INIT_STD / libm::sqrt(2.0 * layers as f64);
            add("out.weight", &[d_model, d_model], Init::Normal { std });
            specs.extend(norm(&format!("layers.{layer}.norm")));
        }
        specs.extend(norm("norm"));
        specs.push(Spec::new("head.weight", &[vocab, d_model], normal()));
        specs
    }

    fn lambda_specs(&self) -> Vec<Spec> {
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
        self.run(parameters, tokens, |_| ())
    }

    /// As [`forward`](Self::forward), with every layer's λ besides.
    ///
    /// # Errors
    ///
    /// As [`forward`](Self::forward).
    pub fn capture(&self, parameters: &Parameters, tokens: Tensor<3, Int>) -> Result<Captured> {
        let mut lambda = Vec::new();
        let logits = self.run(parameters, tokens, |layer| lambda.push(layer))?;
        Ok(Captured { logits, lambda })
    }

    fn run(
        &self,
        parameters: &Parameters,
        tokens: Tensor<3, Int>,
        mut see_lambda: impl FnMut(Tensor<4>),
    ) -> Result<Tensor<3>> {
        let [runs, batch, seq_len] = tokens.dims();
        if runs != parameters.runs() {
            let expected = format!("[runs = {}, batch, time]", parameters.runs());
            return Err(Error::Shape { argument: "tokens", expected, found: tokens.dims().to_vec() });
        }
        if seq_len > self.config.max_seq_len {
            let expected = format!("[runs, batch, time ≤ max_seq_len = {}]", self.config.max_seq_len);
            return Err(Error::Shape { argument: "tokens", expected, found: tokens.dims().to_vec() });
        }
        let mut x = embedding(parameters.get("embedding.weight")?, tokens)?;
        for layer in 0..self.config.layers {
            let prefix = format!("layers.{layer}.");
            let get = |name: &str| parameters.get(&format!("{prefix}{name}"));
            let y = self.mix(x.clone(), batch, Scope::new(parameters, &prefix), &mut see_lambda)?;
            let y = linear(y, get("out.weight")?, None);
            x = layer_norm(y, Some(x), get("norm.weight")?, get("norm.bias")?, NORM_EPSILON);
        }
        let x =
            layer_norm(x, None, parameters.get("norm.weight")?, parameters.get("norm.bias")?, NORM_EPSILON);
        Ok(linear(x, parameters.get("head.weight")?, None))
    }

    /// Mixes positions: x [runs, tokens, features] → [runs, tokens, features].
    fn mix(
        &self,
        x: Tensor<3>,
        batch: usize,
        layer: Scope<'_>,
        see_lambda: &mut impl FnMut(Tensor<4>),
    ) -> Result<Tensor<3>> {
        let [runs, tokens, d_model] = x.dims();
        let seq_len = tokens / batch;
        let heads = self.config.heads;
        let by_head = |projected: Tensor<3>| -> Tensor<4> {
            projected.reshape([runs * batch, seq_len, heads, d_model / heads])
        };
        let [q, k, v] = [layer.get("q.weight")?, layer.get("k.weight")?, layer.get("v.weight")?];
        let log_decay = |step: Tensor<3>| -> Result<Tensor<3>> {
            let step = softplus(step + layer.get("dt_bias")?);
            let log_decay = step * layer.get("a_log")?.exp().neg();
            Ok(log_decay.reshape([runs * batch, seq_len, heads]))
        };
        let y = match self.config.mixer {
            Mixer::Softmax => {
                let [q, k, v] = linear_many(&x, [q, k, v]).map(by_head);
                softmax(q, k, v)
            }
            Mixer::Linear => {
                let [q, k, v, step] = linear_many(&x, [q, k, v, layer.get("dt.weight")?]);
                let [q, k, v] = [q, k, v].map(by_head);
                linear_attention(q, k, v, log_decay(step)?, self.chunk)
            }
            Mixer::LogLinear => {
                let weights = [q, k, v, layer.get("dt.weight")?, layer.get("d_proj.weight")?];
                let [q, k, v, step, d] = linear_many(&x, weights);
                let [q, k, v] = [q, k, v].map(by_head);
                let levels = self.config.levels();
                let d = d.reshape([runs, tokens, heads, levels]);
                let input = LambdaInput { d, x, batch, seq_len };
                let lambda = lambda::evaluate(&*self.map, input, layer)?;
                see_lambda(lambda.clone());
                let lambda = lambda.reshape([runs * batch, seq_len, heads, levels]);
                chunkwise(Inputs::from_trusted_values(q, k, v, log_decay(step)?, lambda)?, self.chunk)
            }
        };
        Ok(y.reshape([runs, tokens, d_model]))
    }
}
