//! A run folder: the only contract between training and analysis.
//!
//! ```text
//! config.toml             everything that determines the run
//! corpus.json             the text it is trained on, if it is trained on one
//! metrics.jsonl           a line an evaluation, appended and flushed
//! checkpoint.safetensors  parameters, optimiser state, place in the run
//! result.json             what came out; its presence says that the run has ended
//! lambda.parquet          λ on given tokens, if it was captured
//! evaluation.json         the ended run at other lengths, if a sweep asked for them
//! ```

use super::{Checkpoint, LengthEvaluation, MetricsRow, RunConfig, RunResult, Status};
use crate::cohort::Parameters;
use crate::file::{difference, walk, write_atomically};
use crate::lambda::LambdaMap;
use crate::model::Model;
use crate::task::{CorpusRecord, TaskConfig, TokenCache};
use crate::{Error, Result};
use burn::tensor::Device;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run folder, to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    pub(super) path: PathBuf,
}

impl RunFolder {
    /// An existing run folder.
    ///
    /// # Errors
    ///
    /// If there is no `config.toml` in it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        if !path.join("config.toml").is_file() {
            return Err(Error::run(path, "not a run folder: expected a config.toml in it"));
        }
        Ok(Self { path })
    }

    /// Every run folder at or below `path`, in the order of their paths.
    ///
    /// # Errors
    ///
    /// If a folder can't be listed, or there is no run folder.
    pub fn find(path: impl AsRef<Path>) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        walk(path.as_ref(), |folder| match Self::open(folder) {
            Ok(run) => {
                found.push(run);
                Ok(false)
            }
            Err(_) => Ok(true),
        })?;
        if found.is_empty() {
            return Err(Error::run(path, "no run folder here or below: expected a config.toml"));
        }
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

    /// The configuration.
    ///
    /// # Errors
    ///
    /// If it can't be read or a field is wrong.
    pub fn config(&self) -> Result<RunConfig> {
        RunConfig::read(self.file("config.toml"))
    }

    /// Rows of `metrics.jsonl`; a torn last line is left out.
    ///
    /// # Errors
    ///
    /// If the file can't be read, or a whole line isn't a row.
    pub fn metrics(&self) -> Result<Vec<MetricsRow>> {
        Ok(self.metrics_lines()?.into_iter().map(|(row, _)| row).collect())
    }

    /// Rows with the bytes they were read from.
    pub(super) fn metrics_lines(&self) -> Result<Vec<(MetricsRow, Vec<u8>)>> {
        let path = self.file("metrics.jsonl");
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = std::fs::read(&path).map_err(Error::io(&path))?;
        // A kill can tear only the last line, and then its line end is missing.
        let whole = text.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let parse = |(number, line): (usize, &[u8])| match serde_json::from_slice(line) {
            Ok(row) => Ok((row, line.to_vec())),
            Err(error) => {
                let message = format!("line {}: expected a row of metrics: {error}", number + 1);
                Err(Error::format(&path, message))
            }
        };
        whole.enumerate().map(parse).collect()
    }

    /// The result, if the run has ended.
    ///
    /// # Errors
    ///
    /// If the file is there but can't be read.
    pub fn result(&self) -> Result<Option<RunResult>> {
        self.read_json("result.json")
    }

    /// The ended run at other lengths, if it was evaluated there.
    ///
    /// # Errors
    ///
    /// If the file is there but can't be read.
    pub fn length_evaluations(&self) -> Result<Option<Vec<LengthEvaluation>>> {
        self.read_json("evaluation.json")
    }

    pub(crate) fn write_length_evaluations(&self, evaluations: &[LengthEvaluation]) -> Result<()> {
        let path = self.file("evaluation.json");
        let text = serde_json::to_vec_pretty(evaluations).map_err(|error| Error::format(&path, error))?;
        write_atomically(&path, &text)
    }

    /// The text that the run is trained on, if it is trained on one.
    ///
    /// # Errors
    ///
    /// If the file is there but can't be read.
    pub fn corpus(&self) -> Result<Option<CorpusRecord>> {
        self.read_json("corpus.json")
    }

    /// Checks that the text that the run is trained on, if it is trained on one, is still the one that was
    /// recorded.
    ///
    /// # Errors
    ///
    /// Names the split that differs; also if the text can't be read.
    pub fn check_corpus(&self) -> Result<()> {
        let (TaskConfig::Text(text), Some(recorded)) = (self.config()?.task, self.corpus()?) else {
            return Ok(());
        };
        let now = CorpusRecord::of(&text, &TokenCache::default())?;
        let Some(difference) = recorded.difference(&now) else { return Ok(()) };
        let message = format!(
            "its corpus has changed since the run was started ({difference}): restore the text, or choose another \
             folder"
        );
        Err(Error::run(&self.path, message))
    }

    fn read_json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.file(name);
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read(&path).map_err(Error::io(&path))?;
        serde_json::from_slice(&text).map(Some).map_err(|error| Error::format(&path, error))
    }

    /// Checks that the metrics are those of the result: a run that has ended is not looked at again by training.
    ///
    /// # Errors
    ///
    /// If a file can't be read, or the last evaluation isn't the result's.
    pub fn check_ended(&self) -> Result<()> {
        let Some(result) = self.result()? else { return Ok(()) };
        let last = self.metrics()?.pop();
        let (step, best) = (last.as_ref().map(|row| row.step), last.as_ref().map(|row| row.best_accuracy));
        let diverged = result.status == Status::Diverged;
        // A run that diverged went on for some steps after its last evaluation.
        let same_step =
            if diverged { step.is_none_or(|step| step <= result.steps) } else { step == Some(result.steps) };
        if same_step && best == result.best_accuracy {
            return Ok(());
        }
        let text =
            |step: Option<usize>| step.map_or_else(|| "no step".to_owned(), |step| format!("step {step}"));
        let message = format!(
            "metrics.jsonl ends at {} with best accuracy {best:?}, result.json at step {} with {:?}: one of them was \
             changed or lost lines",
            text(step),
            result.steps,
            result.best_accuracy
        );
        Err(Error::run(&self.path, message))
    }

    /// How far ahead the token is that a run on a text predicts.
    ///
    /// # Errors
    ///
    /// If it is a run on another task.
    pub fn target_offset(&self) -> Result<usize> {
        let task = self.config()?.task;
        task.target_offset().ok_or_else(|| {
            let message = format!("is a run on {}: expected one on a text", task.name());
            Error::run(&self.path, message)
        })
    }

    /// Checks that the run is one on a text that can be continued: a model of the next token.
    ///
    /// # Errors
    ///
    /// If it is a run on another task, or one that predicts the token after the next.
    pub fn check_continues(&self) -> Result<()> {
        let offset = self.target_offset()?;
        if offset == 1 {
            return Ok(());
        }
        let message = format!(
            "was trained to predict token t+{offset} (task.target_offset = {offset}): it can't continue a text, as \
             it says nothing of the next token"
        );
        Err(Error::run(&self.path, message))
    }

    /// Checks that the run is the one that is expected.
    ///
    /// # Errors
    ///
    /// Names the first field in which its configuration differs.
    pub fn check_config(&self, expected: &RunConfig) -> Result<()> {
        let found = self.config()?;
        if found == *expected {
            return Ok(());
        }
        let difference = difference(&found.to_toml(), &expected.to_toml());
        let message = format!("holds a run with another configuration ({difference}); choose another folder");
        Err(Error::run(&self.path, message))
    }

    /// The model, with the λ map given if the run used one of a reader's own.
    ///
    /// # Errors
    ///
    /// If the configuration is wrong, or names a map that isn't given.
    pub fn model(&self, lambda: Option<Arc<dyn LambdaMap>>) -> Result<Model> {
        let config = self.config()?.model;
        match lambda {
            Some(map) => Model::with_lambda(config, map),
            None => Model::new(config),
        }
    }

    /// Whether there is a checkpoint.
    pub fn has_checkpoint(&self) -> bool {
        self.file("checkpoint.safetensors").is_file()
    }

    /// The last checkpoint.
    ///
    /// # Errors
    ///
    /// If there is none, or it doesn't fit the model.
    pub fn checkpoint(&self, model: &Model, device: &Device) -> Result<Checkpoint> {
        Checkpoint::read(&self.checkpoint_file()?, model.specs(), device)
    }

    /// Parameters of the last checkpoint and the step they are of.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint).
    pub fn parameters(&self, model: &Model, device: &Device) -> Result<(Parameters, usize)> {
        let (parameters, progress) =
            Checkpoint::read_parameters(&self.checkpoint_file()?, &model.specs(), device)?;
        Ok((parameters, progress.step))
    }

    fn checkpoint_file(&self) -> Result<PathBuf> {
        if !self.has_checkpoint() {
            return Err(Error::run(&self.path, "has no checkpoint.safetensors (yet): train the run first"));
        }
        Ok(self.file("checkpoint.safetensors"))
    }
}
