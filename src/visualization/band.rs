//! Line charts of means with bands of one standard deviation.

use super::figure::{Draw, failed};
use super::pen::Pen;
use super::theme::{FAMILY, GRID, INK, Theme};
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, Circle, Color, DrawingArea, DrawingBackend, IntoFont, LineSeries, Polygon, RGBColor, WHITE,
};
use plotters::style::text_anchor::HPos;

/// Mean and population standard deviation of the values at one x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) mean: f64,
    pub(super) std: f64,
    /// Number of values.
    pub(super) n: usize,
}

/// One line of a chart.
pub(super) struct Line {
    pub(super) label: String,
    pub(super) color: RGBColor,
    pub(super) points: Vec<Point>,
}

/// A chart of lines with bands.
pub(super) struct BandChart {
    pub(super) title: String,
    pub(super) x_label: String,
    pub(super) y_label: String,
    pub(super) lines: Vec<Line>,
    /// Fixed range of y, if it has natural ends.
    pub(super) y_range: Option<(f64, f64)>,
    /// Whether y can't be negative, whatever mean − std says.
    pub(super) not_negative: bool,
    /// Whether x takes few values, to be marked and labelled one by one.
    pub(super) discrete: bool,
    pub(super) percent: bool,
    /// Whether x is a base-2 and y a base-10 logarithm, labelled with the numbers themselves.
    pub(super) logarithmic: bool,
}

/// Groups (x, y) pairs by x; NaN values are left out.
pub(super) fn points(pairs: impl IntoIterator<Item = (f64, f64)>) -> Vec<Point> {
    let mut sorted: Vec<(f64, f64)> = pairs.into_iter().filter(|(_, y)| y.is_finite()).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let group = |group: &[(f64, f64)]| {
        let n = group.len() as f64;
        let mean = group.iter().map(|(_, y)| y).sum::<f64>() / n;
        let variance = group.iter().map(|(_, y)| (y - mean).powi(2)).sum::<f64>() / n;
        Point { x: group[0].0, mean, std: variance.sqrt(), n: group.len() }
    };
    sorted.chunk_by(|a, b| a.0 == b.0).map(group).collect()
}

impl BandChart {
    /// Ranges of x and y, or why there are none.
    fn ranges(&self) -> Result<((f64, f64), (f64, f64))> {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = (least(&mut all().map(|p| p.x)), most(&mut all().map(|p| p.x)));
        let pad = if high > low { (high - low) * if self.discrete { 0.04 } else { 0.0 } } else { 0.5 };
        let y = self.y_range.unwrap_or_else(|| {
            let (low, high) =
                (least(&mut all().map(|p| p.mean - p.std)), most(&mut all().map(|p| p.mean + p.std)));
            let margin = ((high - low) * 0.06).max(high.abs() * 0.01).max(1e-9);
            (if self.not_negative { (low - margin).max(0.0) } else { low - margin }, high + margin)
        });
        drawable(&self.y_label, y.0, y.1)?;
        Ok(((low - pad, high + pad), y))
    }
}

