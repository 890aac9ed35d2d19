//! λ as a picture: level × position, one panel a layer and head.

use super::Figure;
use super::axis::{drawable, format_number};
use super::figure::{Draw, render};
use super::pen::Pen;
use super::theme::{GREY, Theme, kind_label, region_color};
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend, RGBColor};
use plotters::style::colors::colormaps::ViridisRGB;
use plotters::style::text_anchor::HPos;
use polars::prelude::DataFrame;
use std::collections::BTreeMap;

/// Which cells of a heatmap have a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cells {
    /// Those whose level holds something at that position; the others are grey.
    #[default]
    Present,
    /// All, as in the paper's figures: also λ that multiplies nothing.
    All,
}

/// Heatmap of λ on one sequence of one run: level 0 on top, positions left to right, viridis from 0
/// to the largest λ that is drawn, a strip that names the region of every position.
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
    let index = |name: &str| -> Result<Vec<usize>> {
        Ok(numbers(lambda, name)?.into_iter().map(|value| value as usize).collect())
    };
    let (layers, heads) = (index("layer")?, index("head")?);
    let (positions, levels) = (index("position")?, index("level")?);
    let (mut values, names) = (numbers(lambda, "lambda")?, texts(lambda, "region")?);
    // NaN stands for a level that holds nothing; what isn't finite where one does must look different.
    for value in values.iter_mut().filter(|value| !value.is_finite()) {
        *value = f64::INFINITY;
    }
    if cells == Cells::Present {
        for (value, present) in values.iter_mut().zip(numbers(lambda, "present")?) {
            if present != 1.0 {
                *value = f64::NAN;
            }
        }
    }
    let most = |of: &[usize]| rows.iter().map(|&row| of[row]).max().unwrap_or(0) + 1;
    let (width, height) = (most(&positions), most(&levels));
    let mut panels = BTreeMap::new();
    let mut regions = vec![String::new(); width];
    for &row in &rows {
        let panel = panels.entry((layers[row], heads[row])).or_insert_with(|| vec![f64::NAN; width * height]);
        panel[levels[row] * width + positions[row]] = values[row];
        regions[positions[row]].clone_from(&names[row]);
    }
    let largest = rows.iter().map(|&row| values[row]).filter(|value| value.is_finite()).fold(0.0, f64::max);
    drawable("λ", 0.0, largest)?;
    let kind = kind_label(&texts(lambda, "kind")?[first]);
    render(&Heatmap {
        title: format!("λ of {kind} — {run}, sequence {sequence}"),
        panels: panels.into_iter().collect(),
        regions,
        width,
        height,
        largest: largest.max(1e-9),
    })
}

struct Heatmap {
    title: String,
    /// By layer and head: level × position, row-major.
    panels: Vec<((usize, usize), Vec<f64>)>,
    regions: Vec<String>,
    width: usize,
    height: usize,
    largest: f64,
}

