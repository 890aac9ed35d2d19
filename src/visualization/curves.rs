//! Charts over frames of runs and of λ, one line a kind.

use super::Figure;
use super::band::{BandChart, Line, Point, points};
use super::figure::render;
use super::theme::{kind_color, kind_label, kinds_among};
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use polars::prelude::DataFrame;
use std::collections::HashSet;

/// What a learning curve shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Validation accuracy.
    Accuracy,
    /// Training loss.
    TrainLoss,
    /// Validation loss.
    ValidationLoss,
}

/// Mean ± standard deviation over runs against the training step, one line a kind, from a frame of
/// evaluations. Where some runs stopped early, a point is over the runs that were evaluated there,
/// with the last value of those that had stopped.
///
/// # Errors
///
/// If the frame is empty or lacks a column.
pub fn learning_curves(evaluations: &DataFrame, quantity: Quantity) -> Result<Figure> {
    let (column, title, y_label) = match quantity {
        Quantity::Accuracy => ("accuracy", "Validation accuracy", "accuracy"),
        Quantity::TrainLoss => ("train_loss", "Training loss", "cross-entropy (nats)"),
        Quantity::ValidationLoss => ("validation_loss", "Validation loss", "cross-entropy (nats)"),
    };
    let (steps, values) = (numbers(evaluations, "step")?, numbers(evaluations, column)?);
    let (runs, kinds) = (texts(evaluations, "run")?, texts(evaluations, "kind")?);
    one_setting(evaluations, &["task", "seq_len", "pairs"])?;
    let lines = by_kind(&kinds, values_per_point, |kind| {
        let rows: Vec<usize> = (0..kinds.len()).filter(|&row| kinds[row] == kind).collect();
        let mut grid: Vec<f64> = rows.iter().map(|&row| steps[row]).collect();
        grid.sort_by(f64::total_cmp);
        grid.dedup();
        let mut names: Vec<&String> = rows.iter().map(|&row| &runs[row]).collect();
        names.sort();
        names.dedup();
        let mut pairs = Vec::new();
        for name in names {
            let run: Vec<usize> = rows.iter().copied().filter(|&row| runs[row] == *name).collect();
            for &step in &grid {
                let at = run.iter().rev().find(|&&row| steps[row] <= step);
                pairs.extend(at.map(|&row| (step, values[row])));
            }
        }
        pairs
    })?;
    let accuracy = quantity == Quantity::Accuracy;
    render(&BandChart {
        title: format!("{title} (mean ± std over runs)"),
        x_label: "training step".to_owned(),
        y_label: y_label.to_owned(),
        lines,
        y_range: accuracy.then_some((0.0, 1.0)),
        not_negative: true,
        discrete: false,
        percent: accuracy,
        logarithmic: false,
    })
}

/// Best validation accuracy against the number of MQAR pairs, mean ± standard deviation over seeds,
/// one line a kind, from a frame of runs.
///
/// # Errors
///
/// If the frame is empty, lacks a column, or no run is of MQAR.
pub fn accuracy_against_pairs(runs: &DataFrame) -> Result<Figure> {
    let (pairs, accuracy) = (numbers(runs, "pairs")?, numbers(runs, "best_accuracy")?);
    if !pairs.is_empty() && pairs.iter().all(|pairs| pairs.is_nan()) {
        return Err(Error::Figure("accuracy against pairs needs runs of MQAR, found none".to_owned()));
    }
    one_setting(runs, &["task", "seq_len"])?;
    let kinds = texts(runs, "kind")?;
    let lines = by_kind(&kinds, values_per_point, |kind| {
        let rows = (0..kinds.len()).filter(|&row| kinds[row] == kind && pairs[row].is_finite());
        rows.map(|row| (pairs[row], accuracy[row])).collect()
    })?;
    render(&BandChart {
        title: "MQAR: best validation accuracy (mean ± std over seeds)".to_owned(),
        x_label: "number of key/value pairs k".to_owned(),
        y_label: "accuracy".to_owned(),
        lines,
        y_range: Some((0.0, 1.0)),
        not_negative: true,
        discrete: true,
        percent: true,
        logarithmic: false,
    })
}

/// Mean λ of each level, one line a kind, mean ± standard deviation over all runs, layers, heads and
/// positions where the level is present, from a frame of λ.
///
/// # Errors
///
/// If the frame is empty or lacks a column.
pub fn lambda_by_level(lambda: &DataFrame) -> Result<Figure> {
    let (levels, values) = (numbers(lambda, "level")?, numbers(lambda, "lambda")?);
    let (runs, kinds) = (texts(lambda, "run")?, texts(lambda, "kind")?);
    let present = numbers(lambda, "present")?;
    // The points are of tokens; what a reader counts is runs.
    let count = |kind: &str, _: &[Point]| {
        let of_kind = runs.iter().zip(&kinds).filter(|(_, name)| *name == kind).map(|(run, _)| run);
        of_kind.collect::<HashSet<_>>().len().to_string()
    };
    let lines = by_kind(&kinds, count, |kind| {
        let rows = (0..kinds.len()).filter(|&row| kinds[row] == kind && present[row] == 1.0);
        rows.map(|row| (levels[row], values[row])).collect()
    })?;
    render(&BandChart {
        title: "λ by memory level (mean ± std where the level is present)".to_owned(),
        x_label: "level (0 = the position itself)".to_owned(),
        y_label: "λ".to_owned(),
        lines,
        y_range: None,
        not_negative: true,
        discrete: true,
        percent: false,
        logarithmic: false,
    })
}

/// One line for each kind that has a value, labelled with the kind's name and `count` of its points.
fn by_kind(
    kinds: &[String],
    count: impl Fn(&str, &[Point]) -> String,
    pairs: impl Fn(&str) -> Vec<(f64, f64)>,
) -> Result<Vec<Line>> {
    if kinds.is_empty() {
        return Err(Error::Figure("there is nothing to draw: the frame has no rows".to_owned()));
    }
    let line = |(index, kind): (usize, &str)| {
        let points = points(pairs(kind));
        let label = format!("{}, n = {}", kind_label(kind), count(kind, &points));
        Line { label, color: kind_color(kind, index), points }
    };
    let lines = kinds_among(kinds).into_iter().enumerate().map(line).filter(|line| !line.points.is_empty());
    let lines: Vec<Line> = lines.collect();
    if lines.is_empty() {
        return Err(Error::Figure("there is nothing to draw: no row has a finite value".to_owned()));
    }
    Ok(lines)
}

/// Number of values behind each point, where every run gives one.
fn values_per_point(_: &str, points: &[Point]) -> String {
    let counts = || points.iter().map(|point| point.n);
    match (counts().min().unwrap_or(0), counts().max().unwrap_or(0)) {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

/// Means over runs are of one thing: refuses a frame in which one of the columns has several values.
fn one_setting(frame: &DataFrame, columns: &[&str]) -> Result<()> {
    for &name in columns {
        let column = frame.column(name)?.unique()?;
        if column.len() > 1 {
            let values = column.as_materialized_series().iter().map(|value| value.to_string());
            let values = values.collect::<Vec<_>>().join(", ");
            let message =
                format!("one figure shows runs of one {name}, found {values}: draw each on its own");
            return Err(Error::Figure(message));
        }
    }
    Ok(())
}
