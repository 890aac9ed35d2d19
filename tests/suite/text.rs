//! Text as a task: tokens as the release counts them, caches that heal, windows, and errors that say where.

use flate2::{Compression, write::GzEncoder};
use loglinear::task::*;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const TEXT: &str =
    " \n = Title = \n \n Senjō no Valkyria 3 : <unk> Chronicles . \n It's <|endoftext|> 1 , 2 \n";

/// A corpus folder with TEXT in every split, its files' names ending in `end` (`.raw`, say).
fn corpus(end: &str, write: impl Fn(&Path, &str)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for split in ["train", "valid", "test"] {
        write(&folder.path().join(format!("wiki.{split}{end}")), &TEXT.repeat(20));
    }
    folder
}

fn plain(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

fn gz(path: &Path, text: &str) {
    let mut file = GzEncoder::new(std::fs::File::create(path).unwrap(), Compression::default());
    file.write_all(text.as_bytes()).unwrap();
    file.finish().unwrap();
}

fn zst(path: &Path, text: &str) {
    std::fs::write(path, zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap();
}

fn tokens(corpus: &Path, split: Split, cache: &Path) -> Tokens {
    Corpus::open(corpus).unwrap().tokens(split, &TokenCache::at(cache)).unwrap()
}

fn all(tokens: &Tokens) -> Vec<u16> {
    tokens.window(0, tokens.len()).unwrap()
}

fn failure(corpus: &Path) -> String {
    let cache = tempfile::tempdir().unwrap();
    let tokens =
        Corpus::open(corpus).and_then(|corpus| corpus.tokens(Split::Train, &TokenCache::at(cache.path())));
    tokens.unwrap_err().to_string()
}

fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| ".".into(), PathBuf::from)
}

#[test]
fn wikitext_2_has_as_many_tokens_as_the_release_makes_of_it() {
    let cache = tempfile::tempdir().unwrap();
    let published = [(Split::Train, 2_422_480), (Split::Validation, 256_061), (Split::Test, 292_943)];
    for (split, count) in published {
        let tokens = tokens(&root().join("data/wikitext-2"), split, cache.path());
        assert_eq!(tokens.len(), count, "{split:?}");
    }
}
