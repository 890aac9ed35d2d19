//! Selective copying.

use super::{DrawnTask, Example, Region, Task};
use crate::random::Generator;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

const SEPARATOR: usize = 1;
const BLANK: usize = 2;
const DATA: std::ops::RangeInclusive<usize> = 3..=65;
const NOISE: std::ops::RangeInclusive<usize> = 67..=127;
const VOCAB: usize = 128;

/// Where a data token is predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAt {
    /// One position before its blank, as the release's shifted labels do.
    #[default]
    Previous,
    /// At its blank.
    Blank,
}

/// Selective copying: distinct data tokens (3 … 65) at sorted random places in noise (67 … 127),
/// then separator 1, then one blank 2 for each; the data are to be repeated in order.
///
/// `seq_len` counts everything: noise and data, separator, blanks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CopyingConfig {
    /// Positions per sequence.
    pub seq_len: usize,
    /// Number of data tokens.
    pub data_tokens: usize,
    /// Where a data token is predicted.
    pub read_at: ReadAt,
    /// Training sequences.
    pub train_examples: usize,
    /// Validation sequences.
    pub validation_examples: usize,
}

impl Default for CopyingConfig {
    fn default() -> Self {
        Self {
            seq_len: 256,
            data_tokens: 16,
            read_at: ReadAt::default(),
            train_examples: 10_000,
            validation_examples: 1_000,
        }
    }
}

impl Task for CopyingConfig {
    fn validate(&self) -> Result<()> {
        super::check_seq_len(self.seq_len)?;
        Error::check_range("task.data_tokens", self.data_tokens, 1..=DATA.count())?;
        let least = 2 * self.data_tokens + 1;
        if self.seq_len < least {
            let expected = format!("at least {least} (data, separator and blanks)");
            return Err(Error::value("task.seq_len", expected, self.seq_len));
        }
        Ok(())
    }

    fn seq_len(&self) -> usize {
        self.seq_len
    }

    fn vocab(&self) -> usize {
        VOCAB
    }

    fn chance(&self) -> f64 {
        1.0 / DATA.count() as f64
    }
}

impl DrawnTask for CopyingConfig {
    fn example(&self, generator: &mut Generator) -> Example {
        let count = self.data_tokens;
        let content = self.seq_len - count - 1;
        let data = generator.sample(DATA.collect(), count);
        let mut places = generator.sample((0..content).collect(), count);
        places.sort_unstable();
        let mut example = Example::blank(self.seq_len, Region::Noise);
        for position in 0..content {
            let token = NOISE.start() + generator.below(NOISE.count());
            example.put(position, token, Region::Noise);
        }
        example.put(content, SEPARATOR, Region::Separator);
        for (i, (&token, &place)) in data.iter().zip(&places).enumerate() {
            example.put(place, token, Region::Value);
            let blank = content + 1 + i;
            example.put(blank, BLANK, Region::Blank);
            let read = match self.read_at {
                ReadAt::Previous => blank - 1,
                ReadAt::Blank => blank,
            };
            example.targets[read] = token as i32;
        }
        example
    }
}
