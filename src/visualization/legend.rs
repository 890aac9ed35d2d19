//! Legends above a plot, where they cover no data.

use super::pen::Pen;
use super::theme::{GREY, INK};
use crate::Result;
use plotters::prelude::{DrawingBackend, RGBColor};
use plotters::style::text_anchor::HPos;

/// What stands for a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mark {
    /// A line or a bar of ours.
    Line(RGBColor),
    /// A number that was published; `dot` as in the plot.
    Diamond {
        /// Whether it is of the release.
        dot: bool,
    },
    /// A reference line.
    Dashes,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) mark: Mark,
    pub(super) label: String,
}

/// Entries in rows between `left` and `right`.
pub(super) struct Legend {
    pub(super) entries: Vec<Entry>,
    pub(super) left: f64,
    pub(super) right: f64,
}

/// Height of one row.
const ROW: f64 = 18.0;
/// Middle of the first row, below a title.
const FIRST: f64 = 47.5;

impl Legend {
    /// Place of every entry: the next row where a label would not fit.
    fn places(&self) -> Vec<(f64, f64)> {
        let (mut x, mut y) = (self.left, FIRST);
        let place = |entry: &Entry| {
            let width = 44.0 + 6.1 * entry.label.chars().count() as f64;
            if x > self.left && x + width > self.right {
                (x, y) = (self.left, y + ROW);
            }
            x += width;
            (x - width, y)
        };
        self.entries.iter().map(place).collect()
    }

    /// Where the plot may begin.
    pub(super) fn bottom(&self) -> f64 {
        self.places().last().map_or(42.0, |&(_, y)| y + 13.0)
    }

    pub(super) fn draw<DB: DrawingBackend>(&self, pen: &Pen<'_, DB>) -> Result<()> {
        for (entry, (x, y)) in self.entries.iter().zip(self.places()) {
            let color: &RGBColor = match entry.mark {
                Mark::Line(color) => {
                    pen.fill((x, y - 1.5), (x + 20.0, y + 1.5), color)?;
                    &INK
                }
                Mark::Diamond { dot } => {
                    pen.diamond((x + 10.0, y), GREY, dot)?;
                    &GREY
                }
                Mark::Dashes => {
                    pen.dashes((x, y), (x + 20.0, y), GREY)?;
                    &GREY
                }
            };
            pen.text(&entry.label, (x + 26.0, y), pen.theme.text(11.5).color(color), HPos::Left)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_legends_wrap_within_their_width() {
        let entry = |length: usize| Entry { mark: Mark::Dashes, label: "x".repeat(length) };
        let legend = |lengths: &[usize]| Legend {
            entries: lengths.iter().map(|&length| entry(length)).collect(),
            left: 70.0,
            right: 680.0,
        };
        assert_eq!(legend(&[]).bottom(), 42.0);
        assert_eq!(legend(&[20, 20]).places(), [(70.0, FIRST), (236.0, FIRST)]);
        assert_eq!(legend(&[60, 60]).places(), [(70.0, FIRST), (70.0, FIRST + ROW)]);
        // One that is too long alone stays in a row of its own.
        assert_eq!(legend(&[200]).places(), [(70.0, FIRST)]);
    }
}
