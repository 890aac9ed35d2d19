//! How runs leave a cohort: ended, with a result, or to go on in another one.

use super::batched::{Cohort, Member, Results, everyone};
use super::checkpoint::Progress;
use super::learn::Run;
use super::progress::ProgressReport;
use super::{Checkpoint, MetricsRow, RunConfig, RunResult, Status};
use crate::task::Dataset;
use crate::{Result, device};

impl Cohort {
    /// Ends runs that reached the target or the last step at the evaluation just made.
    pub(super) fn end_due(
        &mut self,
        config: &RunConfig,
        results: &mut Results,
        report: &mut ProgressReport,
    ) -> Result<()> {
        let target = config.train.target;
        let due = |row: &MetricsRow| {
            if target > 0.0 && row.accuracy >= target {
                Some(Status::Target)
            } else {
                (row.step >= config.train.steps).then_some(Status::Completed)
            }
        };
        let due: Vec<Option<Status>> =
            self.members.iter().map(|member| member.last.as_ref().and_then(due)).collect();
        let ended: Vec<usize> = (0..due.len()).filter(|&i| due[i].is_some()).collect();
        self.end(&ended, |i| due[i].unwrap_or(Status::Completed), results, report)
    }

    /// Ends some runs: writes their results and takes them out of the cohort.
    pub(super) fn end(
        &mut self,
        ended: &[usize],
        status: impl Fn(usize) -> Status,
        results: &mut Results,
        report: &mut ProgressReport,
    ) -> Result<()> {
        if ended.is_empty() {
            return Ok(());
        }
        let diverged: Vec<usize> = ended.iter().copied().filter(|&i| status(i) == Status::Diverged).collect();
        self.checkpoint(&diverged)?;
        for &i in ended {
            let (index, result) = self.result(i, status(i));
            let writer = &self.members[i].writer;
            writer.finish(&result)?;
            report.ended(writer.folder.path(), &result);
            results.push((index, result));
        }
        let kept: Vec<usize> = (0..self.members.len()).filter(|i| !ended.contains(i)).collect();
        retain(&mut self.members, &kept);
        retain(&mut self.train, &kept);
        retain(&mut self.validation, &kept);
        self.settled();
        #[cfg(feature = "cuda")]
        self.forget_recording();
        if !kept.is_empty() {
            self.parameters = self.parameters.select(&kept);
            self.adam = self.adam.select(&kept);
            self.alive = everyone(kept.len(), &self.device);
        }
        Ok(())
    }

    pub(super) fn result(&self, i: usize, status: Status) -> (usize, RunResult) {
        let Member { index, config, progress, before, last, .. } = &self.members[i];
        let evaluated = progress.best_step > 0;
        let result = RunResult {
            status,
            kind: self.model.kind(),
            seed: config.seed,
            steps: progress.step,
            accuracy: last.as_ref().map(|row| row.accuracy),
            best_accuracy: evaluated.then_some(progress.best_accuracy),
            best_step: evaluated.then_some(progress.best_step),
            validation_loss: last.as_ref().map(|row| row.validation_loss),
            target_offset: config.task.target_offset(),
            seconds: (before + self.milliseconds()) as f64 / 1e3,
            device_memory: device::used_memory(&self.device),
            cohort: self.size,
            device: device::name(&self.device),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        (*index, result)
    }

    /// The runs that haven't ended, each as it stands.
    pub(super) fn into_runs(mut self) -> Vec<Run> {
        self.settled();
        let elapsed = self.milliseconds();
        let data = self.train.into_iter().zip(self.validation);
        let run = |(place, (member, (train, validation))): (usize, (Member, (Dataset, Dataset)))| {
            let progress = Progress { milliseconds: member.before + elapsed, ..member.progress };
            let last = member.last.filter(|row| row.step == progress.step);
            Run {
                index: member.index,
                config: member.config,
                map: member.map,
                model: self.model.clone(),
                writer: member.writer,
                state: Checkpoint {
                    parameters: self.parameters.select(&[place]),
                    adam: self.adam.select(&[place]),
                    progress,
                },
                last,
                train,
                validation,
            }
        };
        self.members.into_iter().zip(data).enumerate().map(run).collect()
    }
}

/// Keeps the items at the given places, which are in order.
fn retain<T>(items: &mut Vec<T>, kept: &[usize]) {
    let mut place = 0..;
    items.retain(|_| place.next().is_some_and(|place| kept.contains(&place)));
}
