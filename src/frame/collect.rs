//! What came out of many runs, in one frame that needs no run folder beside it.

use super::lambda_reading;
use super::runs::{Identity, column, identity_columns, run_name};
use crate::lambda::{Hidden, LambdaKind};
use crate::model::Mixer;
use crate::train::{LengthEvaluation, MetricsRow, RunConfig, RunFolder, RunResult, Status};
use crate::{Error, Result};
use polars::prelude::{Column, DataFrame, Expr, IntoLazy, col, lit};
use toml::Value;

/// One run, as it is collected.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// Name in frames.
    pub name: String,
    /// Everything that determines it.
    pub config: RunConfig,
    /// Its value on each axis of its sweep.
    pub settings: Vec<(String, Value)>,
    /// How it ended, if it has.
    pub result: Option<RunResult>,
    /// Its evaluations.
    pub metrics: Vec<MetricsRow>,
    /// Its evaluations at other lengths.
    pub lengths: Vec<LengthEvaluation>,
    /// `waiting`, `running`, `failed`, or how it ended.
    pub status: String,
    /// What the recorded λ looks like, by the columns of [`lambda_reading`].
    pub lambda: Option<[f64; 4]>,
}

impl RunRecord {
    /// The record of a run folder.
    ///
    /// # Errors
    ///
    /// If a file of the folder can't be read, or its metrics are not those of its result.
    pub fn of(folder: &RunFolder, settings: Vec<(String, Value)>) -> Result<Self> {
        let result = folder.result()?;
        folder.check_ended()?;
        let lambda = folder.file("lambda.parquet");
        let lambda = lambda.is_file().then(|| {
            let reading = lambda_reading(&super::read_parquet(lambda)?)?;
            let number = |name: &str| Ok::<_, Error>(super::numbers(&reading, name)?[0]);
            let [level, content, task, deep] = READING;
            Ok::<_, Error>([number(level)?, number(content)?, number(task)?, number(deep)?])
        });
        Ok(Self {
            name: run_name(folder),
            config: folder.config()?,
            settings,
            metrics: folder.metrics()?,
            lengths: folder.length_evaluations()?.unwrap_or_default(),
            status: result.as_ref().map_or("running", |result| result.status.name()).to_owned(),
            result,
            lambda: lambda.transpose()?,
        })
    }

    /// A run of which there is nothing but its configuration.
    pub fn without_results(
        name: String,
        config: RunConfig,
        settings: Vec<(String, Value)>,
        status: &str,
    ) -> Self {
        let (metrics, lengths) = (Vec::new(), Vec::new());
        let status = status.to_owned();
        Self { name, config, settings, result: None, metrics, lengths, status, lambda: None }
    }
}

/// Columns of [`lambda_reading`] that are collected.
const READING: [&str; 4] = ["level_variation", "content_share", "task_ratio", "deep_ratio"];

/// Axes that have a column of their own, under a shorter name.
const NAMED: [&str; 11] = [
    "seed",
    "task.name",
    "task.seq_len",
    "task.pairs",
    "task.target_offset",
    "task.corpus",
    "train.learning_rate",
    "train.target",
    "model.lambda.kind",
    "model.max_seq_len",
    "evaluation.seq_len",
];
const NAMED_LAMBDA: [&str; 3] = ["model.lambda.activation", "model.lambda.hidden", "model.lambda.init"];

/// One row of the frame: an evaluation, or nothing where a run has none.
#[derive(Clone, Copy, Default)]
struct Row {
    record: usize,
    step: Option<u32>,
    train_loss: Option<f64>,
    validation_loss: Option<f64>,
    accuracy: Option<f64>,
    best_accuracy: Option<f64>,
    gradient_norm: Option<f64>,
    seconds: Option<f64>,
    eval_seq_len: u32,
    last: bool,
}

