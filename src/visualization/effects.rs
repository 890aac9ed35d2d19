//! Differences with their intervals: what a change does to accuracy.

use super::Figure;
use super::axis::{drawable, format_number, ticks};
use super::figure::{Draw, render};
use super::legend::{Entry, Legend, Mark};
use super::pen::Pen;
use super::theme::{GREY, GRID, INK, Theme, kind_color, kind_label, kinds_among, title_width};
use super::wrap::wrap;
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend, RGBColor};
use plotters::style::text_anchor::HPos;
use polars::prelude::DataFrame;

/// Differences of accuracy as dots with whiskers, in percentage points, from a frame with columns
///
/// | column | meaning |
/// |---|---|
/// | label | what changed; rows with one label stand together, in the order of first appearance |
/// | kind | λ kind |
/// | mean, low, high | difference as a share, and the ends of its interval (missing: no whisker) |
/// | n | number of runs or pairs of runs |
///
/// # Errors
///
/// If the frame lacks a column or has no rows, a mean isn't finite, or an interval ends before it begins.
pub fn effects(frame: &DataFrame, title: &str) -> Result<Figure> {
    let (labels, names) = (texts(frame, "label")?, texts(frame, "kind")?);
    let (means, counts) = (numbers(frame, "mean")?, numbers(frame, "n")?);
    let (lows, highs) = (numbers(frame, "low")?, numbers(frame, "high")?);
    if labels.is_empty() {
        return Err(Error::Figure("there is nothing to draw: the frame has no rows".to_owned()));
    }
    let kinds = kinds_among(&names);
    let index = |row: usize| kinds.iter().position(|&kind| kind == names[row]).unwrap_or(0);
    let mut groups: Vec<Group> = Vec::new();
    for row in 0..labels.len() {
        let ends = [lows[row], highs[row]].map(|end| if end.is_finite() { end } else { means[row] });
        if !means[row].is_finite() || ends[0] > ends[1] {
            let found = format!("{}, {} to {}", means[row], lows[row], highs[row]);
            let message = format!(
                "`{}` of {} must have a finite mean and an interval from low to high, found {found}",
                labels[row], names[row]
            );
            return Err(Error::Figure(message));
        }
        let [mean, low, high] = [means[row], ends[0], ends[1]].map(|share| share * 100.0);
        let effect = Effect { kind: index(row), mean, low, high, n: counts[row] };
        match groups.iter_mut().find(|group| group.label == labels[row]) {
            Some(group) => group.effects.push(effect),
            None => groups.push(Group { label: labels[row].clone(), effects: vec![effect] }),
        }
    }
    groups.iter_mut().for_each(|group| group.effects.sort_by_key(|effect| effect.kind));
    let all = || groups.iter().flat_map(|group| &group.effects);
    let low = all().map(|effect| effect.low.min(effect.mean)).fold(0.0, f64::min);
    let high = all().map(|effect| effect.high.max(effect.mean)).fold(0.0, f64::max);
    drawable("difference in accuracy", low, high)?;
    let margin = if high > low { (high - low) * 0.05 } else { 1.0 };
    render(&Forest {
        title: title.to_owned(),
        kinds: kinds.iter().enumerate().map(|(i, kind)| (kind_label(kind), kind_color(kind, i))).collect(),
        groups,
        range: (low - margin, high + margin),
    })
}

/// In percentage points.
struct Effect {
    /// Index of the kind.
    kind: usize,
    mean: f64,
    low: f64,
    high: f64,
    n: f64,
}

struct Group {
    label: String,
    effects: Vec<Effect>,
}

struct Forest {
    title: String,
    kinds: Vec<(String, RGBColor)>,
    groups: Vec<Group>,
    range: (f64, f64),
}

/// Where labels begin.
const MARGIN: f64 = 16.0;
const PLOT: f64 = 420.0;
/// Height of one effect, and of one line of a label.
const ROW: f64 = 20.0;
const LINE: f64 = 15.0;
const BETWEEN: f64 = 12.0;
/// Most characters of a label's line, and lines.
const WRAP: (usize, usize) = (34, 5);

