//! Training a sweep into its folder.

use super::{Plan, RunState, Sitting, Sweep, SweepFolder, SweepRun};
use crate::cohort::Parameters;
use crate::device;
use crate::frame::{losses_by_position, read_parquet, run_lambda, write_parquet};
use crate::model::{Mixer, Model};
use crate::task::{Dataset, Split};
use crate::train::{Job, LengthEvaluation, Options, Overall, RunFolder, Status, evaluate, train_each};
use crate::{Error, Result};
use burn::tensor::Device;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// How to train a sweep.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// Device, progress, interrupt.
    pub train: Options,
    /// Further devices, as large as the first: a cohort goes to the next one that is free.
    pub others: Vec<Device>,
    /// Most runs of a cohort; by default what pays on the device.
    pub cohort: Option<usize>,
    /// Bytes that a cohort may take; by default most of what is free on the device.
    pub memory: Option<u64>,
}

/// How a sweep ended.
#[derive(Clone, Debug)]
pub struct SweepOutcome {
    /// The folder.
    pub folder: SweepFolder,
    /// How far each run is, in the order of [`SweepFolder::runs`].
    pub states: Vec<RunState>,
    /// Messages of runs that could not be trained, or whose λ or evaluations could not be written.
    pub failures: BTreeMap<String, String>,
}

/// On two cores two runs at a time gain 5 % at T 16, what a CPU is for, and lose as much at T 64 and 256; more
/// lose more (`cargo bench --bench speed -- step cohorts`).
const CPU_COHORT: usize = 2;

/// On an H200 a run-step of 16 runs costs a quarter of one alone, and six tenths of one of 4; what a larger cohort
/// would gain is less than what its slowest run would cost.
const GPU_COHORT: usize = 16;

impl SweepOptions {
    /// What is left to do of a sweep.
    pub fn plan(&self, runs: &[SweepRun], states: &[RunState]) -> Plan {
        let cpu = device::is_cpu(&self.train.device);
        let budget = self.memory.unwrap_or_else(|| device::free_memory(&self.train.device) / 10 * 7);
        Plan::new(runs, states, budget, self.cohort.unwrap_or(if cpu { CPU_COHORT } else { GPU_COHORT }))
    }

    /// All devices, the first one first.
    pub(super) fn devices(&self) -> Vec<&Device> {
        std::iter::once(&self.train.device).chain(&self.others).collect()
    }

    /// The cohorts in the order in which devices take them. Several devices begin with the longest, so that they
    /// end at nearly the same time.
    fn queue(&self, plan: &Plan, runs: &[SweepRun]) -> VecDeque<Vec<usize>> {
        let mut cohorts: Vec<_> = plan.cohorts.iter().collect();
        if !self.others.is_empty() {
            cohorts.sort_by_key(|cohort| {
                let config = &runs[cohort.runs[0]].config;
                let steps = config.train.steps.saturating_sub(cohort.step);
                std::cmp::Reverse(cohort.runs.len() * steps * config.task.task().seq_len())
            });
        }
        cohorts.into_iter().map(|cohort| cohort.runs.clone()).collect()
    }
}

