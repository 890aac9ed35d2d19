//! Training from a cell: in the release program, or here in the kernel.

use super::own_map::{same_map, try_map};
use super::{Trained, headless};
use crate::kernel_cache::TOPIC;
use crate::lambda::{LambdaKind, LambdaMap};
use crate::model::Mixer;
use crate::task::TaskConfig;
use crate::train::{Interrupt, Job, Options, ProgressMode, RunConfig, RunFolder, Status, train};
use crate::{Error, Result, device};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Runs that differ in λ kind and seed, each with a folder of its own below one.
///
/// ```no_run
/// # fn main() -> loglinear::Result<()> {
/// use loglinear::notebook::prelude::*;
/// let experiment = Experiment::new("runs/mqar")
///     .task(TaskConfig::Mqar(MqarConfig { seq_len: 32, pairs: 4, ..MqarConfig::default() }))
///     .lambda([LambdaKind::Fixed, LambdaKind::MlpSoftplus])
///     .seeds([0, 1])
///     .configure(|config| config.train.steps = 2000);
/// let trained = experiment.run()?;
/// trained.runs.show();
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Experiment {
    out: PathBuf,
    config: RunConfig,
    /// Where given; else that of the configuration.
    kinds: Option<Vec<LambdaKind>>,
    seeds: Option<Vec<u64>>,
    device: String,
}

impl Experiment {
    /// One run with the default configuration (the paper's), below `out`, on the device that the
    /// kernel was started for.
    pub fn new(out: impl Into<PathBuf>) -> Self {
        Self {
            out: out.into(),
            config: RunConfig::default(),
            kinds: None,
            seeds: None,
            device: std::env::var("LOGLINEAR_DEVICE").unwrap_or_else(|_| "cpu".to_owned()),
        }
    }

    /// The task; the model gets as many levels as its length needs. A text makes it the paper's language
    /// model, with the optimisation that goes with it.
    #[must_use]
    pub fn task(mut self, task: TaskConfig) -> Self {
        if let TaskConfig::Text(_) = task {
            self.config = RunConfig { seed: self.config.seed, task, ..RunConfig::language() };
            return self;
        }
        self.config.model.max_seq_len = task.task().seq_len();
        self.config.task = task;
        self
    }

    /// λ kinds of [`run`](Self::run), each with every seed, in place of the configuration's kind.
    #[must_use]
    pub fn lambda(mut self, kinds: impl IntoIterator<Item = LambdaKind>) -> Self {
        self.kinds = Some(kinds.into_iter().collect());
        self
    }

