//! What a decoder costs a token, against how many tokens it has read.

use super::Figure;
use super::band::Plot;
use super::coordinates::{Horizontal, Vertical};
use super::figure::render;
use super::kinds::{by_kind, one_setting};
use super::legend::Entry;
use super::panels::Panels;
use super::theme::{kind_label, kinds_among};
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use polars::prelude::{DataFrame, IntoLazy, col, lit};

/// Times further apart than this are drawn on a logarithmic axis.
const FAR: f64 = 16.0;

/// State in bytes and time a token against the position, one line a kind, positions and bytes on logarithmic
/// axes. Times too, if the longest is more than 16 times the shortest; else their axis starts at 0.
///
/// Columns, a row for each kind and position: `kind`, `position` (tokens read before), `state_bytes` (of one
/// sequence, all layers), `milliseconds` (median of a token), `d_model`, `layers`, `device`. Rows at position
/// 0 have no place on the axis and are left out.
///
/// # Errors
///
/// If the frame is empty, lacks a column, holds bytes or times that aren't positive, or has rows of several
/// models or devices.
pub fn decoding_cost(decoding: &DataFrame) -> Result<Figure> {
    let decoding = &decoding.clone().lazy().filter(col("position").gt(lit(0))).collect()?;
    one_setting(decoding, &["d_model", "layers", "device"])?;
    let kinds = texts(decoding, "kind")?;
    let places = numbers(decoding, "position")?;
    let (bytes, times) = (positive(decoding, "state_bytes")?, positive(decoding, "milliseconds")?);
    let lines = |values: &[f64]| {
        let pairs = |kind: &str| {
            let rows = (0..kinds.len()).filter(|&row| kinds[row] == kind);
            rows.map(|row| (places[row].log2(), values[row])).collect()
        };
        by_kind(&kinds, |_, _| String::new(), pairs)
    };
    let plot = |y_label: &str, y, lines| Plot {
        x_label: "position (tokens read before)".to_owned(),
        y_label: y_label.to_owned(),
        x: Horizontal::Doublings,
        y,
        lines,
        published: Vec::new(),
        rule: None,
    };
    let logarithms = |values: &[f64]| values.iter().map(|value| value.log10()).collect::<Vec<_>>();
    let state = lines(&logarithms(&bytes))?;
    let most = times.iter().copied().fold(0.0, f64::max);
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let time = match most > FAR * least {
        true => plot("milliseconds a token", Vertical::Logarithm, lines(&logarithms(&times))?),
        false => plot("milliseconds a token", Vertical::FromZero, lines(&times)?),
    };
    let (width, layers) = (numbers(decoding, "d_model")?[0], numbers(decoding, "layers")?[0]);
    let device = &texts(decoding, "device")?[0];
    // Each kind has a line: all its numbers are finite.
    let names = kinds_among(&kinds).into_iter().map(mixer_label);
    let entries = state.iter().zip(names).map(|(line, label)| Entry { label, ..line.entry() }).collect();
    render(&Panels {
        title: format!("Decoding one sequence: d = {width}, {layers} layers, {device}"),
        entries,
        panels: vec![("State".to_owned(), plot("bytes", Vertical::Bytes, state)), ("Time".to_owned(), time)],
    })
}

/// A kind beside baselines: what is log-linear says so.
fn mixer_label(kind: &str) -> String {
    match kind {
        "linear-attention" | "softmax-attention" => kind_label(kind),
        _ => format!("Log-linear attention, {}", kind_label(kind)),
    }
}

/// A column of positive numbers.
fn positive(frame: &DataFrame, name: &str) -> Result<Vec<f64>> {
    let values = numbers(frame, name)?;
    match values.iter().find(|value| !(value.is_finite() && **value > 0.0)) {
        Some(value) => {
            let message = format!("{name} must be positive, found {value}");
            Err(Error::Figure(message))
        }
        None => Ok(values),
    }
}
