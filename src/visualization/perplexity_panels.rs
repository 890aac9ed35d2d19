//! The picture of perplexities by kind: panels of dots and diamonds with their numbers.

use super::axis::{format_number, ticks};
use super::bars::spread;
use super::figure::Draw;
use super::legend::{Entry, Legend, Mark};
use super::pen::Pen;
use super::perplexity::{Panel, mean_std};
use super::theme::{GRID, INK, Theme, kind_color, kind_label, title_width};
use crate::Result;
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend, RGBColor};
use plotters::style::text_anchor::HPos;

pub(super) struct Perplexities {
    kinds: Vec<String>,
    panels: Vec<Panel>,
    /// Half of what each axis spans, as a natural logarithm.
    half: f64,
}

const TITLE: &str = "Validation perplexity by λ kind (mean ± population std over runs)";
const LEFT: f64 = 34.0;
/// Width of the labels of y, of what belongs to one kind, and height of the axes.
const LABELS: f64 = 46.0;
const SLOT: f64 = 68.0;
const HEIGHT: f64 = 190.0;
/// Height of a panel's title, of a row of numbers below, and of what lies between panels.
const HEAD: f64 = 48.0;
const ROW: f64 = 16.0;
const BETWEEN: f64 = 22.0;
const MOST_COLUMNS: usize = 3;
const DOT: f64 = 3.5;
/// Least half of an axis: ± 1 %.
const LEAST: f64 = 0.01;
/// Ground of what is not ours.
const PALE: RGBColor = RGBColor(0xf3, 0xf3, 0xf3);

impl Perplexities {
    pub(super) fn new(kinds: Vec<String>, panels: Vec<Panel>) -> Self {
        let needed = panels.iter().map(|panel| 0.65 * (panel.ends().1 - panel.ends().0));
        let half = needed.fold(LEAST, f64::max);
        Self { kinds, panels, half }
    }

    fn columns(&self) -> usize {
        self.panels.len().min(MOST_COLUMNS)
    }

    fn panel_width(&self) -> f64 {
        LABELS + SLOT * self.kinds.len() as f64
    }

    /// Rows of numbers below an axis.
    fn rows(&self) -> usize {
        let both = |panel: &Panel| {
            panel
                .ours
                .iter()
                .zip(&panel.published)
                .any(|(ours, theirs)| !ours.is_empty() && !theirs.is_empty())
        };
        if self.panels.iter().any(both) { 4 } else { 3 }
    }

    fn panel_height(&self) -> f64 {
        HEAD + HEIGHT + 12.0 + ROW * self.rows() as f64 + BETWEEN
    }

    fn width(&self) -> f64 {
        let panels = (self.panel_width() + BETWEEN) * self.columns() as f64;
        (LEFT + panels).max(LEFT + title_width(TITLE))
    }

    fn legend(&self) -> Legend {
        let color = |index: usize| kind_color(&self.kinds[index], index);
        let of =
            |index: usize| Entry { mark: Mark::Line(color(index)), label: kind_label(&self.kinds[index]) };
        let mut entries: Vec<Entry> = (0..self.kinds.len()).map(of).collect();
        if self.panels.iter().flat_map(|panel| &panel.published).any(|values| !values.is_empty()) {
            let label = "published (paper)".to_owned();
            entries.push(Entry { mark: Mark::Diamond { dot: false }, label });
        }
        Legend { entries, left: LEFT, right: self.width() }
    }

    /// One panel whose left upper corner is at `left`, `above`.
    fn panel<DB: DrawingBackend>(
        &self,
        pen: &Pen<'_, DB>,
        panel: &Panel,
        (left, above): (f64, f64),
    ) -> Result<()> {
        let theme = pen.theme;
        let (start, right, top) = (left + LABELS, left + self.panel_width(), above + HEAD);
        let bottom = top + HEIGHT;
        if panel.setting.only_published {
            pen.fill((start, top), (right, bottom), PALE)?;
        }
        let [title, setting] = panel.setting.title();
        pen.text(&title, (start, above + 14.0), theme.bold(12.0), HPos::Left)?;
        pen.text(&setting, (start, above + 32.0), theme.text(11.0), HPos::Left)?;
        let (least, most) = panel.ends();
        let (low, high) = ((least + most) / 2.0 - self.half, (least + most) / 2.0 + self.half);
        let y = |value: f64| bottom - (value.ln() - low) / (high - low) * HEIGHT;
        for tick in ticks(low.exp(), high.exp(), 6) {
            pen.line((start, y(tick)), (right, y(tick)), GRID)?;
            pen.text(&format_number(tick), (start - 7.0, y(tick)), theme.text(11.0), HPos::Right)?;
        }
        for index in 0..self.kinds.len() {
            let (ours, published) = (&panel.ours[index], &panel.published[index]);
            let x = start + SLOT * (index as f64 + 0.5);
            let color = kind_color(&self.kinds[index], index);
            if !ours.is_empty() {
                marks(pen, x, ours, color, y)?;
            }
            // Right of ours, or in their place.
            let beside = if ours.is_empty() { 0.0 } else { 24.0 };
            for (value, side) in published.iter().zip(apart(published, y, 11.0)) {
                pen.diamond((x + beside + side * 13.0, y(*value)), color, false)?;
            }
            self.numbers(pen, (x, bottom + 18.0), ours, published)?;
        }
        pen.line((start, bottom), (right, bottom), INK)?;
        pen.line((start, top), (start, bottom), INK)
    }