impl Forest {
    fn left(&self) -> f64 {
        let lines = self.groups.iter().flat_map(|group| wrap(&group.label, WRAP.0, WRAP.1));
        let longest = lines.map(|line| line.chars().count()).max().unwrap_or(0);
        MARGIN + (7.2 * longest as f64).max(60.0) + 16.0
    }

    fn width(&self) -> f64 {
        (self.left() + PLOT + 76.0).max(MARGIN + title_width(&self.title))
    }

    fn legend(&self) -> Legend {
        let entry =
            |(label, color): &(String, RGBColor)| Entry { mark: Mark::Line(*color), label: label.clone() };
        Legend { entries: self.kinds.iter().map(entry).collect(), left: MARGIN, right: self.width() }
    }

    /// Top of the first group, and the bottom of the last.
    fn ends(&self) -> (f64, f64) {
        let top = self.legend().bottom() + 8.0;
        (top, top + self.groups.iter().map(|group| group.height() + BETWEEN).sum::<f64>())
    }
}

impl Group {
    fn height(&self) -> f64 {
        let lines = wrap(&self.label, WRAP.0, WRAP.1).len();
        (ROW * self.effects.len() as f64).max(LINE * lines as f64)
    }
}

impl Draw for Forest {
    fn size(&self) -> (u32, u32) {
        (self.width() as u32, (self.ends().1 + 56.0) as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()> {
        let pen = Pen { area, theme };
        pen.text(&self.title, (MARGIN, 24.0), theme.bold(15.0), HPos::Left)?;
        self.legend().draw(&pen)?;
        let (left, (top, bottom)) = (self.left(), self.ends());
        let x = |points: f64| left + PLOT * (points - self.range.0) / (self.range.1 - self.range.0);
        for tick in ticks(self.range.0, self.range.1, 8) {
            pen.line((x(tick), top), (x(tick), bottom), GRID)?;
            pen.line((x(tick), bottom), (x(tick), bottom + 4.0), INK)?;
            let label = if tick > 0.0 { format!("+{}", format_number(tick)) } else { format_number(tick) };
            pen.text(&label, (x(tick), bottom + 14.0), theme.text(12.0), HPos::Center)?;
        }
        pen.line((x(0.0), top), (x(0.0), bottom), GREY)?;
        pen.line((left, bottom), (left + PLOT, bottom), INK)?;
        let mut above = top;
        for group in &self.groups {
            let middle = above + (group.height() + BETWEEN) / 2.0;
            let lines = wrap(&group.label, WRAP.0, WRAP.1);
            let first = middle - LINE * (lines.len() - 1) as f64 / 2.0;
            for (index, line) in lines.iter().enumerate() {
                let at = (left - 14.0, first + LINE * index as f64);
                pen.text(line, at, theme.text(12.0), HPos::Right)?;
            }
            let first = middle - ROW * (group.effects.len() - 1) as f64 / 2.0;
            for (index, effect) in group.effects.iter().enumerate() {
                let (y, color) = (first + ROW * index as f64, self.kinds[effect.kind].1);
                pen.fill((x(effect.low), y - 1.0), (x(effect.high), y + 1.0), color)?;
                for end in [effect.low, effect.high].into_iter().filter(|_| effect.high > effect.low) {
                    pen.line((x(end), y - 4.0), (x(end), y + 4.0), color)?;
                }
                pen.dot((x(effect.mean), y), 4.0, color)?;
                if effect.n.is_finite() {
                    let at = (left + PLOT + 14.0, y);
                    pen.text(&format!("n = {}", format_number(effect.n)), at, theme.text(11.0), HPos::Left)?;
                }
            }
            above += group.height() + BETWEEN;
            if above < bottom {
                pen.line((MARGIN, above), (left + PLOT, above), GRID)?;
            }
        }
        let at = (left + PLOT / 2.0, bottom + 36.0);
        pen.text("difference in accuracy (percentage points)", at, theme.text(13.0), HPos::Center)
    }
}
