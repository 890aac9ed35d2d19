//! `loglinear sweep` and `status`: many runs from one file.

use crate::arguments::ProgressArguments;
use crate::statistics::SMALL_CLAIMS;
use crate::{Failure, Outcome, report};
use clap::Args;
use loglinear::Error;
use loglinear::burn::tensor::Device;
use loglinear::frame::{kind_differences, summaries};
use loglinear::sweep::{
    Plan, RunState, Sweep, SweepFolder, SweepOptions, SweepOutcome, claims_table, preset, preset_names, run,
};
use loglinear::train::{Interrupt, ProgressMode, Status};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SweepCommand {
    /// Preset (`--list` names them) or TOML file.
    #[arg(value_name = "PRESET|FILE", required_unless_present = "list")]
    sweep: Option<String>,
    /// Folder of the sweep [default: runs/NAME].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Devices: cpu, cuda or cuda:N; several as cuda:0,cuda:1, each with a cohort of its own.
    #[arg(long, default_value = "cpu", value_name = "DEVICE", value_delimiter = ',')]
    device: Vec<String>,
    #[command(flatten)]
    pub progress: ProgressArguments,
    /// Stop after so many minutes, with everything resumable.
    #[arg(long, value_name = "MINUTES")]
    max_minutes: Option<f64>,
    /// Say what would be trained, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Most runs that train together [default: 2 on a CPU, 16 on a GPU].
    #[arg(long, value_name = "N")]
    cohort: Option<usize>,
    /// GiB that a cohort may take [default: 70 % of what is free].
    #[arg(long, value_name = "GIB")]
    memory: Option<f64>,
    /// Print the sweep as TOML, to change it.
    #[arg(long)]
    show: bool,
    /// List the presets.
    #[arg(long)]
    list: bool,
}

const EXAMPLES: &str = "Examples:
  loglinear sweep --list
  loglinear sweep paper/mqar-small
  loglinear sweep paper/mqar --device cuda:0 --max-minutes 25
  loglinear sweep paper/selective-copying --device cuda:0,cuda:1
  loglinear sweep paper/mqar --dry-run
  loglinear sweep ablation/init --show > mine.toml && loglinear sweep mine.toml --out runs/mine

A stopped or killed sweep goes on when the same command is given again. Runs that diverge are results like others.";

impl SweepCommand {
    pub fn run(self) -> Outcome {
        if self.list {
            let mut rows = vec![["preset", "runs", "for"].map(str::to_owned).to_vec()];
            for name in preset_names() {
                let sweep = preset(name)?;
                rows.push(vec![name.to_owned(), sweep.runs()?.len().to_string(), sweep.description]);
            }
            return report::table(&rows);
        }
        let sweep = named(self.sweep.as_deref().unwrap_or_default()).map_err(Failure::Usage)?;
        if self.show {
            return report::say(sweep.to_toml().trim_end());
        }
        let out = self.out.clone().unwrap_or_else(|| Path::new("runs").join(&sweep.name));
        let (device, others) = devices(&self.device).map_err(Failure::Usage)?;
        let memory = match self.memory {
            Some(gib) if gib > 0.0 && gib.is_finite() => Some((gib * f64::from(1 << 30)) as u64),
            Some(gib) => {
                return Err(Failure::Usage(Error::value("--memory", "a number of GiB above 0", gib)));
            }
            None => None,
        };
        if self.cohort == Some(0) {
            return Err(Failure::Usage(Error::value("--cohort", "at least 1", 0)));
        }
        let limit = match self.max_minutes {
            Some(minutes) if minutes > 0.0 && minutes < 1e6 => Some(Duration::from_secs_f64(60.0 * minutes)),
            Some(minutes) => {
                let expected = "a number of minutes above 0";
                return Err(Failure::Usage(Error::value("--max-minutes", expected, minutes)));
            }
            None => None,
        };
        if self.dry_run {
            let progress = self.progress.mode();
            let train = loglinear::train::Options { device, progress, interrupt: Interrupt::default() };
            let options = SweepOptions { train, others, cohort: self.cohort, memory };
            return dry_run(&sweep, &out, &options);
        }
        let train = self.progress.options(device)?;
        let (mode, interrupt) = (train.progress, train.interrupt.clone());
        if let Some(limit) = limit {
            stop_after(limit, interrupt.clone());
        }
        let outcome = run(&sweep, &out, &SweepOptions { train, others, cohort: self.cohort, memory })?;
        if mode != ProgressMode::Json {
            show(&outcome)?;
        }
        ended(&outcome)
    }
}

/// The first device, and the others.
fn devices(names: &[String]) -> loglinear::Result<(Device, Vec<Device>)> {
    let mut all: Vec<Device> = Vec::new();
    for name in names {
        let device = loglinear::device::parse(name)?;
        if all.contains(&device) {
            return Err(Error::value("--device", "devices, each named once", names.join(",")));
        }
        all.push(device);
    }
    let others = all.split_off(1.min(all.len()));
    let first = all.pop().ok_or_else(|| Error::value("--device", loglinear::device::NAMES, ""))?;
    Ok((first, others))
}

/// A preset, or the sweep in a file.
fn named(name: &str) -> loglinear::Result<Sweep> {
    if name.ends_with(".toml") || Path::new(name).is_file() {
        return Sweep::read(name);
    }
    preset(name)
}

fn stop_after(limit: Duration, interrupt: Interrupt) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        interrupt.request();
    });
}

