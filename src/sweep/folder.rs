//! A sweep's folder: `sweep.toml`, one folder a run, `failures.json`, and what was collected.

use super::{Sweep, SweepRun};
use crate::file::{difference, is_occupied, remove, walk, write_atomically};
use crate::train::{Checkpoint, RunFolder, RunResult};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How far a run is.
#[derive(Clone, Debug, PartialEq)]
pub enum RunState {
    /// No evaluation yet.
    Waiting,
    /// Evaluated at a step, and not ended.
    Started {
        /// Step of the last checkpoint.
        step: usize,
        /// Accuracy at the last evaluation.
        accuracy: Option<f64>,
    },
    /// Ended.
    Ended(RunResult),
    /// Could not be trained.
    Failed(String),
}

impl RunState {
    /// Whether the run has ended, whatever came out.
    pub fn is_ended(&self) -> bool {
        matches!(self, Self::Ended(_))
    }
}

/// A sweep's folder, to read.
#[derive(Clone, Debug)]
pub struct SweepFolder {
    path: PathBuf,
    sweep: Sweep,
    runs: Vec<SweepRun>,
}

impl SweepFolder {
    /// An existing sweep's folder.
    ///
    /// # Errors
    ///
    /// If there is no `sweep.toml` in it, or it is wrong.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = path.join("sweep.toml");
        if !file.is_file() {
            return Err(Error::run(path, "not a sweep's folder: expected a sweep.toml in it"));
        }
        let sweep = Sweep::read(file)?;
        let runs = sweep.runs()?;
        Ok(Self { path: path.to_owned(), sweep, runs })
    }

    /// Every sweep's folder at or below `path`, in the order of their paths.
    ///
    /// # Errors
    ///
    /// If a folder can't be listed, or a `sweep.toml` is wrong.
    pub fn find(path: impl AsRef<Path>) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        walk(path.as_ref(), |folder| {
            if folder.join("sweep.toml").is_file() {
                found.push(Self::open(folder)?);
                return Ok(false);
            }
            // A run has no sweeps in it.
            Ok(!folder.join("config.toml").is_file())
        })?;
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The sweep.
    pub fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    /// Its runs.
    pub fn runs(&self) -> &[SweepRun] {
        &self.runs
    }

    /// The folder of a run, whether it is there or not.
    pub fn run_path(&self, run: &SweepRun) -> PathBuf {
        self.path.join(&run.name)
    }

    /// How far each run is, in their order.
    ///
    /// # Errors
    ///
    /// If `failures.json` can't be read. A run whose folder can't be read has failed.
    pub fn states(&self) -> Result<Vec<RunState>> {
        let mut failures = self.failures()?;
        let state = |run: &SweepRun| {
            let ended = state_of(&self.run_path(run), run);
            match (ended, failures.remove(&run.name)) {
                (Ok(RunState::Ended(result)), _) => RunState::Ended(result),
                (_, Some(message)) => RunState::Failed(message),
                (Ok(state), None) => state,
                (Err(error), None) => RunState::Failed(error.to_string()),
            }
        };
        Ok(self.runs.iter().map(state).collect())
    }

    /// Messages of the runs that could not be trained, by name.
    ///
    /// # Errors
    ///
    /// If the file can't be read.
    pub fn failures(&self) -> Result<BTreeMap<String, String>> {
        let path = self.file("failures.json");
        if !path.exists() {
            return Ok(BTreeMap::new());
        }
        let text = std::fs::read(&path).map_err(Error::io(&path))?;
        serde_json::from_slice(&text).map_err(|error| Error::format(&path, error))
    }

    /// Replaces the messages; without any, there is no file.
    pub(super) fn write_failures(&self, failures: &BTreeMap<String, String>) -> Result<()> {
        let path = self.file("failures.json");
        if failures.is_empty() {
            return remove(&path);
        }
        let text = serde_json::to_vec_pretty(failures).map_err(|error| Error::format(&path, error))?;
        write_atomically(&path, &text)
    }

    /// Refuses a place that holds a sweep which this one doesn't extend, or other files and none.
    pub(super) fn check_place(path: &Path, sweep: &Sweep) -> Result<()> {
        let file = path.join("sweep.toml");
        if file.is_file() {
            let held = Self::open(path)?;
            let (found, wanted) = (held.sweep.to_toml(), sweep.to_toml());
            if found == wanted || held.is_extended_by(sweep)? {
                return Ok(());
            }
            let difference = difference(&found, &wanted);
            let message = format!("holds another sweep ({difference}); choose another folder");
            return Err(Error::run(path, message));
        }
        if is_occupied(path, "sweep.toml")? {
            return Err(Error::run(path, "the folder holds other files and no sweep; choose another place"));
        }
        Ok(())
    }

    /// Whether a sweep can be trained in this folder. Its claims must be the held one's: rules are written
    /// before the runs. As long as none has ended nothing is known, and a rule can be mended.
    fn is_extended_by(&self, other: &Sweep) -> Result<bool> {
        let ended = self.states()?.iter().any(RunState::is_ended);
        Ok((self.sweep.claims == other.claims || !ended) && self.sweep.is_extended_by(other)?)
    }

    /// Makes the folder, or opens it if it holds this sweep or one that it extends.
    pub(super) fn create(path: &Path, sweep: &Sweep) -> Result<Self> {
        Self::check_place(path, sweep)?;
        let file = path.join("sweep.toml");
        if !file.is_file() || Self::open(path)?.sweep != *sweep {
            write_atomically(&file, sweep.to_toml().as_bytes())?;
        }
        Self::open(path)
    }
}

fn state_of(path: &Path, expected: &SweepRun) -> Result<RunState> {
    if !path.join("config.toml").is_file() {
        return Ok(RunState::Waiting);
    }
    let run = RunFolder::open(path)?;
    run.check_config(&expected.config)?;
    if let Some(result) = run.result()? {
        run.check_ended()?;
        return Ok(RunState::Ended(result));
    }
    if !run.has_checkpoint() {
        return Ok(RunState::Waiting);
    }
    let step = Checkpoint::read_progress(&run.file("checkpoint.safetensors"))?.step;
    let accuracy = run.metrics()?.iter().rfind(|row| row.step <= step).map(|row| row.accuracy);
    Ok(RunState::Started { step, accuracy })
}
