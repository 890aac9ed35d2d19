//! Line charts of means, with bands of one standard deviation or with every value.

use super::axis::drawable;
use super::coordinates::{Axis, Horizontal, Vertical};
use super::each::{Each, STEP, beside, lines_with_dots};
use super::figure::{Draw, failed};
use super::legend::{Entry, Legend, Mark};
use super::pen::Pen;
use super::published::{self, Published, sides};
use super::theme::{FAMILY, GREY, GRID, INK, Theme};
use crate::Result;
use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, Circle, Color, DashedLineSeries, DrawingArea, DrawingBackend, IntoFont, LineSeries,
    Polygon, RGBColor, WHITE,
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
    /// How the values behind its means are shown.
    pub(super) each: Each,
    /// Whether it is drawn in dashes, without the values behind it.
    pub(super) dashed: bool,
}

/// Axes and what lies between them.
pub(super) struct Plot {
    pub(super) x_label: String,
    pub(super) y_label: String,
    pub(super) x: Horizontal,
    pub(super) y: Vertical,
    pub(super) lines: Vec<Line>,
    /// Drawn beside the lines.
    pub(super) published: Vec<Published>,
    /// A place on x with its name.
    pub(super) rule: Option<(f64, String)>,
}

/// Sizes around a plot, in SVG units.
pub(super) struct Room {
    pub(super) margin: f64,
    pub(super) right: f64,
    /// Height of the labels of x, width of those of y.
    pub(super) labels: (f64, f64),
    /// Whether the axes have names, beside the labels of their ticks.
    pub(super) named: bool,
    /// Most ticks of x and of y.
    pub(super) ticks: (usize, usize),
    /// Size of the ticks' labels.
    pub(super) text: f64,
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

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

/// Range of y in which every line of some plots can be drawn, or why there is none.
pub(super) fn y_range<'a>(plots: impl Iterator<Item = &'a Plot> + Clone) -> Result<(f64, f64)> {
    let all = || plots.clone().flat_map(|plot| &plot.lines).flat_map(|line| &line.points);
    let vertical = plots.clone().next().map_or(Vertical::Share, |plot| plot.y);
    if vertical == Vertical::Share {
        return Ok((0.0, 1.0));
    }
    let ends = || {
        let values = plots.clone().flat_map(|plot| &plot.lines).flat_map(|line| line.each.values());
        all().flat_map(|p| [p.mean - p.std, p.mean + p.std]).chain(values)
    };
    let (low, high) = (least(ends()), most(ends()));
    let margin = ((high - low) * 0.06).max(high.abs() * 0.01).max(1e-9);
    let low = vertical.start(low - margin);
    drawable(
        &plots.clone().next().map_or_else(String::new, |plot| plot.y_label.clone()),
        low,
        high + margin,
    )?;
    Ok((low, high + margin))
}

/// The x of all points, if there is only one.
fn x_of_all(lines: &[Line]) -> Option<f64> {
    let mut all = lines.iter().flat_map(|line| &line.points).map(|point| point.x);
    let first = all.next()?;
    all.all(|x| x == first).then_some(first)
}

impl Plot {
    fn has_dots(&self) -> bool {
        self.lines.iter().any(|line| matches!(line.each, Each::Dots(_)))
    }

    fn x_range(&self) -> (f64, f64) {
        let all = || {
            let ours = self.lines.iter().flat_map(|line| &line.points).map(|p| p.x);
            ours.chain(self.published.iter().map(|one| one.x))
        };
        let (low, high) = (least(all()), most(all()));
        if self.x == Horizontal::Bins {
            // Points are in the middle of theirs.
            return (-1.0, high.ceil());
        }
        // Lines side by side reach beyond their x.
        let room = if self.has_dots() { 0.1 } else { self.x.room() };
        let pad = if high > low { (high - low) * room } else { 0.5 };
        (low - pad, high + pad)
    }

