//! Fixed data sets, and batches of them for a cohort.

use super::resident::{Places, Resident};
use super::text::Windows;
use super::{Corpus, Example, Region, TaskConfig, TextConfig, TokenCache, Tokens};
use crate::model::IGNORED;
use crate::random::Generator;
use crate::{Error, Result};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Which part of a run's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Drawn under the run's seed; a text's training split.
    Train,
    /// Drawn under the run's seed + 1, as the release does; a text's validation split.
    Validation,
    /// A text's test split. Drawn tasks have none: what a run hasn't seen is drawn under another seed.
    Test,
}

/// Sequences of one run: drawn once, or windows of a text, which are read when they are needed.
#[derive(Clone, Debug)]
pub struct Dataset {
    seq_len: usize,
    seed: u64,
    content: Content,
    /// The last epoch asked for, and its order.
    shuffled: Option<(usize, Vec<usize>)>,
    /// Where its sequences are in a device's memory, if they are.
    resident: Option<Resident>,
}

#[derive(Clone, Debug)]
enum Content {
    /// Every position of every sequence.
    Drawn {
        tokens: Vec<i32>,
        targets: Vec<i32>,
        regions: Vec<Region>,
    },
    Text(Windows),
}

/// Tokens and targets of one step for all runs of a cohort, each [runs, batch, time].
#[derive(Clone, Debug)]
pub struct Batch {
    /// Token of every position.
    pub tokens: Tensor<3, Int>,
    /// Target of every position, or [`IGNORED`].
    pub targets: Tensor<3, Int>,
    /// Number of positions with a target, of each run.
    pub scored: Vec<usize>,
}

/// Most positions of a data set: what fits the memory of an ordinary machine.
const MOST_POSITIONS: usize = 1 << 31;

/// Checks a number of sequences.
///
/// # Errors
///
/// Names `field` if there is none, or their positions are too many to hold.
pub(crate) fn check_count(field: &str, count: usize, seq_len: usize) -> Result<()> {
    let most = MOST_POSITIONS / seq_len.max(1);
    if (1..=most).contains(&count) {
        Ok(())
    } else {
        Err(Error::value(field, format!("1 to {most} at T = {seq_len}"), count))
    }
}

impl Dataset {
    /// All sequences of a run's split, in the number that its task says or its text has.
    ///
    /// # Errors
    ///
    /// If the task's parameters are out of range, it is drawn and has no such split, or its text can't be used.
    pub fn open(task: &TaskConfig, seed: u64, split: Split) -> Result<Self> {
        task.task().validate()?;
        if let TaskConfig::Text(text) = task {
            return Ok(Self::of_text(Self::windows(text, split)?, text.seq_len, seed));
        }
        let (train, validation) = task.examples().unwrap_or((0, 0));
        Self::generate(task, seed, split, if split == Split::Train { train } else { validation })
    }

    /// Draws `count` sequences of a task for a run's seed; of a text, takes the first `count`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and if a text has fewer.
    pub fn generate(task: &TaskConfig, seed: u64, split: Split, count: usize) -> Result<Self> {
        task.task().validate()?;
        if let TaskConfig::Text(text) = task {
            return Ok(Self::of_text(Self::windows(text, split)?.first(count)?, text.seq_len, seed));
        }
        let seed = match split {
            Split::Train => seed,
            Split::Validation => seed.wrapping_add(1),
            Split::Test => {
                let expected = format!("train or validation ({} is drawn from seeds)", task.name());
                return Err(Error::value("split", expected, "test"));
            }
        };
        let seq_len = task.task().seq_len();
        check_count("number of sequences", count, seq_len)?;
        let mut generator = Generator::new(seed, "data");
        let size = count * seq_len;
        let (mut tokens, mut targets, mut regions) =
            (Vec::with_capacity(size), Vec::with_capacity(size), Vec::with_capacity(size));
        if let Some(task) = task.drawn() {
            for _ in 0..count {
                let example = task.example(&mut generator);
                tokens.extend(example.tokens);
                targets.extend(example.targets);
                regions.extend(example.regions);
            }
        }
        Ok(Self {
            seq_len,
            seed,
            content: Content::Drawn { tokens, targets, regions },
            shuffled: None,
            resident: None,
        })
    }

    /// Windows of `seq_len` positions over tokens, all of them, each target `target_offset` positions ahead
    /// ([`TextConfig`]). The seed sets their order.
    ///
    /// # Errors
    ///
    /// If the offset is neither 1 nor 2, or the tokens don't fill one window.
    pub fn of_tokens(tokens: Tokens, seq_len: usize, target_offset: usize, seed: u64) -> Result<Self> {
        Error::check_range("seq_len", seq_len, 2..=super::LONGEST)?;
        let windows = Windows::new(tokens, seq_len, target_offset, ("tokens", 0))?;
        Ok(Self::of_text(windows, seq_len, seed))
    }

    fn windows(text: &TextConfig, split: Split) -> Result<Windows> {
        let tokens = Corpus::open(&text.corpus)?.tokens(split, &TokenCache::default())?;
        let most = match split {
            Split::Train => ("task.train_tokens", text.train_tokens),
            Split::Validation => ("task.validation_tokens", text.validation_tokens),
            Split::Test => ("tokens", 0),
        };
        Windows::new(tokens, text.seq_len, text.target_offset, most)
    }

