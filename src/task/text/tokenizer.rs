//! GPT-2's byte-pair tokens.

use crate::{Error, Result};
use tiktoken_rs::{CoreBPE, r50k_base_singleton};

/// The tokenizer of GPT-2 (50 257 tokens). Its table is read once in a process, in about 50 ms.
#[derive(Clone, Copy)]
pub struct Tokenizer(&'static CoreBPE);

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Tokenizer({})", self.name())
    }
}

impl Tokenizer {
    /// Number of tokens: ids are 0 … 50 256.
    pub const VOCAB: usize = 50_257;

    /// GPT-2's.
    pub fn gpt2() -> Self {
        Self(r50k_base_singleton())
    }

    /// Name, in records and cache files.
    pub fn name(self) -> &'static str {
        "gpt2"
    }

    /// Tokens of a text. No special tokens: `<|endoftext|>` in a text is text.
    pub fn encode(self, text: &str) -> Vec<u32> {
        if text.len() < LONG_BLANK {
            return self.0.encode_ordinary(text);
        }
        let (mut tokens, mut rest) = (Vec::new(), text);
        while let Some((start, end)) = long_blank(rest) {
            tokens.extend(self.0.encode_ordinary(&rest[..start]));
            tokens.extend(self.0.encode_ordinary(&rest[start..end]));
            rest = &rest[end..];
        }
        tokens.extend(self.0.encode_ordinary(rest));
        tokens
    }

    /// Text of tokens. Bytes that are not UTF-8, as where a character is cut in half, become U+FFFD.
    ///
    /// # Errors
    ///
    /// If an id is not a token.
    pub fn decode(self, tokens: &[u32]) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes(tokens)?).into_owned())
    }

    /// One token as a person reads it: its text, but with control characters and the like escaped
    /// (`\n`, `\u{a0}`), and bytes that are no character by themselves in hexadecimal (`\xE2`).
    ///
    /// # Errors
    ///
    /// If the id is not a token.
    pub fn piece(self, token: u32) -> Result<String> {
        let mut piece = String::new();
        for chunk in self.bytes(&[token])?.utf8_chunks() {
            for letter in chunk.valid().chars() {
                match letter {
                    '"' | '\'' | '\\' => piece.push(letter),
                    _ => piece.extend(letter.escape_debug()),
                }
            }
            piece.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02X}")));
        }
        Ok(piece)
    }

    /// Bytes of tokens, which may end inside a character.
    ///
    /// # Errors
    ///
    /// If an id is not a token.
    pub fn bytes(self, tokens: &[u32]) -> Result<Vec<u8>> {
        self.0.decode_bytes(tokens).map_err(|error| {
            let expected = format!("0 to {} (GPT-2's tokens)", Self::VOCAB - 1);
            Error::value("token", expected, error.token)
        })
    }
}

/// Bytes of blanks in a row that are encoded by themselves: GPT-2's pattern goes back through a run of blanks
/// character by character, and gives up with a panic on some hundred thousand.
const LONG_BLANK: usize = 1 << 16;

/// The first long run of blanks, without its last character if a word follows, which that one may belong to:
/// the pattern splits there too.
fn long_blank(text: &str) -> Option<(usize, usize)> {
    let mut rest = 0;
    while let Some(start) = text[rest..].find(char::is_whitespace).map(|start| rest + start) {
        let after = text[start..].trim_start();
        let end = text.len() - after.len();
        let last = text[start..end].char_indices().next_back().map_or(0, |(last, _)| last);
        if last >= LONG_BLANK {
            return Some((start, if after.is_empty() { end } else { start + last }));
        }
        rest = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_of_blanks_are_split_where_the_pattern_splits_them() {
        let tokenizer = Tokenizer::gpt2();
        for blanks in [" ".repeat(70_000), "\n".repeat(70_000), " \n\u{3000}".repeat(30_000)] {
            for text in [format!("a{blanks}b c"), format!("{blanks}  "), format!("{blanks}!{blanks}")] {
                assert!(long_blank(&text).is_some());
                assert_eq!(tokenizer.encode(&text), tokenizer.0.encode_ordinary(&text));
            }
        }
        // Where the pattern alone would give up.
        let text = " ".repeat(2_000_000) + "a";
        assert_eq!(tokenizer.decode(&tokenizer.encode(&text)).unwrap(), text);
    }
}
