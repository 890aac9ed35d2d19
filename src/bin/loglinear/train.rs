//! `loglinear train`.

use crate::arguments::{DeviceArgument, ProgressArguments};
use crate::task_arguments::{TaskArguments, TaskName};
use crate::{Failure, Outcome, report};
use clap::{Args, ValueEnum};
use loglinear::lambda::{Activation, Hidden, InitProtocol, LambdaConfig, LambdaKind};
use loglinear::model::{Mixer, Precision};
use loglinear::train::{Job, OptimizerKind, ProgressMode, RunConfig, Schedule, train};
use loglinear::{Error, Result};
use std::path::PathBuf;

/// The paper's text or its released code, for every point on which their λ maps differ.
#[derive(Clone, Copy, ValueEnum)]
enum Protocol {
    Text,
    Release,
}

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Train {
    /// Configuration file (TOML, as in a run folder); flags override its fields.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder for the run folders, one for each λ kind and seed.
    #[arg(long, default_value = "runs/train", value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    device: DeviceArgument,
    #[command(flatten)]
    pub progress: ProgressArguments,

    /// Seeds, one run each.
    #[arg(long, num_args = 1.., value_name = "SEED", help_heading = "Runs")]
    seed: Vec<u64>,
    /// λ kinds, one run each.
    #[arg(long, num_args = 1.., value_name = "KIND", help_heading = "Runs")]
    lambda: Vec<LambdaKind>,

    #[command(flatten)]
    task: TaskArguments,
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    optimisation: OptimisationArguments,
}

const EXAMPLES: &str = "Examples:
  loglinear train --pairs 8 --seq-len 128 --seed 0 1 2
  loglinear train --lambda fixed mlp-softplus mlp-softmax --protocol release --out runs/release
  loglinear train --task selective-copying --seq-len 256 --steps 30000
  loglinear train --task text --corpus data/wikitext-2 --d-model 512 --heads 8 --device cuda:0 --precision bf16
  loglinear train --config runs/train/fixed-seed0/config.toml --lr 0.003 --out runs/faster

An interrupted or killed training goes on when the same command is given again.";

#[derive(Args)]
#[command(next_help_heading = "Model")]
struct ModelArguments {
    /// What mixes positions.
    #[arg(long)]
    mixer: Option<Mixer>,
    /// Set activation, width and start of the λ map as the paper's text or release has them.
    #[arg(long)]
    protocol: Option<Protocol>,
    /// λ map: function between its two linear maps.
    #[arg(long)]
    activation: Option<Activation>,
    /// λ map: hidden width, a number or 2L.
    #[arg(long, value_name = "WIDTH")]
    hidden: Option<Hidden>,
    /// λ map: how it starts.
    #[arg(long)]
    init: Option<InitProtocol>,
    /// Width of the residual stream.
    #[arg(long, value_name = "D")]
    d_model: Option<usize>,
    /// Number of layers.
    #[arg(long, value_name = "N")]
    layers: Option<usize>,
    /// Heads per layer.
    #[arg(long, value_name = "H")]
    heads: Option<usize>,
    /// Language model: size of keys and queries.
    #[arg(long, value_name = "K")]
    state: Option<usize>,
    /// Longest sequence, which sets the number of levels [default: the task's length; 16384 for text].
    #[arg(long, value_name = "T")]
    max_seq_len: Option<usize>,
    /// Positions per chunk of the operator, a power of two.
    #[arg(long, value_name = "C")]
    chunk: Option<usize>,
}

#[derive(Args)]
#[command(next_help_heading = "Optimisation")]
struct OptimisationArguments {
    /// Most steps.
    #[arg(long, value_name = "N")]
    steps: Option<usize>,
    /// Sequences per step.
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Parts in which a batch is computed one after another.
    #[arg(long, value_name = "N")]
    accumulate: Option<usize>,
    /// Arithmetic on a GPU.
    #[arg(long)]
    precision: Option<Precision>,
    /// Learning rate.
    #[arg(long, value_name = "RATE")]
    lr: Option<f64>,
    /// Learning rate over time.
    #[arg(long)]
    schedule: Option<Schedule>,
    /// Steps of linear warm-up.
    #[arg(long, value_name = "N")]
    warmup: Option<usize>,
    /// Optimiser.
    #[arg(long)]
    optimizer: Option<OptimizerKind>,
    /// Weight decay.
    #[arg(long, value_name = "RATE")]
    weight_decay: Option<f64>,
    /// Largest gradient norm over all parameters; 0 for none.
    #[arg(long, value_name = "NORM")]
    clip: Option<f64>,
    /// Steps between evaluations.
    #[arg(long, value_name = "N")]
    eval_every: Option<usize>,
    /// Validation accuracy at which a run stops; 0 for never.
    #[arg(long, value_name = "ACCURACY")]
    target: Option<f64>,
}

