//! The values behind the means of a line chart.

use super::band::Line;
use super::bars::spread;
use super::pen::Pen;
use crate::Result;
use plotters::prelude::DrawingBackend;

/// How they are shown.
pub(super) enum Each {
    /// As a band of one standard deviation.
    Band,
    /// As a dot each, lines standing side by side at every x.
    Dots(Vec<(f64, f64)>),
    /// As a thin line each, which is a run.
    Runs(Vec<Vec<(f64, f64)>>),
}

impl Each {
    /// The values that are drawn one by one.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        let runs = match self {
            Self::Band => &[],
            Self::Dots(dots) => std::slice::from_ref(dots),
            Self::Runs(runs) => &runs[..],
        };
        runs.iter().flatten().map(|(_, y)| *y).filter(|y| y.is_finite())
    }
}

/// Distance of a published mark from its x.
pub(super) const STEP: f64 = 10.0;
/// Distance from one line to the next where lines stand side by side, room for three dots.
const APART: f64 = 20.0;
const DOT: f64 = 2.6;

/// How far a published mark lies beside its x: `side` steps, and beyond the lines that stand there.
pub(super) fn beside(dots: bool, side: f64, lines: usize) -> f64 {
    let within = if dots { APART * lines as f64 / 2.0 - STEP / 2.0 } else { 0.0 };
    side * STEP + within.copysign(side)
}

/// Lines through their means side by side, with a dot for every value; `at` is the place of (x, y).
pub(super) fn lines_with_dots<DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    lines: &[Line],
    at: impl Fn(f64, f64) -> (f64, f64),
) -> Result<()> {
    let place = |index: usize, x: f64, y: f64| {
        let (across, down) = at(x, y);
        (across + APART * (index as f64 - (lines.len() - 1) as f64 / 2.0), down)
    };
    for (index, line) in lines.iter().enumerate() {
        let means: Vec<_> = line.points.iter().map(|point| place(index, point.x, point.mean)).collect();
        pen.path(&means, 2.0, line.color)?;
    }
    for (index, line) in lines.iter().enumerate() {
        for point in &line.points {
            // A bar for the mean: among dots, a dot would be taken for one more run.
            let (x, y) = place(index, point.x, point.mean);
            pen.fill((x - 7.0, y - 1.5), (x + 7.0, y + 1.5), line.color)?;
            let Each::Dots(dots) = &line.each else { continue };
            let values: Vec<f64> = dots.iter().filter(|(x, _)| *x == point.x).map(|(_, y)| *y).collect();
            let heights: Vec<f64> = values.iter().map(|&value| place(index, point.x, value).1).collect();
            for (height, side) in heights.iter().zip(spread(&heights, 2.0 * DOT, 2)) {
                pen.dot((x + side * 2.2 * DOT, *height), DOT, line.color)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_marks_lie_beyond_lines_side_by_side() {
        assert_eq!([1.0, -1.0, 2.0].map(|side| beside(false, side, 3)), [10.0, -10.0, 20.0]);
        assert_eq!([1.0, -1.0, 2.0].map(|side| beside(true, side, 3)), [35.0, -35.0, 45.0]);
    }
}
