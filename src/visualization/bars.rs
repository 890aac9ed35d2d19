//! Accuracies as grouped bars: a bar a kind, a dot a run.

use super::Figure;
use super::axis::{format_number, ticks};
use super::figure::{Draw, render};
use super::kinds::range_of;
use super::legend::{Entry, Legend, Mark};
use super::pen::Pen;
use super::published::{Published, entries, published};
use super::theme::{GREY, GRID, INK, Theme, kind_color, kind_label, kinds_among, title_width};
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend, RGBColor};
use plotters::style::text_anchor::HPos;
use polars::prelude::DataFrame;

/// What [`accuracy_bars`] shows of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Bars<'a> {
    /// Integer column whose values are the groups, such as `seq_len` or `eval_seq_len`.
    pub group: &'a str,
    /// Column of accuracies, as shares.
    pub value: &'a str,
    /// Title of the figure.
    pub title: &'a str,
    /// Name of the groups' axis.
    pub x_label: &'a str,
    /// Published accuracies, with the column `group`.
    pub published: Option<&'a DataFrame>,
}

/// One bar a kind in each group: the mean of its rows, ± their population standard deviation, with a dot
/// for each row. Published accuracies lie beside the bar of their group and kind as hollow diamonds (those
/// of a figure of the release with a dot). A group or kind that was only published has a place, no bar.
///
/// If the frame has a column `chance`, a dashed line shows its value in each group.
///
/// # Errors
///
/// If the frame lacks a column, no row has a group and a finite value, an accuracy is no share, or a group
/// has more than one value of chance.
pub fn accuracy_bars(frame: &DataFrame, bars: &Bars<'_>) -> Result<Figure> {
    let (groups, values) = (numbers(frame, bars.group)?, numbers(frame, bars.value)?);
    let names = texts(frame, "kind")?;
    let chances = frame.column("chance").is_ok().then(|| numbers(frame, "chance")).transpose()?;
    let rows: Vec<usize> =
        (0..names.len()).filter(|&row| groups[row].is_finite() && values[row].is_finite()).collect();
    if rows.is_empty() {
        let message =
            format!("there is nothing to draw: no row has a {} and a finite {}", bars.group, bars.value);
        return Err(Error::Figure(message));
    }
    if let Some(&row) = rows.iter().find(|&&row| !(0.0..=1.0).contains(&values[row])) {
        let message = format!("{} must be a share of 0 to 1, found {}", bars.value, values[row]);
        return Err(Error::Figure(message));
    }
    let ours = kinds_among(rows.iter().map(|&row| &names[row]));
    let published = published(bars.published, bars.group, &ours)?;
    let all: Vec<&String> =
        rows.iter().map(|&row| &names[row]).chain(published.iter().map(|one| &one.kind)).collect();
    let kinds = kinds_among(all);
    let mut places: Vec<f64> =
        rows.iter().map(|&row| groups[row]).chain(published.iter().map(|one| one.x)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let group = |&place: &f64| {
        let at = |&row: &usize| groups[row] == place;
        let of = |kind: &&str| {
            rows.iter().filter(|row| at(row) && names[**row] == *kind).map(|&row| values[row]).collect()
        };
        let chance = match &chances {
            Some(chances) => chance(rows.iter().filter(|row| at(row)).map(|&row| chances[row]), place)?,
            None => None,
        };
        Ok(Group { place, values: kinds.iter().map(of).collect(), chance })
    };
    let color = |kind: &&str| {
        let index = ours.iter().position(|other| other == kind).unwrap_or(ours.len());
        kind_color(kind, index)
    };
    render(&BarChart {
        title: bars.title.to_owned(),
        x_label: bars.x_label.to_owned(),
        labels: kinds.iter().map(|kind| kind_label(kind)).collect(),
        colors: kinds.iter().map(color).collect(),
        groups: places.iter().map(group).collect::<Result<_>>()?,
        published: published.iter().map(|one| (index_of(&kinds, &one.kind), one.clone())).collect(),
    })
}

fn index_of(kinds: &[&str], kind: &str) -> usize {
    kinds.iter().position(|&other| other == kind).unwrap_or(kinds.len())
}

/// The one value of chance in a group, if there is one.
fn chance(values: impl Iterator<Item = f64>, place: f64) -> Result<Option<f64>> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    match values[..] {
        [] => Ok(None),
        [value] if (0.0..=1.0).contains(&value) => Ok(Some(value)),
        [value] => Err(Error::Figure(format!("chance must be a share of 0 to 1, found {value}"))),
        _ => Err(Error::Figure(format!("chance must have one value in group {place}, found {values:?}"))),
    }
}