    fn of_text(windows: Windows, seq_len: usize, seed: u64) -> Self {
        Self { seq_len, seed, content: Content::Text(windows), shuffled: None, resident: None }
    }

    /// Tokens and targets of every position of every sequence, of a drawn data set.
    pub(super) fn drawn(&self) -> Option<(&[i32], &[i32])> {
        match &self.content {
            Content::Drawn { tokens, targets, .. } => Some((tokens, targets)),
            Content::Text(_) => None,
        }
    }

    pub(super) fn resident(&self) -> Option<&Resident> {
        self.resident.as_ref()
    }

    pub(super) fn settle(&mut self, resident: Resident) {
        self.resident = Some(resident);
    }

    /// Number of sequences.
    pub fn len(&self) -> usize {
        match &self.content {
            Content::Drawn { tokens, .. } => tokens.len() / self.seq_len.max(1),
            Content::Text(windows) => windows.len(),
        }
    }

    /// Whether there is no sequence.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Positions per sequence.
    pub fn seq_len(&self) -> usize {
        self.seq_len
    }

    /// One sequence.
    ///
    /// # Errors
    ///
    /// If there is no sequence of this index, or a text's tokens can't be read.
    pub fn read(&self, index: usize) -> Result<Example> {
        if index >= self.len() {
            let expected = format!("below {}, the number of sequences", self.len());
            return Err(Error::value("sequence", expected, index));
        }
        Ok(match &self.content {
            Content::Drawn { tokens, targets, regions } => {
                let range = index * self.seq_len..(index + 1) * self.seq_len;
                Example {
                    tokens: tokens[range.clone()].to_vec(),
                    targets: targets[range.clone()].to_vec(),
                    regions: regions[range].to_vec(),
                }
            }
            Content::Text(windows) => {
                let (tokens, targets) = windows.read(index)?;
                Example { tokens, targets, regions: vec![Region::Text; self.seq_len] }
            }
        })
    }

    /// One sequence, as [`read`](Self::read), which doesn't fail on drawn ones.
    ///
    /// # Panics
    ///
    /// If there is no sequence of this index, or a text's tokens can't be read.
    pub fn example(&self, index: usize) -> Example {
        self.read(index).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Appends tokens and targets of one sequence.
    fn append(&self, index: usize, all: (&mut Vec<i32>, &mut Vec<i32>)) -> Result<()> {
        match &self.content {
            Content::Drawn { tokens, targets, .. } => {
                let range = index * self.seq_len..(index + 1) * self.seq_len;
                all.0.extend_from_slice(&tokens[range.clone()]);
                all.1.extend_from_slice(&targets[range]);
            }
            Content::Text(windows) => {
                let (tokens, targets) = windows.read(index)?;
                all.0.extend(tokens);
                all.1.extend(targets);
            }
        }
        Ok(())
    }

    /// Sequences of a training step: step after step through a new shuffle of the data each epoch.
    /// A last incomplete batch of an epoch is left out. The order depends on the seed alone.
    ///
    /// # Errors
    ///
    /// If the batch is larger than the data set.
    pub fn order(&mut self, step: usize, batch: usize) -> Result<Vec<usize>> {
        let per_epoch = self.len() / batch.max(1);
        if per_epoch == 0 || batch == 0 {
            let expected = format!("1 to {} (the number of training sequences)", self.len());
            return Err(Error::value("train.batch", expected, batch));
        }
        let epoch = step / per_epoch;
        let order = match self.shuffled.take() {
            Some((at, order)) if at == epoch => order,
            _ => {
                let mut order: Vec<usize> = (0..self.len()).collect();
                Generator::new(self.seed, &format!("order/{epoch}")).shuffle(&mut order);
                order
            }
        };
        let indices = order[step % per_epoch * batch..][..batch].to_vec();
        self.shuffled = Some((epoch, order));
        Ok(indices)
    }
}

impl Batch {
    /// Stacks the given sequences of every run's data set. An index past the end of a data set
    /// stands for a sequence without targets.
    ///
    /// # Errors
    ///
    /// If a text's tokens can't be read.
    pub fn stack(sets: &[Dataset], indices: &[Vec<usize>], device: &Device) -> Result<Self> {
        if let Some(batch) = Places::of(sets, indices).and_then(|places| places.batch(device)) {
            return Ok(batch);
        }
        let (batch, seq_len) = (indices[0].len(), sets[0].seq_len);
        let size = sets.len() * batch * seq_len;
        let (mut tokens, mut targets) = (Vec::with_capacity(size), Vec::with_capacity(size));
        let mut scored = Vec::with_capacity(sets.len());
        for (set, indices) in sets.iter().zip(indices) {
            let before = targets.len();
            for &index in indices {
                if index < set.len() {
                    set.append(index, (&mut tokens, &mut targets))?;
                } else {
                    tokens.resize(tokens.len() + seq_len, 0);
                    targets.resize(targets.len() + seq_len, IGNORED as i32);
                }
            }
            scored.push(targets[before..].iter().filter(|&&target| i64::from(target) != IGNORED).count());
        }
        let tensor =
            |values| Tensor::from_data(TensorData::new(values, [sets.len(), batch, seq_len]), device);
        Ok(Self { tokens: tensor(tokens), targets: tensor(targets), scored })
    }
}
