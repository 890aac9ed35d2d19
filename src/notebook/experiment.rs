//! Training from a cell: in the release program, or here in the kernel.

use super::{Trained, headless};
use crate::lambda::{LambdaKind, LambdaMap};
use crate::task::TaskConfig;
use crate::train::{Interrupt, Job, Options, ProgressMode, RunConfig, RunFolder, Status, train};
use crate::{Error, Result, device};
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
    kinds: Vec<LambdaKind>,
    seeds: Vec<u64>,
    device: String,
}

impl Experiment {
    /// One run with the default configuration (the paper's), below `out`, on the device that the
    /// kernel was started for.
    pub fn new(out: impl Into<PathBuf>) -> Self {
        let config = RunConfig::default();
        Self {
            out: out.into(),
            kinds: vec![config.model.lambda.kind],
            seeds: vec![config.seed],
            config,
            device: std::env::var("LOGLINEAR_DEVICE").unwrap_or_else(|_| "cpu".to_owned()),
        }
    }

    /// The task; the model gets as many levels as its length needs.
    #[must_use]
    pub fn task(mut self, task: TaskConfig) -> Self {
        self.config.model.max_seq_len = task.task().seq_len();
        self.config.task = task;
        self
    }

    /// λ kinds, each with every seed. None for a baseline mixer, which has no λ.
    #[must_use]
    pub fn lambda(mut self, kinds: impl IntoIterator<Item = LambdaKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Seeds, one run each.
    #[must_use]
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = u64>) -> Self {
        self.seeds = seeds.into_iter().collect();
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
    /// What is finished is not trained again. If the kernel is interrupted, the program stops after its
    /// step and the same call goes on from there.
    ///
    /// # Errors
    ///
    /// If the configuration is wrong, the program can't be started, or a run diverges.
    pub fn run(&self) -> Result<Trained> {
        let jobs = self.jobs()?;
        let folders = || jobs.iter().map(|job| RunFolder::open(&job.folder)).collect::<Result<Vec<_>>>();
        self.announce(&jobs);
        let path = self.out.join("experiment.toml");
        crate::file::write_atomically(&path, self.config.to_toml().as_bytes())?;
        let mut command = Command::new(program()?);
        command.arg("train").arg("--config").arg(&path).arg("--out").arg(&self.out);
        command.args(["--device", &self.device, "--while-stdin-open", "--seed"]);
        command.args(self.seeds.iter().map(u64::to_string));
        if !self.kinds.is_empty() {
            command.arg("--lambda").args(self.kinds.iter().map(|kind| kind.name()));
        }
        if headless() {
            command.arg("--quiet");
        }
        self.follow(command)?;
        Trained::of(folders()?, None)
    }

    /// Trains in this kernel, with a λ map of the reader's own: one run a seed.
    ///
    /// Interrupting the kernel ends it, variables and all; the same cells go on from the last
    /// evaluation.
    ///
    /// # Errors
    ///
    /// If the configuration is wrong, or a run diverges.
    pub fn run_here(&self, map: impl LambdaMap + 'static) -> Result<Trained> {
        let map: Arc<dyn LambdaMap> = Arc::new(map);
        let mut config = self.config.clone();
        config.model.lambda.custom = Some(map.kind());
        let job = |&seed: &u64| {
            let job = Job::under(&self.out, RunConfig { seed, ..config.clone() });
            Job { lambda: Some(map.clone()), ..job }
        };
        let jobs: Vec<Job> = self.seeds.iter().map(job).collect();
        self.check(&jobs)?;
        self.announce(&jobs);
        let progress = if headless() { ProgressMode::Quiet } else { ProgressMode::Lines };
        let device = device::parse(&self.device)?;
        let results = train(&jobs, &Options { device, progress, interrupt: Interrupt::default() })?;
        let folders = jobs.iter().map(|job| RunFolder::open(&job.folder)).collect::<Result<Vec<_>>>()?;
        if let Some((folder, _)) = folders.iter().zip(&results).find(|(_, r)| r.status == Status::Diverged) {
            return Err(Error::run(folder.path(), "diverged: its loss or gradient is not finite"));
        }
        Trained::of(folders, Some(map))
    }

    fn jobs(&self) -> Result<Vec<Job>> {
        let jobs = Job::each(&self.out, &self.config, &self.kinds, &self.seeds)?;
        self.check(&jobs)?;
        Ok(jobs)
    }

    fn check(&self, jobs: &[Job]) -> Result<()> {
        if jobs.is_empty() {
            return Err(Error::value("seeds", "at least one", "none"));
        }
        std::fs::create_dir_all(&self.out).map_err(Error::io(&self.out))?;
        jobs.iter().try_for_each(|job| job.config.validate())
    }

    fn announce(&self, jobs: &[Job]) {
        let (count, out) = (jobs.len(), self.out.display());
        let runs = if count == 1 { "run" } else { "runs" };
        println!("{count} {runs} in {out}: an interrupted training goes on when this cell is run again");
        let unfinished =
            |job: &&Job| RunFolder::open(&job.folder).is_ok_and(|run| matches!(run.result(), Ok(None)));
        for job in jobs.iter().filter(unfinished) {
            let rows = RunFolder::open(&job.folder).and_then(|run| run.metrics()).unwrap_or_default();
            let step = rows.last().map_or(0, |row| row.step);
            println!(
                "{}: was interrupted after its evaluation at step {step}, goes on",
                job.folder.display()
            );
        }
    }

    /// Passes the program's lines on until it ends.
    fn follow(&self, mut command: Command) -> Result<()> {
        let name = "loglinear train";
        let failed = |message: String| Error::Command { command: name.to_owned(), message };
        // The program watches its standard input: if this kernel is killed, it ends and the program stops.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let _open = child.stdin.take();
        let messages = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let mut last = String::new();
        for line in messages.lines() {
            let line = line.map_err(|error| failed(error.to_string()))?;
            if line.contains(": step ") {
                println!("{line}");
            } else if !line.trim().is_empty() {
                last = line;
            }
        }
        let status = child.wait().map_err(|error| failed(error.to_string()))?;
        if status.success() {
            return Ok(());
        }
        let message = last.strip_prefix("error: ").unwrap_or(&last);
        Err(failed(if message.is_empty() { status.to_string() } else { message.to_owned() }))
    }
}

/// Our release program: the one that the lab names.
fn program() -> Result<PathBuf> {
    let named = std::env::var_os("LOGLINEAR_PROGRAM").map(PathBuf::from);
    named.filter(|path| path.is_file()).ok_or_else(|| {
        let expected = "the path of the program `loglinear` (the kernel of `loglinear lab` sets it)";
        let found = std::env::var("LOGLINEAR_PROGRAM").unwrap_or_else(|_| "nothing".to_owned());
        Error::value("LOGLINEAR_PROGRAM", expected, found)
    })
}
