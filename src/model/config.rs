//! Configuration of a model: what both architectures share, and the language model's block.

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

/// A model: without `language` the recall model of the synthetic tasks, with it the language model.
/// Defaults are the paper's for the recall model; [`ModelConfig::language`] has those of the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Number of tokens.
    pub vocab: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Number of layers.
    pub layers: usize,
    /// Heads per layer; K = V = d_model / heads in the recall model.
    pub heads: usize,
    /// Longest sequence: it sets the number of memory levels, `num_levels(max_seq_len)`.
    pub max_seq_len: usize,
    /// What mixes positions.
    pub mixer: Mixer,
    /// Positions per chunk of the operator, a power of two.
    pub chunk: usize,
    /// The λ map (log-linear mixer only).
    pub lambda: LambdaConfig,
    /// The language model's block; absent for the recall model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<LanguageConfig>,
}

/// The Mamba-2 block of the language model. Defaults are the paper's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LanguageConfig {
    /// Size K of keys and queries, which all heads share (Mamba-2's state size).
    pub state: usize,
    /// Inner width as a multiple of d_model; V = expand · d_model / heads.
    pub expand: usize,
    /// Width of the causal convolution, in positions.
    pub conv: usize,
    /// Hidden width of the SwiGLU MLP as a multiple of d_model, before the usual factor 2/3 and rounding
    /// up to a multiple of 256.
    pub mlp_ratio: usize,
}

impl Default for LanguageConfig {
    fn default() -> Self {
        Self { state: 128, expand: 1, conv: 4, mlp_ratio: 4 }
    }
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
            language: None,
        }
    }
}

impl ModelConfig {
    /// The paper's language model: 6 layers, d = 256 in 4 heads, 15 levels, GPT-2's vocabulary.
    pub fn language() -> Self {
        Self {
            vocab: 50_257,
            d_model: 256,
            layers: 6,
            heads: 4,
            max_seq_len: 16_384,
            language: Some(LanguageConfig::default()),
            ..Self::default()
        }
    }

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
        let mut inner = self.d_model;
        if let Some(language) = &self.language {
            for (field, value, most) in [
                ("model.language.state", language.state, 1 << 14),
                ("model.language.expand", language.expand, 1 << 6),
                ("model.language.conv", language.conv, 1 << 6),
                ("model.language.mlp_ratio", language.mlp_ratio, 1 << 6),
            ] {
                Error::check_range(field, value, 1..=most)?;
            }
            inner *= language.expand;
        }
        if !inner.is_multiple_of(self.heads) {
            let expected = format!("a divisor of the width {inner} that heads share");
            return Err(Error::value("model.heads", expected, self.heads));
        }
        if self.language.is_some() && self.mixer == Mixer::Softmax && !(inner / self.heads).is_multiple_of(2)
        {
            let expected = "such that a head's width is even (rotary positions turn pairs)";
            return Err(Error::value("model.heads", expected, self.heads));
        }
        self.lambda.validate()?;
        ChunkSize::new(self.chunk)
            .map(|_| ())
            .map_err(|_| Error::value("model.chunk", "a power of two (1, 2, 4, …)", self.chunk))
    }
}
