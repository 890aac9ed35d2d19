//! λ on a text as a picture: level × token, one layer and head of one run.

use super::Figure;
use super::axis::drawable;
use super::cells::{Cells, Columns, Map, cells, color, color_bar, empty_entry, indices};
use super::figure::{Draw, render};
use super::pen::Pen;
use super::theme::{GREY, Theme, kind_label, title_width};
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend};
use plotters::style::text_anchor::HPos;
use polars::prelude::DataFrame;
use std::ops::Range;

/// Most positions of one picture: more have no room for their text.
const MOST: usize = 80;

/// What [`text_heatmap`] shows of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextHeatmap<'a> {
    /// Name of the run.
    pub run: &'a str,
    /// Layer, from 0.
    pub layer: usize,
    /// Head, from 0.
    pub head: usize,
    /// Sequence, from 0.
    pub sequence: usize,
    /// Positions, at most 80.
    pub positions: Range<usize>,
    /// Which cells have a colour.
    pub cells: Cells,
}

/// λ at some positions of a text: level 0 on top, a column a token with its text below, viridis from 0 to
/// the largest λ that is drawn. Levels that hold nothing at all of these positions are left out unless
/// [`Cells::All`] asks for them.
///
/// A space is written `·`, a character that our font lacks as `\u{…}`, a control character as `\n` and the
/// like. Long tokens are cut.
///
/// Reads columns of [`capture_lambda`](crate::frame::capture_lambda) and `text`, what each token stands for
/// ([`with_text`](crate::frame::with_text)).
///
/// # Errors
///
/// If the frame lacks a column or has no such rows, there are no positions or more than 80, or λ is not
/// finite.
pub fn text_heatmap(lambda: &DataFrame, which: &TextHeatmap<'_>) -> Result<Figure> {
    if !(1..=MOST).contains(&which.positions.len()) {
        let expected = format!("1 to {MOST} positions");
        return Err(Error::value("positions", expected, format!("{:?}", which.positions)));
    }
    let (runs, kinds, words) = (texts(lambda, "run")?, texts(lambda, "kind")?, texts(lambda, "text")?);
    let (layers, heads) = (indices(lambda, "layer")?, indices(lambda, "head")?);
    let (sequences, places) = (numbers(lambda, "sequence")?, indices(lambda, "position")?);
    let wanted = |&row: &usize| {
        runs[row] == which.run
            && (layers[row], heads[row]) == (which.layer, which.head)
            && sequences[row] == which.sequence as f64
            && which.positions.contains(&places[row])
    };
    let rows: Vec<usize> = (0..runs.len()).filter(wanted).collect();
    let mut tokens = vec![None; which.positions.len()];
    for &row in &rows {
        tokens[places[row] - which.positions.start] = Some(shown(&words[row]));
    }
    let TextHeatmap { run, layer, head, sequence, positions, .. } = which;
    let place =
        format!("layer {layer}, head {head}, sequence {sequence}, positions {positions:?} of run `{run}`");
    let Some(tokens) = tokens.into_iter().collect::<Option<Vec<String>>>() else {
        return Err(Error::Figure(format!("the frame has no λ, or not all, of {place}")));
    };
    let mut map = Columns::read(lambda, which.cells)?.map(&rows).part(positions.clone());
    if which.cells == Cells::Present {
        map.trim();
    }
    let largest = map.largest();
    drawable("λ", 0.0, largest)?;
    render(&Heatmap {
        title: format!("λ of {} on a text — {run}", kind_label(&kinds[rows[0]])),
        subtitle: format!(
            "layer {layer}, head {head}; sequence {sequence}, positions {} to {}",
            positions.start,
            positions.end - 1
        ),
        map,
        tokens,
        largest: largest.max(1e-9),
    })
}

/// Most characters of a token below its column.
const LONGEST: usize = 14;

