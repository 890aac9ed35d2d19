//! Learning curves as small multiples: one panel a setting.

use super::Figure;
use super::axis::format_number;
use super::band::{Line, Plot, Room, points, y_range};
use super::figure::{Draw, render};
use super::kinds::{by_kind, one_setting, range_of};
use super::learning::{Curves, Quantity};
use super::legend::{Entry, Legend};
use super::pen::Pen;
use super::theme::{Theme, title_width};
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend};
use plotters::style::text_anchor::HPos;
use polars::prelude::{DataFrame, DataType};

/// Learning curves, one panel for each combination of values of the columns `panels`, in numeric order, such as
/// `["seq_len", "pairs"]`: a thin line a run, up to its last evaluation, and a thick one a kind, the mean as in
/// [`learning_curves`](super::learning_curves). Panels share y, and one legend; each has the steps of its own runs.
///
/// # Errors
///
/// If no column is named, the frame is empty or lacks a column, a panel has no finite value, or runs of
/// one panel differ in task, length or pairs.
pub fn learning_curves_grid(evaluations: &DataFrame, quantity: Quantity, panels: &[&str]) -> Result<Figure> {
    if panels.is_empty() {
        return Err(Error::value("panels", "at least one column, such as `pairs`", "none"));
    }
    let curves = Curves::read(evaluations, quantity)?;
    let others = ["task", "seq_len", "pairs"].into_iter().filter(|name| !panels.contains(name));
    one_setting(evaluations, &others.collect::<Vec<_>>())?;
    let settings = settings(evaluations, panels)?;
    let everything: Vec<usize> = (0..curves.kinds.len()).collect();
    let count = |kind: &str, _: &[_]| {
        let counts = settings.iter().flat_map(|(_, rows)| points(curves.along(rows, kind)));
        range_of(counts.map(|point| point.n).collect::<Vec<_>>().into_iter())
    };
    let all = by_kind(&curves.kinds, count, |kind| curves.along(&everything, kind))?;
    let panel = |(title, rows): &(String, Vec<usize>)| match curves.plot_with_runs(rows) {
        Ok(plot) => Ok((title.clone(), plot)),
        Err(_) => {
            Err(Error::Figure(format!("there is nothing to draw at {title}: no row has a finite value")))
        }
    };
    render(&CurvesGrid {
        title: format!("{} (thick: mean, thin: every run)", quantity.title()),
        entries: all.iter().map(Line::entry).collect(),
        panels: settings.iter().map(panel).collect::<Result<_>>()?,
    })
}

/// The different values of some columns, as a title, with their rows, in numeric order.
fn settings(frame: &DataFrame, columns: &[&str]) -> Result<Vec<(String, Vec<usize>)>> {
    let mut keys = vec![(Vec::new(), Vec::new()); frame.height()];
    for &name in columns {
        let words = match frame.column(name)?.dtype() {
            DataType::String => texts(frame, name)?,
            _ => numbers(frame, name)?.into_iter().map(format_number).collect(),
        };
        // Text has no order but its own.
        let order = match frame.column(name)?.dtype() {
            DataType::String => vec![0.0; frame.height()],
            _ => numbers(frame, name)?,
        };
        let symbol = match name {
            "seq_len" => "T",
            "pairs" => "k",
            other => other,
        };
        for ((key, word), order) in keys.iter_mut().zip(words).zip(order) {
            key.0.push(order);
            key.1.push(if order.is_nan() { format!("no {name}") } else { format!("{symbol} = {word}") });
        }
    }
    let mut rows: Vec<usize> = (0..keys.len()).collect();
    rows.sort_by(|&a, &b| {
        let (a, b) = (&keys[a], &keys[b]);
        let numeric = a.0.iter().zip(&b.0).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
        numeric.unwrap_or_else(|| a.1.cmp(&b.1))
    });
    let same = rows.chunk_by(|&a, &b| keys[a].1 == keys[b].1);
    Ok(same.map(|rows| (keys[rows[0]].1.join(", "), rows.to_vec())).collect())
}

