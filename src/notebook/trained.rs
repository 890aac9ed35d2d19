//! Runs that were trained, as frames.

use super::Show;
use super::display::{Rich, fields};
use crate::frame;
use crate::lambda::LambdaMap;
use crate::train::{RunFolder, Status};
use crate::{Result, device};
use polars::prelude::DataFrame;
use std::path::Path;
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
    lambda: Option<Arc<dyn LambdaMap>>,
}

impl Trained {
    /// Every run at or below `path`, wherever it was trained.
    ///
    /// # Errors
    ///
    /// If there is none, or one can't be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::of(RunFolder::find(path)?, None)
    }

    /// Given runs, and the λ map of the reader's own that they use.
    pub(super) fn of(folders: Vec<RunFolder>, lambda: Option<Arc<dyn LambdaMap>>) -> Result<Self> {
        let (runs, evaluations) = (frame::runs(&folders)?, frame::evaluations(&folders)?);
        Ok(Self { folders, runs, evaluations, lambda })
    }

    /// These runs and others together, to compare them. λ of a reader's own map is read from the
    /// runs before they are joined.
    ///
    /// # Errors
    ///
    /// If a run can't be read.
    pub fn and(&self, others: &Self) -> Result<Self> {
        Self::of(self.folders.iter().chain(&others.folders).cloned().collect(), None)
    }

    /// λ of every run on the first `sequences` sequences of its validation set, on the CPU: a row for
    /// each layer, head, sequence, position and level (see [`frame::capture_lambda`]).
    ///
    /// # Errors
    ///
    /// If a run has no checkpoint or no λ, or uses a map that isn't known here.
    pub fn lambda(&self, sequences: usize) -> Result<DataFrame> {
        let device = device::parse("cpu")?;
        let of = |run: &RunFolder| frame::run_lambda(run, sequences, None, self.lambda.clone(), &device);
        let frames: Vec<DataFrame> = self.folders.iter().map(of).collect::<Result<_>>()?;
        frame::stack_lambda(frames)
    }
}

impl Show for Trained {
    fn rich(&self) -> Rich {
        let row = |run: &RunFolder| {
            let name = run.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            let summary = match run.result() {
                Ok(Some(result)) => {
                    let best = result.best_accuracy.map_or("no evaluation".to_owned(), |best| {
                        format!("best accuracy {:.1} %", 100.0 * best)
                    });
                    let ended = match result.status {
                        Status::Target => "reached the target",
                        Status::Completed => "ended",
                        Status::Diverged => "diverged",
                        Status::Interrupted => "was interrupted",
                    };
                    format!("{best}; {ended} at step {}", result.steps)
                }
                Ok(None) => "not finished: run the same cell again".to_owned(),
                Err(error) => error.to_string(),
            };
            (name, summary)
        };
        let rows: Vec<(String, String)> = self.folders.iter().map(row).collect();
        fields(&rows.iter().map(|(name, summary)| (name.as_str(), summary.clone())).collect::<Vec<_>>())
    }
}
