//! Who made a sweep's results: a line for each time that it was trained.

use super::SweepFolder;
use crate::file::write_atomically;
use crate::{Error, Result, device};
use burn::tensor::Device;
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::SystemTime;

/// One line of `sittings.jsonl`: a process that trained runs of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sitting {
    /// When it began (UTC, RFC 3339).
    pub started: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Runs that ended in it.
    pub ended: usize,
    /// Devices, as the command names them: `cuda:0`, or several with commas.
    pub device: String,
    /// What the first of them is.
    pub hardware: String,
    /// Version of NVIDIA's driver, of a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Threads of the machine.
    pub threads: usize,
    /// Version of this crate.
    pub version: String,
    /// Commit it was built from; `-dirty` if files differed from it.
    pub commit: String,
}

impl Sitting {
    /// The sitting that began at a time and ends now.
    pub(super) fn since(started: SystemTime, ended: usize, on: &[&Device]) -> Self {
        Self {
            started: rfc3339(started),
            seconds: started.elapsed().unwrap_or_default().as_secs_f64(),
            ended,
            device: on.iter().map(|on| device::name(on)).collect::<Vec<_>>().join(","),
            hardware: on.first().map_or_else(String::new, |on| device::hardware(on)),
            driver: on.first().and_then(|on| device::driver(on)),
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("LOGLINEAR_COMMIT").to_owned(),
        }
    }
}

impl SweepFolder {
    /// Every time that the sweep was trained.
    ///
    /// # Errors
    ///
    /// If the file can't be read.
    pub fn sittings(&self) -> Result<Vec<Sitting>> {
        read_sittings(&self.file("sittings.jsonl"))
    }

    pub(super) fn write_sittings(&self, sittings: &[Sitting]) -> Result<()> {
        let path = self.file("sittings.jsonl");
        let line = |sitting: &Sitting| serde_json::to_string(sitting).map(|line| line + "\n");
        let text = sittings.iter().map(line).collect::<std::result::Result<String, _>>();
        write_atomically(&path, text.map_err(|error| Error::format(&path, error))?.as_bytes())
    }
}

/// The sittings in a file; none if it isn't there.
pub(crate) fn read_sittings(path: &Path) -> Result<Vec<Sitting>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
    let parse = |line: &str| serde_json::from_str(line).map_err(|error| Error::format(path, error));
    text.lines().map(parse).collect()
}

/// A time as `2026-05-31T12:00:00Z`.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true)
}
