//! Choice of a task, as configurations spell it.

use super::{CopyingConfig, DrawnTask, InductionConfig, MqarConfig, Task, TextConfig};
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
    /// Language modelling.
    Text(TextConfig),
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
            Self::Text(task) => task,
        }
    }

    /// The task if its examples are drawn; none for a text.
    pub fn drawn(&self) -> Option<&dyn DrawnTask> {
        match self {
            Self::Mqar(task) => Some(task),
            Self::SelectiveCopying(task) => Some(task),
            Self::Induction(task) => Some(task),
            Self::Text(_) => None,
        }
    }

    /// Name of the task.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mqar(_) => "mqar",
            Self::SelectiveCopying(_) => "selective-copying",
            Self::Induction(_) => "induction",
            Self::Text(_) => "text",
        }
    }

    /// How far ahead the predicted token of a text is.
    pub fn target_offset(&self) -> Option<usize> {
        match self {
            Self::Text(task) => Some(task.target_offset),
            _ => None,
        }
    }

    /// Number of training and validation sequences; none for a text, whose corpus decides
    /// ([`Dataset::open`](super::Dataset::open)).
    pub fn examples(&self) -> Option<(usize, usize)> {
        match self {
            Self::Mqar(t) => Some((t.train_examples, t.validation_examples)),
            Self::SelectiveCopying(t) => Some((t.train_examples, t.validation_examples)),
            Self::Induction(t) => Some((t.train_examples, t.validation_examples)),
            Self::Text(_) => None,
        }
    }

    /// Whether runs of both tasks can train in one cohort: equally many sequences of equal length.
    pub(crate) fn same_shape(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => {
                *a == TextConfig { target_offset: a.target_offset, ..b.clone() }
            }
            _ => self.examples() == other.examples() && self.task().seq_len() == other.task().seq_len(),
        }
    }

    /// The same task with other sequence lengths, for evaluation beyond the trained length.
    pub fn with_seq_len(&self, seq_len: usize) -> Self {
        match self.clone() {
            Self::Mqar(t) => Self::Mqar(MqarConfig { seq_len, ..t }),
            Self::SelectiveCopying(t) => Self::SelectiveCopying(CopyingConfig { seq_len, ..t }),
            Self::Induction(t) => Self::Induction(InductionConfig { seq_len, ..t }),
            Self::Text(t) => Self::Text(TextConfig { seq_len, ..t }),
        }
    }
}
