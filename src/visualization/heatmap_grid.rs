//! λ of many runs as small heatmaps: a row a configuration, a column a seed.

use super::Figure;
use super::arrangement::{Arrangement, arrange};
use super::axis::drawable;
use super::cells::{Cells, Columns, Map, cells, color, color_bar, region_legend, tick_step};
use super::figure::{Draw, render};
use super::pen::Pen;
use super::theme::{GREY, Theme, kind_label, region_color, title_width};
use super::wrap::wrap;
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend, RGBColor};
use plotters::style::text_anchor::HPos;
use polars::prelude::{DataFrame, IntoLazy, col, lit};
use std::collections::BTreeMap;

/// What [`heatmap_grid`] shows of every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeatmapGrid {
    /// Layer, from 0.
    pub layer: usize,
    /// Head, from 0.
    pub head: usize,
    /// Sequence of the frame, from 0.
    pub sequence: usize,
    /// Which cells have a colour.
    pub cells: Cells,
}

/// Heatmaps of λ of many runs: level 0 on top, positions left to right, a strip of regions above each.
///
/// A row is a kind, in the paper's order, or a configuration of it where the names of its runs differ in
/// more than the seed; a column is a seed, or a run whose name has none. Each row has its own scale, viridis
/// from 0 to its largest λ: kinds differ in it. Of more than 256 positions, neighbours share a cell with the
/// mean of their λ; their regions lie below each other in the strip.
///
/// # Errors
///
/// If the frame lacks a column, or has no λ of that layer, head and sequence.
pub fn heatmap_grid(lambda: &DataFrame, shown: &HeatmapGrid) -> Result<Figure> {
    let wanted = [("layer", shown.layer), ("head", shown.head), ("sequence", shown.sequence)];
    let mut chosen = lambda.clone().lazy();
    for (name, index) in wanted {
        chosen = chosen.filter(col(name).eq(lit(index as u32)));
    }
    let chosen = chosen.collect()?;
    if chosen.height() == 0 {
        let last = |(name, index): (&'static str, usize)| {
            let last = numbers(lambda, name)?.into_iter().fold(f64::NAN, f64::max);
            Ok(format!("{name} {index} (last: {last})"))
        };
        let found = wanted.into_iter().map(last).collect::<Result<Vec<_>>>()?.join(", ");
        return Err(Error::Figure(format!("no λ of {found}")));
    }
    let (names, kinds) = (texts(&chosen, "run")?, texts(&chosen, "kind")?);
    let columns = Columns::read(&chosen, shown.cells)?;
    let mut rows: BTreeMap<(&String, &String), Vec<usize>> = BTreeMap::new();
    for (row, run) in names.iter().zip(&kinds).enumerate() {
        rows.entry(run).or_default().push(row);
    }
    let runs: Vec<(String, String)> = rows.keys().map(|&(name, kind)| (name.clone(), kind.clone())).collect();
    let maps: Vec<Map> = rows.values().map(|rows| columns.map(rows)).collect();
    let arrangement = arrange(&runs);
    let row = |index: usize| {
        let here = || (0..maps.len()).filter(|&run| arrangement.places[run].0 == index);
        let most = |of: fn(&Map) -> usize| here().map(|run| of(&maps[run])).max().unwrap_or(1);
        let (width, height) = (most(|map| map.width), most(|map| map.height));
        let together = width.div_ceil(MOST_CELLS);
        let of_column = |column: usize| {
            let run = here().find(|&run| arrangement.places[run].1 == column)?;
            Some(maps[run].condensed(together))
        };
        let panels: Vec<_> = (0..arrangement.columns.len()).map(of_column).collect();
        let largest = panels.iter().flatten().map(Map::largest).fold(0.0, f64::max);
        drawable("λ", 0.0, largest)?;
        // A scale has a length, also where every λ is 0.
        let largest = if largest > 0.0 { largest } else { 1.0 };
        Ok(Row { panels, width, height, together, largest })
    };
    render(&Grid {
        title: format!("λ of layer {}, head {} on sequence {}", shown.layer, shown.head, shown.sequence),
        rows: (0..arrangement.rows.len()).map(row).collect::<Result<_>>()?,
        arrangement,
        cells: shown.cells,
    })
}

