//! `loglinear eval`, `lambda` and `info`: looking at what was trained.

use crate::arguments::{DeviceArgument, RunsArgument, SEQUENCES};
use crate::{Failure, Outcome, report};
use clap::Args;
use loglinear::frame::{run_lambda, write_parquet};
use loglinear::task::{Dataset, Split};
use loglinear::train::{RunFolder, evaluate};
use loglinear::{Error, device};
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear eval runs/quickstart
  loglinear eval runs/quickstart --data-seed 1000 --examples 5000
  loglinear eval runs/mqar/fixed-seed0 --seq-len 256   (trained with --max-seq-len 256)")]
pub struct Eval {
    #[command(flatten)]
    runs: RunsArgument,
    /// Sequence length to evaluate at [default: the trained one].
    #[arg(long, value_name = "T")]
    seq_len: Option<usize>,
    /// Sequences to evaluate on [default: the run's validation set].
    #[arg(long, value_name = "N")]
    examples: Option<usize>,
    /// Draw the sequences under this seed instead of the validation set's: fresh data.
    #[arg(long, value_name = "SEED")]
    data_seed: Option<u64>,
    /// Print a JSON object a run.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgument,
}

impl Eval {
    pub fn run(self) -> Outcome {
        let on = self.device.parse()?;
        let header = ["run", "λ", "T", "accuracy", "loss (nats)", "scored positions"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for folder in self.runs.find()? {
            if !folder.has_checkpoint() {
                eprintln!("{}: no checkpoint yet, left out", folder.path().display());
                continue;
            }
            let config = folder.config()?;
            let model = folder.model(None).map_err(|error| Error::run(folder.path(), error))?;
            let seq_len = self.seq_len.unwrap_or(config.task.task().seq_len());
            check_seq_len(seq_len, config.model.max_seq_len)?;
            let task = config.task.with_seq_len(seq_len);
            folder.check_corpus()?;
            let count = self.examples.or(config.task.examples().map(|(_, validation)| validation));
            let data = match (self.data_seed, count) {
                (Some(_), _) if config.task.drawn().is_none() => {
                    let expected =
                        format!("used with drawn tasks only, found it with {}", config.task.name());
                    Err(Error::value("--data-seed", expected, folder.path().display()))
                }
                (None, Some(count)) => Dataset::generate(&task, config.seed, Split::Validation, count),
                (Some(seed), Some(count)) => Dataset::generate(&task, seed, Split::Train, count),
                (_, None) => Dataset::open(&task, config.seed, Split::Validation),
            };
            let data = data.map_err(Failure::Usage)?;
            let parameters = folder.checkpoint(&model, &device::plain(&on))?.parameters;
            let batch = config.train.batch;
            let result = device::enter(&on, || evaluate(&model, &parameters, &[data], batch, &on))?[0];
            if self.json {
                let run = folder.path();
                let value = serde_json::json!({
                    "run": run, "kind": model.kind(), "seq_len": seq_len, "accuracy": result.accuracy,
                    "loss": result.loss, "scored": result.scored,
                });
                report::say(value)?;
            }
            rows.push(vec![
                folder.path().display().to_string(),
                model.kind(),
                seq_len.to_string(),
                report::percent(Some(result.accuracy)),
                format!("{:.4}", result.loss),
                result.scored.to_string(),
            ]);
        }
        if rows.len() == 1 {
            return Err(Failure::Usage(Error::value("RUN", "a run with a checkpoint", "none")));
        }
        if self.json { Ok(()) } else { report::table(&rows) }
    }
}

fn check_seq_len(seq_len: usize, longest: usize) -> Outcome {
    if seq_len <= longest {
        return Ok(());
    }
    let expected = format!("at most the model's max_seq_len = {longest}");
    Err(Failure::Usage(Error::value("--seq-len", expected, seq_len)))
}

#[derive(Args)]
#[command(after_help = "Example:
  loglinear lambda runs/quickstart/mlp-softplus-seed0 --out lambda.parquet")]
pub struct Lambda {
    /// Run folder.
    run: PathBuf,
    /// File to write; its name ends in .parquet.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Validation sequences.
    #[arg(long, default_value_t = SEQUENCES, value_name = "N")]
    sequences: usize,
    /// Sequence length [default: the trained one].
    #[arg(long, value_name = "T")]
    seq_len: Option<usize>,
    #[command(flatten)]
    device: DeviceArgument,
}

impl Lambda {
    pub fn run(self) -> Outcome {
        let on = self.device.parse()?;
        if self.out.extension().is_none_or(|ending| ending != "parquet") {
            let expected = "a file name that ends in .parquet";
            return Err(Failure::Usage(Error::value("--out", expected, self.out.display())));
        }
        let folder = RunFolder::open(&self.run)?;
        if let Some(seq_len) = self.seq_len {
            check_seq_len(seq_len, folder.config()?.model.max_seq_len)?;
        }
        let mut frame = run_lambda(&folder, self.sequences, self.seq_len, None, &on)?;
        write_parquet(&mut frame, &self.out)?;
        report::say(format_args!("{}: {} rows\n{}", self.out.display(), frame.height(), frame.head(Some(5))))
    }
}

#[derive(Args)]
#[command(after_help = "Example:
  loglinear info --device cuda:0")]
pub struct Info {
    #[command(flatten)]
    device: DeviceArgument,
}

impl Info {
    pub fn run(self) -> Outcome {
        let on = self.device.parse()?;
        let features = match (cfg!(feature = "cuda"), cfg!(feature = "autotune")) {
            (true, true) => "cpu, cuda, autotune",
            (true, false) => "cpu, cuda",
            _ => "cpu",
        };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        report::say(format_args!("loglinear  {}", env!("CARGO_PKG_VERSION")))?;
        report::say(format_args!("features   {features}"))?;
        report::say(format_args!("device     {}", device::name(&on)))?;
        report::say(format_args!("threads    {threads}"))?;
        report::say("burn       0.22.1\npolars     0.55.2\nplotters   0.3.7")?;
        report::say(format_args!("platform   {}-{}", std::env::consts::ARCH, std::env::consts::OS))?;
        // A device that can't compute is better found here than in a training.
        let sum = loglinear::burn::tensor::Tensor::<1>::from_floats([1.0, 2.0], &device::plain(&on)).sum();
        report::say(format_args!("works      {}", if sum.into_scalar::<f32>() == 3.0 { "yes" } else { "no" }))
    }
}
