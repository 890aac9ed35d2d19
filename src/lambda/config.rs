//! Choice of a λ map, with every point on which the paper's text and its release differ.

use super::{LambdaMap, Linear, Mlp, Normalisation};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which built-in map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LambdaKind {
    /// softplus(Lp ⊙ d): the baseline, a learned scale per head and level.
    Fixed,
    /// softplus of an MLP of d: proposed.
    #[default]
    MlpSoftplus,
    /// softmax over levels of the same MLP: ablation.
    MlpSoftmax,
}

impl LambdaKind {
    /// Every kind, in the order of the paper's tables.
    pub const ALL: [Self; 3] = [Self::Fixed, Self::MlpSoftplus, Self::MlpSoftmax];

    /// Name in configurations and frames.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::MlpSoftplus => "mlp-softplus",
            Self::MlpSoftmax => "mlp-softmax",
        }
    }
}

/// Function between the two linear maps of an MLP-λ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// h = d W1, without a bias (text).
    #[default]
    None,
    /// h = GELU(d W1 + b1) (release).
    Gelu,
}

/// Hidden width of an MLP-λ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "HiddenText", try_from = "HiddenText")]
pub enum Hidden {
    /// Twice the number of levels, written `"2L"` (text).
    #[default]
    TwiceLevels,
    /// A number (release: 64).
    Width(usize),
}

/// [`Hidden`] as it is written: a number or `"2L"`.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "hidden must be \"2L\" or a number ≥ 1")]
enum HiddenText {
    Number(usize),
    Text(String),
}

impl From<Hidden> for HiddenText {
    fn from(hidden: Hidden) -> Self {
        match hidden {
            Hidden::TwiceLevels => Self::Text("2L".to_owned()),
            Hidden::Width(width) => Self::Number(width),
        }
    }
}

impl TryFrom<HiddenText> for Hidden {
    type Error = String;

    fn try_from(text: HiddenText) -> std::result::Result<Self, String> {
        match text {
            HiddenText::Number(width) if width > 0 => Ok(Self::Width(width)),
            HiddenText::Text(text) => text.parse(),
            HiddenText::Number(width) => Err(format!("hidden must be \"2L\" or a number ≥ 1, found {width}")),
        }
    }
}

impl std::str::FromStr for Hidden {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.parse() {
            Ok(width) if width > 0 => Ok(Self::Width(width)),
            _ if text.eq_ignore_ascii_case("2L") => Ok(Self::TwiceLevels),
            _ => Err(format!("hidden must be \"2L\" or a number ≥ 1, found {text:?}")),
        }
    }
}

/// How an MLP-λ starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum InitProtocol {
    /// W2 = 0 and b2 = 0.54 (softplus: λ ≈ 1) or 0 (softmax: λ = 1/L).
    #[default]
    Text,
    /// As released code ends up: the model's initialiser redraws W1 and W2 from N(0, 0.02²) and
    /// zeroes the biases, so training starts near softplus(0) ≈ 0.69.
    Release,
}

/// Configuration of a built-in λ map. The defaults are the paper's text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LambdaConfig {
    /// Which map.
    pub kind: LambdaKind,
    /// Function between W1 and W2 (MLPs only).
    pub activation: Activation,
    /// Hidden width (MLPs only): `"2L"` or a number.
    pub hidden: Hidden,
    /// Initial values (MLPs only).
    pub init: InitProtocol,
    /// Name of a map of the reader's own, which replaces the built-in one. The name only records
    /// what was used: the map itself is passed to [`crate::model::Model::with_lambda`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<String>,
}

impl LambdaConfig {
    /// The map as the paper's text describes it.
    pub fn text(kind: LambdaKind) -> Self {
        Self { kind, ..Self::default() }
    }

    /// The map as the released code computes it.
    pub fn release(kind: LambdaKind) -> Self {
        Self {
            kind,
            activation: Activation::Gelu,
            hidden: Hidden::Width(64),
            init: InitProtocol::Release,
            custom: None,
        }
    }

    /// Name of the map in frames and legends.
    pub fn name(&self) -> &str {
        self.custom.as_deref().unwrap_or(self.kind.name())
    }

    /// Checks the name of a map of the reader's own: it becomes part of a folder's name, and must not pass
    /// for something built in.
    ///
    /// # Errors
    ///
    /// If the name is empty, has other characters than letters, digits, `-` and `_`, or is taken.
    pub fn validate(&self) -> Result<()> {
        let Some(name) = &self.custom else { return Ok(()) };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(plain) {
            let expected = "a name of letters, digits, - and _ (what kind() of the map returns)";
            return Err(Error::value("model.lambda.custom", expected, format!("`{name}`")));
        }
        let taken = LambdaKind::ALL.map(LambdaKind::name);
        if taken.contains(&name.as_str())
            || ["linear-attention", "softmax-attention"].contains(&name.as_str())
        {
            return Err(Error::value("model.lambda.custom", "a name that nothing built in has", name));
        }
        Ok(())
    }

    /// The built-in map.
    ///
    /// # Errors
    ///
    /// If the configuration names a map of a reader's own.
    pub fn map(&self) -> Result<Arc<dyn LambdaMap>> {
        if let Some(name) = &self.custom {
            let expected = "absent for a built-in map (a map of your own is passed as a value)";
            return Err(Error::value("model.lambda.custom", expected, name));
        }
        let normalisation = match self.kind {
            LambdaKind::Fixed => return Ok(Arc::new(Linear)),
            LambdaKind::MlpSoftplus => Normalisation::Softplus,
            LambdaKind::MlpSoftmax => Normalisation::Softmax,
        };
        let Self { activation, hidden, init, .. } = *self;
        Ok(Arc::new(Mlp { normalisation, activation, hidden, init }))
    }
}

impl Hidden {
    /// Width for a model with this many levels.
    pub fn width(self, levels: usize) -> usize {
        match self {
            Self::TwiceLevels => 2 * levels,
            Self::Width(width) => width,
        }
    }
}
