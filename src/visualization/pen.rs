//! Shapes and text at places given in SVG units, for figures that are laid out by hand.

use super::figure::failed;
use super::theme::{INK, Theme};
use crate::Result;
use plotters::coord::Shift;
use plotters::prelude::{
    Circle, Color, DrawingArea, DrawingBackend, PathElement, Polygon, RGBColor, Rectangle, Text, WHITE,
};
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

    /// A line of some width through points.
    pub(super) fn path(&self, points: &[(f64, f64)], width: f64, color: RGBColor) -> Result<()> {
        let points: Vec<_> = points.iter().map(|&point| self.at(point)).collect();
        let stroke = color.stroke_width(self.theme.upx(width));
        self.area.draw(&PathElement::new(points, stroke)).map_err(failed)
    }

    /// A line of dashes, horizontal or vertical.
    pub(super) fn dashes(&self, from: (f64, f64), to: (f64, f64), color: RGBColor) -> Result<()> {
        const PERIOD: f64 = 7.0;
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let along = |distance: f64| {
            let share = (distance / length).min(1.0);
            (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1))
        };
        let dash = |index: usize| {
            let start = index as f64 * PERIOD;
            self.line(along(start), along(start + 0.6 * PERIOD), color)
        };
        (0..(length / PERIOD).ceil() as usize).try_for_each(dash)
    }

    /// A vertical line from `ends.0` to `ends.1` with caps that reach `cap` to both sides.
    pub(super) fn whisker(&self, x: f64, ends: (f64, f64), cap: f64, color: RGBColor) -> Result<()> {
        self.line((x, ends.0), (x, ends.1), color)?;
        [ends.0, ends.1].into_iter().try_for_each(|y| self.line((x - cap, y), (x + cap, y), color))
    }

    /// A disc with a white edge, which tells it apart from others of its colour below.
    pub(super) fn dot(&self, at: (f64, f64), radius: f64, color: RGBColor) -> Result<()> {
        for (radius, color) in [(radius + 0.75, WHITE), (radius, color)] {
            let disc = Circle::new(self.at(at), self.theme.px(radius), color.filled());
            self.area.draw(&disc).map_err(failed)?;
        }
        Ok(())
    }

    /// A hollow diamond, or one with a dot in it.
    pub(super) fn diamond(&self, (x, y): (f64, f64), color: RGBColor, dot: bool) -> Result<()> {
        // Filled shapes: a stroke around so small a shape has uneven edges in pixels.
        for (reach, color) in [(6.5, WHITE), (5.5, color), (3.5, WHITE)] {
            let corners = [(x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y)];
            let corners: Vec<_> = corners.into_iter().map(|corner| self.at(corner)).collect();
            self.area.draw(&Polygon::new(corners, color)).map_err(failed)?;
        }
        if dot {
            let center = Circle::new(self.at((x, y)), self.theme.px(1.5), color.filled());
            self.area.draw(&center).map_err(failed)?;
        }
        Ok(())
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

    /// Text read upwards that ends below `at`.
    pub(super) fn upwards(&self, text: &str, at: (f64, f64), style: TextStyle<'static>) -> Result<()> {
        self.text(text, at, style.transform(FontTransform::Rotate270), HPos::Right)
    }

    /// Text read upwards, centred at `at`.
    pub(super) fn vertical(&self, text: &str, at: (f64, f64), style: TextStyle<'static>) -> Result<()> {
        let turned = style.transform(FontTransform::Rotate270).color(&INK);
        self.text(text, at, turned, HPos::Center)
    }
}
