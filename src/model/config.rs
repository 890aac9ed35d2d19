//! Configuration of the recall model.

use crate::attention::ChunkSize;
use crate::lambda::LambdaConfig;
use crate::{Error, Result, fenwick};
use serde::{Deserialize, Serialize};

/// What mixes positions in a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mixer {
    /// Log-linear attention with a λ map.
    #[default]
    LogLinear,
    /// Linear attention with decay (Mamba-2): λ ≡ 1.
    Linear,
    /// Causal softmax attention, without positions.
    Softmax,
}

/// The synthetic-task model. Defaults are the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Number of tokens.
    pub vocab: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Number of layers.
    pub layers: usize,
    /// Heads per layer; K = V = d_model / heads.
    pub heads: usize,
    /// Longest sequence: it sets the number of memory levels, `num_levels(max_seq_len)`.
    pub max_seq_len: usize,
    /// What mixes positions.
    pub mixer: Mixer,
    /// Positions per chunk of the operator, a power of two.
    pub chunk: usize,
    /// The λ map (log-linear mixer only).
    pub lambda: LambdaConfig,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            vocab: 128,
            d_model: 64,
            layers: 2,
            heads: 1,
            max_seq_len: 128,
            mixer: Mixer::default(),
            chunk: 64,
            lambda: LambdaConfig::default(),
        }
    }
}

impl ModelConfig {
    /// Number of memory levels.
    pub fn levels(&self) -> usize {
        fenwick::num_levels(self.max_seq_len)
    }

    /// Name of what a run of this model is, in frames and legends: the λ kind, or the baseline's.
    pub fn kind(&self) -> &str {
        match self.mixer {
            Mixer::LogLinear => self.lambda.name(),
            Mixer::Linear => "linear-attention",
            Mixer::Softmax => "softmax-attention",
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range.
    pub fn validate(&self) -> Result<()> {
        for (field, value, most) in [
            ("model.vocab", self.vocab, 1 << 20),
            ("model.d_model", self.d_model, 1 << 14),
            ("model.layers", self.layers, 1 << 10),
            ("model.heads", self.heads, 1 << 14),
            ("model.max_seq_len", self.max_seq_len, 1 << 24),
            ("model.lambda.hidden", self.lambda.hidden.width(self.levels()), 1 << 14),
        ] {
            Error::check_range(field, value, 1..=most)?;
        }
        if !self.d_model.is_multiple_of(self.heads) {
            let expected = format!("a divisor of d_model = {}", self.d_model);
            return Err(Error::value("model.heads", expected, self.heads));
        }
        self.lambda.validate()?;
        ChunkSize::new(self.chunk)
            .map(|_| ())
            .map_err(|_| Error::value("model.chunk", "a power of two (1, 2, 4, …)", self.chunk))
    }
}
