//! Arguments that several commands share.

use crate::Failure;
use clap::Args;
use loglinear::burn::tensor::Device;
use loglinear::train::{Interrupt, Options, ProgressMode, RunFolder};
use std::collections::HashSet;
use std::path::PathBuf;

/// Validation sequences on which λ is extracted, unless another number is given.
pub const SEQUENCES: usize = 8;

/// Where to compute.
#[derive(Args)]
pub struct DeviceArgument {
    /// Device: cpu, cuda or cuda:N.
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    device: String,
}

impl DeviceArgument {
    pub fn parse(&self) -> Result<Device, Failure> {
        loglinear::device::parse(&self.device).map_err(Failure::Usage)
    }
}

/// How progress is shown.
#[derive(Args)]
pub struct ProgressArguments {
    /// Show nothing but errors and the final table.
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
    /// Print a JSON object a line: every evaluation and result, and how many GPU kernels were compiled.
    #[arg(long)]
    json: bool,
    /// Stop after the current step when standard input ends: a notebook's kernel holds it open.
    #[arg(long, hide = true)]
    while_stdin_open: bool,
}

impl ProgressArguments {
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    pub fn mode(&self) -> ProgressMode {
        match self {
            Self { quiet: true, .. } => ProgressMode::Quiet,
            Self { json: true, .. } => ProgressMode::Json,
            _ => ProgressMode::Auto,
        }
    }

    /// Options of a training that Ctrl-C stops after the current step.
    pub fn options(&self, device: Device) -> Result<Options, Failure> {
        let interrupt = Interrupt::on_signal()?;
        if self.while_stdin_open {
            stop_with_stdin(interrupt.clone());
        }
        Ok(Options { device, progress: self.mode(), interrupt })
    }
}

/// Asks for a stop when standard input ends, which it does when its other end dies.
fn stop_with_stdin(interrupt: Interrupt) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        interrupt.request();
    });
}

/// Run folders, or folders that hold some.
#[derive(Args)]
pub struct RunsArgument {
    /// Run folders, or folders that hold some.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
}

impl RunsArgument {
    pub fn find(&self) -> Result<Vec<RunFolder>, Failure> {
        let mut folders: Vec<RunFolder> = Vec::new();
        let mut seen = HashSet::new();
        for path in &self.runs {
            let found = RunFolder::find(path)?;
            // A run that is named twice counts once.
            folders.extend(found.into_iter().filter(|run| {
                seen.insert(run.path().canonicalize().unwrap_or_else(|_| run.path().to_owned()))
            }));
        }
        Ok(folders)
    }
}
