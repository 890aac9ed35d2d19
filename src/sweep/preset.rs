//! Sweeps that are checked in: the paper's and its ablations, each also small enough for a CPU.

use super::{Claim, Sweep};
use crate::{Error, Result};

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each preset.
        const PRESETS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../presets/", $name, ".toml"))),)*
        ];
    };
}

presets![
    "paper/mqar",
    "paper/mqar-small",
    "paper/mqar-128",
    "paper/mqar-128-small",
    "paper/length-generalisation",
    "paper/length-generalisation-small",
    "paper/selective-copying",
    "paper/selective-copying-small",
    "paper/induction",
    "paper/induction-small",
    "ablation/activation",
    "ablation/activation-small",
    "ablation/width",
    "ablation/width-small",
    "ablation/init",
    "ablation/init-small",
    "ablation/best-vs-last",
    "ablation/best-vs-last-small",
    "tiny",
    "wikitext-2",
    "paper/wikitext-103",
];

/// Names of all presets.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|&(name, _)| name)
}

/// A preset by its name.
///
/// # Errors
///
/// If there is none of that name.
pub fn preset(name: &str) -> Result<Sweep> {
    match PRESETS.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Sweep::parse(text),
        None => {
            let expected = format!("one of {}", preset_names().collect::<Vec<_>>().join(", "));
            Err(Error::value("preset", expected, format!("`{name}`")))
        }
    }
}

/// Claims of the paper that no run can test, with the reason: they are decided by counting.
///
/// # Errors
///
/// Never for the file that is checked in.
pub fn claims_elsewhere() -> Result<Vec<Claim>> {
    #[derive(serde::Deserialize)]
    struct File {
        claims: Vec<Claim>,
    }
    let text = include_str!("../../presets/claims-elsewhere.toml");
    let file: File = toml::from_str(text).map_err(|error| Error::format("claims-elsewhere.toml", error))?;
    Ok(file.claims)
}
