//! Frames on disk.

use crate::file::write_atomically;
use crate::{Error, Result};
use polars::prelude::{DataFrame, ParquetReader, ParquetWriter, SerReader};
use std::fs::File;
use std::path::Path;

/// Writes a frame as parquet: to a temporary name, then renamed, so that the file is always whole.
/// Missing folders are created.
///
/// # Errors
///
/// If the file can't be written.
pub fn write_parquet(frame: &mut DataFrame, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
    }
    let mut content = Vec::new();
    ParquetWriter::new(&mut content).finish(frame)?;
    write_atomically(path, &content)
}

/// Reads a parquet file.
///
/// # Errors
///
/// If the file can't be read or isn't parquet.
pub fn read_parquet(path: impl AsRef<Path>) -> Result<DataFrame> {
    let path = path.as_ref();
    let file = File::open(path).map_err(Error::io(path))?;
    ParquetReader::new(file).finish().map_err(|error| Error::format(path, error))
}
