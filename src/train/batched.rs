//! The loop: runs of equal shapes as one batched program.

use super::checkpoint::{Progress, Snapshot};
use super::learn::{Options, Run};
use super::progress::{Overall, ProgressReport};
#[cfg(feature = "cuda")]
use super::recorded::Recording;
use super::unread::{READ_EVERY, Unread};
use super::writer::RunWriter;
use super::{Adam, Checkpoint, Evaluation, MetricsRow, RunConfig, RunResult, Status, evaluate};
use crate::cohort::Parameters;
use crate::lambda::LambdaMap;
use crate::model::Model;
use crate::task::{Batch, Dataset, reside};
use crate::{Result, device};
use burn::tensor::{Bool, Device, Tensor, TensorData};
use std::sync::Arc;
use std::time::Instant;

/// Results of runs by their places among the jobs.
pub(super) type Results = Vec<(usize, RunResult)>;

/// Runs that train together. Position in `members` is the run axis of every tensor.
pub(super) struct Cohort {
    pub(super) members: Vec<Member>,
    pub(super) train: Vec<Dataset>,
    pub(super) validation: Vec<Dataset>,
    pub(super) model: Model,
    pub(super) parameters: Parameters,
    pub(super) adam: Adam,
    pub(super) alive: Tensor<1, Bool>,
    pub(super) unread: Vec<Unread>,
    #[cfg(feature = "cuda")]
    pub(super) recording: Recording,
    /// What there is to say of the last step.
    #[cfg(feature = "cuda")]
    pub(super) note: Option<String>,
    pub(super) device: Device,
    pub(super) size: usize,
    pub(super) started: Instant,
}

/// What is kept of a run besides tensors and data.
pub(super) struct Member {
    /// Place among the jobs.
    pub(super) index: usize,
    pub(super) config: RunConfig,
    pub(super) map: Option<Arc<dyn LambdaMap>>,
    pub(super) writer: RunWriter,
    pub(super) progress: Progress,
    /// Milliseconds of training before this process.
    pub(super) before: u64,
    pub(super) last: Option<MetricsRow>,
    pub(super) gradient_norm: f64,
}

impl Cohort {
    /// Stacks runs of one shape that stand at the same step.
    pub(super) fn new(runs: Vec<Run>, on: &Device) -> Result<Self> {
        let device = device::plain(on);
        let size = runs.len();
        let model = runs[0].model.clone();
        let (mut members, mut states) = (Vec::new(), Vec::new());
        let (mut train, mut validation) = (Vec::new(), Vec::new());
        for run in runs {
            members.push(Member {
                index: run.index,
                config: run.config,
                map: run.map,
                writer: run.writer,
                before: run.state.progress.milliseconds,
                progress: run.state.progress.clone(),
                last: run.last,
                gradient_norm: f64::NAN,
            });
            states.push(run.state);
            train.push(run.train);
            validation.push(run.validation);
        }
        if !device::is_cpu(&device) {
            reside(&mut train, &device);
            reside(&mut validation, &device);
        }
        let (parameters, adam) = Checkpoint::stack(&states)?;
        #[cfg(feature = "cuda")]
        let recording = Recording::of(&members, &train, &adam);
        Ok(Self {
            members,
            train,
            validation,
            model,
            parameters,
            adam,
            alive: everyone(size, &device),
            unread: Vec::new(),
            #[cfg(feature = "cuda")]
            recording,
            #[cfg(feature = "cuda")]
            note: None,
            device,
            size,
            started: Instant::now(),
        })
    }

    /// Trains to the end of every run, or until the interrupt. Yields each run's index and result, and the runs
    /// that are at the step `until`, if that comes first.
    pub(super) fn train(
        mut self,
        options: &Options,
        overall: Option<&Overall>,
        until: Option<usize>,
    ) -> Result<(Results, Vec<Run>)> {
        let config = self.members[0].config.clone();
        let label = format!("{} {}", config.task.name(), self.model.kind());
        let (first, total) = (self.adam.steps, config.train.steps);
        let mut report = ProgressReport::new(options.progress, label, self.size, first, total)
            .within(overall, config.task.task().seq_len());
        let mut results = Results::new();
        let read_every = if device::is_cpu(&self.device) { 1 } else { READ_EVERY };
        // A run that was killed after its last checkpoint and before its result has only that to do.
        self.end_due(&config, &mut results, &mut report)?;
        if !self.members.is_empty() && self.adam.steps >= config.train.steps {
            // Its last row of metrics was lost.
            self.evaluate(&config, &mut results, &mut report)?;
        }
        let mut warm = false;
        let last = until.unwrap_or(config.train.steps).min(config.train.steps);
        while !self.members.is_empty() && self.adam.steps < last {
            if options.interrupt.is_requested() {
                self.read(&mut results, &mut report)?;
                self.checkpoint_all()?;
                let all: Vec<usize> = (0..self.members.len()).collect();
                results.extend(all.into_iter().map(|i| self.result(i, Status::Interrupted)));
                self.members.clear();
                break;
            }
            self.step(&config)?;
            #[cfg(feature = "cuda")]
            if let Some(note) = self.note.take() {
                report.note(&note);
            }
            let step = self.adam.steps;
            let due = step.is_multiple_of(config.train.eval_every) || step == config.train.steps;
            if due || self.unread.len() >= read_every {
                let loss = self.read(&mut results, &mut report)?;
                report.step(step, loss);
                if !std::mem::replace(&mut warm, true) {
                    report.compiled();
                }
            }
            if due && !self.members.is_empty() {
                self.evaluate(&config, &mut results, &mut report)?;
            }
        }
        self.read(&mut results, &mut report)?;
        report.finish();
        Ok((results, self.into_runs()))
    }

