//! Progress of a cohort, for people and for programs.

use super::{MetricsRow, RunResult};
use crate::kernel_cache::{Compiled, first_start};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
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
    /// A JSON object a line on standard output: every evaluation and result, and how many GPU kernels were compiled.
    Json,
}

/// Shortest time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Progress of many cohorts, one after another on each device.
#[derive(Debug)]
pub(crate) struct Overall {
    runs: usize,
    /// Draws the bars of all devices.
    bars: MultiProgress,
    state: Mutex<OverallState>,
}

/// Work is counted in positions: runs × steps × sequence length.
#[derive(Clone, Copy, Debug)]
struct OverallState {
    finished: usize,
    /// When the first steps had been taken, which may have waited for kernels to be compiled.
    since: Option<Instant>,
    /// Work done since then.
    done: f64,
    left: f64,
}

impl Overall {
    /// Progress over `runs` runs, of which some have finished, with `left` positions to go at most.
    pub(crate) fn new(runs: usize, finished: usize, left: f64) -> Self {
        let state = Mutex::new(OverallState { finished, since: None, done: 0.0, left });
        Self { runs, bars: MultiProgress::new(), state }
    }

    fn update(&self, change: impl FnOnce(&mut OverallState)) {
        change(&mut self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    fn now(&self) -> OverallState {
        *self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Seconds left, if no further run stops early and positions cost what they cost so far.
    fn seconds_left(&self) -> Option<f64> {
        let OverallState { since, done, left, .. } = self.now();
        since.filter(|_| done > 0.0).map(|since| left / done * since.elapsed().as_secs_f64())
    }

    fn text(&self) -> String {
        let left = self
            .seconds_left()
            .map_or_else(String::new, |seconds| format!(", about {} left", duration(seconds)));
        format!("{} of {} runs done{left}", self.now().finished, self.runs)
    }
}

/// A time as a person says it.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds.round() as u64 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

pub(super) struct ProgressReport<'a> {
    mode: ProgressMode,
    label: String,
    total: usize,
    bar: Option<ProgressBar>,
    /// When the last line was shown, and at which step: a rate is that since then.
    shown: Instant,
    shown_step: usize,
    validation: String,
    overall: Option<&'a Overall>,
    /// Runs that still train, the step that `overall` knows of, and positions of a run-step.
    alive: usize,
    counted: usize,
    seq_len: usize,
}

impl<'a> ProgressReport<'a> {
    /// Progress of a cohort of `runs` runs from the step `first` to `total`.
    pub(super) fn new(mode: ProgressMode, label: String, runs: usize, first: usize, total: usize) -> Self {
        let bar = (mode == ProgressMode::Auto && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(total as u64).with_position(first as u64);
            let template = "{prefix} {wide_bar} {pos}/{len} {per_sec} {msg} {eta} left";
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .with_key("per_sec", |state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
                    let _ = write!(out, "{:.1} steps/s", state.per_sec());
                });
            bar.set_style(style);
            bar.set_prefix(format!("{label} ×{runs}"));
            bar
        });
        let report = Self {
            mode,
            label,
            total,
            bar,
            shown: Instant::now(),
            shown_step: first,
            validation: String::new(),
            overall: None,
            alive: runs,
            counted: first,
            seq_len: 0,
        };
        if let Some(line) =
            first_start().filter(|_| !matches!(mode, ProgressMode::Quiet | ProgressMode::Json))
        {
            report.line(&line);
        }
        report
    }

    /// The cohort, of runs of this length, as a part of something larger.
    pub(super) fn within(mut self, overall: Option<&'a Overall>, seq_len: usize) -> Self {
        (self.overall, self.seq_len) = (overall, seq_len);
        if let Some(overall) = overall {
            self.bar = self.bar.map(|bar| overall.bars.add(bar));
        }
        self
    }