    /// Draws everything on `area`; the range of y is given, so that plots can share it.
    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        theme: Theme,
        room: &Room,
        y: (f64, f64),
    ) -> Result<()> {
        let x = self.x_range();
        let mut chart = ChartBuilder::on(area)
            .margin(theme.upx(room.margin))
            .margin_right(theme.upx(room.right))
            .x_label_area_size(theme.upx(room.labels.0))
            .y_label_area_size(theme.upx(room.labels.1))
            .build_cartesian_2d(
                Axis::new(x, self.x.ticks(x, room.ticks.0)),
                Axis::new(y, self.y.ticks(y, room.ticks.1)),
            )
            .map_err(failed)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE.mix(0.0))
            .bold_line_style(GRID)
            .axis_style(INK)
            .x_desc(if room.named { self.x_label.as_str() } else { "" })
            .y_desc(if room.named { self.y_label.as_str() } else { "" })
            .x_label_formatter(&|value| self.x.label(*value))
            .y_label_formatter(&|value| self.y.label(*value, y))
            .label_style(theme.text(room.text))
            .axis_desc_style((FAMILY, (room.text + 1.0) * theme.scale).into_font().color(&INK))
            .draw()
            .map_err(failed)?;
        let clamp = |value: f64| value.clamp(y.0, y.1);
        // A band without width would not be seen: whiskers side by side.
        let single = x_of_all(&self.lines);
        let dots = self.has_dots();
        let bands: &[Line] = if single.is_some() || dots { &[] } else { &self.lines };
        for line in bands.iter().filter(|line| !line.dashed) {
            if let Each::Runs(runs) = &line.each {
                for run in runs {
                    let run = run.iter().map(|&(x, y)| (x, clamp(y)));
                    let stroke = line.color.mix(0.45).stroke_width(theme.upx(0.75));
                    chart.draw_series(LineSeries::new(run, stroke)).map_err(failed)?;
                }
                continue;
            }
            let upper = line.points.iter().map(|p| (p.x, clamp(p.mean + p.std)));
            let lower = line.points.iter().rev().map(|p| (p.x, clamp(p.mean - p.std)));
            let band: Vec<_> = upper.chain(lower).collect();
            chart.draw_series([Polygon::new(band, line.color.mix(0.16))]).map_err(failed)?;
        }
        for line in bands {
            let stroke = line.color.stroke_width(theme.upx(2.0));
            let means = line.points.iter().map(|p| (p.x, clamp(p.mean)));
            if line.dashed {
                let dash = theme.px(5.0);
                chart.draw_series(DashedLineSeries::new(means, dash, dash, stroke)).map_err(failed)?;
                continue;
            }
            chart.draw_series(LineSeries::new(means.clone(), stroke)).map_err(failed)?;
            if self.x != Horizontal::Steps || line.points.len() < 3 {
                let dots = means.map(|at| Circle::new(at, theme.px(3.5), line.color.filled()));
                chart.draw_series(dots).map_err(failed)?;
            }
        }
        let plot = chart.plotting_area();
        let (left, top) = area.get_base_pixel();
        let pen = Pen { area, theme };
        let at = |x: f64, y: f64| {
            let (column, row) = plot.map_coordinate(&(x, y));
            (f64::from(column - left) / theme.scale, f64::from(row - top) / theme.scale)
        };
        if let Some((x, name)) = &self.rule {
            let ((x, top), (_, bottom)) = (at(*x, y.1), at(*x, y.0));
            pen.dashes((x, top), (x, bottom), GREY)?;
            pen.text(name, (x - 6.0, top + 10.0), theme.small(), HPos::Right)?;
        }
        if dots {
            lines_with_dots(&pen, &self.lines, at)?;
        } else if let Some(x) = single {
            for (index, line) in self.lines.iter().enumerate() {
                let middle = (self.lines.len() - 1) as f64 / 2.0;
                let beside = at(x, y.0).0 + 3.0 * STEP * (index as f64 - middle);
                for point in &line.points {
                    let ends =
                        [point.mean + point.std, point.mean - point.std].map(|end| at(x, clamp(end)).1);
                    pen.whisker(beside, (ends[0], ends[1]), 4.0, line.color)?;
                    pen.dot((beside, at(x, clamp(point.mean)).1), 4.0, line.color)?;
                }
            }
        }
        for (one, side) in self.published.iter().zip(sides(&self.published)) {
            let beside = at(one.x, 0.0).0 + beside(dots, side, self.lines.len());
            one.draw(&pen, beside, |value| at(one.x, value).1)?;
        }
        Ok(())
    }
}

/// A plot under a title and a legend.
pub(super) struct BandChart {
    pub(super) title: String,
    pub(super) plot: Plot,
}

const LEFT: f64 = 70.0;
const WIDTH: f64 = 680.0;

impl BandChart {
    fn legend(&self) -> Legend {
        let mut entries: Vec<Entry> = self.plot.lines.iter().map(Line::entry).collect();
        entries.extend(published::entries(&self.plot.published));
        Legend { entries, left: LEFT, right: WIDTH }
    }
}

impl Line {
    /// Its entry in a legend.
    pub(super) fn entry(&self) -> Entry {
        Entry { mark: Mark::Line(self.color), label: self.label.clone() }
    }
}

impl Draw for BandChart {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (370.0 + self.legend().bottom()) as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()> {
        let y = y_range(std::iter::once(&self.plot))?;
        let pen = Pen { area, theme };
        pen.text(&self.title, (LEFT, 24.0), theme.bold(15.0), HPos::Left)?;
        let legend = self.legend();
        legend.draw(&pen)?;
        let (_, below) = area.split_vertically(theme.px(legend.bottom()));
        let room =
            Room { margin: 12.0, right: 20.0, labels: (44.0, 58.0), named: true, ticks: (8, 6), text: 12.0 };
        self.plot.draw(&below, theme, &room, y)
    }
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
}
