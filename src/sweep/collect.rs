//! A sweep's runs as one frame.

use super::{RunState, SweepFolder};
use crate::Result;
use crate::frame::{self, RunRecord};
use crate::train::RunFolder;
use polars::prelude::DataFrame;

impl SweepFolder {
    /// What came out of all runs: a row an evaluation, see [`frame::collect`]. A run that waits or failed
    /// has a row too.
    ///
    /// # Errors
    ///
    /// If a file of a run that has ended can't be read.
    pub fn collect(&self) -> Result<DataFrame> {
        let folder = self.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let record = |(run, state): (&super::SweepRun, RunState)| {
            let settings = run.settings.clone();
            let empty = |status: &str| {
                let name = format!("{folder}/{}", run.name);
                Ok(RunRecord::without_results(name, run.config.clone(), settings.clone(), status))
            };
            match state {
                RunState::Waiting => empty("waiting"),
                RunState::Failed(_) => empty("failed"),
                RunState::Started { .. } | RunState::Ended(_) => {
                    RunRecord::of(&RunFolder::open(self.run_path(run))?, settings.clone())
                }
            }
        };
        let records = self.runs().iter().zip(self.states()?).map(record).collect::<Result<Vec<_>>>()?;
        frame::collect(&records)
    }
}
