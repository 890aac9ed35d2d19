//! Induction: one association, asked for at the end.

use super::{DrawnTask, Example, MOST_TOKENS, Region, Task};
use crate::random::Generator;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

const TRIGGER: usize = 1;

/// Induction: the trigger (token 1) and a random pattern stand at positions 1 and 2, the trigger
/// again at T − 2; there the pattern is to be predicted. Every other position holds a random token
/// from 2 up, so the trigger occurs nowhere else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InductionConfig {
    /// Positions per sequence.
    pub seq_len: usize,
    /// Number of tokens.
    pub vocab: usize,
    /// Training sequences.
    pub train_examples: usize,
    /// Validation sequences.
    pub validation_examples: usize,
}

impl Default for InductionConfig {
    fn default() -> Self {
        Self { seq_len: 256, vocab: 128, train_examples: 10_000, validation_examples: 1_000 }
    }
}

impl Task for InductionConfig {
    fn validate(&self) -> Result<()> {
        super::check_seq_len(self.seq_len)?;
        if !(4..=MOST_TOKENS).contains(&self.vocab) {
            let expected = format!("4 (trigger and two patterns) to {MOST_TOKENS}");
            return Err(Error::value("task.vocab", expected, self.vocab));
        }
        if self.seq_len < 5 {
            return Err(Error::value("task.seq_len", "at least 5", self.seq_len));
        }
        Ok(())
    }

    fn seq_len(&self) -> usize {
        self.seq_len
    }

    fn vocab(&self) -> usize {
        self.vocab
    }

    fn chance(&self) -> f64 {
        1.0 / (self.vocab - 2) as f64
    }
}

impl DrawnTask for InductionConfig {
    fn example(&self, generator: &mut Generator) -> Example {
        let mut example = Example::blank(self.seq_len, Region::Filler);
        for token in &mut example.tokens {
            *token = 2 + generator.below(self.vocab - 2) as i32;
        }
        let pattern = 2 + generator.below(self.vocab - 2);
        let query = self.seq_len - 2;
        example.put(1, TRIGGER, Region::Key);
        example.put(2, pattern, Region::Value);
        example.put(query, TRIGGER, Region::Query);
        example.targets[query] = pattern as i32;
        example.regions[query + 1] = Region::Answer;
        example
    }
}
