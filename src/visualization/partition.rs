//! The Fenwick partition of a prefix as a picture.

use super::Figure;
use super::figure::{Draw, render};
use super::pen::Pen;
use super::theme::{GREY, INK, PALETTE, Theme};
use crate::fenwick::{self, Bucket};
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend, RGBColor};
use plotters::style::text_anchor::HPos;

/// Longest prefix whose positions can be told apart in the picture.
const LONGEST: usize = 128;

/// Buckets of the prefix `[0, t]`, below the buckets of the prefixes before it: each row is a
/// target, each colour a level.
///
/// # Errors
///
/// If `t` is 128 or more.
pub fn fenwick_partition(t: usize) -> Result<Figure> {
    if t >= LONGEST {
        return Err(Error::value("t", format!("below {LONGEST}"), t));
    }
    render(&Partition { t })
}

struct Partition {
    t: usize,
}

const LEFT: f64 = 64.0;
const TOP: f64 = 78.0;

impl Partition {
    fn cell(&self) -> f64 {
        (640.0 / (self.t + 1) as f64).clamp(5.0, 34.0)
    }

    fn row(&self) -> f64 {
        self.cell().min(20.0)
    }

    fn levels(&self) -> usize {
        fenwick::num_levels(self.t + 1)
    }
}

fn color(level: usize) -> RGBColor {
    if level == 0 { INK } else { PALETTE[(level - 1) % PALETTE.len()] }
}

impl Draw for Partition {
    fn size(&self) -> (u32, u32) {
        let rows = (self.t + 1) as f64;
        let legend = 70.0 * self.levels() as f64;
        let width = LEFT + (rows * self.cell()).max(legend).max(380.0) + 24.0;
        (width as u32, (TOP + rows * self.row() + 108.0) as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()> {
        let pen = Pen { area, theme };
        let (cell, row) = (self.cell(), self.row());
        let title = format!("Fenwick partition of every prefix up to position {}", self.t);
        pen.text(&title, (LEFT, 22.0), theme.bold(15.0), HPos::Left)?;
        for level in 0..self.levels() {
            let x = LEFT + 70.0 * level as f64;
            pen.fill((x, 42.0), (x + 11.0, 53.0), color(level))?;
            pen.text(&format!("level {level}"), (x + 16.0, 48.0), theme.text(11.0), HPos::Left)?;
        }
        for target in 0..=self.t {
            let y = TOP + target as f64 * row;
            for Bucket { level, range } in fenwick::buckets(target) {
                let (left, right) = (LEFT + range.start as f64 * cell, LEFT + range.end as f64 * cell);
                pen.fill((left + 0.75, y + 0.75), (right - 0.75, y + row - 0.75), color(level))?;
            }
        }
        let every = (14.0 / row).ceil() as usize;
        for target in (0..=self.t).step_by(every.next_power_of_two()) {
            let at = (LEFT - 8.0, TOP + (target as f64 + 0.5) * row);
            pen.text(&target.to_string(), at, theme.text(11.0), HPos::Right)?;
        }
        let bottom = TOP + (self.t + 1) as f64 * row;
        pen.vertical("target t", (18.0, (TOP + bottom) / 2.0), theme.text(12.0))?;
        let every = ((22.0 / cell).ceil() as usize).next_power_of_two();
        for source in (0..=self.t).step_by(every) {
            let at = (LEFT + (source as f64 + 0.5) * cell, bottom + 11.0);
            pen.text(&source.to_string(), at, theme.text(11.0), HPos::Center)?;
        }
        let middle = LEFT + (self.t + 1) as f64 * cell / 2.0;
        pen.text("source s", (middle, bottom + 28.0), theme.text(12.0), HPos::Center)?;
        // The last prefix once more, with the sizes of its buckets.
        let y = bottom + 46.0;
        for Bucket { level, range } in fenwick::buckets(self.t) {
            let (left, right) = (LEFT + range.start as f64 * cell, LEFT + range.end as f64 * cell);
            pen.fill((left + 0.75, y), (right - 0.75, y + 16.0), color(level))?;
            pen.frame((left + 0.75, y), (right - 0.75, y + 16.0), GREY)?;
            let at = ((left + right) / 2.0, y + 28.0);
            pen.text(&range.len().to_string(), at, theme.text(11.0), HPos::Center)?;
        }
        let note = format!("positions per bucket of the prefix of t = {}", self.t);
        pen.text(&note, (LEFT, y + 46.0), theme.small(), HPos::Left)
    }
}
