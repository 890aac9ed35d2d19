//! An open token file, read by position.

use super::SplitRecord;
use super::cache::HEADER;
use crate::task::Split;
use crate::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Tokens of one split of a corpus, on disk: memory doesn't depend on their number. Clones share one open
/// file.
#[derive(Clone, Debug)]
pub struct Tokens(Arc<TokenFile>);

#[derive(Debug)]
struct TokenFile {
    file: File,
    path: PathBuf,
    split: Split,
    record: SplitRecord,
}

impl Tokens {
    pub(super) fn new(file: File, path: PathBuf, split: Split, record: SplitRecord) -> Self {
        Self(Arc::new(TokenFile { file, path, split, record }))
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.0.record.tokens
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which split.
    pub fn split(&self) -> Split {
        self.0.split
    }

    /// What the tokens were made from.
    pub fn record(&self) -> &SplitRecord {
        &self.0.record
    }

    /// The token file.
    pub fn path(&self) -> &std::path::Path {
        &self.0.path
    }

    /// `length` tokens from `start` on.
    ///
    /// # Errors
    ///
    /// If there are not so many, or the file can't be read.
    pub fn window(&self, start: usize, length: usize) -> Result<Vec<u16>> {
        if start.checked_add(length).is_none_or(|end| end > self.len()) {
            let expected = format!("within the {} tokens of {}", self.len(), self.0.record.file);
            return Err(Error::value("window of tokens", expected, format!("{length} from {start} on")));
        }
        let mut bytes = vec![0; 2 * length];
        let at = HEADER as u64 + 2 * start as u64;
        self.0.file.read_exact_at(&mut bytes, at).map_err(Error::io(&self.0.path))?;
        Ok(bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect())
    }
}
