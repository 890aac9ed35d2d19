//! Choice of a task, as configurations spell it.

use super::{CopyingConfig, InductionConfig, MqarConfig, Task};
use serde::{Deserialize, Serialize};

/// A task with its parameters; in TOML, `name` picks the task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum TaskConfig {
    /// Multi-query associative recall.
    Mqar(MqarConfig),
    /// Selective copying.
    SelectiveCopying(CopyingConfig),
    /// Induction.
    Induction(InductionConfig),
}

impl Default for TaskConfig {
    fn default() -> Self {
        Self::Mqar(MqarConfig::default())
    }
}

impl TaskConfig {
    /// The task.
    pub fn task(&self) -> &dyn Task {
        match self {
            Self::Mqar(task) => task,
            Self::SelectiveCopying(task) => task,
            Self::Induction(task) => task,
        }
    }

    /// Name of the task.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mqar(_) => "mqar",
            Self::SelectiveCopying(_) => "selective-copying",
            Self::Induction(_) => "induction",
        }
    }

    /// Number of training and validation sequences.
    pub fn examples(&self) -> (usize, usize) {
        match self {
            Self::Mqar(t) => (t.train_examples, t.validation_examples),
            Self::SelectiveCopying(t) => (t.train_examples, t.validation_examples),
            Self::Induction(t) => (t.train_examples, t.validation_examples),
        }
    }

    /// The same task with other sequence lengths, for evaluation beyond the trained length.
    pub fn with_seq_len(&self, seq_len: usize) -> Self {
        match self.clone() {
            Self::Mqar(t) => Self::Mqar(MqarConfig { seq_len, ..t }),
            Self::SelectiveCopying(t) => Self::SelectiveCopying(CopyingConfig { seq_len, ..t }),
            Self::Induction(t) => Self::Induction(InductionConfig { seq_len, ..t }),
        }
    }
}
