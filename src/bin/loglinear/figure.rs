//! `loglinear figure`.

use crate::arguments::{DeviceArgument, RunsArgument, SEQUENCES};
use crate::{Failure, Outcome, report};
use clap::{Args, Subcommand};
use loglinear::frame::{evaluations, first_run, published, read_parquet, run_lambda, runs, stack_lambda};
use loglinear::polars::prelude::{ChunkAgg, DataFrame};
use loglinear::train::RunFolder;
use loglinear::visualization::{
    Cells, Figure, Quantity, accuracy_against_pairs, decoding_cost, fenwick_partition, lambda_by_level,
    lambda_heatmap, lambda_histogram, learning_curves, loss_curves, perplexity_by_kind,
    perplexity_by_position,
};
use loglinear::{Error, burn};
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear figure curves runs/quickstart --out figures/curves
  loglinear figure heatmap runs/quickstart/mlp-softplus-seed0 --out figures/lambda.svg
  loglinear figure partition --position 21 --out figures/partition.png
  loglinear figure language runs/tiny --out figures/language
  loglinear figure decoding decoding.parquet --out figures/decoding")]
pub struct FigureCommand {
    #[command(subcommand)]
    name: Name,
}

#[derive(Args)]
struct FromRuns {
    #[command(flatten)]
    runs: RunsArgument,
    /// File to write: .svg, .png, or both if it has neither ending.
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
}

#[derive(Args)]
struct FromLambda {
    #[command(flatten)]
    runs: FromRuns,
    #[command(flatten)]
    device: DeviceArgument,
}

#[derive(Args)]
struct FromFile {
    /// Parquet file.
    file: PathBuf,
    /// File to write: .svg, .png, or both if it has neither ending.
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
}

#[derive(Subcommand)]
enum Name {
    /// Accuracy against the number of MQAR pairs.
    Accuracy(FromRuns),
    /// Validation accuracy against the training step.
    Curves(FromRuns),
    /// Training loss against the training step.
    Loss(FromRuns),
    /// λ by level and position, of one run.
    Heatmap {
        #[command(flatten)]
        from: FromLambda,
        /// Validation sequence, counted from 0.
        #[arg(long, default_value_t = 0, value_name = "N")]
        sequence: usize,
        /// Colour every cell, as the paper does, also where the level holds nothing.
        #[arg(long)]
        all: bool,
    },
    /// Mean λ by level.
    Levels(FromLambda),
    /// Histogram of λ.
    Histogram(FromLambda),
    /// Runs on a text: loss and perplexity against the training step.
    Language(FromRuns),
    /// Runs on a text: perplexity by λ kind, beside the published ones.
    Perplexity(FromRuns),
    /// Runs on a text: perplexity by position in the window, from what `eval --by-position` wrote.
    Positions(FromFile),
    /// State and time a token by position, from what `decoding` wrote.
    Decoding(FromFile),
    /// The Fenwick partition of a prefix.
    Partition {
        /// Last position of the prefix.
        #[arg(long, default_value_t = 21, value_name = "T")]
        position: usize,
        /// File to write: .svg, .png, or both if it has neither ending.
        #[arg(long, value_name = "PATH")]
        out: PathBuf,
    },
}

impl FigureCommand {
    pub fn run(self) -> Outcome {
        let (figure, out) = match self.name {
            Name::Accuracy(from) => (accuracy_against_pairs(&runs(&from.runs.find()?)?, None)?, from.out),
            Name::Curves(from) => (from.curves(Quantity::Accuracy)?, from.out),
            Name::Loss(from) => (from.curves(Quantity::TrainLoss)?, from.out),
            Name::Heatmap { from, sequence, all } => {
                let cells = if all { Cells::All } else { Cells::Present };
                (from.heatmap(sequence, cells)?, from.runs.out)
            }
            Name::Levels(from) => (lambda_by_level(&from.frame()?)?, from.runs.out),
            Name::Histogram(from) => (lambda_histogram(&from.frame()?)?, from.runs.out),
            Name::Language(from) => (loss_curves(&evaluations(&from.runs.find()?)?)?, from.out),
            Name::Perplexity(from) => {
                (perplexity_by_kind(&runs(&from.runs.find()?)?, Some(&published()?))?, from.out)
            }
            Name::Positions(from) => (perplexity_by_position(&read_parquet(&from.file)?)?, from.out),
            Name::Decoding(from) => (decoding_cost(&read_parquet(&from.file)?)?, from.out),
            Name::Partition { position, out } => (fenwick_partition(position).map_err(Failure::Usage)?, out),
        };
        for file in figure.save(&out)? {
            report::say(file.display())?;
        }
        Ok(())
    }
}

impl FromRuns {
    fn curves(&self, quantity: Quantity) -> Result<Figure, Failure> {
        Ok(learning_curves(&evaluations(&self.runs.find()?)?, quantity)?)
    }
}

impl FromLambda {
    fn heatmap(&self, sequence: usize, cells: Cells) -> Result<Figure, Failure> {
        let folders = self.runs.runs.find()?;
        if folders.len() != 1 {
            let found = format!("{} run folders", folders.len());
            return Err(Failure::Usage(Error::value(
                "RUN",
                "one run folder (a heatmap shows one run)",
                found,
            )));
        }
        // A text's number is known once it is opened.
        if let Some((_, count)) = folders[0].config()?.task.examples()
            && sequence >= count
        {
            let expected = format!("below {count}, the number of validation sequences");
            return Err(Failure::Usage(Error::value("--sequence", expected, sequence)));
        }
        let frame = self.of(&folders[0], sequence + 1)?;
        Ok(lambda_heatmap(&frame, &first_run(&frame)?, sequence, cells)?)
    }

    fn frame(&self) -> Result<DataFrame, Failure> {
        let folders = self.runs.runs.find()?;
        let frames: Vec<_> =
            folders.iter().map(|folder| self.of(folder, SEQUENCES)).collect::<Result<_, Failure>>()?;
        Ok(stack_lambda(frames)?)
    }

    /// λ of a run: extracted before, or now.
    fn of(&self, folder: &RunFolder, sequences: usize) -> Result<DataFrame, Failure> {
        if let Some(frame) = extracted(folder, sequences)? {
            return Ok(frame);
        }
        let device: burn::tensor::Device = self.device.parse()?;
        let lambda = run_lambda(folder, sequences, None, None, &device);
        Ok(lambda.map_err(|error| Error::run(folder.path(), error))?)
    }
}

/// λ that a run folder has, if it is of this run as it is now, at its trained length, and of enough
/// sequences.
fn extracted(folder: &RunFolder, sequences: usize) -> Result<Option<DataFrame>, Error> {
    let file = folder.file("lambda.parquet");
    let changed = |path: &std::path::Path| path.metadata().and_then(|file| file.modified()).ok();
    let checkpoint = changed(&folder.file("checkpoint.safetensors"));
    if changed(&file).is_none_or(|file| checkpoint.is_some_and(|checkpoint| checkpoint > file)) {
        return Ok(None);
    }
    let frame = read_parquet(&file)?;
    let config = folder.config()?;
    let last =
        |name: &str| Ok::<_, Error>(frame.column(name)?.u32()?.max().map_or(0, |last| last as usize + 1));
    let fits = frame.column("kind")?.str()?.get(0) == Some(config.model.kind())
        && last("position")? == config.task.task().seq_len()
        && last("sequence")? >= sequences;
    Ok(fits.then_some(frame))
}
