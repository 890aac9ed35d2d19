//! A sweep from a cell: trained by our program, or recorded.

use super::display::{Rich, escape, fields};
use super::experiment::{follow, program};
use super::{Show, headless};
use crate::frame::{Described, read_parquet};
use crate::sweep::{Sweep, SweepFolder, claims_table, preset};
use crate::train::RunFolder;
use crate::{Error, Result, frame};
use polars::prelude::DataFrame;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A sweep that was trained, as frames.
#[derive(Clone, Debug)]
pub struct Swept {
    /// Its folder.
    pub folder: SweepFolder,
    /// Everything that came out: a row an evaluation, see [`frame::collect`].
    pub collected: DataFrame,
}

impl Swept {
    /// Trains a sweep into `out` with our release program, on the device that the kernel was started for.
    /// What is finished is not trained again; an interrupted sweep goes on.
    ///
    /// # Errors
    ///
    /// If the sweep is wrong, the program can't be started, or a run fails: then [`open`](Self::open) has the
    /// others.
    pub fn run(sweep: &Sweep, out: impl AsRef<Path>) -> Result<Self> {
        let (out, runs) = (out.as_ref(), sweep.runs()?.len());
        let program = program()?;
        println!(
            "{runs} runs in {}; if interrupted, run the cells again from the top to go on",
            out.display()
        );
        let file = std::env::temp_dir().join(format!("loglinear-sweep-{}.toml", std::process::id()));
        crate::file::write_atomically(&file, sweep.to_toml().as_bytes())?;
        let device = std::env::var("LOGLINEAR_DEVICE").unwrap_or_else(|_| "cpu".to_owned());
        let mut command = Command::new(program);
        command.arg("sweep").arg(&file).arg("--out").arg(out);
        command.args(["--device", &device, "--while-stdin-open"]);
        if headless() {
            command.arg("--quiet");
        }
        let outcome = follow(command, "loglinear sweep");
        // It may not exist; that is no failure of the sweep.
        let _ = std::fs::remove_file(&file);
        outcome?;
        Self::open(out)
    }

    /// A sweep's folder, wherever it was trained: its `collected.parquet`, or its runs if there is none.
    ///
    /// # Errors
    ///
    /// If it isn't a sweep's folder, or can't be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let folder = SweepFolder::open(path)?;
        let file = folder.file("collected.parquet");
        let collected = if file.is_file() { read_parquet(file)? } else { folder.collect()? };
        Ok(Self { folder, collected })
    }

    /// The results of a preset: recorded ones if there are, full before small, else those of the small preset,
    /// trained now below `runs/`.
    ///
    /// Recorded results are looked for in the folder that `LOGLINEAR_RESULTS` names, or `../data/results`.
    ///
    /// # Errors
    ///
    /// If there is no such preset, or training it fails.
    pub fn of_preset(name: &str) -> Result<Self> {
        let recorded = std::env::var_os("LOGLINEAR_RESULTS")
            .map_or_else(|| PathBuf::from("../data/results"), PathBuf::from);
        let small = format!("{name}-small");
        for name in [name, &small] {
            let place = recorded.join(name);
            if place.join("sweep.toml").is_file() {
                return Self::open(place);
            }
        }
        Self::run(&preset(&small)?, Path::new("runs").join(&small))
    }

    /// The runs that have ended: a row a run, at its own length.
    ///
    /// # Errors
    ///
    /// If the frame was changed.
    pub fn runs(&self) -> Result<DataFrame> {
        frame::ended_runs(&self.collected)
    }

    /// The sweep's claims with our figures and verdicts.
    ///
    /// # Errors
    ///
    /// If a claim doesn't fit the frame.
    pub fn claims(&self) -> Result<DataFrame> {
        claims_table(&self.collected, &self.folder.sweep().claims)
    }

    /// λ that was recorded with the runs, in one frame.
    ///
    /// # Errors
    ///
    /// If no run has any.
    pub fn lambda(&self) -> Result<DataFrame> {
        let folders =
            self.with("lambda.parquet", "the sweep's lambda_sequences is 0, or they were left out")?;
        frame::recorded_lambda(&folders)
    }

    /// Losses by position in the window that were recorded with the runs: see [`frame::position_losses`].
    ///
    /// # Errors
    ///
    /// If no run has any.
    pub fn positions(&self) -> Result<DataFrame> {
        let folders =
            self.with("positions.parquet", "the sweep isn't one on a text, or they were left out")?;
        frame::recorded_positions(&folders)
    }

    /// Runs that have a file.
    fn with(&self, file: &str, why_not: &str) -> Result<Vec<RunFolder>> {
        let runs = self.folder.runs().iter().map(|run| self.folder.run_path(run));
        let with = runs.filter(|path| path.join(file).is_file());
        let folders = with.map(RunFolder::open).collect::<Result<Vec<_>>>()?;
        if folders.is_empty() {
            let message = format!("no run has a {file}: {why_not}");
            return Err(Error::run(self.folder.path(), message));
        }
        Ok(folders)
    }
}

impl Show for Swept {
    fn rich(&self) -> Rich {
        let sweep = self.folder.sweep();
        let total = self.folder.runs().len();
        let ended = match self.runs() {
            Ok(runs) => format!("{} of {total} ended", runs.height()),
            Err(error) => error.to_string(),
        };
        let made = match self.folder.sittings() {
            Ok(sittings) => {
                let texts = sittings
                    .iter()
                    .map(|s| format!("{} on {} ({}), commit {}", s.started, s.device, s.hardware, s.commit));
                texts.collect::<Vec<_>>().join("; ")
            }
            Err(error) => error.to_string(),
        };
        fields(&[
            ("sweep", sweep.name.clone()),
            ("for", sweep.description.clone()),
            ("runs", ended),
            ("trained", made),
        ])
    }
}

/// A statistic with its sentence above the rows.
impl Show for Described {
    fn rich(&self) -> Rich {
        let table = self.frame.rich();
        let html = table.content("text/html").unwrap_or_default();
        let text = format!("{}\n{}", self.sentence, table.as_text());
        Rich::text(text).with("text/html", format!("<p>{}</p>{html}", escape(&self.sentence)))
    }
}