    /// Seeds, one run each, in place of the configuration's.
    #[must_use]
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = u64>) -> Self {
        self.seeds = Some(seeds.into_iter().collect());
        self
    }

    /// Device by name: `cpu`, `cuda:0`.
    #[must_use]
    pub fn device(mut self, name: impl Into<String>) -> Self {
        self.device = name.into();
        self
    }

    /// Changes any other field of the configuration.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut RunConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Trains in our release program: on any device, with a line of progress a second at most.
    ///
    /// What is finished is not trained again. If the kernel is interrupted, its variables are lost and the
    /// program stops after its step; the same cells from the top go on from there.
    ///
    /// # Errors
    ///
    /// If the configuration is wrong, the program can't be started, or a run diverges: then
    /// [`Trained::open`] has the others.
    pub fn run(&self) -> Result<Trained> {
        let kinds = match &self.kinds {
            Some(kinds) if kinds.is_empty() => return Err(Error::value("λ kinds", "at least one", "none")),
            kinds => kinds.as_deref().unwrap_or_default(),
        };
        let seeds = self.checked_seeds()?;
        let jobs = Job::each(&self.out, &self.config, kinds, &seeds)?;
        let program = program()?;
        self.announce(&jobs)?;
        // Not in the folder of the runs: each of them records its own.
        let path = std::env::temp_dir().join(format!("loglinear-{}.toml", std::process::id()));
        crate::file::write_atomically(&path, self.config.to_toml().as_bytes())?;
        let mut command = Command::new(program);
        command.arg("train").arg("--config").arg(&path).arg("--out").arg(&self.out);
        command.args(["--device", &self.device, "--while-stdin-open", "--seed"]);
        command.args(seeds.iter().map(u64::to_string));
        if self.config.model.mixer == Mixer::LogLinear && !kinds.is_empty() {
            command.arg("--lambda").args(kinds.iter().map(|kind| kind.name()));
        }
        if headless() {
            command.arg("--quiet");
        }
        let outcome = follow(command, "loglinear train");
        let _ = std::fs::remove_file(&path);
        let folders = || jobs.iter().map(|job| RunFolder::open(&job.folder)).collect::<Result<Vec<_>>>();
        if let Err(error) = outcome {
            // A run that diverged is named; the others ended as they would have.
            let diverged =
                |run: &&RunFolder| matches!(run.result(), Ok(Some(r)) if r.status == Status::Diverged);
            return Err(match folders().unwrap_or_default().iter().find(diverged) {
                Some(run) => diverged_error(run),
                None => error,
            });
        }
        Trained::of(folders()?, HashMap::new())
    }

    /// Trains in this kernel, with a λ map of the reader's own: one run a seed.
    ///
    /// Interrupting the kernel ends it, variables and all; the same cells from the top go on from the last
    /// evaluation.
    ///
    /// # Errors
    ///
    /// If the configuration or what the map returns is wrong (nothing is written then), a run of this name was
    /// trained with another map, or a run diverges.
    pub fn run_here(&self, map: impl LambdaMap + 'static) -> Result<Trained> {
        if self.kinds.is_some() {
            return Err(Error::value(
                "λ kinds",
                "not given: run_here trains one map, which is its argument",
                "some",
            ));
        }
        let map: Arc<dyn LambdaMap> = Arc::new(map);
        let mut config = self.config.clone();
        config.model.lambda.custom = Some(map.kind());
        let job = |&seed: &u64| {
            let job = Job::under(&self.out, RunConfig { seed, ..config.clone() });
            Job { lambda: Some(map.clone()), ..job }
        };
        let jobs: Vec<Job> = self.checked_seeds()?.iter().map(job).collect();
        jobs.iter().try_for_each(|job| job.config.validate())?;
        let device = device::parse(&self.device)?;
        try_map(&config, &map)?;
        jobs.iter().try_for_each(|job| same_map(job, &map))?;
        self.announce(&jobs)?;
        let progress = if headless() { ProgressMode::Quiet } else { ProgressMode::Lines };
        let results = train(&jobs, &Options { device, progress, interrupt: Interrupt::default() })?;
        let folders = jobs.iter().map(|job| RunFolder::open(&job.folder)).collect::<Result<Vec<_>>>()?;
        if let Some((folder, _)) = folders.iter().zip(&results).find(|(_, r)| r.status == Status::Diverged) {
            return Err(diverged_error(folder));
        }
        let maps = folders.iter().map(|folder| (folder.path().to_owned(), map.clone())).collect();
        Trained::of(folders, maps)
    }

    fn checked_seeds(&self) -> Result<Vec<u64>> {
        let seeds = self.seeds.clone().unwrap_or_else(|| vec![self.config.seed]);
        match seeds.iter().enumerate().find(|(i, seed)| seeds[..*i].contains(seed)) {
            Some((_, seed)) => Err(Error::value("seeds", "different values", format!("{seed} twice"))),
            None if seeds.is_empty() => Err(Error::value("seeds", "at least one", "none")),
            None => Ok(seeds),
        }
    }

    /// Says what is about to happen.
    fn announce(&self, jobs: &[Job]) -> Result<()> {
        std::fs::create_dir_all(&self.out).map_err(Error::io(&self.out))?;
        let mut finished = 0;
        let mut interrupted = Vec::new();
        for run in jobs.iter().filter_map(|job| RunFolder::open(&job.folder).ok()) {
            match run.result()? {
                Some(_) => finished += 1,
                None => interrupted.push((run.metrics()?.last().map_or(0, |row| row.step), run)),
            }
        }
        let (count, out) = (jobs.len(), self.out.display());
        let runs = if count == 1 { "run" } else { "runs" };
        match finished {
            0 => {
                println!("{count} {runs} in {out}; if interrupted, run the cells again from the top to go on")
            }
            finished => println!("{count} {runs} in {out}, {finished} finished before and not trained again"),
        }
        for (step, run) in interrupted {
            println!("{}: goes on from its last checkpoint, evaluated at step {step}", run.path().display());
        }
        Ok(())
    }
}

fn diverged_error(run: &RunFolder) -> Error {
    Error::run(run.path(), "diverged: its loss or gradient is not finite")
}

/// Passes the program's lines on until it ends.
pub(super) fn follow(mut command: Command, name: &str) -> Result<()> {
    let failed = |message: String| Error::Command { command: name.to_owned(), message };
    // The program watches its standard input: if this kernel is killed, it ends and the program stops.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let _open = child.stdin.take();
    let messages = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let mut said = String::new();
    for line in messages.lines() {
        let line = line.map_err(|error| failed(error.to_string()))?;
        if line.contains(": step ") || line.starts_with(TOPIC) {
            println!("{line}");
        } else if let Some(error) = line.strip_prefix("error: ") {
            said = error.to_owned();
        } else if said.is_empty() && !line.trim().is_empty() {
            said = line;
        }
    }
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    if status.success() {
        return Ok(());
    }
    Err(failed(if said.is_empty() { status.to_string() } else { said }))
}

/// Our release program: the one that the lab names.
pub(super) fn program() -> Result<PathBuf> {
    let named = std::env::var_os("LOGLINEAR_PROGRAM").map(PathBuf::from);
    named.filter(|path| path.is_file()).ok_or_else(|| {
        let expected = "the path of the program `loglinear` (the kernel of `loglinear lab` sets it)";
        let found = std::env::var("LOGLINEAR_PROGRAM").unwrap_or_else(|_| "nothing".to_owned());
        Error::value("LOGLINEAR_PROGRAM", expected, found)
    })
}
