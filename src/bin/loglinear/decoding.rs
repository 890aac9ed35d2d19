//! `loglinear decoding` and `export`: what a language model costs, and its weights for others.

use crate::arguments::DeviceArgument;
use crate::inspect::check_parquet;
use crate::{Failure, Outcome, report};
use clap::Args;
use loglinear::frame::{decoding_cost, write_parquet};
use loglinear::lambda::{LambdaConfig, LambdaKind};
use loglinear::model::{Mixer, ModelConfig, export};
use loglinear::train::RunFolder;
use loglinear::{Error, device};
use std::path::PathBuf;
use std::time::Instant;

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear decoding --out decoding.parquet --longest 4096
  loglinear decoding --device cuda:0 --out data/results/decoding.parquet

Weights are random: costs don't depend on them. Draw it with `loglinear figure decoding FILE --out NAME`.")]
pub struct Decoding {
    /// File to write; its name ends in .parquet.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Longest position; positions double up to it.
    #[arg(long, default_value_t = 65_536, value_name = "T")]
    longest: usize,
    /// Width of the residual stream.
    #[arg(long, default_value_t = 256, value_name = "D")]
    d_model: usize,
    /// Number of layers.
    #[arg(long, default_value_t = 6, value_name = "N")]
    layers: usize,
    /// Show nothing but errors and the table.
    #[arg(long)]
    pub quiet: bool,
    #[command(flatten)]
    device: DeviceArgument,
}

impl Decoding {
    pub fn run(self) -> Outcome {
        let on = self.device.parse()?;
        check_parquet("--out", &self.out)?;
        if !(64..=1 << 20).contains(&self.longest) {
            return Err(Failure::Usage(Error::value("--longest", "64 to 1048576", self.longest)));
        }
        let base = ModelConfig {
            d_model: self.d_model,
            heads: (self.d_model / 64).max(1),
            layers: self.layers,
            // Room for the timed tokens after the last position.
            max_seq_len: 2 * self.longest,
            lambda: LambdaConfig::text(LambdaKind::MlpSoftplus),
            ..ModelConfig::language()
        };
        let configs = [Mixer::LogLinear, Mixer::Linear, Mixer::Softmax]
            .map(|mixer| ModelConfig { mixer, ..base.clone() });
        let mut positions: Vec<usize> = std::iter::successors(Some(64), |position| Some(position * 2))
            .take_while(|&p| p < self.longest)
            .collect();
        positions.push(self.longest);
        // One less than a power of two: the position with the most states.
        let positions: Vec<usize> = positions.into_iter().map(|position| position - 1).collect();
        let (count, start) = (configs.len() * positions.len(), Instant::now());
        let mut done = 0;
        let see = |kind: &str, position: usize, milliseconds: f64| {
            done += 1;
            if !self.quiet {
                let seconds = start.elapsed().as_secs_f64();
                eprintln!(
                    "{done}/{count}: {kind} at {position}, {milliseconds:.2} ms a token ({seconds:.0} s so far)"
                );
            }
        };
        let mut frame =
            device::enter(&on, || decoding_cost(&configs, &positions, &on, see)).map_err(Failure::Usage)?;
        write_parquet(&mut frame, &self.out)?;
        report::say(format_args!("{}\n{frame}", self.out.display()))
    }
}

#[derive(Args)]
#[command(after_help = "Example:
  loglinear export runs/train/fixed-seed0 --out model.safetensors

Names and shapes are those of flash-linear-attention's LogLinearMamba2ForCausalLM, which loads Fixed λ; MLP-λ
and the baselines have parameters that no model there has.")]
pub struct Export {
    /// Run folder of a language model.
    run: PathBuf,
    /// File to write; its name ends in .safetensors.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

impl Export {
    pub fn run(self) -> Outcome {
        if self.out.extension().is_none_or(|ending| ending != "safetensors") {
            let expected = "a file name that ends in .safetensors";
            return Err(Failure::Usage(Error::value("--out", expected, self.out.display())));
        }
        if self.out.exists() {
            let expected = "a file that doesn't exist yet";
            return Err(Failure::Usage(Error::value("--out", expected, self.out.display())));
        }
        let folder = RunFolder::open(&self.run)?;
        let model = folder.model(None).map_err(|error| Error::run(folder.path(), error))?;
        let (parameters, _) = folder.parameters(&model, &device::parse("cpu")?)?;
        export(&model, &parameters, &self.out)?;
        report::say(format_args!(
            "{}: {} parameters of {}",
            self.out.display(),
            parameters.count(),
            model.kind()
        ))
    }
}
