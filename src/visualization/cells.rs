//! Pieces that pictures of λ share: cells in viridis, the colour bar, the regions' strip and legend.

use super::axis::format_number;
use super::pen::Pen;
use super::theme::{GREY, region_color};
use crate::Result;
use crate::frame::{numbers, texts};
use plotters::prelude::{DrawingBackend, RGBColor};
use plotters::style::colors::colormaps::ViridisRGB;
use plotters::style::text_anchor::HPos;
use polars::prelude::DataFrame;
use std::ops::Range;

/// Which cells of a heatmap have a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cells {
    /// Those whose level holds something at that position; the others are grey.
    #[default]
    Present,
    /// All, as in the paper's figures: also λ that multiplies nothing.
    All,
}

/// Colour of a cell without a value.
const EMPTY: RGBColor = RGBColor(0xec, 0xec, 0xec);
/// Colour of a cell whose λ is NaN or infinite.
const BROKEN: RGBColor = RGBColor(0xff, 0x00, 0x90);

/// Colour of λ on a scale from 0 to `largest`: NaN is a cell without a value, infinity a λ that isn't finite.
pub(super) fn color(value: f64, largest: f64) -> RGBColor {
    match value {
        value if value.is_nan() => EMPTY,
        value if value.is_infinite() => BROKEN,
        value => ViridisRGB::get_color((value / largest).clamp(0.0, 1.0)),
    }
}

/// λ of a frame by row, where it is drawn: see [`color`].
pub(super) struct Columns {
    levels: Vec<usize>,
    positions: Vec<usize>,
    regions: Vec<String>,
    values: Vec<f64>,
}

impl Columns {
    pub(super) fn read(lambda: &DataFrame, cells: Cells) -> Result<Self> {
        let mut values = numbers(lambda, "lambda")?;
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
        let (levels, positions) = (indices(lambda, "level")?, indices(lambda, "position")?);
        Ok(Self { levels, positions, regions: texts(lambda, "region")?, values })
    }

    /// λ of one run, layer, head and sequence: the rows given.
    pub(super) fn map(&self, rows: &[usize]) -> Map {
        let most = |of: &[usize]| rows.iter().map(|&row| of[row] + 1).max().unwrap_or(0);
        let (width, height) = (most(&self.positions), most(&self.levels));
        let mut map = Map {
            width,
            height,
            values: vec![f64::NAN; width * height],
            regions: vec![String::new(); width],
        };
        for &row in rows {
            map.values[self.levels[row] * width + self.positions[row]] = self.values[row];
            map.regions[self.positions[row]].clone_from(&self.regions[row]);
        }
        map
    }
}

/// A column of indices.
pub(super) fn indices(lambda: &DataFrame, name: &str) -> Result<Vec<usize>> {
    Ok(numbers(lambda, name)?.into_iter().map(|value| value as usize).collect())
}

/// λ by level and position.
#[derive(Clone, Debug)]
pub(super) struct Map {
    /// Number of positions.
    pub(super) width: usize,
    /// Number of levels.
    pub(super) height: usize,
    /// Row-major; see [`color`].
    pub(super) values: Vec<f64>,
    /// By position.
    pub(super) regions: Vec<String>,
}

impl Map {
    /// The largest finite λ, or 0.
    pub(super) fn largest(&self) -> f64 {
        self.values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max)
    }

    /// The map at some positions.
    pub(super) fn part(&self, positions: Range<usize>) -> Self {
        let values =
            self.values.chunks(self.width.max(1)).flat_map(|level| level[positions.clone()].to_vec());
        let (width, regions) = (positions.len(), self.regions[positions.clone()].to_vec());
        Self { width, height: self.height, values: values.collect(), regions }
    }

    /// Leaves out the last levels if they hold nothing anywhere.
    pub(super) fn trim(&mut self) {
        let last = self.values.iter().rposition(|value| !value.is_nan());
        self.height = last.map_or(0, |last| last / self.width) + 1;
        self.values.truncate(self.height * self.width);
    }

    /// Whether there are cells without a value.
    pub(super) fn has_empty(&self) -> bool {
        self.values.iter().any(|value| value.is_nan())
    }

    /// A map in which `together` neighbouring positions share a cell, the mean of those that have λ.
    /// Regions stay as they are.
    pub(super) fn condensed(&self, together: usize) -> Self {
        let mean = |values: &[f64]| {
            let present: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
            // Of no value at all it is 0/0, NaN, as it should be.
            present.iter().sum::<f64>() / present.len() as f64
        };
        let levels = self.values.chunks(self.width.max(1));
        let values = levels.flat_map(|level| level.chunks(together).map(mean)).collect();
        Self { width: self.width.div_ceil(together), values, ..self.clone() }
    }
}

