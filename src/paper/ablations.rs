//! What each difference between text and release does.

use super::draw::{Drawing, distinct, missing, size, with};
use super::source::{Recorded, Results};
use crate::Result;
use crate::frame::{axis_effects, best_less_last, numbers};
use crate::visualization::effects;
use polars::prelude::{DataFrame, IntoLazy, LazyFrame, col, lit};

/// What each difference between text and release does.
pub(super) fn ablations(results: &Results) -> Result<Drawing> {
    let (name, caption) = (
        "ablations",
        "What each difference between text and release does to the best validation \
         accuracy (to the reported one where it says so): mean difference over seeds with a 95 % bootstrap interval.",
    );
    let points = [
        ("ablation/activation", "activation", "activation: GELU (release) instead of none (text)"),
        ("ablation/width", "hidden", "hidden width: 64 (release) instead of 2L (text)"),
        ("ablation/init", "init", "start: redrawn weights (release) instead of W2 = 0 (text)"),
    ];
    let mut rows: Vec<LazyFrame> = Vec::new();
    let (mut read, mut same): (Vec<&Recorded>, String) = Default::default();
    let shown = |frame: DataFrame, label: &str, setting: &str| {
        let columns = ["kind", "mean", "low", "high", "n"].map(col);
        let label = lit(format!("{label}{setting}")).alias("label");
        frame.lazy().select([vec![label], columns.to_vec()].concat())
    };
    for (preset, axis, label) in points {
        let Some(recorded) = results.preset(preset)? else { continue };
        let found = axis_effects(&recorded.collected, "best_accuracy")?.frame;
        rows.push(shown(with(&found, col("axis").eq(lit(axis)))?, label, &setting(recorded)?));
        read.push(recorded);
    }
    if let Some(recorded) = results.preset("ablation/best-vs-last")? {
        let found = axis_effects(&recorded.collected, "accuracy")?.frame;
        let stop = with(&found, col("axis").eq(lit("target")))?;
        let setting = setting(recorded)?;
        // Runs that never reach 99 % are the same runs: no row of noughts for them.
        if numbers(&stop, "low")?.iter().chain(&numbers(&stop, "high")?).all(|&end| end == 0.0) {
            same = format!(
                " Stopping at 99 % changes nothing here, as no run reaches that before its end{setting}."
            );
        } else {
            rows.push(shown(
                stop,
                "last accuracy: stop at 99 % (release) instead of all steps (text)",
                &setting,
            ));
        }
        let whole = with(&recorded.collected, col("target").eq(lit(0.0)))?;
        let best = best_less_last(&whole)?.frame;
        rows.push(shown(best, "all steps: best accuracy (release) instead of last (text)", &setting));
        read.push(recorded);
    }
    let Some(first) = rows.first().cloned() else { return Ok(missing(name, caption, "ablation/activation")) };
    let mut frame = first.collect()?;
    for other in rows.into_iter().skip(1) {
        frame = frame.vstack(&other.collect()?)?;
    }
    let figure = effects(&frame, "What the differences between text and release do")?;
    let others = read.iter().filter(|recorded| !size(recorded).is_empty());
    let others: Vec<&str> = others.map(|recorded| recorded.folder.sweep().name.as_str()).collect();
    let others = match others.len() {
        0 => String::new(),
        _ => format!(" Of other sizes than the published ones: {}.", others.join(", ")),
    };
    let sources = read.iter().map(|recorded| recorded.source.clone()).collect();
    Ok(Drawing {
        name: name.to_owned(),
        caption: format!("{caption}{others}{same}"),
        figure: Ok((figure, sources)),
    })
}

/// k and T of a sweep that has one of each, to stand behind a label.
fn setting(recorded: &Recorded) -> Result<String> {
    let [pairs, lengths] =
        [distinct(&recorded.collected, "pairs")?, distinct(&recorded.collected, "seq_len")?];
    Ok(match (&pairs[..], &lengths[..]) {
        ([pairs], [length]) => format!("; k\u{a0}=\u{a0}{pairs}, T\u{a0}=\u{a0}{length}"),
        _ => String::new(),
    })
}
