//! Reading a table of an SQLite file: as much of the format as it takes to see what an environment holds, in builds
//! without CubeCL's database engine too. Nothing is written, and what values overflow into is not read.
//!
//! The format is <https://sqlite.org/fileformat2.html>: a table is a tree of pages whose leaves hold rows; a log
//! beside the file holds newer versions of pages.

use crate::{Error, Result};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A value of a row, as far as anything here asks.
#[derive(Debug, PartialEq)]
pub(super) enum Value {
    Integer(i64),
    Text(String),
    /// Another kind, or one that isn't on the row's first page.
    Other,
}

/// An SQLite file with its log.
pub(super) struct Database {
    path: PathBuf,
    file: File,
    page_size: usize,
    pages: u64,
    /// Where newer versions of pages begin in the log.
    newer: HashMap<u32, u64>,
    log: Option<File>,
}

/// Name of the log of a database file.
pub(super) fn log_of(path: &Path) -> PathBuf {
    with_ending(path, "-wal")
}

/// A file beside another one, whose name goes on.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

impl Database {
    /// Opens a file for reading.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path).map_err(Error::io(path))?;
        let mut log = match File::open(log_of(path)) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(log_of(path))(error)),
        };
        let length = file.metadata().map_err(Error::io(path))?.len();
        let mut page_size = 0;
        let mut newer = HashMap::new();
        if let Some(log) = &mut log {
            (page_size, newer) = committed(log).map_err(Error::io(log_of(path)))?;
        }
        if length > 0 {
            let mut header = [0; 100];
            let read = file.read_exact(&mut header);
            if read.is_err() || !header.starts_with(b"SQLite format 3\0") {
                return Err(Error::format(path, "expected an SQLite file, found something else"));
            }
            // 1 stands for 65 536, which two bytes can't hold.
            page_size = match u16::from_be_bytes([header[16], header[17]]) {
                1 => 1 << 16,
                size => usize::from(size),
            };
        }
        if !page_size.is_power_of_two() || !(512..=1 << 16).contains(&page_size) {
            return Err(Error::format(
                path,
                format!("expected pages of 512 to 65536 bytes, found {page_size}"),
            ));
        }
        let last = newer.keys().max().copied().unwrap_or(0);
        let pages = (length / page_size as u64).max(last.into());
        Ok(Self { path: path.to_owned(), file, page_size, pages, newer, log })
    }

    /// Visits the rows of a table, each by its first values.
    pub(super) fn rows(&mut self, table: &str, mut visit: impl FnMut(&[Value])) -> Result<()> {
        let mut root = None;
        self.walk(1, &mut |row| {
            if let [Value::Text(kind), Value::Text(name), _, Value::Integer(page), ..] = row
                && kind == "table"
                && name == table
            {
                root = Some(*page);
            }
        })?;
        let root = root.and_then(|page| u32::try_from(page).ok());
        let missing = || Error::format(&self.path, format!("expected a table `{table}`, found none"));
        self.walk(root.ok_or_else(missing)?, &mut visit)
    }

    /// Visits the rows below a page.
    fn walk(&mut self, root: u32, visit: &mut impl FnMut(&[Value])) -> Result<()> {
        let path = self.path.clone();
        let torn = |page: u32| Error::format(&path, format!("is torn: page {page} is not what it should be"));
        let mut pending = vec![root];
        let mut seen = 0;
        while let Some(number) = pending.pop() {
            seen += 1;
            // More pages than there are: a page points at one above it.
            if seen > self.pages {
                return Err(torn(number));
            }
            let page = self.page(number)?;
            below(&page, number == 1, &mut pending, visit).ok_or_else(|| torn(number))?;
        }
        Ok(())
    }

    fn page(&mut self, number: u32) -> Result<Vec<u8>> {
        let mut page = vec![0; self.page_size];
        let (file, start) = match (self.newer.get(&number), &mut self.log) {
            (Some(&start), Some(log)) => (log, start),
            _ => (&mut self.file, u64::from(number.saturating_sub(1)) * self.page_size as u64),
        };
        let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut page));
        let torn =
            |error| Error::format(&self.path, format!("is torn: page {number} can't be read ({error})"));
        read.map_err(torn)?;
        Ok(page)
    }
}