/// A row of coloured cells of some size from `left`, `top`; neighbours of one colour are one shape.
pub(super) fn cells<DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    colors: &[RGBColor],
    (left, top): (f64, f64),
    (width, height): (f64, f64),
) -> Result<()> {
    let mut start = 0;
    for same in colors.chunk_by(|a, b| a == b) {
        let end = start + same.len();
        let (from, to) = (left + start as f64 * width, left + end as f64 * width);
        pen.fill((from, top), (to, top + height), same[0])?;
        start = end;
    }
    Ok(())
}

/// The scale from 0 at `bottom` to `largest` at `top`, with three labels of some size.
pub(super) fn color_bar<DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    largest: f64,
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
    text: f64,
) -> Result<()> {
    const STEPS: usize = 64;
    let step = (bottom - top) / STEPS as f64;
    for i in 0..STEPS {
        let value = largest * (i as f64 + 0.5) / STEPS as f64;
        let y = bottom - (i + 1) as f64 * step;
        pen.fill((left, y), (right, y + step), color(value, largest))?;
    }
    for share in [0.0, 0.5, 1.0] {
        let y = bottom - share * (bottom - top);
        pen.line((right, y), (right + 4.0, y), GREY)?;
        let digits = 10_f64.powf(2.0 - largest.log10().floor());
        let label = format_number((share * largest * digits).round() / digits);
        pen.text(&label, (right + 8.0, y), pen.theme.text(text), HPos::Left)?;
    }
    Ok(())
}

/// A legend of the regions of some maps, and of cells that are no λ, between `left` and `right`.
pub(super) fn region_legend<'a, DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    maps: impl Iterator<Item = &'a Map> + Clone,
    left: f64,
    right: f64,
) -> Result<()> {
    const TOP: f64 = 40.0;
    let entry = |x: f64, color: RGBColor, label: &str| entry(pen, (x, TOP), color, label);
    let mut x = left;
    let mut seen: Vec<&String> = Vec::new();
    for region in maps.clone().flat_map(|map| &map.regions) {
        if !seen.contains(&region) {
            seen.push(region);
            entry(x, region_color(region), region)?;
            x += 34.0 + 6.8 * region.len() as f64;
        }
    }
    if maps.clone().any(|map| map.values.iter().any(|value| value.is_infinite())) {
        entry(x, BROKEN, "not finite")?;
        x += 100.0;
    }
    if maps.clone().any(Map::has_empty) {
        empty_entry(pen, (x.max(right - 160.0), TOP))?;
    }
    Ok(())
}

/// The legend's entry of cells without a value.
pub(super) fn empty_entry<DB: DrawingBackend>(pen: &Pen<'_, DB>, at: (f64, f64)) -> Result<()> {
    entry(pen, at, EMPTY, "level holds nothing")
}

fn entry<DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    (x, top): (f64, f64),
    color: RGBColor,
    label: &str,
) -> Result<()> {
    pen.fill((x, top), (x + 11.0, top + 11.0), color)?;
    pen.text(label, (x + 16.0, top + 6.0), pen.theme.text(12.0), HPos::Left)
}

/// Distance between labelled positions: a power of 2, for at most `most` + 1 labels.
pub(super) fn tick_step(width: usize, most: usize) -> usize {
    (0..usize::BITS).map(|power| 1 << power).find(|step| width / step <= most).unwrap_or(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_cell_with_the_mean_of_what_is_present() {
        let nan = f64::NAN;
        let values = vec![1.0, 3.0, nan, 5.0, nan, nan, nan, f64::INFINITY, 2.0, nan];
        let map = Map { width: 5, height: 2, values, regions: vec!["key".to_owned(); 5] };
        let half = map.condensed(2);
        assert_eq!((half.width, half.height, half.regions.len()), (3, 2, 5));
        let expected = [2.0, 5.0, nan, nan, f64::INFINITY, nan];
        // The sign of 0/0 is the machine's.
        let same = |(&a, b): (&f64, f64)| a == b || (a.is_nan() && b.is_nan());
        assert!(half.values.iter().zip(expected).all(same), "{:?}", half.values);
    }
}