    fn step(&mut self, config: &RunConfig) -> Result<()> {
        #[cfg(feature = "cuda")]
        if self.recorded_step(config)? {
            return Ok(());
        }
        let step = self.adam.steps;
        let order: Vec<_> =
            self.train.iter_mut().map(|set| set.order(step, config.train.batch)).collect::<Result<_>>()?;
        let part = config.train.batch / config.train.accumulate;
        let stack = |part: usize, size: usize| {
            let indices: Vec<_> = order.iter().map(|order| order[part * size..][..size].to_vec()).collect();
            Batch::stack(&self.train, &indices, &self.device)
        };
        let batches: Vec<Batch> =
            (0..config.train.accumulate).map(|i| stack(i, part)).collect::<Result<_>>()?;
        // Every part's loss is divided by what the whole batch scores, so that parts add up to its mean.
        let scored: Vec<usize> =
            (0..self.members.len()).map(|run| batches.iter().map(|batch| batch.scored[run]).sum()).collect();
        let mut sums: Option<(Tensor<2>, Tensor<1>)> = None;
        for batch in batches {
            let (values, gradients) =
                self.model.differentiate(&self.parameters, batch.tokens, batch.targets, &scored)?;
            sums = Some(match sums {
                None => (gradients, values),
                Some((all, sum)) => (all + gradients, sum + values),
            });
        }
        let Some((gradients, losses)) = sums else { return Ok(()) };
        let rates: Vec<f64> =
            self.members.iter().map(|member| member.config.train.learning_rate_at(step)).collect();
        let flat = self.parameters.flatten();
        let outcome = self.adam.step(&config.train, flat, gradients, &losses, self.alive.clone(), &rates);
        self.parameters = self.parameters.unflatten(outcome.parameters);
        self.alive = outcome.alive.clone();
        let (norms, alive) = (outcome.norms, outcome.alive);
        self.unread.push(Unread::Apart { step: step + 1, losses, norms, alive });
        Ok(())
    }

    /// Puts parameters and moments where the cohort looks for them.
    pub(super) fn settled(&mut self) {
        #[cfg(feature = "cuda")]
        self.settle();
    }

    fn evaluate(
        &mut self,
        config: &RunConfig,
        results: &mut Results,
        report: &mut ProgressReport,
    ) -> Result<()> {
        self.settled();
        let batch = config.train.batch;
        let evaluations = evaluate(&self.model, &self.parameters, &self.validation, batch, &self.device)?;
        let seconds = self.milliseconds();
        let step = self.adam.steps;
        for (i, evaluation) in evaluations.iter().enumerate() {
            let member = &mut self.members[i];
            let progress = &mut member.progress;
            if progress.best_step == 0 || evaluation.accuracy > progress.best_accuracy {
                progress.best_accuracy = evaluation.accuracy;
                progress.best_step = step;
            }
            let row = MetricsRow {
                step,
                train_loss: if progress.loss_count == 0 {
                    f64::NAN
                } else {
                    progress.loss_sum / progress.loss_count as f64
                },
                validation_loss: evaluation.loss,
                accuracy: evaluation.accuracy,
                best_accuracy: progress.best_accuracy,
                learning_rate: member.config.train.learning_rate_at(step.saturating_sub(1)),
                gradient_norm: member.gradient_norm,
                seconds: (member.before + seconds) as f64 / 1e3,
            };
            (progress.loss_count, progress.loss_sum) = (0, 0.0);
            member.writer.append(&row)?;
            report.evaluated(member.writer.folder.path(), &row);
            member.last = Some(row);
        }
        let mean = |pick: fn(&Evaluation) -> f64| {
            evaluations.iter().map(pick).sum::<f64>() / evaluations.len() as f64
        };
        report.validation(match config.task.target_offset() {
            None => format!("accuracy {:.1} %", 100.0 * mean(|e| e.accuracy)),
            Some(_) => format!("perplexity {:.1}", mean(|e| e.loss.exp())),
        });
        self.checkpoint_all()?;
        self.end_due(config, results, report)
    }

    fn checkpoint_all(&mut self) -> Result<()> {
        let all: Vec<usize> = (0..self.members.len()).collect();
        self.checkpoint(&all)
    }

    /// Writes checkpoints of some runs.
    pub(super) fn checkpoint(&mut self, runs: &[usize]) -> Result<()> {
        if runs.is_empty() {
            return Ok(());
        }
        self.settled();
        let elapsed = self.milliseconds();
        let snapshot = Snapshot::read(&self.parameters, &self.adam);
        for &i in runs {
            let member = &mut self.members[i];
            member.progress.milliseconds = member.before + elapsed;
            let path = member.writer.folder.file("checkpoint.safetensors");
            snapshot.write(&path, i, &member.progress)?;
        }
        Ok(())
    }

    pub(super) fn milliseconds(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

pub(super) fn everyone(runs: usize, device: &Device) -> Tensor<1, Bool> {
    Tensor::from_data(TensorData::new(vec![true; runs], [runs]), device)
}
