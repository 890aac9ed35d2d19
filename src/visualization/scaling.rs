//! How a cost grows with the length of the sequence: both axes logarithmic.

use super::Figure;
use super::band::{BandChart, Line, Plot, points};
use super::coordinates::{Horizontal, Vertical};
use super::each::Each;
use super::figure::render;
use super::theme::PALETTE;
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use polars::prelude::DataFrame;

/// A quantity against the sequence length, one line a series, both axes logarithmic, from a frame with
/// columns `series`, `seq_len` and `y`. Each label ends with the exponent that fits the upper half of
/// the lengths: T^1 is linear, T^2 quadratic.
///
/// # Errors
///
/// If the frame lacks a column, has no rows, or holds a number that isn't positive.
pub fn scaling(frame: &DataFrame, y: &str, title: &str, y_label: &str) -> Result<Figure> {
    let (series, lengths, values) = (texts(frame, "series")?, numbers(frame, "seq_len")?, numbers(frame, y)?);
    let bad = |value: &&f64| !(value.is_finite() && **value > 0.0);
    if let Some(value) = lengths.iter().chain(&values).find(bad) {
        return Err(Error::Figure(format!("a logarithmic axis needs positive numbers, found {value}")));
    }
    if series.is_empty() {
        return Err(Error::Figure("there is nothing to draw: the frame has no rows".to_owned()));
    }
    let mut names: Vec<&String> = Vec::new();
    for name in &series {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let line = |(index, name): (usize, &&String)| {
        let rows = (0..series.len()).filter(|&row| series[row] == **name);
        let points = points(rows.map(|row| (lengths[row].log2(), values[row].log10())));
        let label = match exponent(&points.iter().map(|p| (p.x, p.mean)).collect::<Vec<_>>()) {
            Some(exponent) => format!("{name} (T^{exponent:.2})"),
            None => (*name).clone(),
        };
        Line { label, color: PALETTE[index % PALETTE.len()], points, each: Each::Band, dashed: false }
    };
    render(&BandChart {
        title: title.to_owned(),
        plot: Plot {
            x_label: "sequence length T".to_owned(),
            y_label: y_label.to_owned(),
            x: Horizontal::Doublings,
            y: Vertical::Decades,
            lines: names.iter().enumerate().map(line).collect(),
            published: Vec::new(),
            rule: None,
        },
    })
}

/// Slope of the least-squares line through the upper half of points (log2 x, log10 y), in equal units.
fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let upper = &points[points.len() / 2..];
    let upper = if upper.len() < 2 { points } else { upper };
    let n = upper.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| upper.iter().map(pick).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let covariance: f64 = upper.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let variance: f64 = upper.iter().map(|p| (p.0 - x).powi(2)).sum();
    (variance > 0.0).then(|| covariance / variance * std::f64::consts::LOG2_10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_of_a_power_is_found() {
        let power =
            |p: f64| (4..10).map(|i| (f64::from(i), p * f64::from(i) * 2_f64.log10() + 1.0)).collect();
        for p in [0.0, 1.0, 2.0] {
            let points: Vec<(f64, f64)> = power(p);
            assert!((exponent(&points).unwrap() - p).abs() < 1e-12);
        }
        assert_eq!(exponent(&[(1.0, 2.0)]), None);
    }
}
