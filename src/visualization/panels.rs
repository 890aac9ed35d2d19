//! Different plots side by side, each with axes of its own, under one title and one legend.

use super::band::{Plot, Room, y_range};
use super::figure::Draw;
use super::legend::{Entry, Legend};
use super::pen::Pen;
use super::theme::{Theme, title_width};
use crate::Result;
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend};
use plotters::style::text_anchor::HPos;

/// Plots with their titles.
pub(super) struct Panels {
    pub(super) title: String,
    pub(super) entries: Vec<Entry>,
    pub(super) panels: Vec<(String, Plot)>,
}

const LEFT: f64 = 70.0;
const PANEL: (f64, f64) = (460.0, 340.0);
/// Height of a panel's title.
const TITLE: f64 = 26.0;

impl Panels {
    fn width(&self) -> f64 {
        (PANEL.0 * self.panels.len() as f64).max(LEFT + title_width(&self.title))
    }

    fn legend(&self) -> Legend {
        Legend { entries: self.entries.clone(), left: LEFT, right: self.width() }
    }
}

impl Draw for Panels {
    fn size(&self) -> (u32, u32) {
        (self.width() as u32, (self.legend().bottom() + PANEL.1) as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()> {
        let pen = Pen { area, theme };
        pen.text(&self.title, (LEFT, 24.0), theme.bold(15.0), HPos::Left)?;
        let legend = self.legend();
        legend.draw(&pen)?;
        let top = legend.bottom();
        let room =
            Room { margin: 8.0, right: 22.0, labels: (42.0, 62.0), named: true, ticks: (8, 7), text: 11.5 };
        for (index, (title, plot)) in self.panels.iter().enumerate() {
            let left = PANEL.0 * index as f64;
            pen.text(title, (left + LEFT, top + 15.0), theme.bold(12.0), HPos::Left)?;
            let corner = (theme.px(left), theme.px(top + TITLE));
            let size = (theme.upx(PANEL.0), theme.upx(PANEL.1 - TITLE));
            let y = y_range(std::iter::once(plot))?;
            plot.draw(&area.clone().shrink(corner, size), theme, &room, y)?;
        }
        Ok(())
    }
}
