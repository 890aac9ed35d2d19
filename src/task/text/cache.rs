//! Token files: whole and as they were written, or made anew.
//!
//! ```text
//! 8 bytes   LLTOKENS
//! 4 bytes   version
//! 8 bytes   number of tokens
//! 32 bytes  SHA-256 of the text
//! 32 bytes  SHA-256 of the tokens
//! 2 bytes   each token
//! ```
//!
//! Numbers are little-endian.

use crate::file::{cache_folder, hex};
use crate::{Error, Result};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

const MAGIC: &[u8; 8] = b"LLTOKENS";

/// Version of the file's form and of how text becomes tokens: another one makes every file anew.
const VERSION: u32 = 1;

/// Bytes before the tokens.
pub(super) const HEADER: usize = 84;

/// Where token files are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenCache {
    /// The first one that can be written to is used.
    folders: Vec<PathBuf>,
}

impl Default for TokenCache {
    /// `tokens` below `$LOGLINEAR_CACHE`, else `$XDG_CACHE_HOME/loglinear`, else `~/.cache/loglinear`; if
    /// that can't be written to, below the system's temporary folder.
    fn default() -> Self {
        let temporary = std::env::temp_dir().join("loglinear");
        let folders = cache_folder().map(|(folder, _)| folder).into_iter().chain([temporary]);
        Self { folders: folders.map(|folder| folder.join("tokens")).collect() }
    }
}

impl TokenCache {
    /// A folder of the caller's choice.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folders: vec![folder.into()] }
    }

    /// The token file of a text, with its place and number of tokens. `write` makes the tokens if the file
    /// isn't there, or isn't what was written once.
    ///
    /// # Errors
    ///
    /// If no folder can be written to, the disk is full, or the tokens can't be made.
    pub(super) fn open(
        &self,
        sha256: &str,
        tokenizer: &str,
        mut write: impl FnMut(&mut TokenWriter) -> Result<()>,
    ) -> Result<(File, PathBuf, usize)> {
        let name = format!("{sha256}-{tokenizer}-v{VERSION}.tokens");
        let mut last = None;
        // Each folder is filled, or mended, before the next one is looked at.
        for folder in &self.folders {
            let path = folder.join(&name);
            match verify(&path, sha256) {
                Ok((file, tokens)) => return Ok((file, path, tokens)),
                Err(Fault::Missing) => {}
                Err(Fault::Damaged(message)) => {
                    eprintln!("{}: {message}; the tokens are made anew", path.display());
                }
            }
            match TokenWriter::create(&path, sha256) {
                Ok(mut writer) => {
                    write(&mut writer)?;
                    let (file, tokens) = writer.finish()?;
                    return Ok((file, path, tokens));
                }
                Err(error) => {
                    if last.is_none() && self.folders.len() > 1 {
                        eprintln!("{error}: the cache is kept in the temporary folder instead");
                    }
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| Error::value("cache folders", "at least one", 0)))
    }
}

/// Why a token file can't be used.
enum Fault {
    Missing,
    Damaged(String),
}

/// Opens a token file that is whole: reads all of it once, a block at a time.
fn verify(path: &Path, sha256: &str) -> std::result::Result<(File, usize), Fault> {
    let damaged = |message: &dyn std::fmt::Display| Fault::Damaged(message.to_string());
    let mut file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Fault::Missing,
        _ => damaged(&error),
    })?;
    let length = file.metadata().map_err(|error| damaged(&error))?.len();
    let mut header = [0; HEADER];
    file.read_exact(&mut header)
        .map_err(|_| damaged(&format!("expected a header of {HEADER} bytes, found a file of {length}")))?;
    let (magic, rest) = header.split_at(8);
    let (version, rest) = rest.split_at(4);
    let (count, rest) = rest.split_at(8);
    let (text, content) = rest.split_at(32);
    if magic != MAGIC || version != VERSION.to_le_bytes() {
        return Err(damaged(&format!("is not a token file of version {VERSION}")));
    }
    if hex(text) != sha256 {
        return Err(damaged(&format!("expected tokens of the text {sha256}, found those of {}", hex(text))));
    }
    let count = count.iter().rev().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    let expected = count.checked_mul(2).and_then(|bytes| bytes.checked_add(HEADER as u64));
    if expected != Some(length) {
        return Err(damaged(&format!("is of {count} tokens by its header, but of {length} bytes")));
    }
    let mut hash = HashWriter(Sha256::new());
    io::copy(&mut io::BufReader::with_capacity(1 << 20, &file), &mut hash)
        .map_err(|error| damaged(&error))?;
    if hash.0.finalize()[..] != *content {
        return Err(damaged(&"was changed: its tokens don't have the checksum of its header"));
    }
    let count = usize::try_from(count).map_err(|error| damaged(&error))?;
    Ok((file, count))
}

struct HashWriter(Sha256);

impl Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A token file in the making, under a name of its own: others see it only when it is whole. One that isn't
/// finished is removed.
pub(super) struct TokenWriter {
    path: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    text: String,
    hash: Sha256,
    count: u64,
    finished: bool,
}

impl TokenWriter {
    fn create(path: &Path, sha256: &str) -> Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        }
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(&temporary);
        let file = BufWriter::with_capacity(1 << 20, file.map_err(Error::io(&temporary))?);
        let mut writer = Self {
            path: path.to_owned(),
            temporary,
            file,
            text: sha256.to_owned(),
            hash: Sha256::new(),
            count: 0,
            finished: false,
        };
        writer.put(&[0; HEADER])?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(Error::io(&self.path))
    }

    /// Appends tokens.
    pub(super) fn append(&mut self, tokens: &[u16]) -> Result<()> {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        self.hash.update(&bytes);
        self.count += tokens.len() as u64;
        self.put(&bytes)
    }

    /// Gives the file its header and name.
    fn finish(mut self) -> Result<(File, usize)> {
        let text: Vec<u8> = (0..self.text.len() / 2)
            .filter_map(|i| u8::from_str_radix(self.text.get(2 * i..2 * i + 2)?, 16).ok())
            .collect();
        let content = std::mem::take(&mut self.hash).finalize();
        let header = [MAGIC, &VERSION.to_le_bytes()[..], &self.count.to_le_bytes(), &text, &content].concat();
        let mut write = || {
            self.file.rewind()?;
            self.file.write_all(&header)?;
            self.file.flush()?;
            self.file.get_ref().sync_all()?;
            std::fs::rename(&self.temporary, &self.path)?;
            self.file.get_ref().try_clone()
        };
        let file = write().map_err(Error::io(&self.path))?;
        self.finished = true;
        Ok((file, self.count as usize))
    }
}

impl Drop for TokenWriter {
    fn drop(&mut self) {
        if !self.finished {
            // It may be gone; that is no second failure.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}