/// Trains the runs of a sweep into folders below `out`: skips those that have ended, goes on with those
/// that were interrupted or killed, and keeps a run that fails from stopping the others. Then `out` has
/// `collected.parquet` too. A folder may hold a sweep that this one extends, by further seeds for example: its
/// runs stay as they are.
///
/// # Errors
///
/// If the sweep is wrong, `out` holds something else or is in use by another process, or the disk is full:
/// every finished evaluation is kept, and the same call goes on.
pub fn run(sweep: &Sweep, out: &Path, options: &SweepOptions) -> Result<SweepOutcome> {
    sweep.runs()?;
    SweepFolder::check_place(out, sweep)?;
    std::fs::create_dir_all(out).map_err(Error::io(out))?;
    let lock = File::create(out.join("lock")).map_err(Error::io(out.join("lock")))?;
    lock.try_lock().map_err(|_| Error::run(out, "another process is training this sweep"))?;
    let folder = SweepFolder::create(out, sweep)?;
    folder.check_collected()?;
    folder.write_failures(&BTreeMap::new())?;
    let states = folder.states()?;
    let plan = options.plan(folder.runs(), &states);
    let overall = Overall::new(folder.runs().len(), plan.ended, plan.positions);
    let started = SystemTime::now();
    let work = Work {
        folder: &folder,
        options,
        overall,
        started,
        earlier: folder.sittings()?,
        ended: plan.ended,
        failures: Mutex::default(),
        waiting: Mutex::new(options.queue(&plan, folder.runs())),
    };
    for (run, state) in folder.runs().iter().zip(&states) {
        if state.is_ended() {
            work.complete(run, &options.train.device)?;
        }
    }
    work.train_all()?;
    let failures = work.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    write_parquet(&mut folder.collect()?, folder.file("collected.parquet"))?;
    Ok(SweepOutcome { states: folder.states()?, failures, folder })
}

