//! λ as a picture: level × position, one panel a layer and head.

use super::Figure;
use super::axis::drawable;
use super::cells::{Cells, Columns, Map, cells, color, color_bar, indices, region_legend, tick_step};
use super::figure::{Draw, render};
use super::pen::Pen;
use super::theme::{GREY, Theme, kind_label, region_color};
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend, RGBColor};
use plotters::style::text_anchor::HPos;
use polars::prelude::DataFrame;
use std::collections::BTreeMap;

/// Heatmap of λ on one sequence of one run: level 0 on top, positions left to right, viridis from 0
/// to the largest λ of the layer, a strip that names the region of every position.
///
/// # Errors
///
/// If the frame lacks a column, or has no row of that run and sequence.
pub fn lambda_heatmap(lambda: &DataFrame, run: &str, sequence: usize, cells: Cells) -> Result<Figure> {
    let (runs, sequences) = (texts(lambda, "run")?, numbers(lambda, "sequence")?);
    let rows: Vec<usize> =
        (0..runs.len()).filter(|&row| runs[row] == run && sequences[row] == sequence as f64).collect();
    let Some(&first) = rows.first() else {
        let mut known = runs.clone();
        known.sort();
        known.dedup();
        let last = (0..runs.len()).filter(|&row| runs[row] == run).map(|row| sequences[row] as usize).max();
        let message = match last {
            Some(last) => format!("no λ of sequence {sequence} of run `{run}`; its last is {last}"),
            None => format!("no λ of run `{run}`; the frame has runs {}", known.join(", ")),
        };
        return Err(Error::Figure(message));
    };
    let (layers, heads) = (indices(lambda, "layer")?, indices(lambda, "head")?);
    let columns = Columns::read(lambda, cells)?;
    let mut panels: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for row in rows {
        panels.entry((layers[row], heads[row])).or_default().push(row);
    }
    let panels: Vec<_> = panels.into_iter().map(|(at, rows)| (at, columns.map(&rows))).collect();
    // A scale a layer: their λ may differ by an order of magnitude.
    let mut largest: BTreeMap<usize, f64> = BTreeMap::new();
    for ((layer, _), map) in &panels {
        let of_layer = largest.entry(*layer).or_insert(1e-9);
        *of_layer = of_layer.max(map.largest());
        drawable("λ", 0.0, *of_layer)?;
    }
    let kind = kind_label(&texts(lambda, "kind")?[first]);
    render(&Heatmap {
        title: format!("λ of {kind} — {run}, sequence {sequence}"),
        width: panels.iter().map(|(_, map)| map.width).max().unwrap_or(1),
        height: panels.iter().map(|(_, map)| map.height).max().unwrap_or(1),
        panels,
        largest,
    })
}

struct Heatmap {
    title: String,
    /// By layer and head.
    panels: Vec<((usize, usize), Map)>,
    width: usize,
    height: usize,
    /// λ at the upper end of the colours, by layer.
    largest: BTreeMap<usize, f64>,
}

const LEFT: f64 = 64.0;
const PLOT: f64 = 660.0;
const TOP: f64 = 74.0;
const STRIP: f64 = 9.0;
const GAP: f64 = 62.0;

impl Heatmap {
    fn row_height(&self) -> f64 {
        (150.0 / self.height as f64).clamp(10.0, 20.0)
    }

    fn panel_height(&self) -> f64 {
        STRIP + 3.0 + self.row_height() * self.height as f64
    }
}

impl Draw for Heatmap {
    fn size(&self) -> (u32, u32) {
        let height = TOP + self.panels.len() as f64 * (self.panel_height() + GAP);
        ((LEFT + PLOT + 110.0) as u32, height as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()> {
        let pen = Pen { area, theme };
        pen.text(&self.title, (LEFT, 22.0), theme.bold(15.0), HPos::Left)?;
        region_legend(&pen, self.panels.iter().map(|(_, map)| map), LEFT, LEFT + PLOT)?;
        let row = self.row_height();
        let cell = PLOT / self.width as f64;
        for (index, ((layer, head), map)) in self.panels.iter().enumerate() {
            let largest = self.largest[layer];
            let top = TOP + index as f64 * (self.panel_height() + GAP) + 14.0;
            pen.text(
                &format!("layer {layer}, head {head}"),
                (LEFT, top - 9.0),
                theme.text(12.0),
                HPos::Left,
            )?;
            let strip: Vec<RGBColor> = map.regions.iter().map(|region| region_color(region)).collect();
            cells(&pen, &strip, (LEFT, top), (cell, STRIP))?;
            let first = top + STRIP + 3.0;
            for (level, values) in map.values.chunks(map.width).enumerate() {
                let colors: Vec<RGBColor> = values.iter().map(|&value| color(value, largest)).collect();
                cells(&pen, &colors, (LEFT, first + level as f64 * row), (cell, row))?;
            }
            for level in 0..self.height {
                let at = (LEFT - 8.0, first + (level as f64 + 0.5) * row);
                pen.text(&level.to_string(), at, theme.text(11.0), HPos::Right)?;
            }
            let bottom = first + row * self.height as f64;
            pen.vertical("level", (18.0, (first + bottom) / 2.0), theme.text(12.0))?;
            let step = tick_step(self.width, 16);
            for position in (0..self.width).step_by(step) {
                let x = LEFT + (position as f64 + 0.5) * cell;
                pen.line((x, bottom), (x, bottom + 4.0), GREY)?;
                pen.text(&position.to_string(), (x, bottom + 13.0), theme.text(11.0), HPos::Center)?;
            }
            pen.text("position", (LEFT + PLOT / 2.0, bottom + 29.0), theme.text(12.0), HPos::Center)?;
            let (left, right) = (LEFT + PLOT + 22.0, LEFT + PLOT + 36.0);
            color_bar(&pen, largest, (left, right), (first, bottom), 11.0)?;
            pen.text("λ", ((left + right) / 2.0, first - 9.0), theme.text(12.0), HPos::Center)?;
        }
        Ok(())
    }
}