/// One frame of many runs: a row for each evaluation of each run.
///
/// | column | meaning |
/// |---|---|
/// | run, task, kind, seed, seq_len, pairs, base_learning_rate | which run |
/// | target_offset, corpus | of a run on a text: how far ahead the predicted token is, and which text |
/// | d_model, max_seq_len, activation, hidden, init, target | its model and training; null where it has none |
/// | *axis* | its value on every other axis of the sweep, under the axis' name |
/// | chance | accuracy of guessing |
/// | status, steps, best_step, run_seconds, cohort, device, version | how it ended |
/// | step, train_loss, validation_loss, accuracy, best_accuracy, gradient_norm, seconds | an evaluation |
/// | perplexity | of a run on a text: e to that validation loss |
/// | eval_seq_len | length of that evaluation |
/// | last | whether it is the run's last one at that length |
/// | lambda_level_variation, … | what the recorded λ looks like, see [`lambda_reading`] |
///
/// A run that has no evaluation has one row of nulls, so that it is counted.
///
/// # Errors
///
/// If an axis has texts and numbers.
pub fn collect(records: &[RunRecord]) -> Result<DataFrame> {
    let rows: Vec<Row> =
        records.iter().enumerate().flat_map(|(index, record)| rows_of(index, record)).collect();
    let identities: Vec<Identity> = rows
        .iter()
        .map(|row| Identity::new(records[row.record].name.clone(), &records[row.record].config))
        .collect();
    let record = |row: &Row| &records[row.record];
    let perplexity = rows.iter().zip(&identities).map(|(row, run)| run.perplexity(row.validation_loss));
    let perplexity: Vec<Option<f64>> = perplexity.collect();
    let mut columns = identity_columns(&identities);
    columns.push(column("d_model", each(&rows, |r| record(r).config.model.d_model as u32)));
    columns.push(column("max_seq_len", each(&rows, |r| record(r).config.model.max_seq_len as u32)));
    columns.extend(lambda_columns(&rows, records));
    columns.push(column("target", each(&rows, |r| record(r).config.train.target)));
    columns.extend(axis_columns(&rows, records)?);
    columns.push(column("chance", each(&rows, |r| record(r).config.task.task().chance())));
    columns.push(column("status", each(&rows, |r| record(r).status.clone())));
    let result = |r: &Row| record(r).result.as_ref();
    columns.extend([
        column("steps", each(&rows, |r| result(r).map(|result| result.steps as u32))),
        column("best_step", each(&rows, |r| result(r).and_then(|result| result.best_step).map(|s| s as u32))),
        column("run_seconds", each(&rows, |r| result(r).map(|result| result.seconds))),
        column("cohort", each(&rows, |r| result(r).map(|result| result.cohort as u32))),
        column("device", each(&rows, |r| result(r).map(|result| result.device.clone()))),
        column("version", each(&rows, |r| result(r).map(|result| result.version.clone()))),
        column("step", each(&rows, |r| r.step)),
        column("train_loss", each(&rows, |r| r.train_loss)),
        column("validation_loss", each(&rows, |r| r.validation_loss)),
        column("perplexity", perplexity),
        column("accuracy", each(&rows, |r| r.accuracy)),
        column("best_accuracy", each(&rows, |r| r.best_accuracy)),
        column("gradient_norm", each(&rows, |r| r.gradient_norm)),
        column("seconds", each(&rows, |r| r.seconds)),
        column("eval_seq_len", each(&rows, |r| r.eval_seq_len)),
        column("last", each(&rows, |r| r.last)),
    ]);
    for (index, name) in READING.iter().enumerate() {
        let values = each(&rows, |r| record(r).lambda.map(|reading| reading[index]));
        columns.push(column(&format!("lambda_{name}"), values));
    }
    Ok(DataFrame::new(rows.len(), columns)?)
}

/// Names in the column `status` of runs that have ended.
pub(super) const ENDED: [&str; 3] =
    [Status::Target.name(), Status::Completed.name(), Status::Diverged.name()];

/// The last evaluation at the trained length of every run that has ended: a row a run.
///
/// # Errors
///
/// If the frame isn't a collected one.
pub fn ended_runs(collected: &DataFrame) -> Result<DataFrame> {
    let ended = ENDED.map(|name| col("status").eq(lit(name)));
    let ended = ended.into_iter().reduce(Expr::or).unwrap_or_else(|| lit(false));
    let own = col("eval_seq_len").eq(col("seq_len"));
    Ok(collected.clone().lazy().filter(col("last").and(own).and(ended)).collect()?)
}