struct Work<'a> {
    folder: &'a SweepFolder,
    options: &'a SweepOptions,
    overall: Overall,
    started: SystemTime,
    earlier: Vec<Sitting>,
    /// Runs that had ended before.
    ended: usize,
    failures: Mutex<BTreeMap<String, String>>,
    /// Cohorts that no device has taken yet.
    waiting: Mutex<VecDeque<Vec<usize>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Work<'_> {
    /// Trains all that waits, on every device one cohort after another.
    fn train_all(&self) -> Result<()> {
        if locked(&self.waiting).is_empty() {
            return Ok(());
        }
        std::thread::scope(|scope| {
            let others: Vec<_> =
                self.options.others.iter().map(|on| scope.spawn(move || self.train_on(on))).collect();
            let first = self.train_on(&self.options.train.device);
            let join = |other: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            others.into_iter().map(join).fold(first, Result::and)
        })?;
        self.record()
    }

    fn train_on(&self, on: &Device) -> Result<()> {
        while !self.options.train.interrupt.is_requested() {
            let Some(runs) = locked(&self.waiting).pop_front() else { break };
            // A sitting that is killed has left its name, and what it did up to the last cohort.
            let trained = self.record().and_then(|()| self.train(&runs, on));
            if trained.is_err() {
                // The other devices stop too, after their cohorts.
                locked(&self.waiting).clear();
                return trained;
            }
        }
        Ok(())
    }

    /// Writes down who trains here, and what that came to so far.
    fn record(&self) -> Result<()> {
        // One device at a time: both would write the same file.
        let _alone = locked(&self.failures);
        let ended = self.folder.states()?.iter().filter(|state| state.is_ended()).count();
        let devices = self.options.devices();
        let now = Sitting::since(self.started, ended.saturating_sub(self.ended), &devices);
        self.folder.write_sittings(&[&self.earlier[..], &[now]].concat())
    }

    /// Trains some runs together. If that fails as a whole (memory, a broken device), each half on its own,
    /// down to the run that is the reason.
    fn train(&self, runs: &[usize], on: &Device) -> Result<()> {
        let job = |&run: &usize| {
            let run = &self.folder.runs()[run];
            Job { config: run.config.clone(), folder: self.folder.run_path(run), lambda: None }
        };
        let jobs: Vec<Job> = runs.iter().map(job).collect();
        let options = Options { device: on.clone(), ..self.options.train.clone() };
        let trained = catch_unwind(AssertUnwindSafe(|| train_each(&jobs, &options, Some(&self.overall))));
        let message = match trained {
            Ok(Ok(results)) => {
                for (&run, result) in runs.iter().zip(results) {
                    let run = &self.folder.runs()[run];
                    match result {
                        Ok(_) => self.complete(run, on)?,
                        Err(error) => self.fail(run, &error)?,
                    }
                }
                return Ok(());
            }
            Ok(Err(error)) if error.is_full_disk() => return Err(error),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                format!("panicked: {text}")
            }
        };
        if let [run] = runs {
            return self.fail(&self.folder.runs()[*run], &message);
        }
        let (first, second) = runs.split_at(runs.len() / 2);
        self.train(first, on)?;
        self.train(second, on)
    }

    fn fail(&self, run: &SweepRun, message: &dyn std::fmt::Display) -> Result<()> {
        let mut failures = locked(&self.failures);
        failures.insert(run.name.clone(), message.to_string());
        self.folder.write_failures(&failures)
    }

    /// What a run that has ended still lacks: λ, and evaluations at other lengths.
    fn complete(&self, run: &SweepRun, on: &Device) -> Result<()> {
        match self.try_complete(run, on) {
            Err(error) if !error.is_full_disk() => self.fail(run, &error),
            outcome => outcome,
        }
    }

    fn try_complete(&self, run: &SweepRun, on: &Device) -> Result<()> {
        let folder = RunFolder::open(self.folder.run_path(run))?;
        let diverged = folder.result()?.is_none_or(|result| result.status == Status::Diverged);
        if diverged || !folder.has_checkpoint() {
            return Ok(());
        }
        let sequences = self.folder.sweep().lambda_sequences;
        let lambda = folder.file("lambda.parquet");
        if sequences > 0 && run.config.model.mixer == Mixer::LogLinear && read_parquet(&lambda).is_err() {
            // A few sequences: a GPU would compile kernels for them.
            let mut frame = run_lambda(&folder, sequences, None, None, &device::parse("cpu")?)?;
            write_parquet(&mut frame, lambda)?;
        }
        let mut lengths = self.folder.sweep().evaluation_lengths()?;
        lengths.retain(|&length| length != run.config.task.task().seq_len());
        let to_evaluate = !lengths.is_empty() && !matches!(folder.length_evaluations(), Ok(Some(_)));
        let positions = folder.file("positions.parquet");
        let offset = run.config.task.target_offset().filter(|_| read_parquet(&positions).is_err());
        if !to_evaluate && offset.is_none() {
            return Ok(());
        }
        let model = folder.model(None)?;
        let (parameters, step) = folder.parameters(&model, &device::plain(on))?;
        let loaded = (&model, &parameters);
        if to_evaluate {
            let found = lengths.iter().map(|&length| evaluate_length(run, loaded, step, length, on));
            folder.write_length_evaluations(&found.collect::<Result<Vec<_>>>()?)?;
        }
        if let Some(offset) = offset {
            // In the trained window, and in the longest one that is asked for.
            let of = |length| {
                losses_by_position(&folder, &run.config, loaded, length, Split::Validation, offset, on)
            };
            let mut frame = of(run.config.task.task().seq_len())?;
            if let Some(&longest) = lengths.iter().max() {
                frame = frame.vstack(&of(longest)?)?;
            }
            write_parquet(&mut frame, positions)?;
        }
        Ok(())
    }
}

/// A trained run at another length than its own.
fn evaluate_length(
    run: &SweepRun,
    (model, parameters): (&Model, &Parameters),
    step: usize,
    seq_len: usize,
    on: &Device,
) -> Result<LengthEvaluation> {
    let config = &run.config;
    let task = config.task.with_seq_len(seq_len);
    let data = Dataset::open(&task, config.seed, Split::Validation)?;
    // As many positions at once as in training, within one sequence.
    let own = config.task.task().seq_len();
    let batch = if own < seq_len { (config.train.batch * own / seq_len).max(1) } else { config.train.batch };
    let found = device::enter(on, || evaluate(model, parameters, &[data], batch, on))?[0];
    Ok(LengthEvaluation { seq_len, step, accuracy: found.accuracy, loss: found.loss })
}
