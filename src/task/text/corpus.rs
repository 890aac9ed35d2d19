//! A corpus: which files hold its splits, and what was read of them.

use super::encode::encode;
use super::source::{COMPRESSED, Identity, Source};
use super::{TextConfig, TokenCache, Tokenizer, Tokens};
use crate::task::Split;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// A text in three splits.
///
/// Either a folder with one file for each, as WikiText comes: `wiki.train.raw`, `wiki.valid.raw` and
/// `wiki.test.raw`, or all three `.tokens`, each plain or with `.gz` or `.zst` at the end of its name. Or one
/// text file, plain or compressed likewise: of its bytes, 90 % are for training, 5 % for validation and 5 %
/// for testing, in this order, each part up to the end of a line.
#[derive(Clone, Debug)]
pub struct Corpus {
    path: PathBuf,
    /// Training, validation, test.
    sources: [Source; 3],
}

/// What was read of one split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitRecord {
    /// Name of the file, and which bytes if it holds more.
    pub file: String,
    /// SHA-256 of the text, decompressed, in hexadecimal.
    pub sha256: String,
    /// Number of tokens.
    pub tokens: usize,
}

/// The text that a run is trained on: `corpus.json` of its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusRecord {
    /// Name of the tokenizer.
    pub tokenizer: String,
    /// The training split.
    pub train: SplitRecord,
    /// The validation split.
    pub validation: SplitRecord,
}

const SPLITS: [&str; 3] = ["train", "valid", "test"];
const ENDS: [&str; 2] = ["raw", "tokens"];

fn place(split: Split) -> usize {
    match split {
        Split::Train => 0,
        Split::Validation => 1,
        Split::Test => 2,
    }
}

/// Which tokens: of a file as it is now, or a part of it, from which cache.
type Opened = (Identity, Source, usize, TokenCache);

/// Token files that this process has open: nine runs on one text check it once.
static OPEN: LazyLock<Mutex<HashMap<Opened, Tokens>>> = LazyLock::new(Mutex::default);

/// Text files that this process has divided.
static DIVIDED: LazyLock<Mutex<HashMap<Identity, [Source; 3]>>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path, or where it is above the working directory.
fn place_of(path: &Path) -> PathBuf {
    if path.exists() || path.is_absolute() {
        return path.to_owned();
    }
    let here = std::env::current_dir().unwrap_or_default();
    let above = here.ancestors().skip(1).map(|folder| folder.join(path));
    above.into_iter().find(|place| place.exists()).unwrap_or_else(|| path.to_owned())
}

impl Corpus {
    /// Finds the splits of a corpus. Their content isn't read yet. A relative path starts from the working
    /// directory or, if nothing is there, from the nearest folder above that has it: a notebook and the command
    /// line beside it mean the same text.
    ///
    /// # Errors
    ///
    /// If there is nothing at `path`, or a folder hasn't exactly one file for each split.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = &place_of(path.as_ref());
        let sources = if path.is_dir() {
            in_folder(path)?
        } else if path.is_file() {
            let identity = Identity::of(path)?;
            let mut divided = lock(&DIVIDED);
            match divided.get(&identity) {
                Some(sources) => sources.clone(),
                None => divided.entry(identity).or_insert(Source::divide(path)?).clone(),
            }
        } else {
            let message = "expected a corpus here, a folder with wiki.{train,valid,test}.{raw,tokens} or a text \
                           file, found nothing (WikiText-2 is in data/wikitext-2; WikiText-103 is not shipped: \
                           put its three files there)";
            return Err(Error::format(path, message));
        };
        Ok(Self { path: path.to_owned(), sources })
    }

    /// Tokens of a split. The first time they are made and kept in the cache; then the cache is checked.
    ///
    /// # Errors
    ///
    /// If the text is empty, can't be read or isn't UTF-8, or the cache can't be written.
    pub fn tokens(&self, split: Split, cache: &TokenCache) -> Result<Tokens> {
        let (place, tokenizer) = (place(split), Tokenizer::gpt2());
        let source = &self.sources[place];
        let key = (Identity::of(&source.path)?, source.clone(), place, cache.clone());
        // Held while tokens are made: another thread that wants the same waits for them.
        let mut open = lock(&OPEN);
        if let Some(tokens) = open.get(&key) {
            return Ok(tokens.clone());
        }
        let fingerprint = source.fingerprint()?;
        let empty = |found: &str| {
            let name = SPLITS[place];
            let message = format!("the {name} split, {}: expected text, found {found}", source.label());
            Err(Error::format(&self.path, message))
        };
        if fingerprint.bytes == 0 {
            return empty("none");
        }
        let (file, path, tokens) = cache.open(&fingerprint.sha256, tokenizer.name(), |writer| {
            encode(source, &fingerprint, tokenizer, |tokens| writer.append(tokens))
        })?;
        if tokens == 0 {
            return empty("blank lines only");
        }
        let record = SplitRecord { file: source.label(), sha256: fingerprint.sha256, tokens };
        let tokens = Tokens::new(file, path, split, record);
        open.insert(key, tokens.clone());
        Ok(tokens)
    }
}

