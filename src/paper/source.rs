//! Recorded results: where they lie, and proof of what was read.

use super::SMALL;
use super::repeat::Repeat;
use crate::frame::{ended_runs, read_parquet};
use crate::sweep::{SweepFolder, preset};
use crate::{Error, Result};
use polars::prelude::DataFrame;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where it is, from the working folder if it is below it.
    pub path: PathBuf,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

impl Source {
    /// A file with the hash of what is in it.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub fn of(path: &Path) -> Result<Self> {
        let content = std::fs::read(path).map_err(Error::io(path))?;
        let sha256 = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { path: relative(path), sha256 })
    }
}

/// A path as another machine can have it: from the working folder, if it is below it.
pub(super) fn relative(path: &Path) -> PathBuf {
    let below =
        std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    below.unwrap_or_else(|| path.to_owned())
}

/// A sweep with its collected frame.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its folder.
    pub folder: SweepFolder,
    /// `collected.parquet`.
    pub collected: DataFrame,
    /// That file.
    pub source: Source,
    /// The same runs, trained a second time.
    pub repeat: Option<Repeat>,
}

/// Every sweep below a folder that was collected, and the runs of `quickstart` beside it.
#[derive(Clone, Debug)]
pub struct Results {
    from: PathBuf,
    sweeps: BTreeMap<String, Recorded>,
    uncollected: Vec<PathBuf>,
}

impl Results {
    /// Looks at and below `from`. A sweep that isn't collected is noted, not collected.
    ///
    /// # Errors
    ///
    /// If the folder isn't there, a file can't be read, or two sweeps have one name.
    pub fn find(from: &Path) -> Result<Self> {
        let (mut sweeps, mut uncollected) = (BTreeMap::new(), Vec::new());
        for folder in SweepFolder::find(from)? {
            let file = folder.file("collected.parquet");
            if !file.is_file() {
                uncollected.push(relative(folder.path()));
                continue;
            }
            let collected = read_parquet(&file)?;
            let repeat = Repeat::of(&folder, &collected)?;
            let recorded = Recorded { collected, source: Source::of(&file)?, repeat, folder };
            let name = recorded.folder.sweep().name.clone();
            if let Some(other) = sweeps.insert(name.clone(), recorded) {
                let other = other.folder.path().display().to_string();
                let message = format!("expected one sweep `{name}`, found another one in {other}");
                return Err(Error::run(sweeps[&name].folder.path(), message));
            }
        }
        Ok(Self { from: from.to_owned(), sweeps, uncollected })
    }

    /// The sweeps, by name.
    pub fn sweeps(&self) -> impl Iterator<Item = &Recorded> {
        self.sweeps.values()
    }

    /// Folders of sweeps that have no `collected.parquet`.
    pub fn uncollected(&self) -> &[PathBuf] {
        &self.uncollected
    }

    /// A preset's results: the full ones if a run of them has ended, else the small ones.
    pub(super) fn preset(&self, name: &str) -> Result<Option<&Recorded>> {
        for name in [name.to_owned(), format!("{name}{SMALL}")] {
            if let Some(recorded) = self.sweeps.get(&name)
                && ended_runs(&recorded.collected)?.height() > 0
            {
                return Ok(Some(recorded));
            }
        }
        Ok(None)
    }

    /// The first of some presets that has full results; without any, the first.
    pub(super) fn fullest<'a>(&self, names: &[&'a str]) -> Result<&'a str> {
        for &name in names {
            if self.preset(name)?.is_some_and(|recorded| !recorded.is_small()) {
                return Ok(name);
            }
        }
        Ok(names[0])
    }

    /// A file beside the sweeps.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.from.join(name)
    }

    /// Folder of the quickstart's runs: in `from` or beside it.
    pub(super) fn quickstart(&self) -> Option<PathBuf> {
        let beside = self.from.parent().map(|parent| parent.join("quickstart"));
        [Some(self.from.join("quickstart")), beside].into_iter().flatten().find(|path| path.is_dir())
    }
}

impl Recorded {
    /// Whether the sweep is the checked-in preset of its name, or extends it.
    pub(super) fn is_preset(&self) -> Result<bool> {
        let sweep = self.folder.sweep();
        let Ok(preset) = preset(&sweep.name) else { return Ok(false) };
        Ok(preset.claims == sweep.claims && preset.is_extended_by(sweep)?)
    }

    /// Whether these are the results of a small preset.
    pub(super) fn is_small(&self) -> bool {
        self.folder.sweep().name.ends_with(SMALL)
    }
}
