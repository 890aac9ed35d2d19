//! Published numbers as marks in a plot of ours: hollow diamonds, which nobody takes for a run.

use super::legend::{Entry, Mark};
use super::pen::Pen;
use super::theme::kind_color;
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use plotters::prelude::{DrawingBackend, RGBColor};
use polars::prelude::DataFrame;

/// One published accuracy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Published {
    pub(super) kind: String,
    /// Its kind's.
    pub(super) color: RGBColor,
    pub(super) x: f64,
    pub(super) value: f64,
    /// Standard deviation, 0 if none was given.
    pub(super) std: f64,
    /// Whether it is of a figure of the release, not of the paper's text.
    pub(super) release: bool,
}

impl Published {
    /// Draws it at `x` with its whisker; `y` is the height at which an accuracy lies.
    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        pen: &Pen<'_, DB>,
        x: f64,
        y: impl Fn(f64) -> f64,
    ) -> Result<()> {
        if self.std > 0.0 {
            let [low, high] =
                [self.value - self.std, self.value + self.std].map(|end| y(end.clamp(0.0, 1.0)));
            pen.whisker(x, (low, high), 2.5, self.color)?;
        }
        pen.diamond((x, y(self.value)), self.color, self.release)
    }
}

/// Rows of a frame of published figures that have the column `x`, or none if there is no frame; `kinds`
/// are those of the figure, which settle the colours.
pub(super) fn published(frame: Option<&DataFrame>, x: &str, kinds: &[&str]) -> Result<Vec<Published>> {
    let Some(frame) = frame else { return Ok(Vec::new()) };
    let (names, sources) = (texts(frame, "kind")?, texts(frame, "source")?);
    let (places, values, stds) = (numbers(frame, x)?, numbers(frame, "value")?, numbers(frame, "std")?);
    let rows = (0..names.len()).filter(|&row| places[row].is_finite() && values[row].is_finite());
    let one = |row: usize| {
        let value = values[row];
        if !(0.0..=1.0).contains(&value) {
            let message =
                format!("a published accuracy must be a share of 0 to 1, found {value}: choose rows");
            return Err(Error::Figure(message));
        }
        let std = if stds[row].is_finite() { stds[row] } else { 0.0 };
        let release = sources[row] == "release";
        let index = kinds.iter().position(|&kind| kind == names[row]);
        let color = kind_color(&names[row], index.unwrap_or(kinds.len()));
        Ok(Published { kind: names[row].clone(), color, x: places[row], value, std, release })
    };
    rows.map(one).collect()
}

/// Entries of the legend: one for each source.
pub(super) fn entries(published: &[Published]) -> Vec<Entry> {
    let sources = [(false, "published (paper)"), (true, "published (release figure)")];
    let present = sources.into_iter().filter(|(dot, _)| published.iter().any(|one| one.release == *dot));
    present.map(|(dot, label)| Entry { mark: Mark::Diamond { dot }, label: label.to_owned() }).collect()
}

/// How far each lies beside its x, in steps: those of one x alternate to the right and to the left, so
/// that neither they nor the point of ours at x are hidden.
pub(super) fn sides(published: &[Published]) -> Vec<f64> {
    let earlier = |index: usize| {
        let same = published[..index].iter().filter(|other| other.x == published[index].x).count();
        let step = (same / 2 + 1) as f64;
        if same % 2 == 0 { step } else { -step }
    };
    (0..published.len()).map(earlier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visualization::theme::GREY;
    use polars::prelude::df;

    #[test]
    fn marks_of_one_x_lie_beside_each_other() {
        let at =
            |x: f64| Published { kind: "fixed".into(), color: GREY, x, value: 0.5, std: 0.0, release: false };
        assert_eq!(sides(&[at(8.0), at(8.0), at(16.0), at(8.0)]), [1.0, -1.0, 1.0, 2.0]);
    }

    #[test]
    fn rows_without_x_are_left_out_and_perplexities_refused() {
        let frame = df!("kind" => ["fixed", "fixed"], "source" => ["paper", "release"],
            "pairs" => [Some(8_u32), None], "value" => [0.5, 224.7], "std" => [None, Some(0.1)])
        .unwrap();
        let read = published(Some(&frame), "pairs", &["fixed"]).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].std, read[0].release), (0.0, false));
        let message = published(Some(&frame.tail(Some(1))), "std", &["fixed"]).unwrap_err().to_string();
        assert!(message.contains("share") && message.contains("224.7"), "{message}");
        assert!(published(None, "pairs", &["fixed"]).unwrap().is_empty());
    }
}
