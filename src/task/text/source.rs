//! A text as bytes: a file, plain or compressed, or a part of one.

use crate::file::hex;
use crate::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const BUFFER: usize = 1 << 20;

/// Ends of the names of files that are decompressed while they are read.
pub(super) const COMPRESSED: [&str; 2] = ["gz", "zst"];

/// Bytes of a file, after decompression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// If not all of it.
    pub(super) part: Option<Range<u64>>,
}

/// What tells a file that hasn't changed from one that has, without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    path: PathBuf,
    /// Device, inode, size, and seconds and nanoseconds of the last changes of content and of anything.
    state: [i128; 7],
}

impl Identity {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let read = || {
            let data = std::fs::metadata(path)?;
            let state = [
                data.dev().into(),
                data.ino().into(),
                data.size().into(),
                data.mtime().into(),
                data.mtime_nsec().into(),
                data.ctime().into(),
                data.ctime_nsec().into(),
            ];
            Ok(Self { path: std::fs::canonicalize(path)?, state })
        };
        read().map_err(Error::io(path))
    }
}

/// How long a text is, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    /// Bytes.
    pub(super) bytes: u64,
    /// In hexadecimal.
    pub(super) sha256: String,
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|end| COMPRESSED.iter().any(|known| end == *known))
}

fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let file = BufReader::with_capacity(BUFFER, File::open(path)?);
    Ok(match path.extension().and_then(|end| end.to_str()) {
        Some("gz") => Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file))),
        Some("zst") => Box::new(BufReader::with_capacity(BUFFER, zstd::Decoder::with_buffer(file)?)),
        _ => Box::new(file),
    })
}

fn skip(reader: &mut dyn BufRead, bytes: u64) -> io::Result<u64> {
    io::copy(&mut reader.take(bytes), &mut io::sink())
}

impl Source {
    /// A whole file.
    pub(super) fn whole(path: PathBuf) -> Self {
        Self { path, part: None }
    }

    /// The file's name, and which bytes if not all.
    pub(super) fn label(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        match &self.part {
            None => name.into_owned(),
            Some(part) => format!("{name} (bytes {} to {})", part.start, part.end),
        }
    }

    /// Where it starts in its file.
    pub(super) fn start(&self) -> u64 {
        self.part.as_ref().map_or(0, |part| part.start)
    }

    pub(super) fn open(&self) -> io::Result<Box<dyn BufRead>> {
        let Some(part) = &self.part else { return open(&self.path) };
        let length = part.end - part.start;
        if !is_compressed(&self.path) {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(part.start))?;
            return Ok(Box::new(BufReader::with_capacity(BUFFER, file).take(length)));
        }
        let mut reader = open(&self.path)?;
        skip(&mut *reader, part.start)?;
        Ok(Box::new(reader.take(length)))
    }

    /// Reads all of it once.
    pub(super) fn fingerprint(&self) -> Result<Fingerprint> {
        let read = || {
            let (mut reader, mut hash, mut bytes) = (self.open()?, Sha256::new(), 0);
            loop {
                let block = reader.fill_buf()?;
                if block.is_empty() {
                    return Ok(Fingerprint { bytes, sha256: hex(&hash.finalize()) });
                }
                hash.update(block);
                let length = block.len();
                bytes += length as u64;
                reader.consume(length);
            }
        };
        read().map_err(Error::io(&self.path))
    }

    /// Three parts of a file, of 90, 5 and 5 % of its bytes, each up to the next end of a line.
    pub(super) fn divide(path: &Path) -> Result<[Self; 3]> {
        let cut = || {
            let total = match is_compressed(path) {
                true => skip(&mut *open(path)?, u64::MAX)?,
                false => std::fs::metadata(path)?.len(),
            };
            let after = |share: u64| {
                let before = (total * share / 100).saturating_sub(1);
                let mut rest = Self { path: path.to_owned(), part: Some(before..total) }.open()?;
                // From the byte before, so that a share that ends a line is kept as it is.
                Ok::<_, io::Error>(before + rest.skip_until(b'\n')? as u64)
            };
            let (train, validation) = (after(90)?, after(95)?);
            Ok([0..train, train..validation, validation..total])
        };
        let parts: [Range<u64>; 3] = cut().map_err(Error::io(path))?;
        Ok(parts.map(|part| Self { path: path.to_owned(), part: Some(part) }))
    }
}
