//! Learning curves: one plot, or one for each setting.

use super::Figure;
use super::band::{BandChart, Plot};
use super::coordinates::{Horizontal, Vertical};
use super::each::Each;
use super::figure::render;
use super::kinds::{by_kind_with, one_setting, one_text, values_per_point};
use crate::Result;
use crate::frame::{numbers, texts};
use polars::prelude::DataFrame;
use std::collections::BTreeMap;

/// What a learning curve shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Validation accuracy.
    Accuracy,
    /// Training loss.
    TrainLoss,
    /// Validation loss.
    ValidationLoss,
    /// Validation perplexity of runs on a text.
    Perplexity,
}

impl Quantity {
    fn column(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::TrainLoss => "train_loss",
            Self::ValidationLoss => "validation_loss",
            Self::Perplexity => "perplexity",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Accuracy => "Validation accuracy",
            Self::TrainLoss => "Training loss",
            Self::ValidationLoss => "Validation loss",
            Self::Perplexity => "Validation perplexity",
        }
    }

    /// Title of curves with bands.
    fn with_bands(self) -> String {
        let of = if self == Self::Perplexity { ", of its logarithm" } else { "" };
        format!("{} (mean ± std over runs{of})", self.title())
    }
}

/// Mean ± standard deviation over runs against the training step, one line a kind, from a frame of
/// evaluations. Where some runs stopped early, a point is over the runs that were evaluated there,
/// with the last value of those that had stopped.
///
/// # Errors
///
/// If the frame is empty, lacks a column, or its runs differ in task, length, pairs, text or target.
pub fn learning_curves(evaluations: &DataFrame, quantity: Quantity) -> Result<Figure> {
    let curves = Curves::read(evaluations, quantity)?;
    one_setting(evaluations, &["task", "seq_len", "pairs"])?;
    one_text(evaluations)?;
    let plot = curves.plot(&(0..curves.kinds.len()).collect::<Vec<_>>())?;
    render(&BandChart { title: quantity.with_bands(), plot })
}

/// Columns of a frame of evaluations.
#[derive(Clone)]
pub(super) struct Curves {
    quantity: Quantity,
    steps: Vec<f64>,
    /// Of perplexities their base-10 logarithms.
    values: Vec<f64>,
    runs: Vec<String>,
    pub(super) kinds: Vec<String>,
}

impl Curves {
    pub(super) fn read(evaluations: &DataFrame, quantity: Quantity) -> Result<Self> {
        let steps = numbers(evaluations, "step")?;
        let mut values = numbers(evaluations, quantity.column())?;
        if quantity == Quantity::Perplexity {
            values.iter_mut().for_each(|value| *value = value.log10());
        }
        Ok(Self {
            quantity,
            steps,
            values,
            runs: texts(evaluations, "run")?,
            kinds: texts(evaluations, "kind")?,
        })
    }

    /// Values less those of a kind at the same step and of the same seed (a number a row); without such a kind, or a pair
    /// of another one with it, or with several runs of it that have one seed, none.
    pub(super) fn less(&self, seeds: &[f64], kind: &str) -> Option<Self> {
        let mut subtrahends: BTreeMap<(u64, u64), f64> = BTreeMap::new();
        let key = |row: usize| (seeds[row].to_bits(), self.steps[row].to_bits());
        for row in (0..self.kinds.len()).filter(|&row| self.kinds[row] == kind) {
            if subtrahends.insert(key(row), self.values[row]).is_some() {
                return None;
            }
        }
        let (mut less, mut pairs) = (self.clone(), 0);
        for row in 0..self.kinds.len() {
            let subtrahend = subtrahends.get(&key(row)).copied();
            less.values[row] -= subtrahend.unwrap_or(f64::NAN);
            pairs += usize::from(self.kinds[row] != kind && less.values[row].is_finite());
        }
        (pairs > 0).then_some(less)
    }

    /// Curves of some rows, one a kind; a kind has the same colour whichever rows they are.
    pub(super) fn plot(&self, rows: &[usize]) -> Result<Plot> {
        self.plot_with(rows, |_| Each::Band)
    }

    /// [`plot`](Self::plot) with a thin line a run, up to its last evaluation, instead of bands.
    pub(super) fn plot_with_runs(&self, rows: &[usize]) -> Result<Plot> {
        self.plot_with(rows, |kind| Each::Runs(self.runs(rows, kind)))
    }

    fn plot_with(&self, rows: &[usize], each: impl Fn(&str) -> Each) -> Result<Plot> {
        let (y_label, y) = match self.quantity {
            Quantity::Accuracy => ("accuracy", Vertical::Share),
            Quantity::TrainLoss | Quantity::ValidationLoss => ("cross-entropy (nats)", Vertical::Amount),
            Quantity::Perplexity => ("perplexity", Vertical::Logarithm),
        };
        Ok(Plot {
            x_label: "training step".to_owned(),
            y_label: y_label.to_owned(),
            x: Horizontal::Steps,
            y,
            lines: by_kind_with(&self.kinds, values_per_point, |kind| self.along(rows, kind), each)?,
            published: Vec::new(),
            rule: None,
        })
    }

    /// (step, value) of every evaluation of a kind, run by run.
    fn runs(&self, rows: &[usize], kind: &str) -> Vec<Vec<(f64, f64)>> {
        let mut runs: BTreeMap<&String, Vec<(f64, f64)>> = BTreeMap::new();
        for &row in rows.iter().filter(|&&row| self.kinds[row] == kind && self.values[row].is_finite()) {
            runs.entry(&self.runs[row]).or_default().push((self.steps[row], self.values[row]));
        }
        runs.into_values().collect()
    }

    /// (step, value) of every run of a kind at every step at which one of them was evaluated.
    pub(super) fn along(&self, rows: &[usize], kind: &str) -> Vec<(f64, f64)> {
        let rows: Vec<usize> = rows.iter().copied().filter(|&row| self.kinds[row] == kind).collect();
        let mut grid: Vec<f64> = rows.iter().map(|&row| self.steps[row]).collect();
        grid.sort_by(f64::total_cmp);
        grid.dedup();
        let mut names: Vec<&String> = rows.iter().map(|&row| &self.runs[row]).collect();
        names.sort();
        names.dedup();
        let mut pairs = Vec::new();
        for name in names {
            let run: Vec<usize> = rows.iter().copied().filter(|&row| self.runs[row] == *name).collect();
            for &step in &grid {
                let at = run.iter().rev().find(|&&row| self.steps[row] <= step);
                pairs.extend(at.map(|&row| (step, self.values[row])));
            }
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_s_values_are_taken_from_those_of_the_same_seed_and_step() {
        let text = |values: [&str; 5]| values.map(str::to_owned).to_vec();
        let curves = Curves {
            quantity: Quantity::ValidationLoss,
            steps: vec![1.0, 2.0, 1.0, 2.0, 1.0],
            values: vec![5.0, 4.0, 4.5, 4.25, 3.0],
            runs: text(["a", "a", "b", "b", "c"]),
            kinds: text(["fixed", "fixed", "mlp-softplus", "mlp-softplus", "mlp-softplus"]),
        };
        let less = curves.less(&[0.0, 0.0, 0.0, 0.0, 1.0], "fixed").unwrap();
        assert_eq!(less.values[..4], [0.0, 0.0, -0.5, 0.25]);
        assert!(less.values[4].is_nan(), "no run of the kind has this seed");
        assert!(curves.less(&[0.0, 0.0, 1.0, 1.0, 1.0], "fixed").is_none());
        assert!(curves.less(&[0.0; 5], "mlp-softplus").is_none(), "two runs of seed 0");
    }
}