struct Group {
    place: f64,
    /// By kind.
    values: Vec<Vec<f64>>,
    chance: Option<f64>,
}

struct BarChart {
    title: String,
    x_label: String,
    /// By kind.
    labels: Vec<String>,
    colors: Vec<RGBColor>,
    groups: Vec<Group>,
    /// With the index of the kind.
    published: Vec<(usize, Published)>,
}

const LEFT: f64 = 70.0;
const HEIGHT: f64 = 270.0;
/// Distance from one bar's middle to the next.
const SLOT: f64 = 54.0;
const BAR: f64 = 38.0;
/// Least distance between groups.
const BETWEEN: f64 = 30.0;
/// Room beside the plot.
const RIGHT: f64 = 20.0;
/// Least width of the plot.
const NARROWEST: f64 = 440.0;
const DOT: f64 = 3.0;

impl BarChart {
    fn group_width(&self) -> f64 {
        SLOT * self.labels.len() as f64
    }

    fn plot_width(&self) -> f64 {
        let bars = (self.group_width() + BETWEEN) * self.groups.len() as f64;
        // No narrower than the title, beside which it would leave an empty strip.
        bars.max(NARROWEST).max(title_width(&self.title) - RIGHT)
    }

    fn width(&self) -> f64 {
        LEFT + self.plot_width() + RIGHT
    }

    fn legend(&self) -> Legend {
        let ours = self.labels.iter().enumerate().map(|(kind, label)| {
            let counts: Vec<usize> = self.groups.iter().map(|group| group.values[kind].len()).collect();
            let label = match counts.iter().all(|&count| count == 0) {
                true => label.clone(),
                false => format!("{label}, n = {}", range_of(counts.into_iter().filter(|&count| count > 0))),
            };
            Entry { mark: Mark::Line(self.colors[kind]), label }
        });
        let mut all: Vec<Entry> = ours.collect();
        let published: Vec<Published> = self.published.iter().map(|(_, one)| one.clone()).collect();
        all.extend(entries(&published));
        if self.groups.iter().any(|group| group.chance.is_some()) {
            all.push(Entry { mark: Mark::Dashes, label: "chance".to_owned() });
        }
        Legend { entries: all, left: LEFT, right: self.width() }
    }
}

