//! Steps of a cohort that are recorded once and replayed, on a GPU.
//!
//! Where the kernels of `gpu` are all that a step launches: the recall model in single precision, whole batches of drawn
//! data that lie on the device. Everything else, and what the device refuses to record, takes its steps one by one; the
//! numbers are the same.

use super::RunConfig;
use super::batched::{Cohort, READ_EVERY, Unread};
use super::optimizer::rule;
use crate::Result;
use crate::gpu::steady::{Stand, Steady};
use crate::gpu::thread;
use crate::model::Model;
use crate::task::Places;
use burn::tensor::DType;

/// Steps that are taken one by one first: they compile what is not compiled yet, and allocate what a recording needs.
const REHEARSALS: usize = 4;
/// Fewest steps left for which recording pays.
const LEAST: usize = 100;

/// What a cohort knows of recording its steps.
pub(super) enum Recording {
    /// Its steps can't be recorded.
    Never,
    Possible,
    /// Buffers are there, and so many steps were taken on them.
    Rehearsed(Box<Steady>, usize),
}

impl Recording {
    /// Whether it makes sense to try. `LOGLINEAR_RECORD=0` says no, for comparisons.
    pub(super) fn of(cohort: &Cohort) -> Self {
        let config = &cohort.members[0].config;
        let told = std::env::var("LOGLINEAR_RECORD").is_ok_and(|value| value == "0");
        let plain = config.model.language.is_none()
            && config.train.accumulate == 1
            // A reader's own map may do anything.
            && cohort.members.iter().all(|member| member.map.is_none())
            && crate::gpu::single(&cohort.parameters.flatten());
        if plain && !told { Self::Possible } else { Self::Never }
    }
}

impl Cohort {
    /// Takes a step on the buffers of a recording, if this cohort has or can have one. If not, nothing has happened.
    pub(super) fn recorded_step(&mut self, config: &RunConfig) -> Result<bool> {
        if matches!(self.recording, Recording::Never) {
            return Ok(false);
        }
        let step = self.adam.steps;
        let order: Vec<Vec<usize>> =
            self.train.iter_mut().map(|set| set.order(step, config.train.batch)).collect::<Result<_>>()?;
        let Some(places) = Places::of(&self.train, &order) else {
            self.recording = Recording::Never;
            return Ok(false);
        };
        if matches!(self.recording, Recording::Possible) {
            // The log begins with a step whose numbers are the first to be read. With another GPU at work there is
            // no recording, perhaps later.
            let now = self.unread.is_empty() && thread::alone(|| ()).is_some();
            if config.train.steps - step < LEAST || !now {
                return Ok(false);
            }
            let stand = Stand {
                parameters: self.parameters.flatten(),
                first: self.adam.first.clone(),
                second: self.adam.second.clone(),
                alive: self.alive.clone().float().cast(DType::F32),
            };
            let batch = [self.train.len(), config.train.batch, self.train[0].seq_len()];
            let decayed = self.adam.decayed.clone();
            let mut steady = Steady::new(rule(&config.train), &stand, decayed, batch, READ_EVERY);
            if let Err(reason) = steady.prepare() {
                return Ok(self.give_up(&reason));
            }
            self.recording = Recording::Rehearsed(Box::new(steady), 0);
        }
        let rates: Vec<f64> =
            self.members.iter().map(|member| member.config.train.learning_rate_at(step)).collect();
        let row = self.unread.len();
        let Recording::Rehearsed(steady, rehearsed) = &mut self.recording else { return Ok(false) };
        let (model, like) = (&self.model, &self.parameters);
        let body = |steady: &Steady| take(model, like, steady);
        if *rehearsed >= REHEARSALS && row == 0 && !steady.is_recorded() {
            if let Some(Err((reason, stand))) = thread::alone(|| steady.record(body)) {
                let Stand { parameters, first, second, .. } = &*stand;
                self.parameters = self.parameters.unflatten(parameters.clone());
                (self.adam.first, self.adam.second) = (first.clone(), second.clone());
                self.alive = stand.living();
                return Ok(self.give_up(&reason));
            }
        }
        steady.feed(places.rows(), places.places(), &rates, step + 1, row);
        if steady.is_recorded() {
            steady.replay().map_err(crate::Error::Device)?;
        } else {
            take(model, like, steady)?;
            *rehearsed += 1;
        }
        self.adam.steps += 1;
        self.unread.push(Unread::Logged { step: step + 1 });
        Ok(true)
    }

    fn give_up(&mut self, reason: &str) -> bool {
        self.note = Some(format!("steps are launched one by one, as they could not be recorded: {reason}"));
        self.recording = Recording::Never;
        false
    }

    /// Puts parameters and moments where the rest of the cohort looks for them, if steps are recorded.
    pub(super) fn settle(&mut self) {
        if let Recording::Rehearsed(steady, _) = &self.recording {
            let Stand { parameters, first, second, .. } = &steady.stand;
            self.parameters = self.parameters.unflatten(parameters.clone());
            (self.adam.first, self.adam.second) = (first.clone(), second.clone());
            self.alive = steady.stand.living();
        }
    }

    /// Forgets a recording, whose buffers are for the runs that were: others need another.
    pub(super) fn forget_recording(&mut self) {
        if let Recording::Rehearsed(..) = self.recording {
            self.recording = Recording::Possible;
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
