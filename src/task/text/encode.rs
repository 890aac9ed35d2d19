//! Text to tokens, as the paper's release does it.

use super::Tokenizer;
use super::source::{Fingerprint, Source};
use crate::file::hex;
use crate::train::duration;
use crate::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::io::{BufRead, IsTerminal, Read};
use std::time::{Duration, Instant};

/// Bytes of text that are in memory at a time, up to the end of a line.
const BLOCK: u64 = 4 << 20;

/// Lines that a thread takes at a time.
const LINES: usize = 256;

/// Encodes a text block by block. Every line with any character that isn't blank is encoded by itself, with
/// its end (CR LF counts as LF), without special tokens; the tokens of all lines follow each other.
///
/// # Errors
///
/// If the text can't be read, isn't UTF-8, or is not the one of the fingerprint (any more).
pub(super) fn encode(
    source: &Source,
    fingerprint: &Fingerprint,
    tokenizer: Tokenizer,
    mut append: impl FnMut(&[u16]) -> Result<()>,
) -> Result<()> {
    let io = |error| Error::io(&source.path)(error);
    let mut reader = source.open().map_err(io)?;
    let (mut hash, mut done, mut block) = (Sha256::new(), 0, Vec::new());
    let mut report = Report::new(source.label(), fingerprint.bytes);
    loop {
        block.clear();
        reader.by_ref().take(BLOCK).read_to_end(&mut block).map_err(io)?;
        reader.read_until(b'\n', &mut block).map_err(io)?;
        if block.is_empty() {
            break;
        }
        hash.update(&block);
        let text = std::str::from_utf8(&block).map_err(|error| {
            let at = source.start() + done + error.valid_up_to() as u64;
            let byte = block[error.valid_up_to()];
            let message =
                format!("expected text in UTF-8, found the byte 0x{byte:02X} at offset {at} (decompressed)");
            Error::format(&source.path, message)
        })?;
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let encoded: Vec<Vec<u16>> =
            lines.par_chunks(LINES).map(|lines| encode_lines(lines, tokenizer)).collect();
        encoded.iter().try_for_each(|tokens| append(tokens))?;
        done += block.len() as u64;
        report.update(done);
    }
    if hex(&hash.finalize()) == fingerprint.sha256 {
        return Ok(());
    }
    Err(Error::format(&source.path, "was changed while it was read: try again"))
}

fn encode_lines(lines: &[&str], tokenizer: Tokenizer) -> Vec<u16> {
    let mut tokens = Vec::new();
    for line in lines {
        if line.chars().all(is_blank) {
            continue;
        }
        let encoded = match line.strip_suffix("\r\n") {
            Some(line) => tokenizer.encode(&format!("{line}\n")),
            None => tokenizer.encode(line),
        };
        // 50 257 tokens: every id fits.
        tokens.extend(encoded.into_iter().map(|token| token as u16));
    }
    tokens
}

/// What Python's `str.strip` removes, which the release uses.
fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || ('\x1c'..='\x1f').contains(&letter)
}

/// How long it takes before progress is shown, and between two plain lines.
const SHOW_AFTER: Duration = Duration::from_secs(2);

/// Progress on standard error: a bar on a terminal, else a line every few seconds; nothing of what is quick.
struct Report {
    label: String,
    total: u64,
    started: Instant,
    shown: Instant,
    bar: Option<ProgressBar>,
}

impl Report {
    fn new(label: String, total: u64) -> Self {
        let now = Instant::now();
        Self { label, total, started: now, shown: now, bar: None }
    }

    fn update(&mut self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            return;
        }
        if self.shown.elapsed() < SHOW_AFTER {
            return;
        }
        self.shown = Instant::now();
        if std::io::stderr().is_terminal() {
            let template = "{prefix}: to tokens {wide_bar} {decimal_bytes}/{decimal_total_bytes} \
                            {decimal_bytes_per_sec} {eta} left";
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(self.total).with_position(done).with_elapsed(self.started.elapsed());
            bar.set_style(style);
            bar.set_prefix(self.label.clone());
            self.bar = Some(bar);
            return;
        }
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let rate = megabytes(done) / self.started.elapsed().as_secs_f64();
        let left = duration(megabytes(self.total.saturating_sub(done)) / rate);
        eprintln!(
            "{}: {:.0} of {:.0} MB to tokens, {rate:.1} MB/s, {left} left",
            self.label,
            megabytes(done),
            megabytes(self.total)
        );
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
