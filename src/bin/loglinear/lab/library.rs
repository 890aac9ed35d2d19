//! Our crate as one dynamic library, and the program that trains.
//!
//! Cells link the library instead of compiling Burn and polars again, and share its statics: with a copy
//! in every cell, gradients across cells are wrong without a word. It is the release build itself,
//! linked once more, so it costs seconds and runs as fast as the program.

use super::place::{Lab, cargo, visible};
use super::{State, Step};
use loglinear::{Error, Result};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::UNIX_EPOCH;

/// Versions that are kept, for kernels that still run with them.
const KEPT: usize = 3;

pub struct Library;

impl Step for Library {
    fn name(&self) -> &'static str {
        "compiled library"
    }

    fn state(&self, lab: &Lab) -> Result<State> {
        let plan = "compiling the release build and linking it as a dynamic library".to_owned();
        Ok(match current(lab) {
            Some(folder) => State::Ready(file(&folder).display().to_string()),
            None => State::Absent { found: "not compiled".to_owned(), plan },
        })
    }

    fn always(&self) -> bool {
        true
    }

    fn make(&self, lab: &Lab) -> Result<()> {
        visible(build(lab, "build").args(["--bin", "loglinear"]))?;
        let built = link(lab)?;
        let metadata = built.metadata().map_err(Error::io(&built))?;
        let time = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let version = format!("{:x}-{:x}", time.unwrap_or_default().as_nanos(), metadata.len());
        let folder = versions(lab).join(&version);
        if !file(&folder).is_file() {
            std::fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
            keep(&built, &file(&folder))?;
        }
        // The program may change while the library doesn't.
        let program = lab.target.join("release").join("loglinear");
        keep(&program, &folder.join("loglinear"))?;
        std::fs::write(current_file(lab), &version).map_err(Error::io(current_file(lab)))?;
        prune(lab, &version)
    }
}

/// A cargo command on our crate as the README's commands build it.
fn build(lab: &Lab, command: &str) -> std::process::Command {
    let mut cargo = cargo();
    cargo.args([command, "--release", "--manifest-path"]).arg(lab.checkout.join("Cargo.toml"));
    cargo.args(lab.features());
    cargo
}

/// Links the library and returns the file that cargo reports.
fn link(lab: &Lab) -> Result<PathBuf> {
    let mut command = build(lab, "rustc");
    // Only this crate's own build asks for the shared standard library: the dependencies stay as they are.
    command.args(["--lib", "--crate-type", "dylib", "--message-format", "json-render-diagnostics"]);
    command.args(["--", "-C", "prefer-dynamic"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let failed =
        |message: String| Error::Command { command: "cargo rustc --crate-type dylib".into(), message };
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let mut found = None;
    for line in BufReader::new(child.stdout.take().expect("stdout is piped")).lines() {
        let line = line.map_err(|error| failed(error.to_string()))?;
        let Ok(message) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
        if message["reason"] == "compiler-artifact" && message["target"]["name"] == "loglinear" {
            let files = message["filenames"].as_array().into_iter().flatten();
            let mut libraries = files.filter_map(|file| file.as_str()).map(PathBuf::from);
            found = libraries.find(|file| file.extension().is_some_and(|e| e == ENDING)).or(found);
        }
    }
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    match found {
        Some(found) if status.success() => Ok(found),
        _ => Err(failed(format!("{status}, dynamic library {found:?}"))),
    }
}

const ENDING: &str = std::env::consts::DLL_EXTENSION;

/// A second name for a file that cargo may replace, or a copy where links can't be made.
fn keep(from: &Path, to: &Path) -> Result<()> {
    let partial = to.with_extension("partial");
    let _ = std::fs::remove_file(&partial);
    if std::fs::hard_link(from, &partial).is_err() {
        std::fs::copy(from, &partial).map_err(Error::io(from))?;
    }
    std::fs::rename(&partial, to).map_err(Error::io(to))
}

fn prune(lab: &Lab, current: &str) -> Result<()> {
    let folder = versions(lab);
    let entries = std::fs::read_dir(&folder).map_err(Error::io(&folder))?;
    let mut old: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    old.retain(|path| path.is_dir() && path.file_name().is_some_and(|name| name != current));
    // Names start with the time of linking.
    old.sort();
    old.truncate((old.len() + 1).saturating_sub(KEPT));
    old.iter().try_for_each(|path| std::fs::remove_dir_all(path).map_err(Error::io(path)))
}

fn versions(lab: &Lab) -> PathBuf {
    lab.root.join("library")
}

fn current_file(lab: &Lab) -> PathBuf {
    versions(lab).join("current")
}

/// Folder of the version that new kernels use.
pub fn current(lab: &Lab) -> Option<PathBuf> {
    let version = std::fs::read_to_string(current_file(lab)).ok()?;
    let folder = versions(lab).join(version.trim());
    file(&folder).is_file().then_some(folder)
}

/// The library in a folder of a version.
pub fn file(folder: &Path) -> PathBuf {
    folder.join(format!("{}loglinear.{ENDING}", std::env::consts::DLL_PREFIX))
}
