//! A run's whole configuration: the same struct is a TOML file, a builder in a notebook and the
//! record in a run folder. A run is reproduced by it alone.

use crate::model::{ModelConfig, Precision};
use crate::task::{TaskConfig, TextConfig};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Everything that determines a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// Seed of initial weights, data and their order.
    pub seed: u64,
    /// The task.
    pub task: TaskConfig,
    /// The model.
    pub model: ModelConfig,
    /// The optimisation.
    pub train: TrainConfig,
}

/// Which optimiser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerKind {
    /// Adam; weight decay is added to the gradient.
    #[default]
    Adam,
    /// AdamW; weight decay shrinks the weights directly.
    #[value(name = "adamw")]
    #[serde(rename = "adamw")]
    AdamW,
}

/// Learning rate over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// The same at every step (after the warm-up, if any).
    #[default]
    Constant,
    /// Half a cosine from the full rate down to 0 at the last step.
    Cosine,
}

/// Optimisation. Defaults are the paper's for the synthetic sweeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Most optimiser steps.
    pub steps: usize,
    /// Sequences per step.
    pub batch: usize,
    /// In how many parts a batch is computed, one after another, its gradients added up: less memory for
    /// the same step.
    pub accumulate: usize,
    /// Arithmetic.
    pub precision: Precision,
    /// Full learning rate.
    pub learning_rate: f64,
    /// Learning rate over time.
    pub schedule: Schedule,
    /// Steps of linear warm-up from 0.
    pub warmup: usize,
    /// Which optimiser.
    pub optimizer: OptimizerKind,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment (PyTorch's 1e−8).
    pub epsilon: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// Largest gradient norm, over all parameters together; 0 for none.
    pub clip: f64,
    /// Steps between evaluations.
    pub eval_every: usize,
    /// Validation accuracy at which a run stops; 0 for never.
    pub target: f64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            steps: 5_000,
            batch: 64,
            accumulate: 1,
            precision: Precision::F32,
            learning_rate: 1e-3,
            schedule: Schedule::default(),
            warmup: 0,
            optimizer: OptimizerKind::default(),
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            clip: 1.0,
            eval_every: 100,
            target: 0.99,
        }
    }
}

impl TrainConfig {
    /// The paper's for language modelling: AdamW, weight decay 0.1, 500 steps of warm-up to 3e−4, then a
    /// cosine to 0; 20 000 steps of 8 windows, validation every 500.
    pub fn language() -> Self {
        Self {
            steps: 20_000,
            batch: 8,
            learning_rate: 3e-4,
            schedule: Schedule::Cosine,
            warmup: 500,
            optimizer: OptimizerKind::AdamW,
            weight_decay: 0.1,
            eval_every: 500,
            target: 0.0,
            ..Self::default()
        }
    }

    /// Learning rate of a step, counted from 0.
    pub fn learning_rate_at(&self, step: usize) -> f64 {
        if step < self.warmup {
            return self.learning_rate * (step + 1) as f64 / self.warmup as f64;
        }
        match self.schedule {
            Schedule::Constant => self.learning_rate,
            Schedule::Cosine => {
                let total = self.steps.saturating_sub(self.warmup).max(1) as f64;
                let done = ((step - self.warmup) as f64 / total).min(1.0);
                self.learning_rate * 0.5 * (1.0 + libm::cos(std::f64::consts::PI * done))
            }
        }
    }

    fn validate(&self) -> Result<()> {
        for (field, value, most) in [
            ("train.steps", self.steps, 1 << 40),
            ("train.batch", self.batch, 1 << 20),
            ("train.eval_every", self.eval_every, 1 << 40),
        ] {
            Error::check_range(field, value, 1..=most)?;
        }
        if self.accumulate == 0 || !self.batch.is_multiple_of(self.accumulate) {
            let expected = format!("a divisor of train.batch = {}", self.batch);
            return Err(Error::value("train.accumulate", expected, self.accumulate));
        }
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return Err(Error::value("train.learning_rate", "a positive number", self.learning_rate));
        }
        for (field, value) in [("train.beta1", self.beta1), ("train.beta2", self.beta2)] {
            if !(0.0..1.0).contains(&value) {
                return Err(Error::value(field, "in [0, 1)", value));
            }
        }
        let not_negative = [
            ("train.epsilon", self.epsilon),
            ("train.weight_decay", self.weight_decay),
            ("train.clip", self.clip),
        ];
        for (field, value) in not_negative {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::value(field, "a number ≥ 0", value));
            }
        }
        if !(0.0..=1.0).contains(&self.target) {
            return Err(Error::value("train.target", "an accuracy in [0, 1]", self.target));
        }
        Ok(())
    }
}

impl RunConfig {
    /// The paper's language model (d = 256) on WikiText-2.
    pub fn language() -> Self {
        Self {
            seed: 0,
            task: TaskConfig::Text(TextConfig::default()),
            model: ModelConfig::language(),
            train: TrainConfig::language(),
        }
    }

    /// Reads a TOML file and checks it.
    ///
    /// # Errors
    ///
    /// If the file can't be read, has an unknown key, or a field is out of range.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        let config: Self = toml::from_str(&text).map_err(|error| Error::format(path, error))?;
        config.validate().map_err(|error| Error::format(path, error))?;
        Ok(config)
    }

    /// The configuration as TOML, every field written out.
    ///
    /// # Panics
    ///
    /// Never: every field has a TOML form.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a configuration is a table of plain values")
    }

    /// The configuration as a TOML table, as a sweep's base has it.
    pub(crate) fn to_table(&self) -> toml::Table {
        toml::Table::try_from(self).expect("a configuration is a table of plain values")
    }

    /// Checks every field, and that task and model fit.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range.
    pub fn validate(&self) -> Result<()> {
        if i64::try_from(self.seed).is_err() {
            return Err(Error::value("seed", "0 to 2^63 − 1 (TOML's range)", self.seed));
        }
        let task = self.task.task();
        task.validate()?;
        self.model.validate()?;
        self.train.validate()?;
        if self.train.precision == Precision::Bf16 && self.model.language.is_none() {
            let expected = "f32 or high for the recall model (bf16 is the language model's)";
            return Err(Error::value("train.precision", expected, "bf16"));
        }
        if task.seq_len() > self.model.max_seq_len {
            let expected = format!("at least task.seq_len = {}", task.seq_len());
            return Err(Error::value("model.max_seq_len", expected, self.model.max_seq_len));
        }
        if task.vocab() > self.model.vocab {
            let expected = format!("at least the task's {}", task.vocab());
            return Err(Error::value("model.vocab", expected, self.model.vocab));
        }
        if let Some((train, validation)) = self.task.examples() {
            if train < self.train.batch {
                let expected = format!("at least one batch of {}", self.train.batch);
                return Err(Error::value("task.train_examples", expected, train));
            }
            for (field, count) in [("task.train_examples", train), ("task.validation_examples", validation)] {
                crate::task::check_count(field, count, task.seq_len())?;
            }
        }
        Ok(())
    }

    /// Whether two runs can train in one cohort: the same operations on tensors of the same shapes. They
    /// may differ in seed, learning rate, the start of λ, and in whatever of a task leaves its shape alone,
    /// such as the number of pairs.
    pub fn same_cohort(&self, other: &Self) -> bool {
        let mut twin = other.clone();
        twin.seed = self.seed;
        twin.train.learning_rate = self.train.learning_rate;
        twin.model.lambda.init = self.model.lambda.init;
        if self.task.same_shape(&other.task) {
            twin.task.clone_from(&self.task);
        }
        twin == *self
    }
}