struct Row {
    /// By column.
    panels: Vec<Option<Map>>,
    /// Number of positions.
    width: usize,
    /// Number of levels.
    height: usize,
    /// Positions that share a cell.
    together: usize,
    largest: f64,
}

struct Grid {
    title: String,
    arrangement: Arrangement,
    rows: Vec<Row>,
    cells: Cells,
}

/// Most cells side by side in a panel: each is at least one unit wide.
const MOST_CELLS: usize = 256;
/// Where the labels of rows begin, and the first panel.
const MARGIN: f64 = 16.0;
const LEFT: f64 = 190.0;
const TOP: f64 = 84.0;
/// Distance between panels.
const GAP: (f64, f64) = (16.0, 16.0);
const STRIP: f64 = 8.0;
/// Height of the labels of positions below a row.
const TICKS: f64 = 18.0;

impl Row {
    fn cell(&self) -> f64 {
        (MOST_CELLS / self.width.div_ceil(self.together)).clamp(1, 16) as f64
    }

    fn panel_width(&self) -> f64 {
        self.cell() * self.width.div_ceil(self.together) as f64
    }

    fn level(&self) -> f64 {
        (84.0 / self.height as f64).floor().clamp(6.0, 14.0)
    }

    fn height(&self) -> f64 {
        STRIP + 2.0 + self.level() * self.height as f64
    }

    /// Draws a panel whose corner is at `left`, `top`.
    fn panel<DB: DrawingBackend>(&self, pen: &Pen<'_, DB>, map: &Map, (left, top): (f64, f64)) -> Result<()> {
        let (cell, level) = (self.cell(), self.level());
        let part = STRIP / self.together as f64;
        for offset in 0..self.together {
            let strip: Vec<RGBColor> = map
                .regions
                .iter()
                .skip(offset)
                .step_by(self.together)
                .map(|name| region_color(name))
                .collect();
            cells(pen, &strip, (left, top + offset as f64 * part), (cell, part))?;
        }
        for (index, values) in map.values.chunks(map.width).enumerate() {
            let colors: Vec<RGBColor> = values.iter().map(|&value| color(value, self.largest)).collect();
            let at = (left, top + STRIP + 2.0 + index as f64 * level);
            cells(pen, &colors, at, (cell, level))?;
        }
        Ok(())
    }

    /// Labels of positions below a panel.
    fn ticks<DB: DrawingBackend>(&self, pen: &Pen<'_, DB>, left: f64, bottom: f64) -> Result<()> {
        for position in (0..self.width).step_by(tick_step(self.width, 4)) {
            let x = left + ((position / self.together) as f64 + 0.5) * self.cell();
            pen.line((x, bottom), (x, bottom + 3.0), GREY)?;
            pen.text(&position.to_string(), (x, bottom + 11.0), pen.theme.text(10.0), HPos::Center)?;
        }
        Ok(())
    }
}

impl Grid {
    /// Whether every row has the same positions, so that one set of labels does.
    fn one_width(&self) -> bool {
        self.rows.windows(2).all(|pair| pair[0].width == pair[1].width)
    }

    fn panel_width(&self) -> f64 {
        // Room for a column's name.
        self.rows.iter().map(Row::panel_width).fold(110.0, f64::max)
    }

    /// Where the last panel of a row ends.
    fn right(&self) -> f64 {
        LEFT + (self.panel_width() + GAP.0) * self.arrangement.columns.len() as f64 - GAP.0
    }

    /// Top of each row, and the bottom of all.
    fn tops(&self) -> Vec<f64> {
        let between = GAP.1 + if self.one_width() { 0.0 } else { TICKS };
        let mut tops = vec![TOP];
        for row in &self.rows {
            tops.push(tops[tops.len() - 1] + row.height() + between);
        }
        tops
    }

