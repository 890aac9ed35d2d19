//! Sequences of a text: windows that don't overlap, with the tokens to predict.

use super::Tokens;
use super::config::check_offset;
use crate::model::IGNORED;
use crate::{Error, Result};

/// Windows over tokens, read when they are asked for.
#[derive(Clone, Debug)]
pub(in crate::task) struct Windows {
    tokens: Tokens,
    target_offset: usize,
    seq_len: usize,
    /// Number of windows.
    count: usize,
}

impl Windows {
    /// Windows over the first `most` tokens, or all if 0.
    ///
    /// # Errors
    ///
    /// If there are fewer than `most`, which `field` asked for, or not enough for one window.
    pub(in crate::task) fn new(
        tokens: Tokens,
        seq_len: usize,
        target_offset: usize,
        (field, most): (&str, usize),
    ) -> Result<Self> {
        check_offset(target_offset)?;
        let (held, file) = (tokens.len(), &tokens.record().file);
        if most > held {
            return Err(Error::value(field, format!("at most {held}, the tokens of {file}"), most));
        }
        let used = if most == 0 { held } else { most };
        // The last window needs one token more, the target of its last position.
        let count = used.saturating_sub(1) / seq_len.max(1);
        if count == 0 {
            let expected = format!("at least {} tokens, one window and a target, in {file}", seq_len + 1);
            return Err(Error::value(format!("the text at task.seq_len = {seq_len}"), expected, used));
        }
        Ok(Self { tokens, target_offset, seq_len, count })
    }

    /// The first `count` windows.
    ///
    /// # Errors
    ///
    /// If there are fewer.
    pub(in crate::task) fn first(self, count: usize) -> Result<Self> {
        if !(1..=self.count).contains(&count) {
            let expected = format!(
                "1 to {}, the windows of {} at T = {}",
                self.count,
                self.tokens.record().file,
                self.seq_len
            );
            return Err(Error::value("number of sequences", expected, count));
        }
        Ok(Self { count, ..self })
    }

    /// Number of windows.
    pub(in crate::task) fn len(&self) -> usize {
        self.count
    }

    /// Tokens of one window, and the target of each position.
    ///
    /// # Errors
    ///
    /// If the token file can't be read.
    pub(in crate::task) fn read(&self, index: usize) -> Result<(Vec<i32>, Vec<i32>)> {
        let window = self.tokens.window(index * self.seq_len, self.seq_len + 1)?;
        let target =
            |position: usize| window.get(position + self.target_offset).map_or(IGNORED as i32, |&t| t.into());
        let targets = (0..self.seq_len).map(target).collect();
        Ok((window[..self.seq_len].iter().map(|&token| token.into()).collect(), targets))
    }
}
