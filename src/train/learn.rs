//! Which runs train together, and from where.

use super::batched::{Cohort, Results};
use super::checkpoint::Progress;
use super::progress::Overall;
use super::writer::RunWriter;
use super::{Adam, Checkpoint, Interrupt, MetricsRow, ProgressMode, RunConfig, RunResult};
use crate::cohort::Parameters;
use crate::device;
use crate::lambda::{LambdaKind, LambdaMap};
use crate::model::{Model, Precision};
use crate::task::{Dataset, Split};
use crate::{Error, Result};
use burn::tensor::{DType, Device};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One run to train.
#[derive(Clone, Debug)]
pub struct Job {
    /// What determines it.
    pub config: RunConfig,
    /// Its run folder.
    pub folder: PathBuf,
    /// A λ map of the reader's own, if `config.model.lambda.custom` names one.
    pub lambda: Option<Arc<dyn LambdaMap>>,
}

impl Job {
    /// A run with a built-in λ map, in a folder of `out` that is named after its kind and seed.
    pub fn under(out: &Path, config: RunConfig) -> Self {
        let folder = out.join(format!("{}-seed{}", config.model.kind(), config.seed));
        Self { config, folder, lambda: None }
    }

    /// One run for each λ kind and seed, in folders of `out`, all checked. Without kinds, that of the
    /// configuration.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range.
    pub fn each(out: &Path, config: &RunConfig, kinds: &[LambdaKind], seeds: &[u64]) -> Result<Vec<Self>> {
        let own = [config.model.lambda.kind];
        let mut jobs = Vec::new();
        for &kind in if kinds.is_empty() { &own } else { kinds } {
            for &seed in seeds {
                let mut config = RunConfig { seed, ..config.clone() };
                config.model.lambda.kind = kind;
                config.validate()?;
                jobs.push(Self::under(out, config));
            }
        }
        Ok(jobs)
    }
}

/// How to train.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub device: Device,
    /// How progress is shown.
    pub progress: ProgressMode,
    /// Asked before every step.
    pub interrupt: Interrupt,
}

/// Trains runs, those of equal shapes together, and returns their results in the same order.
///
/// A run whose folder has a result is not trained again; one with a checkpoint goes on from it.
///
/// # Errors
///
/// If a configuration is wrong, or a folder can't be used: nothing is trained then. If writing fails
/// on the way, finished evaluations are kept.
pub fn train(jobs: &[Job], options: &Options) -> Result<Vec<RunResult>> {
    device::enter(&options.device, || {
        check(jobs, options)?;
        let ready = jobs.iter().enumerate().map(|(index, job)| Ready::of(index, job, options));
        let ready = ready.collect::<Result<_>>()?;
        Ok(train_ready(ready, options, None)?.into_iter().map(|(_, result)| result).collect())
    })
}

/// As [`train`], but a run that can't be prepared doesn't keep the others from training: its place has
/// the error.
pub(crate) fn train_each(
    jobs: &[Job],
    options: &Options,
    overall: Option<&Overall>,
) -> Result<Vec<Result<RunResult>>> {
    device::enter(&options.device, || {
        check(jobs, options)?;
        let mut results: Vec<Option<Result<RunResult>>> = jobs.iter().map(|_| None).collect();
        let mut ready = Vec::new();
        for (index, job) in jobs.iter().enumerate() {
            match Ready::of(index, job, options) {
                Ok(run) => ready.push(run),
                Err(error) if error.is_full_disk() => return Err(error),
                Err(error) => results[index] = Some(Err(error)),
            }
        }
        for (index, result) in train_ready(ready, options, overall)? {
            results[index] = Some(Ok(result));
        }
        Ok(results.into_iter().flatten().collect())
    })
}

/// Checks what can be checked before a file is touched.
fn check(jobs: &[Job], options: &Options) -> Result<()> {
    for (index, job) in jobs.iter().enumerate() {
        job.config.validate()?;
        if job.config.train.precision == Precision::Bf16 && device::is_cpu(&options.device) {
            return Err(Error::value("train.precision", "f32 on the CPU (bf16 is for GPUs)", "bf16"));
        }
        // A text that can't be used would otherwise leave a folder that is in the way of the next try.
        if job.config.task.drawn().is_none() && !job.folder.join("config.toml").exists() {
            data(&job.config)?;
        }
        if jobs[..index].iter().any(|other| other.folder == job.folder) {
            return Err(Error::run(&job.folder, "two runs share this folder; give each its own"));
        }
    }
    Ok(())
}

/// Training and validation data.
fn data(config: &RunConfig) -> Result<[Dataset; 2]> {
    let train = Dataset::open(&config.task, config.seed, Split::Train)?;
    let validation = Dataset::open(&config.task, config.seed, Split::Validation)?;
    if train.len() < config.train.batch {
        let expected = format!("1 to {} (the number of training sequences)", train.len());
        return Err(Error::value("train.batch", expected, config.train.batch));
    }
    Ok([train, validation])
}