    /// After a step, with the mean loss over runs when it is known.
    pub(super) fn step(&mut self, step: usize, loss: Option<f64>) {
        let work = (step.saturating_sub(self.counted) * self.alive * self.seq_len) as f64;
        self.counted = step;
        if let Some(overall) = self.overall {
            overall.update(|state| {
                state.left -= work;
                match state.since {
                    None => state.since = Some(Instant::now()),
                    Some(_) => state.done += work,
                }
            });
        }
        let loss = loss.map(|loss| format!("loss {loss:.3}"));
        if let Some(bar) = &self.bar {
            bar.set_position(step as u64);
            if let Some(loss) = loss {
                let overall =
                    self.overall.map_or_else(String::new, |overall| format!(" [{}]", overall.text()));
                bar.set_message(format!("{loss}{}{overall}", self.validation));
            }
        } else if matches!(self.mode, ProgressMode::Auto | ProgressMode::Lines)
            && self.shown.elapsed() >= LINE_EVERY
        {
            let rate = (step - self.shown_step) as f64 / self.shown.elapsed().as_secs_f64();
            (self.shown, self.shown_step) = (Instant::now(), step);
            let left = match self.overall {
                Some(overall) => overall.text(),
                None => format!("{:.0} s left", (self.total - step) as f64 / rate),
            };
            let loss = loss.unwrap_or_default();
            let line = format!(
                "{} ×{}: step {step}/{}, {rate:.1} steps/s, {loss}{}, {left}",
                self.label, self.alive, self.total, self.validation
            );
            self.line(&line);
        }
    }

    /// After steps whose numbers were read: which kernels were compiled for them, if any were.
    pub(super) fn compiled(&self) {
        if self.mode == ProgressMode::Quiet {
            return;
        }
        let Some(compiled) = Compiled::news() else { return };
        if self.mode == ProgressMode::Json {
            say(&serde_json::json!({ "event": "kernels", "values": compiled }));
        } else {
            self.line(&compiled.to_string());
        }
    }

    /// Something that a person may want to know.
    #[cfg(feature = "cuda")]
    pub(super) fn note(&self, line: &str) {
        if !matches!(self.mode, ProgressMode::Quiet | ProgressMode::Json) {
            self.line(line);
        }
    }

    /// A line for people, where they look.
    fn line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None if self.mode == ProgressMode::Lines => println!("{line}"),
            None => eprintln!("{line}"),
        }
    }

    /// After an evaluation of one run.
    pub(super) fn evaluated(&mut self, folder: &std::path::Path, row: &MetricsRow) {
        self.json("evaluation", folder, row);
    }

    /// After an evaluation of all runs.
    pub(super) fn validation(&mut self, text: String) {
        self.validation = format!(", {text}");
    }

    /// When a run has ended.
    pub(super) fn ended(&mut self, folder: &std::path::Path, result: &RunResult) {
        self.alive = self.alive.saturating_sub(1);
        if let Some(bar) = &self.bar {
            bar.set_prefix(format!("{} ×{}", self.label, self.alive));
        }
        if let Some(overall) = self.overall {
            let unused = (self.total.saturating_sub(result.steps) * self.seq_len) as f64;
            overall.update(|state| {
                state.finished += 1;
                state.left -= unused;
            });
        }
        self.json("result", folder, result);
        if let (ProgressMode::Json, Some(overall)) = (self.mode, self.overall) {
            let left = overall.seconds_left();
            let values = serde_json::json!({
                "finished": overall.now().finished, "runs": overall.runs, "seconds_left": left,
            });
            say(&serde_json::json!({ "event": "sweep", "values": values }));
        }
    }

    fn json<T: serde::Serialize>(&self, event: &str, folder: &std::path::Path, value: &T) {
        if self.mode == ProgressMode::Json {
            say(&serde_json::json!({ "event": event, "run": folder, "values": value }));
        }
    }

    pub(super) fn finish(self) {
        self.compiled();
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn say(line: &serde_json::Value) {
    // A reader that has gone away doesn't stop a training.
    let _ = writeln!(std::io::stdout(), "{line}");
}
