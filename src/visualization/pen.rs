//! Shapes and text at places given in SVG units, for figures that are laid out by hand.

use super::figure::failed;
use super::theme::{INK, Theme};
use crate::Result;
use plotters::coord::Shift;
use plotters::prelude::{Color, DrawingArea, DrawingBackend, PathElement, RGBColor, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontTransform, TextStyle};

/// Draws in SVG units.
pub(super) struct Pen<'a, DB: DrawingBackend> {
    pub(super) area: &'a DrawingArea<DB, Shift>,
    pub(super) theme: Theme,
}

impl<DB: DrawingBackend> Pen<'_, DB> {
    fn at(&self, (x, y): (f64, f64)) -> (i32, i32) {
        (self.theme.px(x), self.theme.px(y))
    }

    pub(super) fn fill(&self, from: (f64, f64), to: (f64, f64), color: RGBColor) -> Result<()> {
        let ((x0, y0), (x1, y1)) = (self.at(from), self.at(to));
        let corners = [(x0, y0), (x1.max(x0 + 1), y1.max(y0 + 1))];
        self.area.draw(&Rectangle::new(corners, color.filled())).map_err(failed)
    }

    pub(super) fn frame(&self, from: (f64, f64), to: (f64, f64), color: RGBColor) -> Result<()> {
        let corners = [self.at(from), self.at(to)];
        self.area.draw(&Rectangle::new(corners, color.stroke_width(self.theme.upx(1.0)))).map_err(failed)
    }

    pub(super) fn line(&self, from: (f64, f64), to: (f64, f64), color: RGBColor) -> Result<()> {
        let ends = [self.at(from), self.at(to)];
        self.area.draw(&PathElement::new(ends, color.stroke_width(self.theme.upx(1.0)))).map_err(failed)
    }

    /// Text whose vertical middle is at `at`.
    pub(super) fn text(
        &self,
        text: &str,
        at: (f64, f64),
        style: TextStyle<'static>,
        anchor: HPos,
    ) -> Result<()> {
        let style = style.pos(Pos::new(anchor, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), self.at(at), style)).map_err(failed)
    }

    /// Text read upwards, centred at `at`.
    pub(super) fn vertical(&self, text: &str, at: (f64, f64), style: TextStyle<'static>) -> Result<()> {
        let turned = style.transform(FontTransform::Rotate270).color(&INK);
        self.text(text, at, turned, HPos::Center)
    }
}
