//! Run folders as frames: a row an evaluation, or a row a run.

use crate::task::TaskConfig;
use crate::train::{MetricsRow, RunConfig, RunFolder};
use crate::{Result, model};
use polars::prelude::{Column, DataFrame, NamedFrom, Series};

/// One row for each evaluation of each run: what the run is, then step, train_loss,
/// validation_loss, perplexity (e to that loss; null for tasks that are no text), accuracy,
/// best_accuracy, learning_rate, gradient_norm, seconds.
///
/// What a run is: run, task, kind, seed, seq_len, pairs, base_learning_rate, and of a run on a text
/// target_offset, without which perplexities can't be compared, and corpus, the name of its folder or file.
///
/// # Errors
///
/// If a folder can't be read.
pub fn evaluations(folders: &[RunFolder]) -> Result<DataFrame> {
    let mut identities = Vec::new();
    let mut rows: Vec<MetricsRow> = Vec::new();
    for folder in folders {
        let metrics = folder.metrics()?;
        let identity = Identity::new(run_name(folder), &folder.config()?);
        identities.extend(std::iter::repeat_n(identity, metrics.len()));
        rows.extend(metrics);
    }
    let number = |pick: fn(&MetricsRow) -> f64| rows.iter().map(pick).collect::<Vec<_>>();
    let perplexity = rows.iter().zip(&identities).map(|(row, run)| run.perplexity(Some(row.validation_loss)));
    let perplexity: Vec<Option<f64>> = perplexity.collect();
    let mut columns = identity_columns(&identities);
    columns.push(column("step", rows.iter().map(|row| row.step as u32).collect::<Vec<_>>()));
    columns.extend([
        column("train_loss", number(|row| row.train_loss)),
        column("validation_loss", number(|row| row.validation_loss)),
        column("perplexity", perplexity),
        column("accuracy", number(|row| row.accuracy)),
        column("best_accuracy", number(|row| row.best_accuracy)),
        column("learning_rate", number(|row| row.learning_rate)),
        column("gradient_norm", number(|row| row.gradient_norm)),
        column("seconds", number(|row| row.seconds)),
    ]);
    Ok(DataFrame::new(rows.len(), columns)?)
}

/// One row for each run: what it is, its status (`running` if it has no result yet), steps,
/// accuracy and best_accuracy, validation_loss and perplexity (null for tasks that are no text), seconds,
/// d_model, parameters and lambda_parameters.
///
/// # Errors
///
/// If a folder can't be read.
pub fn runs(folders: &[RunFolder]) -> Result<DataFrame> {
    let mut identities = Vec::new();
    let (mut status, mut steps, mut best_step) = (Vec::new(), Vec::new(), Vec::new());
    let (mut accuracy, mut best, mut loss, mut seconds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut d_model, mut parameters, mut lambda) = (Vec::new(), Vec::new(), Vec::new());
    for folder in folders {
        let config = folder.config()?;
        identities.push(Identity::new(run_name(folder), &config));
        let last = folder.metrics()?.pop();
        let result = folder.result()?;
        status.push(result.as_ref().map_or("running", |result| result.status.name()));
        let step = result.as_ref().map(|r| r.steps).or(last.as_ref().map(|row| row.step));
        steps.push(step.map(|step| step as u32));
        best_step.push(result.as_ref().and_then(|r| r.best_step).map(|step| step as u32));
        accuracy.push(last.as_ref().map(|row| row.accuracy));
        best.push(last.as_ref().map(|row| row.best_accuracy));
        loss.push(last.as_ref().map(|row| row.validation_loss));
        seconds.push(result.map(|r| r.seconds).or(last.map(|row| row.seconds)));
        d_model.push(config.model.d_model as u32);
        // A map of a reader's own is not known here, so neither is its share.
        let overhead = folder.model(None).ok().map(|model| model::parameter_overhead(&model));
        parameters.push(overhead.map(|overhead| overhead.total as u32));
        lambda.push(overhead.map(|overhead| overhead.lambda as u32));
    }
    let perplexity: Vec<Option<f64>> =
        identities.iter().zip(&loss).map(|(run, loss)| run.perplexity(*loss)).collect();
    let mut columns = identity_columns(&identities);
    columns.extend([
        column("status", status),
        column("steps", steps),
        column("accuracy", accuracy),
        column("best_accuracy", best),
        column("best_step", best_step),
        column("validation_loss", loss),
        column("perplexity", perplexity),
        column("seconds", seconds),
        column("d_model", d_model),
        column("parameters", parameters),
        column("lambda_parameters", lambda),
    ]);
    Ok(DataFrame::new(identities.len(), columns)?)
}

/// Name of a run in frames: the last two parts of its path, which tell runs of a cohort apart.
pub(crate) fn run_name(folder: &RunFolder) -> String {
    let parts: Vec<_> =
        folder.path().components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    parts[parts.len().saturating_sub(2)..].join("/")
}

/// A run's name without the folder that it was in.
pub(crate) fn own_name(run: &str) -> &str {
    run.rsplit('/').next().unwrap_or(run)
}

pub(super) fn column<T: AsRef<[V]>, V>(name: &str, values: T) -> Column
where
    Series: NamedFrom<T, [V]>,
{
    Series::new(name.into(), values).into()
}

/// What a run is: the columns by which runs are grouped.
#[derive(Clone)]
pub(super) struct Identity {
    run: String,
    task: &'static str,
    kind: String,
    seed: u32,
    seq_len: u32,
    pairs: Option<u32>,
    learning_rate: f64,
    target_offset: Option<u32>,
    corpus: Option<String>,
}

impl Identity {
    pub(super) fn new(run: String, config: &RunConfig) -> Self {
        let pairs = match &config.task {
            TaskConfig::Mqar(task) => Some(task.pairs as u32),
            TaskConfig::SelectiveCopying(_) | TaskConfig::Induction(_) | TaskConfig::Text(_) => None,
        };
        let corpus = match &config.task {
            // Where it lies on a machine says nothing of a text; its folder's name does.
            TaskConfig::Text(task) => task.corpus.file_name().map(|name| name.to_string_lossy().into_owned()),
            TaskConfig::Mqar(_) | TaskConfig::SelectiveCopying(_) | TaskConfig::Induction(_) => None,
        };
        Self {
            run,
            task: config.task.name(),
            kind: config.model.kind().to_owned(),
            seed: config.seed as u32,
            seq_len: config.task.task().seq_len() as u32,
            pairs,
            learning_rate: config.train.learning_rate,
            target_offset: config.task.target_offset().map(|offset| offset as u32),
            corpus,
        }
    }

    /// Perplexity of a validation loss, for a run on a text.
    pub(super) fn perplexity(&self, loss: Option<f64>) -> Option<f64> {
        self.target_offset.and(loss).map(f64::exp)
    }
}

pub(super) fn identity_columns(rows: &[Identity]) -> Vec<Column> {
    fn each<T>(rows: &[Identity], pick: fn(&Identity) -> T) -> Vec<T> {
        rows.iter().map(pick).collect()
    }
    vec![
        column("run", each(rows, |row| row.run.clone())),
        column("task", each(rows, |row| row.task)),
        column("kind", each(rows, |row| row.kind.clone())),
        column("seed", each(rows, |row| row.seed)),
        column("seq_len", each(rows, |row| row.seq_len)),
        column("pairs", each(rows, |row| row.pairs)),
        column("base_learning_rate", each(rows, |row| row.learning_rate)),
        column("target_offset", each(rows, |row| row.target_offset)),
        column("corpus", each(rows, |row| row.corpus.clone())),
    ]
}
