//! Notebooks from top to bottom without a browser.

use super::place::{KERNEL, Lab, write};
use crate::Outcome;
use loglinear::{Error, Result};
use std::path::{Path, PathBuf};

const RUNNER: &str = include_str!("execute.py");

/// The notebooks to run, which must exist.
pub fn notebooks(lab: &Lab, named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if named.is_empty() {
        return all(&lab.notebooks());
    }
    for notebook in named {
        let found = match notebook {
            path if path.extension().is_none_or(|ending| ending != "ipynb") => "another file",
            path if path.is_file() => continue,
            path if path.exists() => "a folder",
            _ => "no such file",
        };
        let found = format!("{} ({found})", notebook.display());
        return Err(Error::value("--execute", "notebooks (.ipynb)", found));
    }
    Ok(named.to_vec())
}

pub fn run(lab: &Lab, notebooks: &[PathBuf], in_place: bool, out: Option<&Path>) -> Outcome {
    let script = lab.root.join("execute.py");
    write(&script, RUNNER)?;
    let out = out.map_or_else(|| lab.root.join("executed"), Path::to_owned);
    let mut command = lab.python_command(&[script.display().to_string(), KERNEL.to_owned()]);
    if in_place {
        command.arg("--in-place");
    } else {
        command.arg("--out").arg(out);
    }
    command.env("LOGLINEAR_HEADLESS", "1").arg("--").args(notebooks);
    lab.finish(command)
}

/// Every notebook of a folder, in the order of names.
fn all(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(Error::io(folder))?;
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path| path.extension().is_some_and(|ending| ending == "ipynb"));
    found.sort();
    if found.is_empty() {
        return Err(Error::run(folder, "expected notebooks (.ipynb) in it, found none"));
    }
    Ok(found)
}