impl Draw for BandChart {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (370.0 + self.top()) as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()> {
        let (x, y) = self.ranges()?;
        let pen = Pen { area, theme };
        pen.text(&self.title, (LEFT, 24.0), theme.bold(15.0), HPos::Left)?;
        for (line, (x, y)) in self.lines.iter().zip(self.legend()) {
            pen.fill((x, y - 1.5), (x + 20.0, y + 1.5), line.color)?;
            pen.text(&line.label, (x + 26.0, y), theme.text(11.5), HPos::Left)?;
        }
        let (_, plot) = area.split_vertically(theme.px(self.top()));
        let mut chart = ChartBuilder::on(&plot)
            .margin(theme.upx(12.0))
            .margin_right(theme.upx(20.0))
            .x_label_area_size(theme.upx(44.0))
            .y_label_area_size(theme.upx(58.0))
            .build_cartesian_2d(x.0..x.1, y.0..y.1)
            .map_err(failed)?;
        let number = |value: &f64| format_number(*value);
        // Steps, levels and numbers of pairs have no fractions.
        let integer = |value: &f64| {
            let whole = (value - value.round()).abs() < 1e-9;
            if whole { format!("{}", value.round()) } else { String::new() }
        };
        let percent = |value: &f64| format!("{} %", format_number(value * 100.0));
        let power_of_2 = |value: &f64| {
            let whole = (value - value.round()).abs() < 1e-9;
            if whole { format_number(value.exp2()) } else { String::new() }
        };
        let decades = y.1 - y.0;
        let power_of_10 = |value: &f64| {
            let whole = (value - value.round()).abs() < 1e-9;
            // Less than two decades have too few whole ones to read a number from.
            if whole || decades < 2.0 {
                format_number(two_digits(10_f64.powf(*value)))
            } else {
                String::new()
            }
        };
        let x_format: &dyn Fn(&f64) -> String = if self.logarithmic { &power_of_2 } else { &integer };
        let y_format: &dyn Fn(&f64) -> String = match (self.logarithmic, self.percent) {
            (true, _) => &power_of_10,
            (_, true) => &percent,
            _ => &number,
        };
        chart
            .configure_mesh()
            .light_line_style(WHITE.mix(0.0))
            .bold_line_style(GRID)
            .axis_style(INK)
            .x_labels(8)
            .y_labels(6)
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .x_label_formatter(x_format)
            .y_label_formatter(y_format)
            .label_style(theme.text(12.0))
            .axis_desc_style((FAMILY, 13.0 * theme.scale).into_font().color(&INK))
            .draw()
            .map_err(failed)?;
        let clamp = |value: f64| value.clamp(y.0, y.1);
        for line in &self.lines {
            let upper = line.points.iter().map(|p| (p.x, clamp(p.mean + p.std)));
            let lower = line.points.iter().rev().map(|p| (p.x, clamp(p.mean - p.std)));
            let band: Vec<_> = upper.chain(lower).collect();
            chart.draw_series([Polygon::new(band, line.color.mix(0.16))]).map_err(failed)?;
        }
        for line in &self.lines {
            let stroke = line.color.stroke_width(theme.upx(2.0));
            let means = line.points.iter().map(|p| (p.x, clamp(p.mean)));
            chart.draw_series(LineSeries::new(means.clone(), stroke)).map_err(failed)?;
            if self.discrete || line.points.len() < 3 {
                let dots = means.map(|at| Circle::new(at, theme.px(3.5), line.color.filled()));
                chart.draw_series(dots).map_err(failed)?;
            }
        }
        Ok(())
    }
}

const LEFT: f64 = 70.0;
const WIDTH: f64 = 680.0;
/// Height of one row of the legend.
const ROW: f64 = 18.0;

impl BandChart {
    /// Place of every legend entry: rows above the plot, where they cover no data.
    fn legend(&self) -> Vec<(f64, f64)> {
        let (mut x, mut y) = (LEFT, 47.5);
        let place = |line: &Line| {
            let width = 44.0 + 6.1 * line.label.chars().count() as f64;
            if x > LEFT && x + width > WIDTH {
                (x, y) = (LEFT, y + ROW);
            }
            x += width;
            (x - width, y)
        };
        self.lines.iter().map(place).collect()
    }

    fn top(&self) -> f64 {
        self.legend().last().map_or(42.0, |&(_, y)| y + 13.0)
    }
}

/// Checks that an axis can be drawn: plotters doesn't return from a range that it can't divide.
pub(super) fn drawable(what: &str, low: f64, high: f64) -> Result<()> {
    if low.is_finite() && high.is_finite() && high - low < 1e12 {
        return Ok(());
    }
    Err(Error::Figure(format!(
        "{what} can't be drawn from {low:e} to {high:e}: at most 1e12 apart (did a run diverge?)"
    )))
}

/// A number rounded to two significant digits.
fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powf(value.abs().log10().floor() - 1.0);
    (value / unit).round() * unit
}

/// A number with at most four significant digits and no trailing zeros.
pub(super) fn format_number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e5).contains(&value.abs()) {
        return format!("{value:.1e}").replace(".0e", "e").replace('-', "−");
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_means_with_population_deviation() {
        let grouped = points([(2.0, 5.0), (1.0, 1.0), (1.0, 3.0), (1.0, f64::NAN)]);
        assert_eq!(
            grouped,
            [Point { x: 1.0, mean: 2.0, std: 1.0, n: 2 }, Point { x: 2.0, mean: 5.0, std: 0.0, n: 1 }]
        );
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 100.0, 0.25, -1.5, 12_345.6, 0.001_234_6, 2.5e9].map(format_number);
        assert_eq!(texts, ["0", "100", "0.25", "−1.5", "12346", "0.001235", "2.5e9"]);
    }
}