impl Train {
    pub fn run(self) -> Outcome {
        let jobs = self.jobs().map_err(Failure::Usage)?;
        let options = self.progress.options(self.device.parse()?)?;
        let results = train(&jobs, &options)?;
        if self.progress.mode() != ProgressMode::Json {
            report::results(&results)?;
        }
        report::outcome(&results)
    }

    /// One job for each λ kind and seed.
    fn jobs(&self) -> Result<Vec<Job>> {
        report::distinct("--seed", &self.seed)?;
        report::distinct("--lambda", &self.lambda)?;
        let base = match &self.config {
            Some(path) => RunConfig::read(path)?,
            None if self.task.task == Some(TaskName::Text) => RunConfig::language(),
            None => RunConfig::default(),
        };
        let config = self.configure(base)?;
        let seeds = if self.seed.is_empty() { vec![config.seed] } else { self.seed.clone() };
        let kinds = match config.model.mixer {
            Mixer::LogLinear => self.lambda.as_slice(),
            _ if self.lambda.len() > 1 => {
                let expected = "at most one with a baseline mixer, which has no λ";
                return Err(Error::value("--lambda", expected, self.lambda.len()));
            }
            _ => &[],
        };
        Job::each(&self.out, &config, kinds, &seeds)
    }

    fn configure(&self, mut config: RunConfig) -> Result<RunConfig> {
        self.task.apply(&mut config.task)?;
        self.model.apply(&mut config, self.config.is_some())?;
        let OptimisationArguments {
            steps,
            batch,
            accumulate,
            precision,
            lr,
            schedule,
            warmup,
            optimizer,
            weight_decay,
            clip,
            eval_every,
            target,
        } = self.optimisation;
        let train = &mut config.train;
        set(&mut train.steps, steps);
        set(&mut train.batch, batch);
        set(&mut train.accumulate, accumulate);
        set(&mut train.precision, precision);
        set(&mut train.learning_rate, lr);
        set(&mut train.schedule, schedule);
        set(&mut train.warmup, warmup);
        set(&mut train.optimizer, optimizer);
        set(&mut train.weight_decay, weight_decay);
        set(&mut train.clip, clip);
        set(&mut train.eval_every, eval_every);
        set(&mut train.target, target);
        Ok(config)
    }
}

pub fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

impl ModelArguments {
    fn apply(&self, config: &mut RunConfig, from_file: bool) -> Result<()> {
        if self.state.is_some() && config.model.language.is_none() {
            return Err(Error::value(
                "--state",
                "used with the language model only",
                "it with the recall model",
            ));
        }
        let model = &mut config.model;
        let lambda = &mut model.lambda;
        match self.protocol {
            Some(Protocol::Text) => *lambda = LambdaConfig::text(lambda.kind),
            Some(Protocol::Release) => *lambda = LambdaConfig::release(lambda.kind),
            None => {}
        }
        set(&mut lambda.activation, self.activation);
        set(&mut lambda.hidden, self.hidden);
        set(&mut lambda.init, self.init);
        set(&mut model.mixer, self.mixer);
        set(&mut model.d_model, self.d_model);
        set(&mut model.layers, self.layers);
        set(&mut model.heads, self.heads);
        set(&mut model.chunk, self.chunk);
        if let Some(language) = &mut model.language {
            set(&mut language.state, self.state);
        }
        let seq_len = config.task.task().seq_len();
        match self.max_seq_len {
            Some(max_seq_len) => model.max_seq_len = max_seq_len,
            // The language model has its paper's 15 levels whatever it is trained on.
            None if !from_file && model.language.is_none() => model.max_seq_len = seq_len,
            None => model.max_seq_len = model.max_seq_len.max(seq_len),
        }
        Ok(())
    }
}
