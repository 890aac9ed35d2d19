//! Language modelling on a text.

use super::Tokenizer;
use crate::task::{Task, check_seq_len};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most leading tokens that can be asked for; far more than any corpus has.
const MOST_TOKENS: usize = 1 << 40;

/// Prediction of a text's tokens: windows of `seq_len` GPT-2 tokens that don't overlap, every one a
/// sequence. What is left at the end of a split is dropped.
///
/// With L = 3, the tokens t0 … t7 give two windows:
///
/// ```text
/// inputs                      t0 t1 t2    t3 t4 t5
/// targets, target_offset = 1  t1 t2 t3    t4 t5 t6
/// targets, target_offset = 2  t2 t3 –     t5 t6 –
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextConfig {
    /// Folder with `wiki.{train,valid,test}.{raw,tokens}`, or one text file; each plain, .gz or .zst. See
    /// [`Corpus`](super::Corpus), also for where a relative path starts.
    pub corpus: PathBuf,
    /// Positions per sequence.
    pub seq_len: usize,
    /// How far ahead the token is that a position predicts: 1, the next one, or 2, as the paper's release
    /// trained. Its data loader yields labels that are shifted already, and its model shifts them once more,
    /// so that each position learns the token after the next, and the last of a window nothing.
    pub target_offset: usize,
    /// Leading tokens of the training split to use; 0 for all.
    pub train_tokens: usize,
    /// Leading tokens of the validation split to use; 0 for all.
    pub validation_tokens: usize,
}

impl Default for TextConfig {
    fn default() -> Self {
        Self {
            corpus: "data/wikitext-2".into(),
            seq_len: 512,
            target_offset: 1,
            train_tokens: 0,
            validation_tokens: 0,
        }
    }
}

impl Task for TextConfig {
    fn validate(&self) -> Result<()> {
        check_seq_len(self.seq_len)?;
        if self.seq_len < 2 {
            return Err(Error::value("task.seq_len", "at least 2", self.seq_len));
        }
        check_offset(self.target_offset)?;
        // A configuration is kept as TOML, whose texts are UTF-8.
        match self.corpus.to_str() {
            None => {
                let found = self.corpus.display();
                return Err(Error::value("task.corpus", "a path in UTF-8", found));
            }
            Some("") => return Err(Error::value("task.corpus", "a folder or a text file", "an empty path")),
            Some(_) => {}
        }
        for (field, tokens) in
            [("task.train_tokens", self.train_tokens), ("task.validation_tokens", self.validation_tokens)]
        {
            let least = self.seq_len + 1;
            if tokens != 0 && !(least..=MOST_TOKENS).contains(&tokens) {
                let expected =
                    format!("0 (all) or {least} (one window of task.seq_len and a target) to {MOST_TOKENS}");
                return Err(Error::value(field, expected, tokens));
            }
        }
        Ok(())
    }

    fn seq_len(&self) -> usize {
        self.seq_len
    }

    fn vocab(&self) -> usize {
        Tokenizer::VOCAB
    }

    fn chance(&self) -> f64 {
        1.0 / Tokenizer::VOCAB as f64
    }
}

/// Checks how far ahead a target is.
pub(super) fn check_offset(target_offset: usize) -> Result<()> {
    if matches!(target_offset, 1 | 2) {
        return Ok(());
    }
    let expected = "1 (the next token) or 2 (the one after it, as the release trained)";
    Err(Error::value("task.target_offset", expected, target_offset))
}
