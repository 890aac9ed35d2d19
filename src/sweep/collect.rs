//! A sweep's runs as one frame.

use super::{RunState, SweepFolder};
use crate::frame::{self, RunRecord};
use crate::train::RunFolder;
use crate::{Error, Result};
use polars::prelude::DataFrame;

impl SweepFolder {
    /// Checks that collecting again would lose nothing: recorded results may lie here without their runs.
    ///
    /// # Errors
    ///
    /// If `collected.parquet` has more runs that ended than there are run folders that did.
    pub fn check_collected(&self) -> Result<()> {
        let file = self.file("collected.parquet");
        // One that can't be read has nothing to lose.
        let Ok(collected) = frame::read_parquet(&file) else { return Ok(()) };
        let held = frame::ended_runs(&collected)?.height();
        let states = self.states()?;
        let count = |test: fn(&RunState) -> bool| states.iter().filter(|state| test(state)).count();
        let there = count(RunState::is_ended);
        // A run that was damaged after it was collected has not ended any more, but is still there.
        let failed = count(|state| matches!(state, RunState::Failed(_)));
        if held <= there + failed {
            return Ok(());
        }
        let message = format!(
            "holds results of {held} runs, of which {there} are here as run folders: collecting again would lose the \
             others; train in another folder, or move collected.parquet away"
        );
        Err(Error::run(&file, message))
    }

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
