//! Progress of a cohort, for people and for programs.

use super::{MetricsRow, RunResult};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ProgressMode {
    /// A bar on a terminal, a line every few seconds elsewhere; on standard error.
    #[default]
    Auto,
    /// A line every few seconds on standard output, as a notebook shows it.
    Lines,
    /// Nothing.
    Quiet,
    /// A JSON object a line on standard output: every evaluation and result.
    Json,
}

/// Shortest time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(2);

pub(super) struct ProgressReport {
    mode: ProgressMode,
    label: String,
    total: usize,
    first: usize,
    bar: Option<ProgressBar>,
    started: Instant,
    shown: Instant,
    accuracy: String,
}

impl ProgressReport {
    pub(super) fn new(mode: ProgressMode, label: String, first: usize, total: usize) -> Self {
        let bar = (mode == ProgressMode::Auto && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(total as u64).with_position(first as u64);
            let template = "{prefix} {wide_bar} {pos}/{len} {per_sec} {msg} {eta} left";
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .with_key("per_sec", |state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
                    let _ = write!(out, "{:.1} steps/s", state.per_sec());
                });
            bar.set_style(style);
            bar.set_prefix(label.clone());
            bar
        });
        let now = Instant::now();
        Self { mode, label, total, first, bar, started: now, shown: now, accuracy: String::new() }
    }

    /// After a step, with the mean loss over runs when it is known.
    pub(super) fn step(&mut self, step: usize, loss: Option<f64>) {
        let loss = loss.map(|loss| format!("loss {loss:.3}"));
        if let Some(bar) = &self.bar {
            bar.set_position(step as u64);
            if let Some(loss) = loss {
                bar.set_message(format!("{loss}{}", self.accuracy));
            }
        } else if matches!(self.mode, ProgressMode::Auto | ProgressMode::Lines)
            && self.shown.elapsed() >= LINE_EVERY
        {
            self.shown = Instant::now();
            let rate = (step - self.first) as f64 / self.started.elapsed().as_secs_f64();
            let left = (self.total - step) as f64 / rate;
            let loss = loss.unwrap_or_default();
            let line = format!(
                "{}: step {step}/{}, {rate:.1} steps/s, {loss}{}, {left:.0} s left",
                self.label, self.total, self.accuracy
            );
            if self.mode == ProgressMode::Lines { println!("{line}") } else { eprintln!("{line}") }
        }
    }

    /// After an evaluation of one run.
    pub(super) fn evaluated(&mut self, folder: &std::path::Path, row: &MetricsRow) {
        self.json("evaluation", folder, row);
    }

    /// After an evaluation of all runs.
    pub(super) fn accuracy(&mut self, mean: f64) {
        self.accuracy = format!(", accuracy {:.1} %", 100.0 * mean);
    }

    /// When a run has ended.
    pub(super) fn ended(&mut self, folder: &std::path::Path, result: &RunResult) {
        self.json("result", folder, result);
    }

    fn json<T: serde::Serialize>(&self, event: &str, folder: &std::path::Path, value: &T) {
        if self.mode == ProgressMode::Json {
            let line = serde_json::json!({ "event": event, "run": folder, "values": value });
            // A reader that has gone away doesn't stop a training.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }

    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