/// A run that has ended before, or is about to train.
enum Ready {
    Ended(usize, Box<RunResult>),
    Waiting(Box<Run>),
}

impl Ready {
    fn of(index: usize, job: &Job, options: &Options) -> Result<Self> {
        let writer = RunWriter::open(&job.folder, &job.config)?;
        match writer.folder.result()? {
            Some(result) => {
                writer.folder.check_ended()?;
                Ok(Self::Ended(index, Box::new(result)))
            }
            None => Ok(Self::Waiting(Box::new(Run::prepare(index, job, writer, &options.device)?))),
        }
    }
}

/// Trains what is waiting; results in the order of their indices.
fn train_ready(ready: Vec<Ready>, options: &Options, overall: Option<&Overall>) -> Result<Results> {
    let (mut results, mut waiting) = (Results::new(), Vec::new());
    for run in ready {
        match run {
            Ready::Ended(index, result) => results.push((index, *result)),
            Ready::Waiting(run) => waiting.push(*run),
        }
    }
    while let Some(first) = waiting.first() {
        let (config, map) = (first.config.clone(), first.map.clone());
        let (group, others): (Vec<Run>, Vec<Run>) =
            waiting.into_iter().partition(|run| run.config.same_cohort(&config) && same_map(&run.map, &map));
        // Runs that a kill left behind catch up first, so that all go on as one cohort.
        let steps = || group.iter().map(|run| run.state.progress.step);
        let least = steps().min().unwrap_or(0);
        let next = steps().filter(|&step| step > least).min();
        let (cohort, ahead): (Vec<Run>, Vec<Run>) =
            group.into_iter().partition(|run| run.state.progress.step == least);
        let (ended, level) = Cohort::new(cohort, &options.device)?.train(options, overall, next)?;
        results.extend(ended);
        waiting = ahead.into_iter().chain(level).chain(others).collect();
    }
    results.sort_by_key(|&(index, _)| index);
    Ok(results)
}

fn same_map(a: &Option<Arc<dyn LambdaMap>>, b: &Option<Arc<dyn LambdaMap>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// A run that is about to train.
#[derive(Debug)]
pub(super) struct Run {
    /// Place among the jobs.
    pub(super) index: usize,
    pub(super) config: RunConfig,
    pub(super) map: Option<Arc<dyn LambdaMap>>,
    pub(super) model: Model,
    pub(super) writer: RunWriter,
    pub(super) state: Checkpoint,
    /// Row of metrics of the state's step, if it was an evaluation.
    pub(super) last: Option<MetricsRow>,
    pub(super) train: Dataset,
    pub(super) validation: Dataset,
}

impl Run {
    /// Draws data, and initial weights or the last checkpoint.
    fn prepare(index: usize, job: &Job, mut writer: RunWriter, on: &Device) -> Result<Self> {
        let config = job.config.clone();
        writer.record_corpus(&config.task)?;
        let model = match &job.lambda {
            Some(map) => Model::with_lambda(config.model.clone(), map.clone())?,
            None => Model::new(config.model.clone())?,
        };
        let model = model.with_precision(config.train.precision);
        let on = device::plain(on);
        let path = writer.folder.path().to_owned();
        let state = if writer.folder.has_checkpoint() {
            let state = writer.folder.checkpoint(&model, &on)?;
            if state.progress.step > config.train.steps {
                let found = format!("checkpoint.safetensors is of step {}", state.progress.step);
                let message = format!("{found}, past train.steps = {}", config.train.steps);
                return Err(Error::run(path, message));
            }
            state
        } else {
            // One row may be ahead of the first checkpoint; more mean that a checkpoint is lost.
            let rows = writer.folder.metrics()?.len();
            if rows > 1 {
                let message = format!(
                    "metrics.jsonl has {rows} rows but checkpoint.safetensors is missing: restore it, or \
                     remove metrics.jsonl to start anew"
                );
                return Err(Error::run(path, message));
            }
            let parameters = Parameters::initialise(model.specs(), &[config.seed], &on, DType::F32);
            let adam = Adam::new(&parameters);
            Checkpoint { parameters, adam, progress: Progress::default() }
        };
        let (last, rows) = writer.rewind(state.progress.step)?;
        // The last one may be lost: it is written before its checkpoint, and evaluated again.
        let expected = state.progress.step / config.train.eval_every;
        if rows + 1 < expected {
            let message = format!(
                "metrics.jsonl has {rows} rows up to step {}, expected {expected} of them: restore it, or remove \
                 checkpoint.safetensors and metrics.jsonl to start anew",
                state.progress.step
            );
            return Err(Error::run(writer.folder.path(), message));
        }
        let [train, validation] = data(&config)?;
        Ok(Self { index, map: job.lambda.clone(), model, writer, state, last, train, validation, config })
    }
}
