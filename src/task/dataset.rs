//! Fixed data sets, and batches of them for a cohort.

use super::{Example, Region, TaskConfig};
use crate::model::IGNORED;
use crate::random::Generator;
use crate::{Error, Result};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Which part of a run's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Drawn under the run's seed.
    Train,
    /// Drawn under the run's seed + 1, as the release does.
    Validation,
}

/// Sequences of one run, drawn once.
#[derive(Clone, Debug, Default)]
pub struct Dataset {
    seq_len: usize,
    seed: u64,
    tokens: Vec<i32>,
    targets: Vec<i32>,
    regions: Vec<Region>,
    /// The last epoch asked for, and its order.
    shuffled: Option<(usize, Vec<usize>)>,
}

/// Tokens and targets of one step for all runs of a cohort, each [runs, batch, time].
#[derive(Clone, Debug)]
pub struct Batch {
    /// Token of every position.
    pub tokens: Tensor<3, Int>,
    /// Target of every position, or [`IGNORED`].
    pub targets: Tensor<3, Int>,
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
    /// Draws `count` sequences of a task for a run's seed.
    ///
    /// # Errors
    ///
    /// If the task's parameters are out of range.
    pub fn generate(task: &TaskConfig, seed: u64, split: Split, count: usize) -> Result<Self> {
        task.task().validate()?;
        check_count("number of sequences", count, task.task().seq_len())?;
        let seed = match split {
            Split::Train => seed,
            Split::Validation => seed.wrapping_add(1),
        };
        let mut generator = Generator::new(seed, "data");
        let seq_len = task.task().seq_len();
        let size = count * seq_len;
        let mut set = Self {
            seq_len,
            seed,
            tokens: Vec::with_capacity(size),
            targets: Vec::with_capacity(size),
            regions: Vec::with_capacity(size),
            shuffled: None,
        };
        for _ in 0..count {
            let Example { tokens, targets, regions } = task.task().example(&mut generator);
            set.tokens.extend(tokens);
            set.targets.extend(targets);
            set.regions.extend(regions);
        }
        Ok(set)
    }

    /// Number of sequences.
    pub fn len(&self) -> usize {
        self.tokens.len() / self.seq_len.max(1)
    }

    /// Whether there is no sequence.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Positions per sequence.
    pub fn seq_len(&self) -> usize {
        self.seq_len
    }

    /// One sequence.
    ///
    /// # Panics
    ///
    /// If there is no sequence of this index.
    pub fn example(&self, index: usize) -> Example {
        let range = index * self.seq_len..(index + 1) * self.seq_len;
        Example {
            tokens: self.tokens[range.clone()].to_vec(),
            targets: self.targets[range.clone()].to_vec(),
            regions: self.regions[range].to_vec(),
        }
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
    pub fn stack(sets: &[Dataset], indices: &[Vec<usize>], device: &Device) -> Self {
        let (batch, seq_len) = (indices[0].len(), sets[0].seq_len);
        let gather = |values: fn(&Dataset) -> &[i32], padding: i32| {
            let mut all = Vec::with_capacity(sets.len() * batch * seq_len);
            for (set, indices) in sets.iter().zip(indices) {
                for &index in indices {
                    match values(set).get(index * seq_len..(index + 1) * seq_len) {
                        Some(row) => all.extend_from_slice(row),
                        None => all.resize(all.len() + seq_len, padding),
                    }
                }
            }
            Tensor::from_data(TensorData::new(all, [sets.len(), batch, seq_len]), device)
        };
        Self { tokens: gather(|set| &set.tokens, 0), targets: gather(|set| &set.targets, IGNORED as i32) }
    }
}
