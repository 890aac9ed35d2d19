//! Tasks: seeded data or a text, whose every position has a named region.
//!
//! An example is a sequence of tokens and, for each position, the token that the output there is
//! scored against, if any. Targets are not shifted: where released code shifts its labels in the
//! loss, the shift is already done here.

mod config;
mod copying;
mod dataset;
mod induction;
mod mqar;
mod resident;
mod text;

pub use config::TaskConfig;
pub use copying::{CopyingConfig, ReadAt};
pub(crate) use dataset::check_count;
pub use dataset::{Batch, Dataset, Split};
pub use induction::InductionConfig;
pub use mqar::{Filler, Layout, MqarConfig};
#[cfg(feature = "cuda")]
pub(crate) use resident::Places;
pub(crate) use resident::reside;
pub use text::{Corpus, CorpusRecord, SplitRecord, TextConfig, TokenCache, Tokenizer, Tokens};

use crate::Result;
use crate::random::Generator;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// What a position is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// A key to remember (induction: the trigger).
    Key,
    /// The value of the key before it (induction: the pattern).
    Value,
    /// Padding without meaning.
    Filler,
    /// A key asked for; the prediction is read here.
    Query,
    /// The place after a query, where the answer would stand.
    Answer,
    /// Selective copying: the mark after which the data are to be repeated.
    Separator,
    /// Selective copying: a place to fill with data.
    Blank,
    /// Selective copying: tokens to ignore.
    Noise,
    /// A text's token.
    Text,
}

impl Region {
    /// Name in frames.
    pub fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Value => "value",
            Self::Filler => "filler",
            Self::Query => "query",
            Self::Answer => "answer",
            Self::Separator => "separator",
            Self::Blank => "blank",
            Self::Noise => "noise",
            Self::Text => "text",
        }
    }
}

/// One sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Token of every position.
    pub tokens: Vec<i32>,
    /// Token that the output at each position is scored against; [`crate::model::IGNORED`] if none.
    pub targets: Vec<i32>,
    /// Region of every position.
    pub regions: Vec<Region>,
}

impl Example {
    /// Positions without a target, all in one region.
    fn blank(seq_len: usize, region: Region) -> Self {
        Self {
            tokens: vec![0; seq_len],
            targets: vec![crate::model::IGNORED as i32; seq_len],
            regions: vec![region; seq_len],
        }
    }

    fn put(&mut self, position: usize, token: usize, region: Region) {
        self.tokens[position] = token as i32;
        self.regions[position] = region;
    }
}

/// Longest sequence of a task.
const LONGEST: usize = 1 << 24;

/// Largest vocabulary of a task.
const MOST_TOKENS: usize = 1 << 20;

fn check_seq_len(seq_len: usize) -> Result<()> {
    if seq_len <= LONGEST {
        Ok(())
    } else {
        Err(crate::Error::value("task.seq_len", format!("at most {LONGEST}"), seq_len))
    }
}

/// What every task has.
pub trait Task: Debug {
    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// Names the parameter that is out of range and its limit.
    fn validate(&self) -> Result<()>;

    /// Positions per sequence.
    fn seq_len(&self) -> usize;

    /// Number of tokens; all lie in `0..vocab`.
    fn vocab(&self) -> usize;

    /// Accuracy of guessing at random among the possible answers.
    fn chance(&self) -> f64;
}

/// A task whose examples are drawn; a text's are there already.
pub trait DrawnTask: Task {
    /// Draws one example. Call [`validate`](Task::validate) first.
    fn example(&self, generator: &mut Generator) -> Example;
}
