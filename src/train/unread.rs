//! Numbers that steps leave on the device, where its work is queued, and when they are read.

use super::Status;
use super::batched::{Cohort, Results};
use super::progress::ProgressReport;
#[cfg(feature = "cuda")]
use super::recorded::Recording;
use crate::Result;
use crate::cohort::numbers;
use burn::tensor::{Bool, Tensor};

/// Steps between reads of losses from a device whose work is queued.
pub(super) const READ_EVERY: usize = 10;

/// Numbers of a step that are still on the device.
// There are ten at most.
#[cfg_attr(feature = "cuda", expect(clippy::large_enum_variant))]
pub(super) enum Unread {
    Apart {
        step: usize,
        losses: Tensor<1>,
        norms: Tensor<1>,
        alive: Tensor<1, Bool>,
    },
    /// In a row of a recording's log: the first of those that are unread is in row 0.
    #[cfg(feature = "cuda")]
    Logged {
        step: usize,
    },
}

impl Unread {
    fn step(&self) -> usize {
        match self {
            Self::Apart { step, .. } => *step,
            #[cfg(feature = "cuda")]
            Self::Logged { step } => *step,
        }
    }

    /// Losses, norms and 1 or 0 for alive of every run, step by step, read from the device at once.
    fn numbers(steps: &[Self]) -> Vec<f64> {
        let of_step = |step: &Self| match step {
            Self::Apart { losses, norms, alive, .. } => {
                let alive = alive.clone().float().cast(losses.dtype());
                vec![losses.clone(), norms.clone(), alive]
            }
            #[cfg(feature = "cuda")]
            Self::Logged { .. } => Vec::new(),
        };
        numbers(steps.iter().flat_map(of_step).collect())
    }
}

impl Cohort {
    /// Reads what steps left on the device, and ends runs that diverged. Returns the last mean loss.
    pub(super) fn read(&mut self, results: &mut Results, report: &mut ProgressReport) -> Result<Option<f64>> {
        let mut diverged = vec![None; self.members.len()];
        let mut mean = None;
        let unread = std::mem::take(&mut self.unread);
        let numbers = self.numbers(&unread);
        let runs = self.members.len();
        for (unread, numbers) in unread.iter().zip(numbers.chunks(3 * runs.max(1))) {
            let (step, losses, norms) = (unread.step(), &numbers[..runs], &numbers[runs..2 * runs]);
            let alive = |run: usize| numbers[2 * runs + run] > 0.5;
            let mut living = (0, 0.0);
            for (i, member) in self.members.iter_mut().enumerate() {
                if alive(i) {
                    member.progress.step = step;
                    member.progress.loss_count += 1;
                    member.progress.loss_sum += losses[i];
                    member.gradient_norm = norms[i];
                    living = (living.0 + 1, living.1 + losses[i]);
                } else {
                    diverged[i].get_or_insert(step);
                }
            }
            mean = (living.0 > 0).then(|| living.1 / f64::from(living.0));
        }
        let ended: Vec<usize> = (0..diverged.len()).filter(|&i| diverged[i].is_some()).collect();
        self.end(&ended, |_| Status::Diverged, results, report)?;
        Ok(mean)
    }

    /// [`Unread::numbers`], from the log if they are there.
    fn numbers(&self, unread: &[Unread]) -> Vec<f64> {
        #[cfg(feature = "cuda")]
        if let (Some(Unread::Logged { .. }), Recording::Rehearsed { steady, .. }) =
            (unread.first(), &self.recording)
        {
            return steady.log(unread.len());
        }
        Unread::numbers(unread)
    }
}
