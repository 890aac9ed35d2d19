//! Rows of a frame as one line a kind.

use super::band::{Line, Point, points};
use super::each::Each;
use super::theme::{kind_color, kind_label, kinds_among};
use crate::{Error, Result};
use polars::prelude::DataFrame;

/// One line for each kind that has a value, labelled with the kind's name and `count` of its points.
pub(super) fn by_kind(
    kinds: &[String],
    count: impl Fn(&str, &[Point]) -> String,
    pairs: impl Fn(&str) -> Vec<(f64, f64)>,
) -> Result<Vec<Line>> {
    by_kind_with(kinds, count, pairs, |_| Each::Band)
}

/// [`by_kind`], with the values behind the means of a kind.
pub(super) fn by_kind_with(
    kinds: &[String],
    count: impl Fn(&str, &[Point]) -> String,
    pairs: impl Fn(&str) -> Vec<(f64, f64)>,
    each: impl Fn(&str) -> Each,
) -> Result<Vec<Line>> {
    if kinds.is_empty() {
        return Err(Error::Figure("there is nothing to draw: the frame has no rows".to_owned()));
    }
    let line = |(index, kind): (usize, &str)| {
        let points = points(pairs(kind));
        let label = format!("{}, n = {}", kind_label(kind), count(kind, &points));
        Line { label, color: kind_color(kind, index), points, each: each(kind), dashed: false }
    };
    let lines = kinds_among(kinds).into_iter().enumerate().map(line).filter(|line| !line.points.is_empty());
    let lines: Vec<Line> = lines.collect();
    if lines.is_empty() {
        return Err(Error::Figure("there is nothing to draw: no row has a finite value".to_owned()));
    }
    Ok(lines)
}

/// Number of values behind each point, where every run gives one.
pub(super) fn values_per_point(_: &str, points: &[Point]) -> String {
    range_of(points.iter().map(|point| point.n))
}

/// Counts in a few words: `5`, or `3 to 5`.
pub(super) fn range_of(counts: impl Iterator<Item = usize> + Clone) -> String {
    match (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)) {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

/// Means over runs are of one thing: refuses a frame in which one of the columns has several values.
pub(super) fn one_setting(frame: &DataFrame, columns: &[&str]) -> Result<()> {
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

/// [`one_setting`] of what tells runs on texts apart, where the frame has it: older records don't.
pub(super) fn one_text(frame: &DataFrame) -> Result<()> {
    let known = ["target_offset", "corpus"].into_iter().filter(|name| frame.column(name).is_ok());
    one_setting(frame, &known.collect::<Vec<_>>())
}
