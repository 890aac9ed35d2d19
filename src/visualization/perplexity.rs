//! Perplexities by kind: ours, a dot a run, and published ones, a panel for each text and setting.
//!
//! No bars: what is to be seen are differences of a few per cent, which bars from 0 don't show and bars from
//! elsewhere exaggerate. Every axis spans the same ratio, so that equal distances are equal ratios.

use super::Figure;
use super::axis::drawable;
use super::figure::render;
use super::perplexity_panels::Perplexities;
use super::theme::kinds_among;
use crate::frame::{numbers, texts};
use crate::{Error, Result};
use polars::prelude::DataFrame;
use std::collections::BTreeMap;

/// The benchmark whose published values are perplexities, and how far ahead its target is.
const PUBLISHED: (&str, u64) = ("wikitext-103", 2);

/// Perplexity of each λ kind, a panel for each text, width, number of steps and target: a dot a run with the
/// mean and ± the population standard deviation, and the numbers below. Published perplexities (rows of
/// `wikitext-103` of [`frame::published`](crate::frame::published), whose target is t+2) are hollow diamonds;
/// a panel without runs of ours is grey and says that it is published.
///
/// The axes are logarithmic and don't start at 0; from bottom to top all have the same ratio.
///
/// Reads `kind`, `corpus`, `d_model`, `steps`, `target_offset` and `perplexity` of a frame of
/// [`runs`](crate::frame::runs), or of the [ended runs](crate::frame::ended_runs) of a collected one.
///
/// # Errors
///
/// If a frame lacks a column, or no row of `runs` has a finite perplexity.
pub fn perplexity_by_kind(runs: &DataFrame, published: Option<&DataFrame>) -> Result<Figure> {
    let mut found: BTreeMap<Setting, Vec<Value>> = BTreeMap::new();
    let (kinds, corpora) = (texts(runs, "kind")?, texts(runs, "corpus")?);
    let (widths, steps) = (numbers(runs, "d_model")?, numbers(runs, "steps")?);
    let (targets, values) = (numbers(runs, "target_offset")?, numbers(runs, "perplexity")?);
    for row in (0..kinds.len()).filter(|&row| values[row].is_finite()) {
        let [width, steps, target] = [widths[row], steps[row], targets[row]].map(|number| number as u64);
        let setting = Setting { only_published: false, corpus: corpora[row].clone(), target, width, steps };
        let value = Value { kind: kinds[row].clone(), value: values[row], published: false };
        found.entry(setting).or_default().push(value);
    }
    if found.is_empty() {
        let message = "there is nothing to draw: no run has a finite perplexity (of a text)";
        return Err(Error::Figure(message.to_owned()));
    }
    if let Some(frame) = published {
        let (benchmarks, kinds) = (texts(frame, "benchmark")?, texts(frame, "kind")?);
        let (widths, steps, values) =
            (numbers(frame, "d_model")?, numbers(frame, "steps")?, numbers(frame, "value")?);
        for row in (0..kinds.len()).filter(|&row| benchmarks[row] == PUBLISHED.0) {
            let (corpus, target) = (benchmarks[row].clone(), PUBLISHED.1);
            let (width, steps) = (widths[row] as u64, steps[row] as u64);
            // Beside ours where there are any of the same setting.
            let mut setting = Setting { only_published: false, corpus, target, width, steps };
            setting.only_published = !found.contains_key(&setting);
            let value = Value { kind: kinds[row].clone(), value: values[row], published: true };
            found.entry(setting).or_default().push(value);
        }
    }
    let kinds = kinds_among(found.values().flatten().map(|value| &value.kind));
    let kinds: Vec<String> = kinds.into_iter().map(str::to_owned).collect();
    for value in found.values().flatten() {
        drawable("perplexity", 0.0, value.value)?;
    }
    let panels = found.into_iter().map(|(setting, values)| Panel::new(setting, &values, &kinds)).collect();
    render(&Perplexities::new(kinds, panels))
}

/// One perplexity.
struct Value {
    kind: String,
    value: f64,
    published: bool,
}

/// What the perplexities of one panel have in common; panels lie in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Setting {
    /// Whether there is nothing of ours.
    pub(super) only_published: bool,
    corpus: String,
    target: u64,
    width: u64,
    steps: u64,
}

impl Setting {
    /// Two lines of a panel's title.
    pub(super) fn title(&self) -> [String; 2] {
        let corpus = match self.corpus.as_str() {
            "wikitext-2" => "WikiText-2",
            "wikitext-103" => "WikiText-103",
            other => other,
        };
        let whose = if self.only_published { ", published" } else { "" };
        [
            format!("{corpus}{whose}"),
            format!("d = {}, {} steps, target t+{}", self.width, self.steps, self.target),
        ]
    }
}

/// Perplexities of one setting.
pub(super) struct Panel {
    pub(super) setting: Setting,
    /// By kind.
    pub(super) ours: Vec<Vec<f64>>,
    /// By kind.
    pub(super) published: Vec<Vec<f64>>,
}

impl Panel {
    fn new(setting: Setting, values: &[Value], kinds: &[String]) -> Self {
        let of = |kind: &String, published: bool| {
            let same = values.iter().filter(|one| one.kind == *kind && one.published == published);
            same.map(|one| one.value).collect()
        };
        Self {
            setting,
            ours: kinds.iter().map(|kind| of(kind, false)).collect(),
            published: kinds.iter().map(|kind| of(kind, true)).collect(),
        }
    }

    /// Natural logarithms of the least and the largest number that is drawn.
    pub(super) fn ends(&self) -> (f64, f64) {
        let numbers = self.ours.iter().chain(&self.published).filter(|values| !values.is_empty());
        let ends = numbers.flat_map(|values| {
            let (mean, std) = mean_std(values);
            [mean - std, mean + std].into_iter().chain(values.iter().copied())
        });
        let logarithms: Vec<f64> = ends.filter(|end| *end > 0.0).map(f64::ln).collect();
        let least = logarithms.iter().copied().fold(f64::INFINITY, f64::min);
        (least, logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    }
}

/// Mean and population standard deviation.
pub(super) fn mean_std(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt())
}