/// The one file of each split in a folder.
fn in_folder(folder: &Path) -> Result<[Source; 3]> {
    let mut sources = Vec::new();
    for split in SPLITS {
        let ends = [""].into_iter().chain(COMPRESSED);
        let names = ENDS.iter().flat_map(|kind| {
            ends.clone().map(move |end| match end {
                "" => format!("wiki.{split}.{kind}"),
                end => format!("wiki.{split}.{kind}.{end}"),
            })
        });
        let found: Vec<String> = names.filter(|name| folder.join(name).is_file()).collect();
        let [name] = &found[..] else {
            let found = if found.is_empty() { "none".to_owned() } else { found.join(" and ") };
            let expected = format!("exactly one file wiki.{split}.{{raw,tokens}}, plain, .gz or .zst");
            return Err(Error::format(folder, format!("expected {expected}, found {found}")));
        };
        sources.push((name.contains(".raw"), Source::whole(folder.join(name))));
    }
    if sources.iter().any(|(raw, _)| *raw != sources[0].0) {
        let names: Vec<String> = sources.iter().map(|(_, source)| source.label()).collect();
        let message = format!(
            "expected three .raw or three .tokens files (in .tokens rare words are <unk>), found {}",
            names.join(", ")
        );
        return Err(Error::format(folder, message));
    }
    let mut sources = sources.into_iter().map(|(_, source)| source);
    // One was pushed for every split.
    Ok(std::array::from_fn(|_| sources.next().unwrap_or_else(|| unreachable!("three splits"))))
}

impl CorpusRecord {
    /// What a configuration's text is now.
    ///
    /// # Errors
    ///
    /// As [`Corpus::open`] and [`Corpus::tokens`].
    pub fn of(config: &TextConfig, cache: &TokenCache) -> Result<Self> {
        let corpus = Corpus::open(&config.corpus)?;
        let record = |split| Ok::<_, Error>(corpus.tokens(split, cache)?.record().clone());
        Ok(Self {
            tokenizer: Tokenizer::gpt2().name().to_owned(),
            train: record(Split::Train)?,
            validation: record(Split::Validation)?,
        })
    }

    /// Where another text differs, if it does. Names of files don't count: a text may be compressed later.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        if self.tokenizer != other.tokenizer {
            return Some(format!("tokenizer {}, now {}", self.tokenizer, other.tokenizer));
        }
        let splits = [("train", &self.train, &other.train), ("valid", &self.validation, &other.validation)];
        splits.into_iter().find(|(_, a, b)| (&a.sha256, a.tokens) != (&b.sha256, b.tokens)).map(
            |(name, a, b)| {
                let of = |record: &SplitRecord| {
                    format!("{} tokens of {} (SHA-256 {})", record.tokens, record.file, record.sha256)
                };
                format!("{name} split: {}, now {}", of(a), of(b))
            },
        )
    }
}
