//! Notebooks from top to bottom without a browser.

use super::place::{KERNEL, Lab, write};
use crate::{Failure, Outcome};
use loglinear::{Error, Result};
use std::path::{Path, PathBuf};

const RUNNER: &str = include_str!("execute.py");

pub fn run(lab: &Lab, notebooks: &[PathBuf], in_place: bool, out: Option<&Path>) -> Outcome {
    let notebooks = if notebooks.is_empty() { all(&lab.notebooks())? } else { notebooks.to_vec() };
    for notebook in &notebooks {
        if !notebook.is_file() || notebook.extension().is_none_or(|ending| ending != "ipynb") {
            let expected = "a notebook (.ipynb)";
            return Err(Failure::Usage(Error::value("--execute", expected, notebook.display())));
        }
    }
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
