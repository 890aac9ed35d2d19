//! A language model's loss: while it trains, and along the window.

use super::Figure;
use super::band::{BandChart, Line, Plot};
use super::coordinates::{Horizontal, Vertical};
use super::figure::render;
use super::kinds::{by_kind, one_setting, values_per_point};
use super::learning::{Curves, Quantity};
use super::legend::{Entry, Mark};
use super::panels::Panels;
use super::theme::INK;
use crate::frame::{numbers, texts};
use crate::lambda::LambdaKind;
use crate::{Error, Result};
use polars::prelude::DataFrame;
use std::collections::BTreeMap;
use std::f64::consts::LN_10;

/// Losses in nats against the training step, and beside them the perplexity on a logarithmic axis: one line
/// a kind, mean ± population standard deviation over runs (of the perplexity's logarithm), the training loss
/// in dashes. Where runs of Fixed λ have the seeds of others, a third plot has the differences of validation losses
/// between runs of one seed: kinds differ by less than a line is wide.
///
/// Reads `run`, `kind`, `seed`, `step`, `train_loss`, `validation_loss`, `perplexity` and `target_offset` of a frame
/// of [`evaluations`](crate::frame::evaluations), or of a collected one at the trained length. A training
/// loss is the mean since the evaluation before.
///
/// # Errors
///
/// If the frame is empty, lacks a column, has no perplexity (no run is on a text), or its runs differ in
/// text, target or length.
pub fn loss_curves(evaluations: &DataFrame) -> Result<Figure> {
    let target = target(evaluations)?;
    one_setting(evaluations, &["corpus", "seq_len"])?;
    let plot_of = |curves: &Curves, y_label: &str, y| {
        let rows: Vec<usize> = (0..curves.kinds.len()).collect();
        let plot = curves.plot(&rows)?;
        Ok::<_, Error>(Plot { y_label: y_label.to_owned(), y, ..plot })
    };
    let plot = |quantity, y_label: &str, y| plot_of(&Curves::read(evaluations, quantity)?, y_label, y);
    let validation = Curves::read(evaluations, Quantity::ValidationLoss)?;
    let mut losses = plot_of(&validation, "cross-entropy (nats)", Vertical::Amount)?;
    let entries: Vec<Entry> = losses.lines.iter().map(Line::entry).collect();
    let training = plot(Quantity::TrainLoss, "", Vertical::Amount)?;
    losses.lines.extend(training.lines.into_iter().map(|line| Line { dashed: true, ..line }));
    let perplexity = plot(Quantity::Perplexity, "perplexity", Vertical::Logarithm)?;
    let mut panels = vec![("Loss".to_owned(), losses), ("Validation perplexity".to_owned(), perplexity)];
    if let Some(less) = validation.less(&numbers(evaluations, "seed")?, LambdaKind::Fixed.name()) {
        let plot = plot_of(&less, "difference (nats)", Vertical::Difference)?;
        panels.push(("Validation loss less Fixed λ's of the same seed".to_owned(), plot));
    }
    let styles = [(Mark::Line(INK), "validation"), (Mark::Dashes, "training")];
    let styles = styles.map(|(mark, label)| Entry { mark, label: label.to_owned() });
    render(&Panels {
        title: format!("Language model while training, target {target} (mean ± std over runs)"),
        entries: entries.into_iter().chain(styles).collect(),
        panels,
    })
}

/// Perplexity against the position in the window, one line a kind: e to the mean loss over positions 0, 1,
/// 2–3, 4–7 and so on, mean ± population standard deviation over runs (of its logarithm), both axes
/// logarithmic. Each point is in the middle of its positions. Where the window is longer than the trained
/// one, a dashed line shows where that ends.
///
/// Columns, a row for each run and position: `run`, `kind`, `target_offset`, `seq_len` (the window),
/// `trained_seq_len`, `position` (from 0), `loss` (mean over windows, in nats), `scored` (number of windows
/// in which the position has a target).
///
/// # Errors
///
/// If the frame is empty, lacks a column, no position is scored, or its rows differ in target, window or
/// trained window.
pub fn perplexity_by_position(positions: &DataFrame) -> Result<Figure> {
    let target = target(positions)?;
    one_setting(positions, &["seq_len", "trained_seq_len"])?;
    let (runs, kinds) = (texts(positions, "run")?, texts(positions, "kind")?);
    let (places, losses, scored) =
        (numbers(positions, "position")?, numbers(positions, "loss")?, numbers(positions, "scored")?);
    let lines = by_kind(&kinds, values_per_point, |kind| {
        // Sum of losses and number of targets, by run and bin.
        let mut bins: BTreeMap<(&str, u64), (f64, f64)> = BTreeMap::new();
        for row in (0..kinds.len()).filter(|&row| kinds[row] == kind && scored[row] > 0.0) {
            let bin = bins.entry((&runs[row], bin(places[row]))).or_default();
            *bin = (bin.0 + losses[row] * scored[row], bin.1 + scored[row]);
        }
        let mean =
            |((_, bin), (sum, count)): ((&str, u64), (f64, f64))| (bin as f64 - 0.5, sum / count / LN_10);
        bins.into_iter().map(mean).collect()
    })?;
    let (window, trained) = (numbers(positions, "seq_len")?[0], numbers(positions, "trained_seq_len")?[0]);
    let rule = (window > trained).then(|| (trained.log2(), format!("trained window: {trained}")));
    render(&BandChart {
        title: format!("Perplexity along windows of {window}, target {target} (mean ± std over runs)"),
        plot: Plot {
            x_label: "position in the window (logarithmic)".to_owned(),
            y_label: "validation perplexity".to_owned(),
            x: Horizontal::Bins,
            y: Vertical::Logarithm,
            lines,
            published: Vec::new(),
            rule,
        },
    })
}

/// Bin of a position: 0, 1, 2–3, 4–7, …
fn bin(position: f64) -> u64 {
    let position = position as u64;
    u64::from(u64::BITS - position.leading_zeros())
}

/// Which token all rows predict: perplexities of different ones don't compare.
fn target(frame: &DataFrame) -> Result<String> {
    one_setting(frame, &["target_offset"])?;
    match numbers(frame, "target_offset")?.first() {
        None => Err(Error::Figure("there is nothing to draw: the frame has no rows".to_owned())),
        Some(offset) if offset.is_nan() => {
            let message = "a language model's figures need runs on a text, found none (no target_offset)";
            Err(Error::Figure(message.to_owned()))
        }
        Some(offset) => Ok(format!("t+{offset}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_double() {
        assert_eq!([0.0, 1.0, 2.0, 3.0, 4.0, 7.0, 8.0, 511.0, 512.0].map(bin), [0, 1, 2, 2, 3, 3, 4, 9, 10]);
    }
}
