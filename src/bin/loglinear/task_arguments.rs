//! Choice of a task on the command line.

use crate::train::set;
use clap::{Args, ValueEnum};
use loglinear::task::{
    CopyingConfig, Filler, InductionConfig, Layout, MqarConfig, ReadAt, TaskConfig, TextConfig,
};
use loglinear::{Error, Result};
use std::path::PathBuf;

/// A task by name.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TaskName {
    Mqar,
    SelectiveCopying,
    Induction,
    Text,
}

#[derive(Args)]
#[command(next_help_heading = "Task")]
pub struct TaskArguments {
    /// Task.
    #[arg(long)]
    pub task: Option<TaskName>,
    /// Positions per sequence.
    #[arg(long, value_name = "T")]
    seq_len: Option<usize>,
    /// MQAR: number of key/value pairs.
    #[arg(long, value_name = "K")]
    pairs: Option<usize>,
    /// MQAR: where the queries stand.
    #[arg(long)]
    layout: Option<Layout>,
    /// MQAR: what stands between pairs and queries.
    #[arg(long)]
    filler: Option<Filler>,
    /// Selective copying: where a data token is predicted.
    #[arg(long)]
    read_at: Option<ReadAt>,
    /// Text: folder with wiki.{train,valid,test}.{raw,tokens}, or one text file; plain, .gz or .zst.
    #[arg(long, value_name = "PATH")]
    corpus: Option<PathBuf>,
    /// Text: how far ahead the predicted token is, 1 or 2 (as the release trained).
    #[arg(long, value_name = "N")]
    target_offset: Option<usize>,
    /// Text: leading tokens of the training split to use; 0 for all.
    #[arg(long, value_name = "N")]
    train_tokens: Option<usize>,
    /// Text: leading tokens of the validation split to use; 0 for all.
    #[arg(long, value_name = "N")]
    validation_tokens: Option<usize>,
    /// Training sequences (drawn tasks).
    #[arg(long, value_name = "N")]
    train_examples: Option<usize>,
    /// Validation sequences (drawn tasks).
    #[arg(long, value_name = "N")]
    validation_examples: Option<usize>,
}

impl TaskArguments {
    pub fn apply(&self, config: &mut TaskConfig) -> Result<()> {
        match self.task {
            Some(TaskName::Mqar) if config.name() != "mqar" => {
                *config = TaskConfig::Mqar(MqarConfig::default())
            }
            Some(TaskName::SelectiveCopying) if config.name() != "selective-copying" => {
                *config = TaskConfig::SelectiveCopying(CopyingConfig::default());
            }
            Some(TaskName::Induction) if config.name() != "induction" => {
                *config = TaskConfig::Induction(InductionConfig::default());
            }
            Some(TaskName::Text) if config.name() != "text" => {
                *config = TaskConfig::Text(TextConfig::default());
            }
            _ => {}
        }
        let other_task = |flag: &str, given: bool, task: &str, name: &str| {
            if given {
                Err(Error::value(flag, format!("used with --task {task} only"), format!("it with {name}")))
            } else {
                Ok(())
            }
        };
        let name = config.name();
        if name != "mqar" {
            other_task("--pairs", self.pairs.is_some(), "mqar", name)?;
            other_task("--layout", self.layout.is_some(), "mqar", name)?;
            other_task("--filler", self.filler.is_some(), "mqar", name)?;
        }
        if name != "selective-copying" {
            other_task("--read-at", self.read_at.is_some(), "selective-copying", name)?;
        }
        if name == "text" {
            let drawn = "mqar, selective-copying or induction";
            other_task("--train-examples", self.train_examples.is_some(), drawn, name)?;
            other_task("--validation-examples", self.validation_examples.is_some(), drawn, name)?;
        } else {
            other_task("--corpus", self.corpus.is_some(), "text", name)?;
            other_task("--target-offset", self.target_offset.is_some(), "text", name)?;
            other_task("--train-tokens", self.train_tokens.is_some(), "text", name)?;
            other_task("--validation-tokens", self.validation_tokens.is_some(), "text", name)?;
        }
        let (seq_len, train, validation) = match config {
            TaskConfig::Mqar(task) => {
                set(&mut task.pairs, self.pairs);
                set(&mut task.layout, self.layout);
                set(&mut task.filler, self.filler);
                (&mut task.seq_len, &mut task.train_examples, &mut task.validation_examples)
            }
            TaskConfig::SelectiveCopying(task) => {
                set(&mut task.read_at, self.read_at);
                (&mut task.seq_len, &mut task.train_examples, &mut task.validation_examples)
            }
            TaskConfig::Induction(task) => {
                (&mut task.seq_len, &mut task.train_examples, &mut task.validation_examples)
            }
            TaskConfig::Text(task) => {
                set(&mut task.corpus, self.corpus.clone());
                set(&mut task.target_offset, self.target_offset);
                set(&mut task.train_tokens, self.train_tokens);
                set(&mut task.validation_tokens, self.validation_tokens);
                set(&mut task.seq_len, self.seq_len);
                return Ok(());
            }
        };
        set(seq_len, self.seq_len);
        set(train, self.train_examples);
        set(validation, self.validation_examples);
        Ok(())
    }
}