    /// Mean, deviation and number of ours, or of the published ones.
    fn numbers<DB: DrawingBackend>(
        &self,
        pen: &Pen<'_, DB>,
        (x, top): (f64, f64),
        ours: &[f64],
        published: &[f64],
    ) -> Result<()> {
        let of = |values: &[f64]| {
            let (mean, std) = mean_std(values);
            let std = if values.len() > 1 { format!("± {std:.2}") } else { String::new() };
            [format!("{mean:.2}"), std, format!("n = {}", values.len())]
        };
        let small = pen.theme.text(11.0);
        let mut rows: Vec<_> = match (ours, published) {
            ([], []) => vec![("–".to_owned(), pen.theme.small())],
            ([], published) => of(published).map(|text| (text, pen.theme.small())).to_vec(),
            (ours, _) => of(ours).map(|text| (text, small.clone())).to_vec(),
        };
        if !ours.is_empty() && !published.is_empty() {
            rows.push((format!("◇ {:.2}", mean_std(published).0), pen.theme.small()));
        }
        for (row, (text, style)) in rows.into_iter().enumerate().filter(|(_, (text, _))| !text.is_empty()) {
            pen.text(&text, (x, top + ROW * row as f64), style, HPos::Center)?;
        }
        Ok(())
    }
}

/// Mean and whisker left of `x`, right of it a dot for each run of ours.
fn marks<DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    x: f64,
    values: &[f64],
    color: RGBColor,
    y: impl Fn(f64) -> f64,
) -> Result<()> {
    let ((mean, std), left) = (mean_std(values), x - 12.0);
    if std > 0.0 && mean > std {
        pen.whisker(left, (y(mean + std), y(mean - std)), 5.0, color)?;
    }
    pen.fill((left - 10.0, y(mean) - 1.25), (left + 10.0, y(mean) + 1.25), color)?;
    for (value, side) in values.iter().zip(apart(values, &y, 2.0 * DOT)) {
        pen.dot((x + 8.0 + side * 2.0 * DOT, y(*value)), DOT, color)?;
    }
    Ok(())
}

/// Steps to the side for values whose marks of some height would hide each other.
fn apart(values: &[f64], y: impl Fn(f64) -> f64, height: f64) -> Vec<f64> {
    let places: Vec<f64> = values.iter().map(|&value| y(value)).collect();
    spread(&places, height, 2)
}

impl Draw for Perplexities {
    fn size(&self) -> (u32, u32) {
        let rows = self.panels.len().div_ceil(self.columns());
        let height = self.legend().bottom() + 18.0 + self.panel_height() * rows as f64;
        (self.width() as u32, height as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()> {
        let pen = Pen { area, theme };
        pen.text(TITLE, (LEFT, 24.0), theme.bold(15.0), HPos::Left)?;
        let legend = self.legend();
        legend.draw(&pen)?;
        let top = legend.bottom() + 18.0;
        let note = match self.panels.len() {
            1 => "The axis doesn't start at 0.",
            _ => {
                "Axes don't start at 0. From bottom to top each has the same ratio: equal heights are equal per cents."
            }
        };
        pen.text(note, (LEFT, legend.bottom() + 6.0), theme.small(), HPos::Left)?;
        for (index, panel) in self.panels.iter().enumerate() {
            let (column, row) = ((index % self.columns()) as f64, (index / self.columns()) as f64);
            let corner = (LEFT + (self.panel_width() + BETWEEN) * column, top + self.panel_height() * row);
            self.panel(&pen, panel, corner)?;
            if column == 0.0 {
                let middle = corner.1 + HEAD + HEIGHT / 2.0;
                pen.vertical("perplexity (logarithmic)", (16.0, middle), theme.text(12.0))?;
            }
        }
        Ok(())
    }
}
