//! The command line: a thin skin over the library.

mod arguments;
mod cache;
mod decoding;
mod figure;
mod generate;
mod inspect;
mod lab;
mod paper;
mod quickstart;
mod report;
mod statistics;
mod sweep;
mod task_arguments;
mod train;

use clap::{Parser, Subcommand};
use loglinear::kernel_cache::Compiled;
use std::process::ExitCode;

/// Train, probe and picture log-linear attention with adaptive memory decay.
#[derive(Parser)]
#[command(name = "loglinear", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  loglinear quickstart
  loglinear train --lambda fixed mlp-softplus --pairs 8 --seq-len 128 --max-seq-len 256 \\
      --seed 0 1 2 --out runs/mqar
  loglinear eval runs/mqar --seq-len 256
  loglinear sweep paper/mqar-small && loglinear claims runs
  loglinear sweep tiny && loglinear generate runs/tiny/mlp-softplus-seed0 --prompt ' The'
  loglinear figure curves runs/mqar --out figures/mqar-curves

Exit codes: 0 done, 1 failed, interrupted or diverged, 2 wrong usage.";

#[derive(Subcommand)]
enum Command {
    /// Train three λ kinds × 2 seeds on a small MQAR, extract λ, draw figures (about a minute).
    Quickstart(quickstart::Quickstart),
    /// Train runs: one for every λ kind and seed, those of equal shapes together.
    Train(Box<train::Train>),
    /// Train a sweep: a preset or a file of axes, in cohorts, resumable.
    Sweep(sweep::SweepCommand),
    /// Show how far a sweep is.
    Status(sweep::StatusCommand),
    /// Write everything that came out of a sweep as one parquet file.
    Collect(statistics::Collect),
    /// Show statistics over seeds: summaries, paired differences, effects of axes.
    Statistics(statistics::Statistics),
    /// Show the paper's claims with our figures and verdicts.
    Claims(statistics::Claims),
    /// Draw every figure of the paper from recorded results.
    Paper(paper::PaperCommand),
    /// Evaluate trained runs, also at other sequence lengths and on fresh data.
    Eval(inspect::Eval),
    /// Write λ of a trained run, per layer, head, token and level, as parquet.
    Lambda(inspect::Lambda),
    /// Continue a text with a trained language model.
    Generate(generate::Generate),
    /// Measure what decoding costs: state and time a token by position, for each kind of attention.
    Decoding(decoding::Decoding),
    /// Write a language model's weights in flash-linear-attention's names.
    Export(decoding::Export),
    /// Draw a figure from run folders.
    Figure(figure::FigureCommand),
    /// Open JupyterLab with our kernel and notebooks, or run them without a browser.
    Lab(lab::LabCommand),
    /// Show where compiled GPU kernels are kept, and carry them to another machine.
    Cache(cache::Cache),
    /// Show devices, versions and features.
    Info(inspect::Info),
}

impl Command {
    /// Whether nothing is to be said but errors and results.
    fn is_quiet(&self) -> bool {
        match self {
            Self::Quickstart(command) => command.progress.is_quiet(),
            Self::Train(command) => command.progress.is_quiet(),
            Self::Sweep(command) => command.progress.is_quiet(),
            Self::Generate(command) => command.quiet,
            Self::Decoding(command) => command.quiet,
            _ => false,
        }
    }
}

/// Why a command ended without success.
enum Failure {
    /// The arguments can't be used.
    Usage(loglinear::Error),
    /// The work failed.
    Failed(loglinear::Error),
    /// Not every run reached its end.
    Stopped(String),
}

impl From<loglinear::Error> for Failure {
    fn from(error: loglinear::Error) -> Self {
        Self::Failed(error)
    }
}

type Outcome = Result<(), Failure>;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let quiet = command.is_quiet();
    let outcome = match command {
        Command::Quickstart(command) => command.run(),
        Command::Train(command) => command.run(),
        Command::Sweep(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Collect(command) => command.run(),
        Command::Statistics(command) => command.run(),
        Command::Claims(command) => command.run(),
        Command::Paper(command) => command.run(),
        Command::Eval(command) => command.run(),
        Command::Lambda(command) => command.run(),
        Command::Generate(command) => command.run(),
        Command::Decoding(command) => command.run(),
        Command::Export(command) => command.run(),
        Command::Figure(command) => command.run(),
        Command::Lab(command) => command.run(),
        Command::Cache(command) => command.run(),
        Command::Info(command) => command.run(),
    };
    // What was compiled after a training's first steps, or without one.
    if let Some(compiled) = Compiled::news().filter(|_| !quiet) {
        eprintln!("{compiled}");
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(error)) => {
            eprintln!("error: {error}\n\nFor more information, try '--help'.");
            ExitCode::from(2)
        }
        Err(Failure::Failed(error)) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
        Err(Failure::Stopped(message)) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
