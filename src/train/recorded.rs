//! Steps of a cohort that are recorded once and replayed, on a GPU.
//!
//! Where the kernels of `gpu` are all that a step launches: the recall model in single precision, whole batches of drawn
//! data that lie on the device. Everything else, and what the device refuses to record, takes its steps one by one; the
//! numbers are the same.

use super::batched::{Cohort, Member};
use super::optimizer::rule;
use super::unread::{READ_EVERY, Unread};
use super::{Adam, RunConfig};
use crate::Result;
use crate::gpu::steady::{Stand, Steady};
use crate::model::{Mixer, Model, is_whole};
use crate::task::{Dataset, Places};
use burn::tensor::DType;

/// Steps that are taken one by one first: they compile what is not compiled yet, and allocate what a recording needs.
const REHEARSALS: usize = 4;
/// Pieces of memory, each as large as the largest result, that a recording finds free beyond what rehearsals needed.
const ROOM: usize = 2;
/// Fewest steps left for which recording pays.
const LEAST: usize = 100;

/// Tries at recording: a device that lacked room once has more of it the next time.
const TRIES: usize = 3;

/// What a cohort knows of recording its steps.
pub(super) enum Recording {
    /// Its steps can't be recorded.
    Never,
    /// They may be, which has failed so often.
    Possible { failures: usize },
    /// Buffers are there, and so many steps were taken on them.
    Rehearsed { steady: Box<Steady>, steps: usize, failures: usize },
}

/// What the environment's `LOGLINEAR_RECORD` says: 0, for comparisons, that nothing is recorded, 1, for tests, that it is
/// an error if that fails.
fn told(value: &str) -> bool {
    std::env::var("LOGLINEAR_RECORD").is_ok_and(|found| found == value)
}

impl Recording {
    /// Whether it makes sense to try.
    pub(super) fn of(members: &[Member], sets: &[Dataset], adam: &Adam) -> Self {
        let config = &members[0].config;
        let (model, train) = (&config.model, &config.train);
        let head = [members.len(), model.vocab, model.d_model];
        let plain = model.language.is_none()
            && model.mixer == Mixer::LogLinear
            && train.accumulate == 1
            // A reader's own map may do anything.
            && members.iter().all(|member| member.map.is_none())
            && crate::gpu::single(&adam.first)
            && is_whole(head, train.batch * sets[0].seq_len());
        if plain && !told("0") { Self::Possible { failures: 0 } } else { Self::Never }
    }
}

impl Cohort {
    /// Takes a step on the buffers of a recording, if this cohort has or can have one. If not, nothing has happened.
    pub(super) fn recorded_step(&mut self, config: &RunConfig) -> Result<bool> {
        let (step, row) = (self.adam.steps, self.unread.len());
        match self.recording {
            Recording::Never => return Ok(false),
            // The log begins with a step whose numbers are the first to be read.
            Recording::Possible { .. } if config.train.steps - step < LEAST || row > 0 => return Ok(false),
            _ => {}
        }
        let order: Vec<Vec<usize>> =
            self.train.iter_mut().map(|set| set.order(step, config.train.batch)).collect::<Result<_>>()?;
        let Some(places) = Places::of(&self.train, &order) else {
            self.recording = Recording::Never;
            return Ok(false);
        };
        if let Recording::Possible { failures } = self.recording {
            let mut steady = self.buffers(config);
            if let Err(reason) = steady.prepare() {
                return self.give_up(&reason);
            }
            self.recording = Recording::Rehearsed { steady: Box::new(steady), steps: 0, failures };
        }
        let rates: Vec<f64> =
            self.members.iter().map(|member| member.config.train.learning_rate_at(step)).collect();
        let largest = self.largest(config);
        let Recording::Rehearsed { steady, steps, failures } = &mut self.recording else { return Ok(false) };
        let (model, like) = (&self.model, &self.parameters);
        steady.feed(places.rows(), places.places(), &rates, step + 1, row);
        let due = *steps >= REHEARSALS && row == 0 && !steady.is_recorded();
        if due && let Err((reason, stand)) = steady.record(|steady| take(model, like, steady)) {
            let failures = *failures + 1;
            self.stand_at(*stand);
            self.recording = Recording::Possible { failures };
            return if failures < TRIES { Ok(false) } else { self.give_up(&reason) };
        }
        if steady.is_recorded() {
            steady.replay().map_err(crate::Error::Device)?;
        } else {
            if *steps == 1 {
                steady.hold(ROOM << *failures, largest);
            }
            steady.align();
            take(model, like, steady)?;
            *steps += 1;
        }
        self.adam.steps += 1;
        self.unread.push(Unread::Logged { step: step + 1 });
        Ok(true)
    }

    /// Buffers of a recording that begins where the cohort stands.
    fn buffers(&self, config: &RunConfig) -> Steady {
        let stand = Stand {
            parameters: self.parameters.flatten(),
            first: self.adam.first.clone(),
            second: self.adam.second.clone(),
            alive: self.alive.clone().float().cast(DType::F32),
        };
        let batch = [self.train.len(), config.train.batch, self.train[0].seq_len()];
        Steady::new(rule(&config.train), &stand, self.adam.decayed.clone(), batch, READ_EVERY)
    }

    /// Bytes of about the largest result in a step: logits, or what the maps of a layer give together.
    fn largest(&self, config: &RunConfig) -> usize {
        let numbers = self.members.len() * config.train.batch * self.train[0].seq_len();
        numbers * (4 * config.model.d_model).max(config.model.vocab) * size_of::<f32>()
    }

    /// Launches steps one by one from now on.
    fn give_up(&mut self, reason: &str) -> Result<bool> {
        let message = format!("steps are launched one by one, as they could not be recorded: {reason}");
        if told("1") {
            return Err(crate::Error::Device(message));
        }
        self.note = Some(message);
        self.recording = Recording::Never;
        Ok(false)
    }

    /// Puts parameters and moments where the rest of the cohort looks for them, if steps are recorded.
    pub(super) fn settle(&mut self) {
        if let Recording::Rehearsed { steady, .. } = &self.recording {
            self.stand_at(steady.stand.clone());
        }
    }

    fn stand_at(&mut self, stand: Stand) {
        self.alive = stand.living();
        self.parameters = self.parameters.unflatten(stand.parameters);
        (self.adam.first, self.adam.second) = (stand.first, stand.second);
    }

    /// Forgets a recording, whose buffers are for the runs that were: others need another.
    pub(super) fn forget_recording(&mut self) {
        if let Recording::Rehearsed { failures, .. } = self.recording {
            self.recording = Recording::Possible { failures };
        }
    }
}

/// A step on the buffers of a recording.
fn take(model: &Model, like: &crate::cohort::Parameters, steady: &Steady) -> Result<()> {
    let parameters = like.unflatten(steady.stand.parameters.clone());
    let (tokens, targets) = (steady.tokens.clone(), steady.targets.clone());
    let (losses, gradients) = model.differentiate_mean(&parameters, tokens, targets)?;
    steady.update(&gradients, &losses);
    Ok(())
}
