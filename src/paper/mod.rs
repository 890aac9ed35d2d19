//! Every figure of the paper from recorded results, each with where it came from.
//!
//! [`figures`] reads sweeps that were collected (the full ones where they are, else the small ones), draws
//! what it can, writes a page with caption, source and hash of each, and says which command makes what is
//! missing.

mod ablations;
mod draw;
mod language;
mod page;
mod repeat;
mod source;

pub use repeat::Repeat;
pub use source::{Recorded, Results, Source};

use crate::lambda::{LambdaConfig, LambdaKind};
use crate::model::{Model, ModelConfig, parameter_overhead};
use crate::{Result, frame, sweep};
use polars::prelude::DataFrame;
use std::path::{Path, PathBuf};

/// A figure that was drawn, or what it lacks.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of its files, without their endings.
    pub name: String,
    /// What it shows.
    pub caption: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// Drawn from files, or not drawn.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The files that were written, and the files that were read.
    Drawn(Vec<PathBuf>, Vec<Source>),
    /// What makes the input that is missing.
    Missing(String),
}

/// What [`figures`] made.
#[derive(Clone, Debug)]
pub struct Made {
    /// The figures, in the order of the page.
    pub entries: Vec<Entry>,
    /// The paper's claims.
    pub claims: Claims,
    /// Figures of the page that was there before which this one doesn't have: their files are no more.
    pub removed: Vec<String>,
}

/// The claims tables of recorded sweeps, see [`sweep::claims_table`].
#[derive(Clone, Debug)]
pub struct Claims {
    /// Every claim of the paper: what no recorded sweep of the paper's size tests is not tested.
    pub paper: DataFrame,
    /// Verdicts of small presets, which say nothing of the published sizes, and of other sweeps.
    pub others: DataFrame,
}

/// Draws every figure of the paper from the results at or below `from` into `out`, with a page
/// `README.md`; `arguments` are those of the command that the page says made it. Figures that only the page
/// before had are removed, so that the folder holds what the page says.
///
/// # Errors
///
/// If a result can't be read, a file can't be written, or `out` has a `README.md` of another kind. Missing
/// results are no error.
pub fn figures(from: &Path, out: &Path, arguments: &str) -> Result<Made> {
    let before = page::check_place(out)?;
    let results = Results::find(from)?;
    let mut entries = Vec::new();
    for drawing in draw::all(&results)? {
        let outcome = match drawing.figure {
            Ok((figure, sources)) => Outcome::Drawn(figure.save(out.join(&drawing.name))?, sources),
            Err(missing) => Outcome::Missing(missing),
        };
        entries.push(Entry { name: drawing.name, caption: drawing.caption, outcome });
    }
    let claims = claims(&results)?;
    page::write(&entries, &claims, &results, out, arguments)?;
    let drawn = |name: &String| {
        entries.iter().any(|entry| entry.name == *name && matches!(entry.outcome, Outcome::Drawn(..)))
    };
    let removed: Vec<String> = before.into_iter().filter(|name| !drawn(name)).collect();
    page::remove(out, &removed)?;
    Ok(Made { entries, claims, removed })
}

/// The claims of the presets and of all recorded sweeps, and those that no sweep tests.
///
/// # Errors
///
/// If a claim doesn't fit its results.
pub fn claims(results: &Results) -> Result<Claims> {
    let nothing = frame::collect(&[])?;
    let (mut paper, mut others, mut recorded_presets) = (Vec::new(), Vec::new(), Vec::new());
    for recorded in results.sweeps() {
        let sweep = recorded.folder.sweep();
        let table = sweep::claims_table(&recorded.collected, &sweep.claims)?;
        if recorded.is_preset()? && of_the_paper(&sweep.name) {
            recorded_presets.push(sweep.name.as_str());
            paper.push(table);
        } else {
            others.push(table);
        }
    }
    for name in sweep::preset_names().filter(|name| of_the_paper(name)) {
        if !recorded_presets.contains(&name) {
            paper.push(sweep::claims_table(&nothing, &sweep::preset(name)?.claims)?);
        }
    }
    for claim in sweep::claims_elsewhere()? {
        paper.push(match claim.id.as_str() {
            "overhead" => sweep::counted(&claim, overhead()?)?,
            _ => sweep::claims_table(&nothing, &[claim])?,
        });
    }
    let stack = |tables: Vec<DataFrame>| {
        let none = sweep::claims_table(&nothing, &[])?;
        tables.iter().try_fold(none, |all, table| Ok::<_, crate::Error>(all.vstack(table)?))
    };
    Ok(Claims { paper: stack(paper)?, others: stack(others)? })
}

/// End of the names of small presets.
const SMALL: &str = "-small";

/// Whether a preset has the paper's setting: small ones have other sizes, others another text.
fn of_the_paper(preset: &str) -> bool {
    ["paper/", "ablation/"].iter().any(|start| preset.starts_with(start)) && !preset.ends_with(SMALL)
}

/// Parameters in a million that MLP-λ of the paper's text has beyond Fixed λ, in its larger language model.
fn overhead() -> Result<f64> {
    let count = |kind| {
        let (language, lambda) = (ModelConfig::language(), LambdaConfig::text(kind));
        let model = Model::new(ModelConfig { d_model: 512, heads: 8, lambda, ..language })?;
        Ok::<_, crate::Error>(parameter_overhead(&model))
    };
    let (fixed, mlp) = (count(LambdaKind::Fixed)?, count(LambdaKind::MlpSoftplus)?);
    Ok((mlp.lambda - fixed.lambda) as f64 / mlp.total as f64 * 1e6)
}
