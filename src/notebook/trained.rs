//! Runs that were trained, as frames.

use super::Show;
use super::display::{Rich, fields};
use crate::attention::BeyondLevels;
use crate::frame;
use crate::lambda::LambdaMap;
use crate::model::{Decoder, Sampling, generate};
use crate::random::Generator;
use crate::task::{Split, Tokenizer};
use crate::train::{RunFolder, Status};
use crate::{Error, Result, device};
use polars::df;
use polars::prelude::DataFrame;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Run folders and what is in them.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The folders, in the order of their paths.
    pub folders: Vec<RunFolder>,
    /// A row a run: see [`frame::runs`].
    pub runs: DataFrame,
    /// A row an evaluation: see [`frame::evaluations`].
    pub evaluations: DataFrame,
    /// Maps of the reader's own, by the folder of the run that uses them.
    maps: HashMap<PathBuf, Arc<dyn LambdaMap>>,
}

impl Trained {
    /// Every run at or below `path`, wherever it was trained.
    ///
    /// # Errors
    ///
    /// If there is none, or one can't be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::of(RunFolder::find(path)?, HashMap::new())
    }

    /// Given runs, and λ maps of the reader's own that some use.
    pub(super) fn of(folders: Vec<RunFolder>, maps: HashMap<PathBuf, Arc<dyn LambdaMap>>) -> Result<Self> {
        let mut names: HashMap<String, &RunFolder> = HashMap::new();
        for folder in &folders {
            if let Some(other) = names.insert(frame::run_name(folder), folder) {
                let message = format!(
                    "frames and figures would take this run and {} for one: both end in `{}`; rename a folder",
                    other.path().display(),
                    frame::run_name(folder)
                );
                return Err(Error::run(folder.path(), message));
            }
        }
        let (runs, evaluations) = (frame::runs(&folders)?, frame::evaluations(&folders)?);
        Ok(Self { folders, runs, evaluations, maps })
    }

    /// These runs and others together, to compare them; a run that is in both counts once.
    ///
    /// # Errors
    ///
    /// If a run can't be read, or two have the same name.
    pub fn and(&self, others: &Self) -> Result<Self> {
        let mut folders = self.folders.clone();
        folders.extend(others.folders.iter().filter(|folder| !self.folders.contains(folder)).cloned());
        let maps = self.maps.clone().into_iter().chain(others.maps.clone()).collect();
        Self::of(folders, maps)
    }

    /// λ of every run on the first `sequences` sequences of its validation set, on the CPU: a row for
    /// each layer, head, sequence, position and level (see [`frame::capture_lambda`]).
    ///
    /// # Errors
    ///
    /// If a run has no checkpoint or no λ, or uses a map of the reader's own and was opened: the map is known
    /// to what [`Experiment::run_here`](super::Experiment::run_here) returned.
    pub fn lambda(&self, sequences: usize) -> Result<DataFrame> {
        let device = device::parse("cpu")?;
        let map = |run: &RunFolder| self.maps.get(run.path()).cloned();
        let of = |run: &RunFolder| frame::run_lambda(run, sequences, None, map(run), &device);
        let frames: Vec<DataFrame> = self.folders.iter().map(of).collect::<Result<_>>()?;
        frame::stack_lambda(frames)
    }
}

impl Trained {
    /// λ of every run on a text of the reader's own, on the CPU: a row for each layer, head, position and
    /// level, with the token's text (see [`frame::text_lambda`]).
    ///
    /// # Errors
    ///
    /// As [`lambda`](Self::lambda), and if a run is not one on a text.
    pub fn text_lambda(&self, text: &str) -> Result<DataFrame> {
        let device = device::parse("cpu")?;
        let of = |run: &RunFolder| frame::text_lambda(run, text, self.maps.get(run.path()).cloned(), &device);
        let frames: Vec<DataFrame> = self.folders.iter().map(of).collect::<Result<_>>()?;
        frame::stack_lambda(frames)
    }

    /// Loss of every run at each position of windows of `seq_len` tokens of the validation text, on the CPU
    /// (see [`frame::position_losses`]).
    ///
    /// # Errors
    ///
    /// As [`frame::position_losses`].
    pub fn positions(&self, seq_len: usize) -> Result<DataFrame> {
        let device = device::parse("cpu")?;
        let of = |run: &RunFolder| {
            let map = self.maps.get(run.path()).cloned();
            frame::position_losses(run, Some(seq_len), Split::Validation, map, &device)
        };
        frame::stack_positions(self.folders.iter().map(of).collect::<Result<Vec<_>>>()?)
    }

    /// Continues a text with each run, on the CPU: columns run, kind, seed (of the draws), text.
    ///
    /// # Errors
    ///
    /// If the prompt is empty, a run is not one of next tokens on a text, or it has no checkpoint.
    pub fn generate(&self, prompt: &str, tokens: usize, sampling: &Sampling, seed: u64) -> Result<DataFrame> {
        let (device, tokenizer) = (device::parse("cpu")?, Tokenizer::gpt2());
        let start = tokenizer.encode(prompt);
        let (mut names, mut kinds, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for run in &self.folders {
            run.check_continues()?;
            let model = run.model(self.maps.get(run.path()).cloned())?;
            let (parameters, _) = run.parameters(&model, &device)?;
            let mut decoder = Decoder::new(&model, &parameters, BeyondLevels::ReuseLast, &device)?;
            let logits = decoder.extend(&start)?;
            let mut generator = Generator::new(seed, "generate");
            let drawn = generate(&mut decoder, logits, tokens, sampling, &mut generator, |_| Ok(true))?;
            names.push(frame::run_name(run));
            kinds.push(model.kind());
            texts.push(format!("{prompt}{}", tokenizer.decode(&drawn)?));
        }
        let seeds = vec![seed; names.len()];
        Ok(df!("run" => names, "kind" => kinds, "seed" => seeds, "text" => texts)?)
    }
}

impl Show for Trained {
    fn rich(&self) -> Rich {
        let row = |run: &RunFolder| {
            let name = run.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            let summary = match run.result() {
                Ok(Some(result)) => {
                    let best = match (result.perplexity(), result.best_accuracy) {
                        (Some(perplexity), _) => format!("validation perplexity {perplexity:.1}"),
                        (None, Some(best)) => format!("best accuracy {:.1} %", 100.0 * best),
                        (None, None) => "no evaluation".to_owned(),
                    };
                    let ended = match result.status {
                        Status::Target => "reached the target",
                        Status::Completed => "ended",
                        Status::Diverged => "diverged",
                        Status::Interrupted => "was interrupted",
                    };
                    format!("{best}; {ended} at step {}", result.steps)
                }
                Ok(None) => "not finished: run the cells again from the top".to_owned(),
                Err(error) => error.to_string(),
            };
            (name, summary)
        };
        let rows: Vec<(String, String)> = self.folders.iter().map(row).collect();
        fields(&rows.iter().map(|(name, summary)| (name.as_str(), summary.clone())).collect::<Vec<_>>())
    }
}
