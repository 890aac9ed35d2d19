//! The one writer of a run folder.

use super::{MetricsRow, RunConfig, RunFolder, RunResult};
use crate::file::{is_occupied, write_atomically};
use crate::task::{CorpusRecord, TaskConfig, TokenCache};
use crate::{Error, Result};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// A run folder that this process alone writes to.
#[derive(Debug)]
pub(super) struct RunWriter {
    pub(super) folder: RunFolder,
    metrics: File,
    /// Locked for as long as the writer lives.
    _lock: File,
}

impl RunWriter {
    /// Creates the folder, or opens it if it holds the same run.
    pub(super) fn open(path: &Path, config: &RunConfig) -> Result<Self> {
        if !path.join("config.toml").exists() && is_occupied(path, "config.toml")? {
            return Err(Error::run(path, "the folder holds other files and no run; choose another place"));
        }
        std::fs::create_dir_all(path).map_err(Error::io(path))?;
        let lock = File::create(path.join("lock")).map_err(Error::io(path.join("lock")))?;
        lock.try_lock().map_err(|_| Error::run(path, "another process is training this run"))?;
        let folder = RunFolder { path: path.to_owned() };
        let config_file = folder.file("config.toml");
        if config_file.exists() {
            folder.check_config(config)?;
        } else {
            write_atomically(&config_file, config.to_toml().as_bytes())?;
        }
        let metrics = Self::appendable(&folder)?;
        Ok(Self { folder, metrics, _lock: lock })
    }

    fn appendable(folder: &RunFolder) -> Result<File> {
        let path = folder.file("metrics.jsonl");
        File::options().create(true).append(true).open(&path).map_err(Error::io(&path))
    }

    /// Records the text that the run is trained on, or checks that it is the one that was recorded.
    pub(super) fn record_corpus(&self, task: &TaskConfig) -> Result<()> {
        let TaskConfig::Text(text) = task else { return Ok(()) };
        if self.folder.corpus()?.is_some() {
            return self.folder.check_corpus();
        }
        let path = self.folder.file("corpus.json");
        let record = CorpusRecord::of(text, &TokenCache::default())?;
        let text = serde_json::to_vec_pretty(&record).map_err(|error| Error::format(&path, error))?;
        write_atomically(&path, &text)
    }

    /// Drops rows past `step`, which a run resumed from there writes again. Returns the row of `step`, and how
    /// many there are.
    pub(super) fn rewind(&mut self, step: usize) -> Result<(Option<MetricsRow>, usize)> {
        // The very bytes: a number that is read and written again may change in its last digit.
        let mut kept = self.folder.metrics_lines()?;
        kept.retain(|(row, _)| row.step <= step);
        let text: Vec<u8> = kept.iter().flat_map(|(_, line)| line).copied().collect();
        write_atomically(&self.folder.file("metrics.jsonl"), &text)?;
        self.metrics = Self::appendable(&self.folder)?;
        let rows = kept.len();
        Ok((kept.pop().map(|(row, _)| row).filter(|row| row.step == step), rows))
    }

    /// Appends a row and flushes it.
    pub(super) fn append(&mut self, row: &MetricsRow) -> Result<()> {
        let path = self.folder.file("metrics.jsonl");
        let write = self.metrics.write_all(&line(row)).and_then(|()| self.metrics.sync_data());
        write.map_err(Error::io(path))
    }

    /// Ends the run.
    pub(super) fn finish(&self, result: &RunResult) -> Result<()> {
        let path = self.folder.file("result.json");
        let text = serde_json::to_vec_pretty(result).map_err(|error| Error::format(&path, error))?;
        write_atomically(&path, &text)
    }
}

fn line(row: &MetricsRow) -> Vec<u8> {
    let mut line = serde_json::to_vec(row).expect("a row of numbers has a JSON form");
    line.push(b'\n');
    line
}