fn each<T>(rows: &[Row], pick: impl Fn(&Row) -> T) -> Vec<T> {
    rows.iter().map(pick).collect()
}

fn rows_of(record: usize, run: &RunRecord) -> Vec<Row> {
    let finite = |value: f64| value.is_finite().then_some(value);
    let own = run.config.task.task().seq_len() as u32;
    let count = run.metrics.len();
    let mut rows: Vec<Row> = Vec::with_capacity(count + run.lengths.len() + 1);
    rows.extend(run.metrics.iter().enumerate().map(|(place, row)| Row {
        record,
        step: Some(row.step as u32),
        train_loss: finite(row.train_loss),
        validation_loss: finite(row.validation_loss),
        accuracy: finite(row.accuracy),
        best_accuracy: finite(row.best_accuracy),
        gradient_norm: finite(row.gradient_norm),
        seconds: finite(row.seconds),
        eval_seq_len: own,
        last: place + 1 == count,
    }));
    if rows.is_empty() {
        rows.push(Row { record, eval_seq_len: own, last: true, ..Row::default() });
    }
    rows.extend(run.lengths.iter().map(|found| Row {
        record,
        step: Some(found.step as u32),
        validation_loss: finite(found.loss),
        accuracy: finite(found.accuracy),
        eval_seq_len: found.seq_len as u32,
        last: true,
        ..Row::default()
    }));
    rows
}

/// Activation, width and start of MLP-λ; null for maps and mixers that have none.
fn lambda_columns(rows: &[Row], records: &[RunRecord]) -> [Column; 3] {
    let mlp = |row: &Row| {
        let model = &records[row.record].config.model;
        let built_in = model.mixer == Mixer::LogLinear && model.lambda.custom.is_none();
        (built_in && model.lambda.kind != LambdaKind::Fixed).then_some(&model.lambda)
    };
    let name = |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_owned());
    let hidden = |hidden: Hidden| match hidden {
        Hidden::TwiceLevels => "2L".to_owned(),
        Hidden::Width(width) => width.to_string(),
    };
    [
        column(
            "activation",
            each(rows, |r| mlp(r).and_then(|l| name(clap::ValueEnum::to_possible_value(&l.activation)))),
        ),
        column("hidden", each(rows, |r| mlp(r).map(|l| hidden(l.hidden)))),
        column(
            "init",
            each(rows, |r| mlp(r).and_then(|l| name(clap::ValueEnum::to_possible_value(&l.init)))),
        ),
    ]
}

/// Axes without a column of their own.
fn axis_columns(rows: &[Row], records: &[RunRecord]) -> Result<Vec<Column>> {
    let mut axes: Vec<&str> =
        records.iter().flat_map(|r| &r.settings).map(|(axis, _)| axis.as_str()).collect();
    axes.retain(|axis| !NAMED.contains(axis) && !NAMED_LAMBDA.contains(axis));
    axes.sort_unstable();
    axes.dedup();
    let of = |axis: &str| {
        let value = |row: &Row| {
            let settings = &records[row.record].settings;
            settings.iter().find(|(name, _)| name == axis).map(|(_, value)| value)
        };
        let number = |value: &Value| value.as_float().or(value.as_integer().map(|value| value as f64));
        let values: Vec<Option<&Value>> = rows.iter().map(value).collect();
        let present = || values.iter().flatten();
        if present().all(|value| number(value).is_some()) {
            return Ok(column(axis, values.iter().map(|value| value.and_then(number)).collect::<Vec<_>>()));
        }
        if present().any(|value| number(value).is_some()) {
            return Err(Error::value(format!("axis {axis}"), "texts or numbers", "both"));
        }
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Ok(column(axis, values.iter().map(|value| value.map(text)).collect::<Vec<_>>()))
    };
    axes.into_iter().map(of).collect()
}
