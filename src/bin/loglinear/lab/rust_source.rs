//! The standard library's source: the kernel reads types of variables from it.

use super::place::{Lab, output, visible};
use super::{State, Step};
use loglinear::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct RustSource;

impl Step for RustSource {
    fn name(&self) -> &'static str {
        "standard library's source"
    }

    fn state(&self, lab: &Lab) -> Result<State> {
        Ok(match folder(lab)? {
            Some(folder) => State::Ready(folder.display().to_string()),
            None => State::Absent {
                found: "not installed".to_owned(),
                plan: "adding rustup's component rust-src, or else unpacking Debian's rust-web-src"
                    .to_owned(),
            },
        })
    }

    fn make(&self, lab: &Lab) -> Result<()> {
        let by_rustup = visible(Command::new("rustup").args(["component", "add", "rust-src"]));
        if folder(lab)?.is_some() {
            return Ok(());
        }
        let reason = by_rustup.err().map_or_else(String::new, |error| format!(" ({error})"));
        eprintln!("rustup did not provide it{reason}; trying Debian's package");
        unpack_debian(lab).map_err(|error| Error::Command {
            command: "rust-src".to_owned(),
            message: format!(
                "{error}. Install the source of this compiler's standard library (rustup component add \
                 rust-src), or set RUST_SRC_PATH to its folder `library`"
            ),
        })?;
        eprintln!("this source may be of another version than the compiler: if a cell can't tell the type");
        eprintln!("of a variable, write it (let text: String = …)");
        Ok(())
    }
}

/// Unpacks Debian's package into the lab, without installing it.
fn unpack_debian(lab: &Lab) -> Result<()> {
    let work = lab.shared().join("rust-web-src");
    if work.exists() {
        std::fs::remove_dir_all(&work).map_err(Error::io(&work))?;
    }
    std::fs::create_dir_all(&work).map_err(Error::io(&work))?;
    output(Command::new("apt-get").args(["download", "--quiet", "rust-web-src"]).current_dir(&work))?;
    let package = entries(&work)?.into_iter().find(|path| path.extension().is_some_and(|e| e == "deb"));
    let package = package.ok_or_else(|| Error::value("rust-web-src", "a .deb file", "none"))?;
    output(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(work.join("x")))?;
    let versions = entries(&work.join("x/usr/src"))?;
    let library = versions.into_iter().map(|path| path.join("library")).find(|path| is_library(path));
    let library = library.ok_or_else(|| Error::value("rust-web-src", "a folder `library`", "none"))?;
    std::fs::rename(&library, unpacked(lab)).map_err(Error::io(unpacked(lab)))?;
    std::fs::remove_dir_all(&work).map_err(Error::io(&work))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(Error::io(folder))?;
    entries.map(|entry| Ok(entry.map_err(Error::io(folder))?.path())).collect()
}

fn unpacked(lab: &Lab) -> PathBuf {
    lab.shared().join("rust-library")
}

fn is_library(folder: &Path) -> bool {
    folder.join("core/src/lib.rs").is_file() && folder.join("std/src/lib.rs").is_file()
}

/// Folder `library` of the source, in the order of trust: named by the user, of this compiler, unpacked.
pub fn folder(lab: &Lab) -> Result<Option<PathBuf>> {
    let named = std::env::var_os("RUST_SRC_PATH").map(PathBuf::from);
    let sysroot = output(Command::new(rustc()).args(["--print", "sysroot"]))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot).trim());
    let of_compiler = sysroot.join("lib/rustlib/src/rust/library");
    let places = [named, Some(of_compiler), Some(unpacked(lab))];
    Ok(places.into_iter().flatten().find(|folder| is_library(folder)))
}

/// The compiler that cargo uses.
pub fn rustc() -> OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}
