//! `loglinear generate`.

use crate::arguments::DeviceArgument;
use crate::{Failure, Outcome, report};
use clap::{Args, ValueEnum};
use loglinear::attention::BeyondLevels;
use loglinear::fenwick::num_levels;
use loglinear::model::{Decoder, Mixer, ModelConfig, Sampling, generate};
use loglinear::random::Generator;
use loglinear::task::Tokenizer;
use loglinear::train::{Interrupt, RunFolder};
use loglinear::{Error, device};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;

/// What happens where the memory needs more levels than the model has.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Beyond {
    /// Stop with an error.
    Error,
    /// Weigh further levels with λ of the last.
    ReuseLast,
}

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear generate runs/train/mlp-softplus-seed0 --prompt ' The city of' --tokens 100
  loglinear generate RUN --prompt-file chapter.txt --greedy
  loglinear generate RUN --prompt ' In 1914' --temperature 0.8 --top-k 50 --top-p 0.95 --seed 3

The text goes to standard output as it comes, what it cost to standard error. The same seed gives the same
text on the same device.")]
pub struct Generate {
    /// Run folder of a language model.
    run: PathBuf,
    /// Text to go on from.
    #[arg(
        long,
        required_unless_present = "prompt_file",
        conflicts_with = "prompt_file",
        value_name = "TEXT"
    )]
    prompt: Option<String>,
    /// File with the text to go on from.
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// Tokens to generate.
    #[arg(long, default_value_t = 100, value_name = "N", allow_negative_numbers = true)]
    tokens: usize,
    /// Always the most likely token.
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p"])]
    greedy: bool,
    /// Logits are divided by this; 0 is --greedy.
    #[arg(long, default_value_t = 1.0, value_name = "T", allow_negative_numbers = true)]
    temperature: f64,
    /// Only the K most likely tokens; 0 for all.
    #[arg(long, default_value_t = 0, value_name = "K", allow_negative_numbers = true)]
    top_k: usize,
    /// Only the most likely tokens that together reach this probability.
    #[arg(long, default_value_t = 1.0, value_name = "P", allow_negative_numbers = true)]
    top_p: f64,
    /// Seed of the draws.
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    seed: u64,
    /// Where the memory needs more levels than the model has.
    #[arg(long, default_value = "reuse-last")]
    beyond: Beyond,
    /// Print one JSON object instead of the text.
    #[arg(long)]
    json: bool,
    /// Don't say what it cost.
    #[arg(long)]
    pub quiet: bool,
    #[command(flatten)]
    device: DeviceArgument,
}