/// A token as it is drawn.
fn shown(text: &str) -> String {
    let letter = |letter: char| match letter {
        ' ' => "·".to_owned(),
        '\n' | '\t' | '\r' => letter.escape_default().to_string(),
        letter if in_font(letter) => letter.to_string(),
        letter => letter.escape_unicode().to_string(),
    };
    let all: String = text.chars().map(letter).collect();
    if all.chars().count() <= LONGEST {
        return all;
    }
    all.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// Whether our font has a visible glyph of a character: Latin, Greek, punctuation.
fn in_font(letter: char) -> bool {
    matches!(letter, '!'..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{ff}' | 'Α'..='Ρ' | 'Σ'..='ώ'
        | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{203a}' | '←'..='↔' | '\u{2200}'..='\u{2265}')
}

struct Heatmap {
    title: String,
    subtitle: String,
    map: Map,
    /// By position.
    tokens: Vec<String>,
    largest: f64,
}

const LEFT: f64 = 52.0;
const TOP: f64 = 62.0;
/// Width of a column, which a line of turned text fits, and height of a row.
const COLUMN: f64 = 14.5;
const ROW: f64 = 20.0;
/// Width right of the cells: the colour bar and its labels.
const BAR: f64 = 88.0;
/// Width of a character of a token.
const LETTER: f64 = 6.6;

impl Heatmap {
    fn plot(&self) -> (f64, f64) {
        (COLUMN * self.map.width as f64, ROW * self.map.height as f64)
    }

    /// Height of the turned tokens.
    fn words(&self) -> f64 {
        let longest = self.tokens.iter().map(|token| token.chars().count()).max().unwrap_or(0);
        8.0 + LETTER * longest as f64
    }
}

impl Draw for Heatmap {
    fn size(&self) -> (u32, u32) {
        let (width, height) = self.plot();
        let titles = title_width(&self.title).max(title_width(&self.subtitle) + 160.0);
        ((LEFT + (width + BAR).max(titles)) as u32, (TOP + height + self.words() + 26.0) as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()> {
        let pen = Pen { area, theme };
        pen.text(&self.title, (LEFT, 20.0), theme.bold(15.0), HPos::Left)?;
        pen.text(&self.subtitle, (LEFT, 42.0), theme.text(12.0), HPos::Left)?;
        let (width, height) = self.plot();
        let (right, bottom) = (LEFT + width, TOP + height);
        for (level, values) in self.map.values.chunks(self.map.width).enumerate() {
            let top = TOP + ROW * level as f64;
            let colors: Vec<_> = values.iter().map(|&value| color(value, self.largest)).collect();
            cells(&pen, &colors, (LEFT, top), (COLUMN, ROW))?;
            pen.text(&level.to_string(), (LEFT - 8.0, top + ROW / 2.0), theme.text(11.0), HPos::Right)?;
        }
        pen.vertical("level", (18.0, (TOP + bottom) / 2.0), theme.text(12.0))?;
        for (index, token) in self.tokens.iter().enumerate() {
            let x = LEFT + COLUMN * (index as f64 + 0.5);
            pen.line((x, bottom), (x, bottom + 4.0), GREY)?;
            pen.upwards(token, (x, bottom + 8.0), theme.text(11.0))?;
        }
        let middle = (LEFT + width / 2.0, bottom + self.words() + 12.0);
        pen.text("token (· is a space)", middle, theme.text(12.0), HPos::Center)?;
        let bar = (right + 20.0, right + 34.0);
        color_bar(&pen, self.largest, bar, (TOP + 8.0, bottom), 11.0)?;
        pen.text("λ", ((bar.0 + bar.1) / 2.0, TOP - 4.0), theme.text(12.0), HPos::Center)?;
        if self.map.has_empty() {
            let after = LEFT + 7.0 * self.subtitle.chars().count() as f64;
            empty_entry(&pen, (after.max(right - 160.0), 36.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_drawn_with_glyphs_that_the_font_has() {
        let texts = [" the", "\n", "λ", "日本", "Valkyria", " antidisestablishmentarianism", "é"].map(shown);
        let expected = ["·the", "\\n", "λ", "\\u{65e5}\\u{67…", "Valkyria", "·antidisestab…", "é"];
        assert_eq!(texts, expected);
    }
}
