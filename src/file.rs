//! Files that are always whole, and folders of ours among others.

use crate::{Error, Result};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Folder of this crate's caches, and what named it.
pub(crate) fn cache_folder() -> Option<(PathBuf, &'static str)> {
    cache_folder_by(|name| std::env::var_os(name), std::env::home_dir())
}

/// The folder by environment variables and the home folder: `$LOGLINEAR_CACHE`, else
/// `$XDG_CACHE_HOME/loglinear`, else `~/.cache/loglinear`.
pub(crate) fn cache_folder_by(
    variable: impl Fn(&str) -> Option<OsString>,
    home: Option<PathBuf>,
) -> Option<(PathBuf, &'static str)> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = set("LOGLINEAR_CACHE") {
        return Some((folder, "LOGLINEAR_CACHE"));
    }
    // A relative one is not to be used, by the specification of the variable.
    if let Some(caches) = set("XDG_CACHE_HOME").filter(|path| path.is_absolute()) {
        return Some((caches.join("loglinear"), "XDG_CACHE_HOME"));
    }
    let home = home.filter(|home| !home.as_os_str().is_empty())?;
    Some((home.join(".cache").join("loglinear"), "the home folder"))
}

/// Bytes in hexadecimal, as checksums are written.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path)(error)),
        _ => Ok(()),
    }
}

/// Writes a file so that a reader sees the old content or the new, whatever happens in between: to a
/// temporary name, synced, then renamed. A failed write leaves nothing behind.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let write = || {
        let mut file = std::fs::File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        // The rename itself is durable only once its folder is synced.
        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => std::fs::File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    };
    let written = write();
    if written.is_err() {
        // It may not exist; that is no second failure.
        let _ = std::fs::remove_file(&temporary);
    }
    written.map_err(Error::io(path))
}

/// Visits a folder and those below it, in no order, going down where `visit` says so. Links are not followed:
/// they may lead back.
pub(crate) fn walk(path: &Path, mut visit: impl FnMut(&Path) -> Result<bool>) -> Result<()> {
    let mut pending = vec![path.to_owned()];
    while let Some(folder) = pending.pop() {
        if !visit(&folder)? {
            continue;
        }
        for entry in std::fs::read_dir(&folder).map_err(Error::io(&folder))? {
            let entry = entry.map_err(Error::io(&folder))?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Whether a folder holds anything, but for what a process leaves that was killed while it wrote the first
/// file there: a lock, and that file's temporary twin.
pub(crate) fn is_occupied(path: &Path, first: &str) -> Result<bool> {
    let temporary = Path::new(first).with_extension("tmp");
    let others = |mut entries: std::fs::ReadDir| {
        entries.any(|entry| {
            entry.is_ok_and(|entry| entry.file_name() != "lock" && *entry.file_name() != *temporary)
        })
    };
    Ok(path.is_dir() && others(std::fs::read_dir(path).map_err(Error::io(path))?))
}

/// First line in which two texts of a record differ, for a message.
pub(crate) fn difference(found: &str, wanted: &str) -> String {
    let differing = found.lines().zip(wanted.lines()).find(|(a, b)| a != b);
    differing.map_or_else(
        || "one has more fields".to_owned(),
        |(found, wanted)| format!("found `{found}`, asked for `{wanted}`"),
    )
}