impl Draw for BarChart {
    fn size(&self) -> (u32, u32) {
        (self.width() as u32, (self.legend().bottom() + HEIGHT + 74.0) as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()> {
        let pen = Pen { area, theme };
        pen.text(&self.title, (LEFT, 24.0), theme.bold(15.0), HPos::Left)?;
        let legend = self.legend();
        legend.draw(&pen)?;
        let (top, right) = (legend.bottom() + 14.0, LEFT + self.plot_width());
        let bottom = top + HEIGHT;
        let y = |share: f64| bottom - share * HEIGHT;
        for share in ticks(0.0, 1.0, 6) {
            pen.line((LEFT, y(share)), (right, y(share)), GRID)?;
            let label = format!("{} %", format_number((share * 100.0).round()));
            pen.text(&label, (LEFT - 8.0, y(share)), theme.text(12.0), HPos::Right)?;
        }
        for (index, group) in self.groups.iter().enumerate() {
            let room = self.plot_width() / self.groups.len() as f64;
            let left = LEFT + room * (index as f64 + 0.5) - self.group_width() / 2.0;
            let middle = |kind: usize| left + SLOT * (kind as f64 + 0.5);
            for (kind, values) in group.values.iter().enumerate().filter(|(_, values)| !values.is_empty()) {
                self.bar(&pen, middle(kind), values, self.colors[kind], y)?;
            }
            if let Some(chance) = group.chance {
                let ends = (left - 6.0, left + self.group_width() + 6.0);
                pen.dashes((ends.0, y(chance)), (ends.1, y(chance)), GREY)?;
            }
            let here = self.published.iter().filter(|(_, one)| one.x == group.place);
            for (kind, one) in here {
                // On one edge of the bar or the other, by source: away from the dots of ours.
                let side = if one.release { -1.0 } else { 1.0 };
                one.draw(&pen, middle(*kind) + side * (BAR / 2.0 + 2.0), y)?;
            }
            let at = (left + self.group_width() / 2.0, bottom + 15.0);
            pen.text(&format_number(group.place), at, theme.text(12.0), HPos::Center)?;
        }
        pen.line((LEFT, bottom), (right, bottom), INK)?;
        pen.line((LEFT, top), (LEFT, bottom), INK)?;
        let middle = (LEFT + self.plot_width() / 2.0, bottom + 38.0);
        pen.text(&self.x_label, middle, theme.text(13.0), HPos::Center)?;
        pen.vertical("accuracy", (18.0, (top + bottom) / 2.0), theme.text(13.0))
    }
}

impl BarChart {
    fn bar<DB: DrawingBackend>(
        &self,
        pen: &Pen<'_, DB>,
        x: f64,
        values: &[f64],
        color: RGBColor,
        y: impl Fn(f64) -> f64,
    ) -> Result<()> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let std = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt();
        let (left, right) = (x - BAR / 2.0, x + BAR / 2.0);
        pen.fill((left, y(mean)), (right, y(0.0)), pale(color))?;
        // The edge that is the mean is seen also where the bar has no height.
        pen.fill((left, y(mean) - 1.5), (right, y(mean) + 1.0), color)?;
        if std > 0.0 {
            let [low, high] = [mean - std, mean + std].map(|end| y(end.clamp(0.0, 1.0)));
            pen.whisker(x, (low, high), 5.0, INK)?;
        }
        for (value, side) in values.iter().zip(spread(values, 2.0 * DOT / HEIGHT, 4)) {
            pen.dot((x + side * 2.2 * DOT, y(*value)), DOT, color)?;
        }
        Ok(())
    }
}

/// A colour mixed with white.
fn pale(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let mix = |channel: u8| (255.0 - 0.4 * (255.0 - f64::from(channel))) as u8;
    RGBColor(mix(red), mix(green), mix(blue))
}

/// Steps to the side for values that would hide each other, being less than `close` apart: 0, then
/// alternately right and left up to `most` / 2 steps.
pub(super) fn spread(values: &[f64], close: f64, most: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut sides = vec![0.0; values.len()];
    let offset = |turn: usize| (turn.div_ceil(2) as f64) * if turn % 2 == 1 { 1.0 } else { -1.0 };
    // The last value at each offset; the free one nearest to the middle is taken.
    let mut last = vec![f64::NEG_INFINITY; most + 1];
    for (index, row) in order.into_iter().enumerate() {
        let free = last.iter().position(|&value| values[row] - value >= close);
        let turn = free.unwrap_or(index % (most + 1));
        last[turn] = values[row];
        sides[row] = offset(turn);
    }
    sides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_would_hide_each_other_are_spread() {
        assert_eq!(spread(&[0.1, 0.5, 0.9], 0.02, 4), [0.0; 3]);
        assert_eq!(spread(&[1.0, 1.0, 0.5, 1.0], 0.02, 4), [0.0, 1.0, 0.0, -1.0]);
        assert_eq!(spread(&[0.0; 6], 0.02, 4), [0.0, 1.0, -1.0, 2.0, -2.0, 0.0].map(|x: f64| x));
    }

    #[test]
    fn a_group_has_one_chance() {
        assert_eq!(chance([f64::NAN].into_iter(), 8.0).unwrap(), None);
        assert_eq!(chance([0.25, 0.25].into_iter(), 8.0).unwrap(), Some(0.25));
        let message = chance([0.25, 0.5].into_iter(), 8.0).unwrap_err().to_string();
        assert!(message.contains("one value in group 8") && message.contains("0.5"), "{message}");
    }
}
