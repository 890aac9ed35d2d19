//! Every figure of the paper from recorded results, each with where it came from.
//!
//! [`figures`] reads sweeps that were collected (the full ones where they are, else the small ones), draws
//! what it can, writes a page with caption, source and hash of each, and says which command makes what is
//! missing.

mod draw;
mod page;
mod source;

pub use source::{Recorded, Results, Source};

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

/// Draws every figure of the paper from the results at or below `from` into `out`, with a page
/// `README.md`; `command` is what the page says made it. Returns the figures and the claims table.
///
/// # Errors
///
/// If a result can't be read, or a file can't be written. Missing results are no error.
pub fn figures(from: &Path, out: &Path, command: &str) -> Result<(Vec<Entry>, DataFrame)> {
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
    page::write(&entries, &claims, &results, out, command)?;
    Ok((entries, claims))
}

/// The claims of all recorded sweeps, and those that no sweep tests.
///
/// # Errors
///
/// If a claim doesn't fit its results.
pub fn claims(results: &Results) -> Result<DataFrame> {
    let elsewhere = sweep::claims_table(&frame::collect(&[])?, &sweep::claims_elsewhere()?)?;
    let tables = results
        .sweeps()
        .map(|recorded| sweep::claims_table(&recorded.collected, &recorded.folder.sweep().claims));
    tables
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .chain([elsewhere])
        .try_fold(None::<DataFrame>, |all, table| match all {
            None => Ok(Some(table)),
            Some(all) => Ok(Some(all.vstack(&table)?)),
        })
        .map(Option::unwrap_or_default)
}
