//! Files that are always whole.

use crate::{Error, Result};
use std::io::Write;
use std::path::Path;

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
