//! `loglinear eval`, `lambda` and `info`: looking at what was trained.

use crate::arguments::{DeviceArgument, RunsArgument, SEQUENCES};
use crate::{Failure, Outcome, report};
use clap::Args;
use loglinear::burn::tensor::Device;
use loglinear::frame::{position_losses, run_lambda, stack_positions, text_lambda, write_parquet};
use loglinear::kernel_cache::Place;
use loglinear::model::{parameter_overhead, parameter_report};
use loglinear::task::{Dataset, Split};
use loglinear::train::{RunFolder, evaluate};
use loglinear::{Error, device};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear eval runs/quickstart
  loglinear eval runs/quickstart --data-seed 1000 --examples 5000
  loglinear eval runs/mqar/fixed-seed0 --seq-len 256   (trained with --max-seq-len 256)
  loglinear eval runs/wikitext-2 --split test --seq-len 2048
  loglinear eval runs/wikitext-2 --by-position positions.parquet   (runs on a text)")]
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
    /// Part of the data: valid, or of a text also test or train.
    #[arg(long, default_value = "validation", conflicts_with = "data_seed")]
    split: SplitName,
    /// Runs on a text: write the loss at every position of the window as parquet.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["examples", "data_seed"])]
    by_position: Option<PathBuf>,
    /// Print a JSON object a run.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgument,
}

/// Part of a run's data by name.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SplitName {
    Train,
    #[value(alias = "valid")]
    Validation,
    Test,
}

impl From<SplitName> for Split {
    fn from(name: SplitName) -> Self {
        match name {
            SplitName::Train => Self::Train,
            SplitName::Validation => Self::Validation,
            SplitName::Test => Self::Test,
        }
    }
}

impl Eval {
    pub fn run(self) -> Outcome {
        let on = self.device.parse()?;
        if let Some(out) = &self.by_position {
            return self.positions(out, &on);
        }
        let header = ["run", "λ", "T", "accuracy", "loss (nats)", "perplexity", "target", "scored positions"];
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
                    let found = format!("it with {} ({})", config.task.name(), folder.path().display());
                    Err(Error::value("--data-seed", "used with drawn tasks only", found))
                }
                (None, Some(count)) => Dataset::generate(&task, config.seed, self.split.into(), count),
                (Some(seed), Some(count)) => Dataset::generate(&task, seed, Split::Train, count),
                (_, None) => Dataset::open(&task, config.seed, self.split.into()),
            };
            let data = data.map_err(Failure::Usage)?;
            let (parameters, _) = folder.parameters(&model, &device::plain(&on))?;
            // As many positions at once as in training.
            let batch = (config.train.batch * config.task.task().seq_len() / seq_len).max(1);
            let target = config.task.target_offset();
            let result = device::enter(&on, || evaluate(&model, &parameters, &[data], batch, &on))?[0];
            if self.json {
                let run = folder.path();
                let value = serde_json::json!({
                    "run": run, "kind": model.kind(), "seq_len": seq_len, "accuracy": result.accuracy,
                    "loss": result.loss, "perplexity": target.map(|_| result.loss.exp()),
                    "target_offset": target, "scored": result.scored,
                });
                report::say(value)?;
            }
            rows.push(vec![
                folder.path().display().to_string(),
                model.kind(),
                seq_len.to_string(),
                report::percent(Some(result.accuracy)),
                format!("{:.4}", result.loss),
                target.map_or_else(|| "–".to_owned(), |_| format!("{:.2}", result.loss.exp())),
                target.map_or_else(|| "–".to_owned(), |offset| format!("t+{offset}")),
                result.scored.to_string(),
            ]);
        }
        if rows.len() == 1 {
            return Err(Failure::Usage(Error::value("RUN", "a run with a checkpoint", "none")));
        }
        if self.json { Ok(()) } else { report::table(&rows) }
    }

    /// Losses by position of runs on a text, in one file.
    fn positions(&self, out: &Path, on: &Device) -> Outcome {
        check_parquet("--by-position", out)?;
        let of = |folder: &RunFolder| position_losses(folder, self.seq_len, self.split.into(), None, on);
        let frames = self.runs.find()?.iter().map(of).collect::<Result<Vec<_>, Error>>()?;
        let mut all = stack_positions(frames)?;
        write_parquet(&mut all, out)?;
        report::say(format_args!("{}: {} rows", out.display(), all.height()))
    }
}