fn dry_run(sweep: &Sweep, out: &Path, options: &SweepOptions) -> Outcome {
    let runs = sweep.runs()?;
    let states = match SweepFolder::open(out) {
        Ok(folder) if folder.sweep() == sweep => folder.states()?,
        _ => vec![RunState::Waiting; runs.len()],
    };
    let Plan { cohorts, ended, positions } = options.plan(&runs, &states);
    report::say(format_args!("{}: {}", sweep.name, sweep.description))?;
    let (count, place) = (runs.len(), out.display());
    report::say(format_args!(
        "{count} runs in {place}, {ended} ended, in {} cohorts to train\n",
        cohorts.len()
    ))?;
    let mut rows = vec![["cohort", "runs", "from step", "to step", "memory"].map(str::to_owned).to_vec()];
    for (index, cohort) in cohorts.iter().enumerate() {
        let names: Vec<&str> = cohort.runs.iter().map(|&run| runs[run].name.as_str()).collect();
        let steps = runs[cohort.runs[0]].config.train.steps;
        for (place, name) in names.into_iter().enumerate() {
            let first = place == 0;
            let only = |text: String| if first { text } else { String::new() };
            rows.push(vec![
                only((index + 1).to_string()),
                name.to_owned(),
                only(cohort.step.to_string()),
                only(steps.to_string()),
                only(format!("{:.1} GiB", cohort.memory as f64 / f64::from(1 << 30))),
            ]);
        }
    }
    report::table(&rows)?;
    report::say(format_args!("\nat most {positions:.3e} positions to train (runs × steps × length)"))
}

/// Statistics and verdicts at the end of a sweep.
fn show(outcome: &SweepOutcome) -> Outcome {
    let collected = outcome.folder.collect()?;
    let measure =
        if outcome.folder.sweep().evaluation_lengths()?.is_empty() { "best_accuracy" } else { "accuracy" };
    for described in [summaries(&collected, measure)?, kind_differences(&collected, measure)?] {
        if described.frame.height() > 0 {
            report::described(&described)?;
        }
    }
    let claims = &outcome.folder.sweep().claims;
    if !claims.is_empty() {
        let small = outcome.folder.sweep().name.ends_with("-small");
        let heading = if small { SMALL_CLAIMS } else { "Claims, by rules written before the runs" };
        report::claims(heading, &claims_table(&collected, claims)?)?;
    }
    report::say(format_args!("runs:      {}", outcome.folder.path().display()))?;
    report::say(format_args!("collected: {}", outcome.folder.file("collected.parquet").display()))
}

fn ended(outcome: &SweepOutcome) -> Outcome {
    let states = &outcome.states;
    let count = |test: fn(&RunState) -> bool| states.iter().filter(|state| test(state)).count();
    let open = count(|state| matches!(state, RunState::Waiting | RunState::Started { .. }));
    let diverged =
        count(|state| matches!(state, RunState::Ended(result) if result.status == Status::Diverged));
    if !outcome.failures.is_empty() {
        let each = outcome.failures.iter().map(|(run, message)| format!("\n  {run}: {message}"));
        let count = match outcome.failures.len() {
            1 => "1 run".to_owned(),
            more => format!("{more} runs"),
        };
        let message = format!("{count} failed; the others are kept:{}", each.collect::<String>());
        return Err(Failure::Stopped(message));
    }
    if open > 0 {
        let message =
            format!("stopped with {open} of {} runs to go; give the same command again", states.len());
        return Err(Failure::Stopped(message));
    }
    if diverged > 0 {
        // A result like any other: it is in the tables.
        eprintln!("{diverged} of {} runs diverged (loss or gradient not finite)", states.len());
    }
    Ok(())
}

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear status runs/paper/mqar
  loglinear status runs --json")]
pub struct StatusCommand {
    /// Folder of a sweep, or of several.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print a JSON object a run.
    #[arg(long)]
    json: bool,
}

impl StatusCommand {
    pub fn run(self) -> Outcome {
        let sweeps = SweepFolder::find(&self.folder)?;
        if sweeps.is_empty() {
            let message = "no sweep here or below: expected a sweep.toml";
            return Err(Failure::Failed(Error::run(&self.folder, message)));
        }
        for sweep in sweeps {
            let states = sweep.states()?;
            let runs = sweep.runs().iter().zip(&states);
            if self.json {
                for (run, state) in runs {
                    let (state, step, accuracy) = describe(state);
                    let value = serde_json::json!({
                        "sweep": sweep.sweep().name, "run": sweep.run_path(run), "state": state, "step": step,
                        "steps": run.config.train.steps, "accuracy": accuracy,
                    });
                    report::say(value)?;
                }
                continue;
            }
            let ended = states.iter().filter(|state| state.is_ended()).count();
            let (name, path) = (&sweep.sweep().name, sweep.path().display());
            report::say(format_args!("{name} in {path}: {ended} of {} runs ended", states.len()))?;
            if let Err(error) = sweep.check_collected() {
                report::say(error)?;
            }
            let mut rows = vec![["run", "state", "step", "of", "accuracy"].map(str::to_owned).to_vec()];
            for (run, state) in runs {
                let (state, step, accuracy) = describe(state);
                rows.push(vec![
                    run.name.clone(),
                    state,
                    step.map_or_else(|| "–".to_owned(), |step| step.to_string()),
                    run.config.train.steps.to_string(),
                    report::percent(accuracy),
                ]);
            }
            report::table(&rows)?;
            report::say("")?;
        }
        Ok(())
    }
}

/// State in words, step, accuracy (the best one of a run that has ended).
fn describe(state: &RunState) -> (String, Option<usize>, Option<f64>) {
    match state {
        RunState::Waiting => ("waiting".to_owned(), None, None),
        RunState::Started { step, accuracy } => ("started".to_owned(), Some(*step), *accuracy),
        RunState::Ended(result) => {
            (result.status.name().to_owned(), Some(result.steps), result.best_accuracy)
        }
        RunState::Failed(message) => (format!("failed: {message}"), None, None),
    }
}
