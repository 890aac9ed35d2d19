//! Models: pure functions of their parameters, batched over runs.

mod config;
mod decode;
mod exchange;
mod head;
mod head_block;
mod language;
mod loss;
mod mixer;
mod network;
mod recall;
mod sampling;

pub use config::{LanguageConfig, Mixer, ModelConfig};
pub use decode::Decoder;
pub use exchange::{export, import};
#[cfg(feature = "cuda")]
pub(crate) use head::is_whole;
pub use head::{Loss, Scores};
pub use loss::{IGNORED, cross_entropy};
pub use network::{Captured, Model, Precision};
pub use sampling::{Sampling, generate};

/// Standard deviation of the initial linear and embedding weights.
pub const INIT_STD: f64 = 0.02;

/// Share of a model's parameters that its λ maps hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParameterOverhead {
    /// Parameters of the whole model.
    pub total: usize,
    /// Parameters that only the λ map has: for a log-linear mixer without it (λ ≡ 1) they would not
    /// exist. The projection to d is shared by all maps and not counted.
    pub lambda: usize,
}

impl ParameterOverhead {
    /// λ parameters as a fraction of all.
    pub fn fraction(&self) -> f64 {
        self.lambda as f64 / self.total as f64
    }
}

/// Counts the parameters of a model's λ maps against all of them.
pub fn parameter_overhead(model: &Model) -> ParameterOverhead {
    let total = model.specs().iter().map(crate::cohort::Spec::count).sum();
    ParameterOverhead { total, lambda: model.lambda_parameters() }
}

/// Parameters of a model by what they are for, in the order of the model: name of the part and number of
/// elements. λ maps are a part of their own.
pub fn parameter_report(model: &Model) -> Vec<(&'static str, usize)> {
    let own: Vec<String> = model.lambda_specs().into_iter().map(|spec| spec.name).collect();
    let part = |name: &str| {
        if own.iter().any(|end| name.ends_with(&format!(".{end}"))) {
            return "λ maps";
        }
        match name {
            "embedding.weight" | language::EMBEDDING => "embedding",
            "head.weight" | language::HEAD => "head",
            _ if name.contains("norm") => "norms",
            _ if name.contains(".mlp.") => "MLPs",
            _ => "mixers",
        }
    };
    let mut report: Vec<(&'static str, usize)> = Vec::new();
    for spec in model.specs() {
        let part = part(&spec.name);
        match report.iter_mut().find(|(name, _)| *name == part) {
            Some((_, count)) => *count += spec.count(),
            None => report.push((part, spec.count())),
        }
    }
    report
}