    fn note(&self) -> Option<String> {
        let together = self.rows.iter().map(|row| row.together).filter(|&together| together > 1);
        let few = together.clone().min()?;
        let count = match together.max()? {
            most if most == few => few.to_string(),
            most => format!("{few} to {most}"),
        };
        let present = if self.cells == Cells::Present { " where the level is present" } else { "" };
        Some(format!("each cell is the mean over {count} neighbouring positions{present}"))
    }
}

impl Draw for Grid {
    fn size(&self) -> (u32, u32) {
        let bottom = self.tops()[self.rows.len()] + if self.note().is_some() { 40.0 } else { 24.0 };
        // The legend of regions: at most six, one that is not finite, one that holds nothing.
        let width = (self.right() + 74.0).max(MARGIN + title_width(&self.title)).max(MARGIN + 540.0);
        (width as u32, bottom as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()> {
        let pen = Pen { area, theme };
        pen.text(&self.title, (MARGIN, 22.0), theme.bold(15.0), HPos::Left)?;
        let maps = self.rows.iter().flat_map(|row| row.panels.iter().flatten());
        region_legend(&pen, maps, MARGIN, self.right().max(MARGIN + 540.0))?;
        let (width, tops) = (self.panel_width(), self.tops());
        let left = |column: usize| LEFT + (width + GAP.0) * column as f64;
        for (column, name) in self.arrangement.columns.iter().enumerate() {
            let name = &wrap(name, (width / 7.0) as usize, 1)[0];
            pen.text(name, (left(column) + width / 2.0, TOP - 12.0), theme.text(12.0), HPos::Center)?;
        }
        pen.text("λ", (self.right() + 18.0, TOP - 12.0), theme.text(12.0), HPos::Center)?;
        let last = self.rows.len() - 1;
        for (index, row) in self.rows.iter().enumerate() {
            let (top, bottom) = (tops[index], tops[index] + row.height());
            let first = top + STRIP + 2.0;
            self.label(&pen, index, (first + bottom) / 2.0)?;
            let step = if row.level() < 9.0 { 2 } else { 1 };
            for level in (0..row.height).step_by(step) {
                let at = (LEFT - 6.0, first + (level as f64 + 0.5) * row.level());
                pen.text(&level.to_string(), at, theme.text(9.5), HPos::Right)?;
            }
            pen.vertical("level", (LEFT - 30.0, (first + bottom) / 2.0), theme.text(11.0))?;
            for (column, map) in row.panels.iter().enumerate() {
                match map {
                    Some(map) => row.panel(&pen, map, (left(column), top))?,
                    None => {
                        let at = (left(column) + width / 2.0, (first + bottom) / 2.0);
                        pen.text("–", at, theme.small(), HPos::Center)?;
                    }
                }
                if self.one_width() && index == last || !self.one_width() && map.is_some() {
                    row.ticks(&pen, left(column), bottom)?;
                }
            }
            let bar = (self.right() + 12.0, self.right() + 24.0);
            color_bar(&pen, row.largest, bar, (first, bottom), 10.0)?;
        }
        let y = tops[last] + self.rows[last].height() + 26.0;
        pen.text("position", ((LEFT + self.right()) / 2.0, y), theme.text(12.0), HPos::Center)?;
        match self.note() {
            Some(note) => pen.text(&note, (MARGIN, y + 18.0), theme.small(), HPos::Left),
            None => Ok(()),
        }
    }
}

impl Grid {
    /// Names of a row, centred at `y`.
    fn label<DB: DrawingBackend>(&self, pen: &Pen<'_, DB>, row: usize, y: f64) -> Result<()> {
        const ROW: f64 = 14.0;
        let (kind, rest) = &self.arrangement.rows[row];
        let names = wrap(&kind_label(kind), 20, 2).into_iter().map(|line| (line, pen.theme.text(12.0)));
        let rest = if rest.is_empty() { Vec::new() } else { wrap(rest, 21, 3) };
        let lines: Vec<_> = names.chain(rest.into_iter().map(|line| (line, pen.theme.small()))).collect();
        let first = y - ROW * (lines.len() - 1) as f64 / 2.0;
        for (index, (line, style)) in lines.into_iter().enumerate() {
            pen.text(&line, (MARGIN, first + ROW * index as f64), style, HPos::Left)?;
        }
        Ok(())
    }
}