impl Generate {
    pub fn run(self) -> Outcome {
        let on = self.device.parse()?;
        let sampling = match self.greedy {
            true => Sampling::GREEDY,
            false => Sampling { temperature: self.temperature, top_k: self.top_k, top_p: self.top_p },
        };
        sampling.validate().map_err(Failure::Usage)?;
        let prompt = match (&self.prompt, &self.prompt_file) {
            (Some(prompt), _) => prompt.clone(),
            (None, Some(path)) => {
                let bytes = std::fs::read(path).map_err(Error::io(path))?;
                String::from_utf8(bytes).map_err(|error| {
                    let at = error.utf8_error().valid_up_to();
                    Error::format(path, format!("expected UTF-8 text, found another byte at {at}"))
                })?
            }
            (None, None) => String::new(),
        };
        let tokenizer = Tokenizer::gpt2();
        let prompt_tokens = tokenizer.encode(&prompt);
        if prompt_tokens.is_empty() {
            let flag = if self.prompt.is_some() { "--prompt" } else { "--prompt-file" };
            return Err(Failure::Usage(Error::value(flag, "at least one character", "an empty text")));
        }
        let folder = RunFolder::open(&self.run)?;
        let config = folder.config()?;
        folder.check_continues()?;
        let model = folder.model(None).map_err(|error| Error::run(folder.path(), error))?;
        let (parameters, _) = folder.parameters(&model, &device::plain(&on))?;
        let beyond = match self.beyond {
            Beyond::Error => BeyondLevels::Error,
            Beyond::ReuseLast => BeyondLevels::ReuseLast,
        };
        let (levels, needed) = (model.config().levels(), num_levels(prompt_tokens.len() + self.tokens));
        if self.beyond == Beyond::Error && config.model.mixer == Mixer::LogLinear && needed > levels {
            let most = (1_usize << (levels - 1)).saturating_sub(prompt_tokens.len());
            let expected = format!(
                "at most {most} after a prompt of {} (the model has {levels} levels, and the policy is error)",
                prompt_tokens.len()
            );
            return Err(Failure::Usage(Error::value("--tokens", expected, self.tokens)));
        }
        let interrupt = Interrupt::on_signal()?;
        let mut decoder = Decoder::new(&model, &parameters, beyond, &on)?;
        let mut generator = Generator::new(self.seed, "generate");
        let start = Instant::now();
        let logits = decoder.extend(&prompt_tokens)?;
        let prefill = start.elapsed().as_secs_f64();
        if !self.json {
            write!(std::io::stdout(), "{prompt}").map_err(Error::io("standard output"))?;
        }
        let mut waiting = Vec::new();
        let start = Instant::now();
        let tokens = generate(&mut decoder, logits, self.tokens, &sampling, &mut generator, |token| {
            if !self.json {
                waiting.extend(tokenizer.bytes(&[token])?);
                stream(&mut waiting, false)?;
            }
            Ok(!interrupt.is_requested())
        })?;
        let seconds = start.elapsed().as_secs_f64();
        if !self.json {
            stream(&mut waiting, true)?;
            report::say("")?;
        }
        let cost = Cost {
            prompt: prompt_tokens.len(),
            generated: tokens.len(),
            prefill,
            seconds,
            state_bytes: decoder.state_bytes(),
            entries: decoder.entries(),
            notes: notes(
                &config.model,
                config.task.task().seq_len(),
                prompt_tokens.len() + tokens.len(),
                self.beyond,
            ),
        };
        if self.json {
            let text = tokenizer.decode(&tokens)?;
            return report::say(serde_json::json!({
                "run": folder.path(), "kind": model.kind(), "seed": self.seed, "prompt": prompt, "text": text,
                "tokens": tokens, "prompt_tokens": cost.prompt, "prefill_seconds": cost.prefill,
                "milliseconds_per_token": cost.milliseconds(), "state_bytes": cost.state_bytes,
                "states": cost.entries, "notes": cost.notes,
            }));
        }
        if !self.quiet {
            cost.tell();
        }
        if interrupt.is_requested() {
            return Err(Failure::Stopped("interrupted".to_owned()));
        }
        Ok(())
    }
}

/// Writes the bytes that are whole characters, or at the end all.
fn stream(waiting: &mut Vec<u8>, all: bool) -> Result<(), Error> {
    let whole = match std::str::from_utf8(waiting) {
        Ok(text) => text.len(),
        Err(error) if error.error_len().is_some() || all => waiting.len(),
        Err(error) => error.valid_up_to(),
    };
    let text = String::from_utf8_lossy(&waiting[..whole]).into_owned();
    waiting.drain(..whole);
    let mut out = std::io::stdout();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(Error::io("standard output"))
}

/// What a generation cost.
struct Cost {
    prompt: usize,
    generated: usize,
    prefill: f64,
    seconds: f64,
    state_bytes: usize,
    entries: usize,
    notes: Vec<String>,
}

impl Cost {
    /// Of one generated token; the last is not fed back.
    fn milliseconds(&self) -> f64 {
        self.seconds * 1e3 / self.generated.saturating_sub(1).max(1) as f64
    }

    fn tell(&self) {
        let colour = std::io::stderr().is_terminal();
        let (dim, plain) = if colour { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        eprintln!(
            "{dim}prompt {} tokens in {:.2} s, then {} at {:.1} ms a token; state {:.1} KiB ({} a head){plain}",
            self.prompt,
            self.prefill,
            self.generated,
            self.milliseconds(),
            self.state_bytes as f64 / 1024.0,
            self.entries
        );
        for note in &self.notes {
            eprintln!("{dim}{note}{plain}");
        }
    }
}

/// What a reader must know of levels that were never trained or don't exist.
fn notes(model: &ModelConfig, trained: usize, reached: usize, beyond: Beyond) -> Vec<String> {
    let mut notes = Vec::new();
    if model.mixer != Mixer::LogLinear {
        return notes;
    }
    let (known, need, have) = (num_levels(trained), num_levels(reached), model.levels());
    if need > known {
        notes.push(format!(
            "position {reached} uses {need} levels; training at T = {trained} used {known}: λ of the others is \
             what the projection makes of it untrained"
        ));
    }
    if need > have && beyond == Beyond::ReuseLast {
        notes.push(format!(
            "the model has {have} levels: level {} and above are weighed with λ of level {} (policy: reuse-last)",
            have,
            have - 1
        ));
    }
    notes
}
