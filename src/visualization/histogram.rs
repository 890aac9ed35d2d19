//! Histogram of λ, one panel a kind on a shared axis.

use super::Figure;
use super::axis::{drawable, format_number};
use super::figure::{Draw, failed, render};
use super::pen::Pen;
use super::theme::{FAMILY, GRID, INK, Theme, kind_color, kind_label, kinds_among};
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, Color, DrawingArea, DrawingBackend, IntoFont, RGBColor, Rectangle, WHITE,
};
use plotters::style::text_anchor::HPos;
use polars::prelude::DataFrame;

const BINS: usize = 60;

/// Share of λ values in each of 60 bins, one panel a kind below the other, over all rows of a frame
/// of λ in which the level is present. The axis ends where 99 % of all values lie below; each panel
/// says what share lies beyond.
///
/// # Errors
///
/// If the frame is empty or lacks a column.
pub fn lambda_histogram(lambda: &DataFrame) -> Result<Figure> {
    let values = numbers(lambda, "lambda")?;
    let (kinds, present) = (texts(lambda, "kind")?, numbers(lambda, "present")?);
    let drawn = |&row: &usize| present[row] == 1.0 && values[row].is_finite();
    let rows: Vec<usize> = (0..values.len()).filter(drawn).collect();
    if rows.is_empty() {
        return Err(Error::Figure(
            "there is nothing to draw: the frame has no rows with a finite λ".to_owned(),
        ));
    }
    let mut sorted: Vec<f64> = rows.iter().map(|&row| values[row]).collect();
    sorted.sort_by(f64::total_cmp);
    let most = (sorted[(sorted.len() - 1) * 99 / 100] * 1.05).max(1e-9);
    drawable("λ", 0.0, most)?;
    let names = kinds_among(rows.iter().map(|&row| &kinds[row]));
    let panel = |(index, &kind): (usize, &&str)| {
        let mut shares = vec![0.0; BINS];
        let values: Vec<f64> =
            rows.iter().filter(|&&row| kinds[row] == kind).map(|&row| values[row]).collect();
        for value in values.iter().filter(|&&value| value < most) {
            let bin = (value / most * BINS as f64) as usize;
            shares[bin.min(BINS - 1)] += 1.0 / values.len() as f64;
        }
        let beyond = values.iter().filter(|&&value| value >= most).count() as f64 / values.len() as f64;
        Panel { label: kind_label(kind), color: kind_color(kind, index), shares, count: values.len(), beyond }
    };
    render(&Histogram { panels: names.iter().enumerate().map(panel).collect(), most })
}

struct Panel {
    label: String,
    color: RGBColor,
    shares: Vec<f64>,
    count: usize,
    beyond: f64,
}

struct Histogram {
    panels: Vec<Panel>,
    most: f64,
}

impl Draw for Histogram {
    fn size(&self) -> (u32, u32) {
        (640, 60 + 150 * self.panels.len() as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()> {
        Pen { area, theme }.text("Distribution of λ", (66.0, 24.0), theme.bold(15.0), HPos::Left)?;
        let (_, area) = area.split_vertically(theme.px(42.0));
        let highest = self.panels.iter().flat_map(|panel| &panel.shares).copied().fold(0.0, f64::max);
        let width = self.most / BINS as f64;
        let last = self.panels.len() - 1;
        let areas = area.split_evenly((self.panels.len(), 1));
        for (index, (panel, area)) in self.panels.iter().zip(areas).enumerate() {
            let beyond = match panel.beyond {
                0.0 => String::new(),
                share => format!(", {:.1} % beyond the axis", share * 100.0),
            };
            let caption = format!("{} — {} values{beyond}", panel.label, panel.count);
            let mut chart = ChartBuilder::on(&area)
                .caption(caption, theme.text(12.0))
                .margin_right(theme.upx(20.0))
                .margin_left(theme.upx(8.0))
                .x_label_area_size(theme.upx(38.0))
                .y_label_area_size(theme.upx(58.0))
                .build_cartesian_2d(0.0..self.most, 0.0..highest * 1.05)
                .map_err(failed)?;
            chart
                .configure_mesh()
                .disable_x_mesh()
                .light_line_style(WHITE.mix(0.0))
                .bold_line_style(GRID)
                .axis_style(INK)
                .x_labels(8)
                .y_labels(4)
                .x_desc(if index == last { "λ" } else { "" })
                .y_desc("share")
                .x_label_formatter(&|value| format_number(*value))
                .y_label_formatter(&|value| format!("{} %", format_number(value * 100.0)))
                .label_style(theme.text(11.0))
                .axis_desc_style((FAMILY, 12.0 * theme.scale).into_font().color(&INK))
                .draw()
                .map_err(failed)?;
            let bars = panel.shares.iter().enumerate().filter(|(_, share)| **share > 0.0);
            let bars = bars.map(|(bin, &share)| {
                let corners = [(bin as f64 * width, 0.0), ((bin + 1) as f64 * width, share)];
                Rectangle::new(corners, panel.color.filled())
            });
            chart.draw_series(bars).map_err(failed)?;
        }
        Ok(())
    }
}
