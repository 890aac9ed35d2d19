//! `loglinear lab`: JupyterLab with our kernel and notebooks, from a bare machine, in one command.
//!
//! Everything that it makes lies in one folder inside cargo's target folder: a Python environment, the
//! evcxr kernel, our compiled library, a kernel "Rust (loglinear)". The user's own kernels and
//! settings are neither read nor changed.

mod analysis;
mod evcxr;
mod execute;
mod kernel;
mod library;
mod place;
mod python;
mod rust_source;

use crate::{Failure, Outcome, report};
use clap::Args;
use loglinear::{Error, Result};
use place::Lab;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear lab                                   open JupyterLab on the notebooks
  loglinear lab --check                           say what is there and what is missing
  loglinear lab --execute                         run every notebook, compare with the stored outputs
  loglinear lab --execute notebooks/01_quickstart.ipynb --in-place
  loglinear lab --python benches/kernel.py        run a script in the lab's Python
  loglinear lab --device cuda:0                   the same with a CUDA build

Needs Rust 1.95 or later with cargo, a C compiler and Python 3.10 or later with venv. The first start
compiles the evcxr kernel and takes minutes; an interrupted start goes on where it was.")]
pub struct LabCommand {
    /// Run notebooks from top to bottom instead of opening JupyterLab [default: all of notebooks/].
    /// Fails if a cell fails, panics or writes to standard error, or gives outputs of another form
    /// than the stored ones.
    #[arg(long, num_args = 0.., value_name = "NOTEBOOK", conflicts_with_all = ["check", "python"])]
    execute: Option<Vec<PathBuf>>,
    /// With --execute: store the outputs in the notebooks themselves.
    #[arg(long, requires = "execute", conflicts_with = "out")]
    in_place: bool,
    /// With --execute: folder for the executed notebooks [default: target/lab/executed].
    #[arg(long, requires = "execute", value_name = "DIR")]
    out: Option<PathBuf>,
    /// Say what is there, what is missing and what would be done; change nothing.
    #[arg(long, conflicts_with = "python")]
    check: bool,
    /// Prepare everything, then run a Python script, with its arguments, where the kernel is known.
    #[arg(long, num_args = 1.., value_name = "SCRIPT", allow_hyphen_values = true)]
    python: Option<Vec<String>>,
    /// Prepare everything, then stop.
    #[arg(long, conflicts_with_all = ["execute", "check", "python"])]
    prepare: bool,
    /// Don't open a browser; print the address.
    #[arg(long)]
    no_browser: bool,
    /// Device for notebooks: cpu, cuda or cuda:N. With CUDA the library is built for it.
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    device: String,
}

/// What a step finds.
enum State {
    /// Nothing to do.
    Ready(String),
    /// Can be made here.
    Absent {
        /// What is missing.
        found: String,
        /// What making it does.
        plan: String,
    },
    /// Can't be made here: what the user has to do.
    Blocked(String),
}

/// One thing that the lab needs.
trait Step {
    /// Name in messages.
    fn name(&self) -> &'static str;
    /// What is there.
    fn state(&self, lab: &Lab) -> Result<State>;
    /// Makes it. An interrupted call is repeated as a whole.
    fn make(&self, lab: &Lab) -> Result<()>;
    /// Whether it is asked to renew itself at every start.
    fn always(&self) -> bool {
        false
    }
}

const STEPS: [&dyn Step; 5] =
    [&python::Python, &rust_source::RustSource, &evcxr::Evcxr, &library::Library, &kernel::Kernel];

impl LabCommand {
    pub fn run(self) -> Outcome {
        if cfg!(windows) {
            return Err(Failure::Usage(Error::value("system", "Linux or macOS for `lab`", "Windows")));
        }
        let lab = Lab::find(&self.device).map_err(Failure::Usage)?;
        if self.check {
            return check(&lab);
        }
        let notebooks = match &self.execute {
            Some(named) => execute::notebooks(&lab, named).map_err(Failure::Usage)?,
            None => Vec::new(),
        };
        prepare(&lab)?;
        if let Some(script) = &self.python {
            return lab.finish(lab.python_command(script));
        }
        if self.execute.is_some() {
            return execute::run(&lab, &notebooks, self.in_place, self.out.as_deref());
        }
        if self.prepare {
            return Ok(());
        }
        let mut jupyter = Command::new(lab.tool("jupyter-lab"));
        jupyter.arg("--notebook-dir").arg(lab.notebooks());
        if self.no_browser {
            jupyter.arg("--no-browser");
        }
        // Jupyter refuses the superuser unless told that it is meant: in a container there is no one else.
        if place::is_superuser() {
            jupyter.arg("--allow-root");
        }
        lab.finish(lab.with_jupyter(jupyter))
    }
}

/// Makes what is missing, and says what it does and how long it took.
fn prepare(lab: &Lab) -> Result<()> {
    let started = Instant::now();
    std::fs::create_dir_all(&lab.root).map_err(Error::io(&lab.root))?;
    let _lock = lab.lock()?;
    for (index, step) in STEPS.iter().enumerate() {
        let head = format!("[{}/{}] {}", index + 1, STEPS.len(), step.name());
        let begun = Instant::now();
        match step.state(lab)? {
            State::Ready(detail) if !step.always() => {
                eprintln!("{head}: {detail}");
                continue;
            }
            State::Ready(_) => {}
            State::Absent { plan, .. } => eprintln!("{head}: {plan} …"),
            State::Blocked(message) => return Err(Error::value(step.name(), message, "none")),
        }
        step.make(lab)?;
        match step.state(lab)? {
            State::Ready(detail) => {
                eprintln!("{head}: {detail} ({:.1} s)", begun.elapsed().as_secs_f64());
            }
            State::Absent { found: message, .. } | State::Blocked(message) => {
                return Err(Error::Command { command: step.name().to_owned(), message });
            }
        }
    }
    eprintln!("ready in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Prints a line a step; fails if something is missing.
fn check(lab: &Lab) -> Outcome {
    let mut missing = 0;
    for step in STEPS {
        let line = match step.state(lab)? {
            State::Ready(detail) => format!("ready    {}: {detail}", step.name()),
            State::Absent { found, plan } => {
                missing += 1;
                format!("missing  {}: {found}; remedy: {plan}", step.name())
            }
            State::Blocked(message) => {
                missing += 1;
                format!("blocked  {}: needs {message}", step.name())
            }
        };
        report::say(line)?;
    }
    report::say(format_args!("folder   {}", lab.root.display()))?;
    match missing {
        0 => Ok(()),
        n => Err(Failure::Stopped(format!("{n} of {} steps are not ready", STEPS.len()))),
    }
}