/// Reads a page of a table: its rows, or the pages below it. None if it is no such page.
fn below(page: &[u8], first: bool, pending: &mut Vec<u32>, visit: &mut impl FnMut(&[Value])) -> Option<()> {
    const INTERIOR: u8 = 5;
    const LEAF: u8 = 13;
    // The file's header stands before the first page's own.
    let header = page.get(if first { 100 } else { 0 }..)?;
    let kind = *header.first()?;
    let cells = be16(header, 3)?;
    let pointers = match kind {
        INTERIOR => {
            pending.push(be32(header, 8)?);
            header.get(12..)?
        }
        LEAF => header.get(8..)?,
        _ => return None,
    };
    for cell in 0..cells {
        let start = be16(pointers, 2 * cell)?;
        if kind == INTERIOR {
            pending.push(be32(page, start)?);
            continue;
        }
        let mut rest = page.get(start..)?;
        // Length and number of the row.
        varint(&mut rest)?;
        varint(&mut rest)?;
        visit(&values(rest)?);
    }
    Some(())
}

/// The first values of a row.
fn values(row: &[u8]) -> Option<Vec<Value>> {
    let mut kinds = row;
    let header = usize::try_from(varint(&mut kinds)?).ok()?;
    let mut kinds = row.get(row.len() - kinds.len()..header)?;
    let mut body = row.get(header..)?;
    let mut values = Vec::new();
    while !kinds.is_empty() {
        let kind = varint(&mut kinds)?;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind as usize,
            5 => 6,
            6 | 7 => 8,
            _ => usize::try_from(kind.checked_sub(12)? / 2).ok()?,
        };
        let Some(bytes) = body.get(..length) else {
            values.push(Value::Other);
            break;
        };
        body = &body[length..];
        values.push(match kind {
            8 | 9 => Value::Integer(kind as i64 - 8),
            1..=6 => {
                let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
                Value::Integer(bytes.iter().fold(sign, |number, &byte| number << 8 | i64::from(byte)))
            }
            13.. if kind % 2 == 1 => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
            _ => Value::Other,
        });
    }
    Some(values)
}

/// Size of the log's pages, and where the last committed version of each page begins. What follows the last commit,
/// or is left from before the log began anew, doesn't count.
fn committed(log: &mut File) -> std::io::Result<(usize, HashMap<u32, u64>)> {
    const HEADER: u64 = 32;
    const FRAME: u64 = 24;
    let mut newer = HashMap::new();
    let length = log.metadata()?.len();
    if length < HEADER {
        return Ok((0, newer));
    }
    let mut header = [0; HEADER as usize];
    log.read_exact(&mut header)?;
    let page_size = be32(&header, 8).unwrap_or(0);
    let mut pending = Vec::new();
    let mut start = HEADER;
    while start + FRAME + u64::from(page_size) <= length {
        let mut frame = [0; FRAME as usize];
        log.seek(SeekFrom::Start(start))?;
        log.read_exact(&mut frame)?;
        // The salt of this log.
        if frame[8..16] != header[16..24] {
            break;
        }
        pending.push((be32(&frame, 0).unwrap_or(0), start + FRAME));
        if be32(&frame, 4) != Some(0) {
            newer.extend(pending.drain(..));
        }
        start += FRAME + u64::from(page_size);
    }
    Ok((page_size as usize, newer))
}

fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A number of one to nine bytes, taken from the front.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for count in 1..=9 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if count == 9 {
            return Some(number << 8 | u64::from(byte));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length_are_read() {
        let cases: [(&[u8], u64); 4] =
            [(&[0x7f], 127), (&[0x81, 0x00], 128), (&[0x82, 0x80, 0x01], 32769), (&[0xff; 9], u64::MAX)];
        for (mut bytes, expected) in cases {
            assert_eq!(varint(&mut bytes), Some(expected));
            assert!(bytes.is_empty());
        }
        assert_eq!(varint(&mut &[0x81][..]), None);
    }

    #[test]
    fn a_row_that_overflows_gives_what_is_there() {
        // Header of 5 bytes: text of 1, integers of 1 and 0 bytes, a blob of 100 that isn't here.
        let row = [6, 15, 1, 9, 0x81, 0x54, b'x', 0xff, 1, 2, 3];
        let expected = [Value::Text("x".to_owned()), Value::Integer(-1), Value::Integer(1), Value::Other];
        assert_eq!(values(&row).unwrap(), expected);
    }
}
