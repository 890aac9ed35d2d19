//! Text as a task: a corpus, its GPT-2 tokens in a cache, and windows over them.
//!
//! ```text
//! corpus.rs     which files, which part of them is which split, what was read
//! source.rs     a file or a part of one as bytes, decompressed on the way
//! tokenizer.rs  GPT-2's byte-pair tokens
//! encode.rs     text to tokens, block by block
//! cache.rs      token files that are whole or made anew
//! tokens.rs     an open token file, read by position
//! windows.rs    sequences with their targets
//! ```
//!
//! Nothing here holds a whole corpus in memory: WikiText-103 has 540 MB of text and 117 million tokens.

mod cache;
mod config;
mod corpus;
mod encode;
mod source;
mod tokenizer;
mod tokens;
mod windows;

pub use cache::TokenCache;
pub use config::TextConfig;
pub use corpus::{Corpus, CorpusRecord, SplitRecord};
pub use tokenizer::Tokenizer;
pub use tokens::Tokens;
pub(super) use windows::Windows;
