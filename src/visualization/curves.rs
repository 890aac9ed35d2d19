//! Charts over frames of runs and of λ, one line a kind.

use super::Figure;
use super::band::{BandChart, Plot, Point};
use super::coordinates::{Horizontal, Vertical};
use super::each::Each;
use super::figure::render;
use super::kinds::{by_kind, by_kind_with, one_setting, values_per_point};
use super::published::published;
use super::theme::kinds_among;
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use polars::prelude::DataFrame;
use std::collections::HashSet;

/// Best validation accuracy against the number of MQAR pairs, a dot a run and a line through the means of
/// each kind, side by side, from a frame of runs.
///
/// Rows of `published` (from [`frame::published`](crate::frame::published)) that have pairs lie beside ours as hollow diamonds (those of a figure of the release with a dot), with ± their standard
/// deviation if they have one. Which ones are comparable is for the caller to choose.
///
/// # Errors
///
/// If a frame is empty, lacks a column, no run is of MQAR, or a published value is no share.
pub fn accuracy_against_pairs(runs: &DataFrame, published: Option<&DataFrame>) -> Result<Figure> {
    let (pairs, accuracy) = (numbers(runs, "pairs")?, numbers(runs, "best_accuracy")?);
    if !pairs.is_empty() && pairs.iter().all(|pairs| pairs.is_nan()) {
        return Err(Error::Figure("accuracy against pairs needs runs of MQAR, found none".to_owned()));
    }
    one_setting(runs, &["task", "seq_len"])?;
    let kinds = texts(runs, "kind")?;
    let of = |kind: &str| -> Vec<(f64, f64)> {
        let rows = (0..kinds.len()).filter(|&row| kinds[row] == kind && pairs[row].is_finite());
        rows.map(|row| (pairs[row].log2(), accuracy[row])).collect()
    };
    let each = |kind: &str| Each::Dots(of(kind).into_iter().filter(|(_, y)| y.is_finite()).collect());
    let lines = by_kind_with(&kinds, values_per_point, of, each)?;
    let mut beside = self::published(published, "pairs", &kinds_among(&kinds))?;
    beside.iter_mut().for_each(|one| one.x = one.x.log2());
    let seq_len = numbers(runs, "seq_len")?[0];
    render(&BandChart {
        title: format!("MQAR, T = {seq_len}: best validation accuracy (mean and every run)"),
        plot: Plot {
            x_label: "number of key/value pairs k".to_owned(),
            y_label: "accuracy".to_owned(),
            x: Horizontal::Doublings,
            y: Vertical::Share,
            lines,
            published: beside,
            rule: None,
        },
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
        plot: Plot {
            x_label: "level (0 = the position itself)".to_owned(),
            y_label: "λ".to_owned(),
            x: Horizontal::Few,
            y: Vertical::Amount,
            lines,
            published: Vec::new(),
            rule: None,
        },
    })
}