struct CurvesGrid {
    title: String,
    entries: Vec<Entry>,
    panels: Vec<(String, Plot)>,
}

const LEFT: f64 = 70.0;
const PANEL: (f64, f64) = (240.0, 190.0);
/// Room between panels, in which half of a label of five digits fits.
const GAP: f64 = 20.0;
/// Height of a panel's title.
const TITLE: f64 = 24.0;
/// Height of the name of x below the last row.
const BELOW: f64 = 30.0;
const MOST_COLUMNS: usize = 4;

impl CurvesGrid {
    /// Columns and rows: as few rows as fit, of about the same length.
    fn shape(&self) -> (usize, usize) {
        let rows = self.panels.len().div_ceil(MOST_COLUMNS);
        (self.panels.len().div_ceil(rows), rows)
    }

    fn width(&self) -> f64 {
        (LEFT + PANEL.0 * self.shape().0 as f64 + 12.0).max(LEFT + title_width(&self.title))
    }

    fn legend(&self) -> Legend {
        Legend { entries: self.entries.clone(), left: LEFT, right: self.width() }
    }
}

impl Draw for CurvesGrid {
    fn size(&self) -> (u32, u32) {
        let height = self.legend().bottom() + PANEL.1 * self.shape().1 as f64 + BELOW;
        (self.width() as u32, height as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()> {
        let pen = Pen { area, theme };
        pen.text(&self.title, (LEFT, 24.0), theme.bold(15.0), HPos::Left)?;
        let legend = self.legend();
        legend.draw(&pen)?;
        let ((columns, rows), top) = (self.shape(), legend.bottom());
        let y = y_range(self.panels.iter().map(|(_, plot)| plot))?;
        for (index, (title, plot)) in self.panels.iter().enumerate() {
            let (left, above) =
                (LEFT + PANEL.0 * (index % columns) as f64, top + PANEL.1 * (index / columns) as f64);
            pen.text(title, (left + (PANEL.0 - GAP) / 2.0, above + 14.0), theme.bold(13.0), HPos::Center)?;
            // Labels of y stand once a row, left of its first panel.
            let gutter = if index % columns == 0 { 44.0 } else { 0.0 };
            let corner = (theme.px(left - gutter), theme.px(above + TITLE));
            let size = (theme.upx(PANEL.0 + gutter), theme.upx(PANEL.1 - TITLE));
            let room = Room {
                margin: 0.0,
                right: GAP,
                labels: (26.0, gutter),
                named: false,
                ticks: (4, 6),
                text: 12.0,
            };
            plot.draw(&area.clone().shrink(corner, size), theme, &room, y)?;
        }
        let (x, bottom) = (LEFT + PANEL.0 * columns as f64 / 2.0 - GAP / 2.0, top + PANEL.1 * rows as f64);
        let Some((_, plot)) = self.panels.first() else { return Ok(()) };
        pen.text(&plot.x_label, (x, bottom + 12.0), theme.text(13.0), HPos::Center)?;
        pen.vertical(&plot.y_label, (14.0, (top + TITLE + bottom - 26.0) / 2.0), theme.text(13.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::df;

    #[test]
    fn settings_are_in_numeric_order() {
        let frame =
            df!("seq_len" => [256_u32, 1024, 256, 256], "pairs" => [Some(16_u32), None, Some(8), Some(16)],
            "task" => ["mqar", "copying", "mqar", "mqar"])
            .unwrap();
        let titles = |columns: &[&str]| -> Vec<(String, Vec<usize>)> { settings(&frame, columns).unwrap() };
        let expected =
            [("T = 256, k = 8", vec![2]), ("T = 256, k = 16", vec![0, 3]), ("T = 1024, no pairs", vec![1])];
        assert_eq!(titles(&["seq_len", "pairs"]), expected.map(|(title, rows)| (title.to_owned(), rows)));
        let expected = [("task = copying", vec![1]), ("task = mqar", vec![0, 2, 3])];
        assert_eq!(titles(&["task"]), expected.map(|(title, rows)| (title.to_owned(), rows)));
    }
}