/// Checks the name of a parquet file to write.
pub fn check_parquet(flag: &str, out: &Path) -> Outcome {
    if out.extension().is_some_and(|ending| ending == "parquet") {
        return Ok(());
    }
    Err(Failure::Usage(Error::value(flag, "a file name that ends in .parquet", out.display())))
}

fn check_seq_len(seq_len: usize, longest: usize) -> Outcome {
    if seq_len <= longest {
        return Ok(());
    }
    let expected = format!("at most the model's max_seq_len = {longest}");
    Err(Failure::Usage(Error::value("--seq-len", expected, seq_len)))
}

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear lambda runs/quickstart/mlp-softplus-seed0 --out lambda.parquet
  loglinear lambda runs/wikitext-2/mlp-softplus-seed0 --text ' The cat sat on the mat .' --out lambda.parquet")]
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
    /// Runs on a text: a text of your own, as one sequence.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["sequences", "seq_len"])]
    text: Option<String>,
    #[command(flatten)]
    device: DeviceArgument,
}

impl Lambda {
    pub fn run(self) -> Outcome {
        let on = self.device.parse()?;
        check_parquet("--out", &self.out)?;
        let folder = RunFolder::open(&self.run)?;
        if let Some(seq_len) = self.seq_len {
            check_seq_len(seq_len, folder.config()?.model.max_seq_len)?;
        }
        let mut frame = match &self.text {
            Some(text) => text_lambda(&folder, text, None, &on)?,
            None => run_lambda(&folder, self.sequences, self.seq_len, None, &on)?,
        };
        write_parquet(&mut frame, &self.out)?;
        report::say(format_args!("{}: {} rows\n{}", self.out.display(), frame.height(), frame.head(Some(5))))
    }
}

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear info --device cuda:0
  loglinear info runs/tiny/mlp-softplus-seed0      (parameters of its model, and λ's share)")]
pub struct Info {
    /// Run folder: report its model's parameters instead.
    run: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgument,
}

impl Info {
    pub fn run(self) -> Outcome {
        if let Some(run) = &self.run {
            return parameters(&RunFolder::open(run)?);
        }
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
        if !device::is_cpu(&on) {
            report::say(format_args!("kernels    {}", Place::find().file.display()))?;
        }
        report::say(format_args!("threads    {threads}"))?;
        report::say("burn       0.22.1\npolars     0.55.2\nplotters   0.3.7")?;
        report::say(format_args!("platform   {}-{}", std::env::consts::ARCH, std::env::consts::OS))?;
        // A device that can't compute is better found here than in a training.
        let sum = loglinear::burn::tensor::Tensor::<1>::from_floats([1.0, 2.0], &device::plain(&on)).sum();
        report::say(format_args!("works      {}", if sum.into_scalar::<f32>() == 3.0 { "yes" } else { "no" }))
    }
}

/// Parameters of a run's model by part, with each part's share.
fn parameters(folder: &RunFolder) -> Outcome {
    let model = folder.model(None).map_err(|error| Error::run(folder.path(), error))?;
    let total = parameter_overhead(&model).total;
    let mut rows = vec![["part", "parameters", "share"].map(str::to_owned).to_vec()];
    for (part, count) in parameter_report(&model).into_iter().chain([("all", total)]) {
        let share = format!("{:.4} %", 100.0 * count as f64 / total as f64);
        rows.push(vec![part.to_owned(), count.to_string(), share]);
    }
    report::say(format_args!("{}: {}\n", folder.path().display(), model.kind()))?;
    report::table(&rows)
}
