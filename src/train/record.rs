//! What a run writes down: a row an evaluation, a result at the end.

use serde::{Deserialize, Serialize};

/// One line of `metrics.jsonl`: the state of a run at an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricsRow {
    /// Optimiser steps taken.
    pub step: usize,
    /// Mean training loss since the last evaluation, in nats.
    #[serde(deserialize_with = "nan_if_null")]
    pub train_loss: f64,
    /// Validation loss, in nats.
    #[serde(deserialize_with = "nan_if_null")]
    pub validation_loss: f64,
    /// Validation accuracy over scored positions.
    pub accuracy: f64,
    /// Best validation accuracy so far.
    pub best_accuracy: f64,
    /// Learning rate of the last step.
    pub learning_rate: f64,
    /// Gradient norm of the last step, before clipping.
    #[serde(deserialize_with = "nan_if_null")]
    pub gradient_norm: f64,
    /// Seconds of training so far. The time is the cohort's: its runs train together.
    pub seconds: f64,
}

/// JSON has no NaN: a number that isn't finite is written as null.
fn nan_if_null<'de, D: serde::Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or(f64::NAN))
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Took all its steps.
    Completed,
    /// Reached the target accuracy and stopped.
    Target,
    /// Loss or gradient became NaN or infinite; parameters are those before it.
    Diverged,
    /// Stopped by the user; the folder can be resumed. Never written to `result.json`.
    Interrupted,
}

impl Status {
    /// Name in frames and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Target => "target",
            Self::Diverged => "diverged",
            Self::Interrupted => "interrupted",
        }
    }
}

/// `result.json`: what came out of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// How the run ended.
    pub status: Status,
    /// λ kind, or baseline.
    pub kind: String,
    /// Seed.
    pub seed: u64,
    /// Optimiser steps taken.
    pub steps: usize,
    /// Validation accuracy at the last evaluation; none if the run ended before it.
    pub accuracy: Option<f64>,
    /// Best validation accuracy at any evaluation.
    pub best_accuracy: Option<f64>,
    /// Step of the best accuracy.
    pub best_step: Option<usize>,
    /// Validation loss at the last evaluation, in nats.
    pub validation_loss: Option<f64>,
    /// Text only: how far ahead the predicted token is, without which a loss can't be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_offset: Option<usize>,
    /// Seconds of training, of the whole cohort.
    pub seconds: f64,
    /// Bytes in use on the GPU when the run ended, by its whole cohort and anyone else there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_memory: Option<u64>,
    /// Number of runs that trained together at the start.
    pub cohort: usize,
    /// Device.
    pub device: String,
    /// Version of this crate.
    pub version: String,
}

impl RunResult {
    /// Perplexity of the last evaluation, e to the loss; for runs on a text.
    pub fn perplexity(&self) -> Option<f64> {
        self.target_offset.and(self.validation_loss).map(f64::exp)
    }
}

/// One entry of `evaluation.json`: a run that has ended, at a length other than its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthEvaluation {
    /// Positions per sequence.
    pub seq_len: usize,
    /// Step of the parameters.
    pub step: usize,
    /// Validation accuracy over scored positions.
    pub accuracy: f64,
    /// Validation loss, in nats.
    #[serde(deserialize_with = "nan_if_null")]
    pub loss: f64,
}
