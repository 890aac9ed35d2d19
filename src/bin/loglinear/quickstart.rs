//! `loglinear quickstart`: the main job.

use crate::arguments::{DeviceArgument, ProgressArguments, SEQUENCES};
use crate::{Failure, Outcome, report};
use clap::Args;
use loglinear::Result;
use loglinear::burn::tensor::Device;
use loglinear::frame::{evaluations, first_run, run_lambda, stack_lambda, write_parquet};
use loglinear::lambda::{LambdaConfig, LambdaKind};
use loglinear::model::ModelConfig;
use loglinear::task::{MqarConfig, TaskConfig};
use loglinear::train::{Job, ProgressMode, RunConfig, RunFolder, TrainConfig, train};
use loglinear::visualization::{
    Cells, Figure, Quantity, fenwick_partition, lambda_by_level, lambda_heatmap, lambda_histogram,
    learning_curves,
};
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear quickstart
  loglinear quickstart --device cuda:0 --out runs/on-gpu

An interrupted quickstart goes on when the same command is given again.")]
pub struct Quickstart {
    /// Folder for run folders and figures.
    #[arg(long, default_value = "runs/quickstart", value_name = "DIR")]
    out: PathBuf,
    /// Seeds, one run each for every λ kind.
    #[arg(long, num_args = 1.., default_values_t = [0, 1], value_name = "SEED")]
    seed: Vec<u64>,
    /// Most steps of a run.
    #[arg(long, default_value_t = 3000, value_name = "N")]
    steps: usize,
    #[command(flatten)]
    device: DeviceArgument,
    #[command(flatten)]
    pub progress: ProgressArguments,
}

/// A small MQAR that all λ kinds learn within a minute on two cores.
fn config(kind: LambdaKind, seed: u64, steps: usize) -> RunConfig {
    RunConfig {
        seed,
        task: TaskConfig::Mqar(MqarConfig { seq_len: 32, pairs: 4, ..MqarConfig::default() }),
        model: ModelConfig { max_seq_len: 32, lambda: LambdaConfig::release(kind), ..ModelConfig::default() },
        train: TrainConfig { steps, eval_every: 100, ..TrainConfig::default() },
    }
}

impl Quickstart {
    pub fn run(self) -> Outcome {
        let jobs: Vec<Job> = LambdaKind::ALL
            .iter()
            .flat_map(|&kind| self.seed.iter().map(move |&seed| (kind, seed)))
            .map(|(kind, seed)| Job::under(&self.out, config(kind, seed, self.steps)))
            .collect();
        report::distinct("--seed", &self.seed).map_err(Failure::Usage)?;
        jobs.iter().try_for_each(|job| job.config.validate()).map_err(Failure::Usage)?;
        let options = self.progress.options(self.device.parse()?)?;
        let results = train(&jobs, &options)?;
        report::outcome(&results)?;
        let figures = self.draw(&jobs, &options.device)?;
        if self.progress.mode() != ProgressMode::Json {
            report::results(&results)?;
            report::say(format_args!("\nruns:    {}", self.out.display()))?;
            report::say(format_args!("figures: {}", figures.display()))?;
        }
        Ok(())
    }

    /// Extracts λ of every run and draws the figures.
    fn draw(&self, jobs: &[Job], device: &Device) -> Result<PathBuf> {
        let folders: Vec<RunFolder> =
            jobs.iter().map(|job| RunFolder::open(&job.folder)).collect::<Result<_>>()?;
        let figures = self.out.join("figures");
        let save = |name: &str, figure: Figure| figure.save(figures.join(name));
        let mut all = Vec::new();
        for folder in &folders {
            let mut lambda = run_lambda(folder, SEQUENCES, None, None, device)?;
            write_parquet(&mut lambda, folder.file("lambda.parquet"))?;
            let name = folder.path().file_name().unwrap_or_default().to_string_lossy();
            let heatmap = lambda_heatmap(&lambda, &first_run(&lambda)?, 0, Cells::Present)?;
            save(&format!("lambda-{name}"), heatmap)?;
            all.push(lambda);
        }
        let lambda = stack_lambda(all)?;
        let evaluations = evaluations(&folders)?;
        save("accuracy", learning_curves(&evaluations, Quantity::Accuracy)?)?;
        save("loss", learning_curves(&evaluations, Quantity::TrainLoss)?)?;
        save("lambda-by-level", lambda_by_level(&lambda)?)?;
        save("lambda-histogram", lambda_histogram(&lambda)?)?;
        save("fenwick-partition", fenwick_partition(21)?)?;
        Ok(figures)
    }
}