/// Colour of a cell without a value.
const EMPTY: RGBColor = RGBColor(0xec, 0xec, 0xec);
/// Colour of a cell whose λ is NaN or infinite.
const BROKEN: RGBColor = RGBColor(0xff, 0x00, 0x90);

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

    fn color(&self, value: f64) -> RGBColor {
        match value {
            value if value.is_nan() => EMPTY,
            value if value.is_infinite() => BROKEN,
            value => ViridisRGB::get_color((value / self.largest).clamp(0.0, 1.0)),
        }
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
        let mut x = LEFT;
        let mut seen: Vec<&String> = Vec::new();
        for region in &self.regions {
            if !seen.contains(&region) {
                seen.push(region);
                pen.fill((x, 40.0), (x + 11.0, 51.0), region_color(region))?;
                pen.text(region, (x + 16.0, 46.0), theme.text(12.0), HPos::Left)?;
                x += 34.0 + 6.8 * region.len() as f64;
            }
        }
        let any =
            |of: fn(f64) -> bool| self.panels.iter().any(|(_, values)| values.iter().any(|&value| of(value)));
        if any(f64::is_infinite) {
            pen.fill((x, 40.0), (x + 11.0, 51.0), BROKEN)?;
            pen.text("not finite", (x + 16.0, 46.0), theme.text(12.0), HPos::Left)?;
            x += 100.0;
        }
        if any(f64::is_nan) {
            x = x.max(LEFT + PLOT - 160.0);
            pen.fill((x, 40.0), (x + 11.0, 51.0), EMPTY)?;
            pen.text("level holds nothing", (x + 16.0, 46.0), theme.text(12.0), HPos::Left)?;
        }
        let row = self.row_height();
        let cell = PLOT / self.width as f64;
        for (index, ((layer, head), values)) in self.panels.iter().enumerate() {
            let top = TOP + index as f64 * (self.panel_height() + GAP) + 14.0;
            pen.text(
                &format!("layer {layer}, head {head}"),
                (LEFT, top - 9.0),
                theme.text(12.0),
                HPos::Left,
            )?;
            let strip: Vec<RGBColor> = self.regions.iter().map(|region| region_color(region)).collect();
            cells(&pen, &strip, top, cell, STRIP)?;
            let map = top + STRIP + 3.0;
            for (level, values) in values.chunks(self.width).enumerate() {
                let colors: Vec<RGBColor> = values.iter().map(|&value| self.color(value)).collect();
                cells(&pen, &colors, map + level as f64 * row, cell, row)?;
            }
            for level in 0..self.height {
                let at = (LEFT - 8.0, map + (level as f64 + 0.5) * row);
                pen.text(&level.to_string(), at, theme.text(11.0), HPos::Right)?;
            }
            let bottom = map + row * self.height as f64;
            pen.vertical("level", (18.0, (map + bottom) / 2.0), theme.text(12.0))?;
            let step = tick_step(self.width);
            for position in (0..self.width).step_by(step) {
                let x = LEFT + (position as f64 + 0.5) * cell;
                pen.line((x, bottom), (x, bottom + 4.0), GREY)?;
                pen.text(&position.to_string(), (x, bottom + 13.0), theme.text(11.0), HPos::Center)?;
            }
            pen.text("position", (LEFT + PLOT / 2.0, bottom + 29.0), theme.text(12.0), HPos::Center)?;
            self.color_bar(&pen, map, bottom)?;
        }
        Ok(())
    }
}

impl Heatmap {
    fn color_bar<DB: DrawingBackend>(&self, pen: &Pen<'_, DB>, top: f64, bottom: f64) -> Result<()> {
        const STEPS: usize = 64;
        let (left, right) = (LEFT + PLOT + 22.0, LEFT + PLOT + 36.0);
        let step = (bottom - top) / STEPS as f64;
        for i in 0..STEPS {
            let value = self.largest * (i as f64 + 0.5) / STEPS as f64;
            let y = bottom - (i + 1) as f64 * step;
            pen.fill((left, y), (right, y + step), self.color(value))?;
        }
        for share in [0.0, 0.5, 1.0] {
            let y = bottom - share * (bottom - top);
            pen.line((right, y), (right + 4.0, y), GREY)?;
            let digits = 10_f64.powf(2.0 - self.largest.log10().floor());
            let label = format_number((share * self.largest * digits).round() / digits);
            pen.text(&label, (right + 8.0, y), pen.theme.text(11.0), HPos::Left)?;
        }
        pen.text("λ", ((left + right) / 2.0, top - 9.0), pen.theme.text(12.0), HPos::Center)
    }
}

/// A row of coloured cells; neighbours of one colour are one shape.
fn cells<DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    colors: &[RGBColor],
    top: f64,
    width: f64,
    height: f64,
) -> Result<()> {
    let mut start = 0;
    for same in colors.chunk_by(|a, b| a == b) {
        let end = start + same.len();
        let (left, right) = (LEFT + start as f64 * width, LEFT + end as f64 * width);
        pen.fill((left, top), (right, top + height), same[0])?;
        start = end;
    }
    Ok(())
}

/// Distance between labelled positions: at most about 17 labels.
fn tick_step(width: usize) -> usize {
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].into_iter().find(|step| width / step <= 16).unwrap_or(1024)
}
