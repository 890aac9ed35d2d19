//! Text as a task: tokens as the release counts them, caches that heal, windows, and errors that say where.

use flate2::{Compression, write::GzEncoder};
use loglinear::model::IGNORED;
use loglinear::task::*;
use proptest::prelude::*;
use std::collections::HashSet;
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

/// Writes a text.
type Writer = fn(&Path, &str);

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

#[test]
fn compressed_and_plain_text_give_the_same_tokens_and_share_one_cache_file() {
    let cache = tempfile::tempdir().unwrap();
    let writers: [(&str, Writer); 4] =
        [(".raw", plain), (".raw.gz", gz), (".tokens.zst", zst), (".tokens", plain)];
    let read: Vec<_> = writers
        .into_iter()
        .map(|(end, write)| {
            let folder = corpus(end, write);
            let tokens = tokens(folder.path(), Split::Train, cache.path());
            assert_eq!(tokens.record().file, format!("wiki.train{end}"));
            (tokens.record().sha256.clone(), tokens.path().to_owned(), all(&tokens))
        })
        .collect();
    assert!(read.iter().all(|one| *one == read[0]));
    assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1);
}

#[test]
fn lines_are_encoded_with_their_ends_and_blank_ones_left_out() {
    let cache = tempfile::tempdir().unwrap();
    let folder = corpus(".raw", plain);
    let tokenizer = Tokenizer::gpt2();
    let expected: Vec<u32> = TEXT
        .repeat(20)
        .split_inclusive('\n')
        .filter(|line| !line.trim().is_empty())
        .flat_map(|line| tokenizer.encode(line))
        .collect();
    let found: Vec<u32> =
        all(&tokens(folder.path(), Split::Train, cache.path())).into_iter().map(u32::from).collect();
    assert_eq!(found, expected);
    // A special token in a text is text.
    assert!(!found.contains(&50256));
}

#[test]
fn windows_line_ends_count_as_line_ends() {
    let cache = tempfile::tempdir().unwrap();
    let unix = corpus(".raw", plain);
    let windows = corpus(".raw", |path, text| plain(path, &text.replace('\n', "\r\n")));
    let [unix, windows] = [&unix, &windows].map(|folder| tokens(folder.path(), Split::Train, cache.path()));
    assert_eq!(all(&unix), all(&windows));
    assert_ne!(unix.record().sha256, windows.record().sha256);
}

/// A text of nine different tokens, and what they are: between letters and digits nothing merges.
fn nine() -> (TempDir, Tokens, [i32; 9]) {
    let folder = tempfile::tempdir().unwrap();
    for split in ["train", "valid", "test"] {
        plain(&folder.path().join(format!("wiki.{split}.raw")), "a1b2c3d4e");
    }
    let tokens = tokens(folder.path(), Split::Train, &folder.path().join("cache"));
    let ids: Vec<i32> = all(&tokens).into_iter().map(i32::from).collect();
    (folder, tokens, ids.try_into().unwrap())
}

#[test]
fn windows_do_not_overlap_and_targets_are_one_or_two_ahead() {
    let (_folder, tokens, t) = nine();
    let none = IGNORED as i32;
    for (offset, targets) in
        [(1, [[t[1], t[2], t[3]], [t[4], t[5], t[6]]]), (2, [[t[2], t[3], none], [t[5], t[6], none]])]
    {
        let set = Dataset::of_tokens(tokens.clone(), 3, offset, 0).unwrap();
        // (9 − 1) / 3 windows; the tail is dropped.
        assert_eq!(set.len(), 2);
        for (window, inputs) in [[t[0], t[1], t[2]], [t[3], t[4], t[5]]].into_iter().enumerate() {
            let example = set.read(window).unwrap();
            assert_eq!(example.tokens, inputs);
            assert_eq!(example.targets, targets[window]);
            assert_eq!(example.regions, [Region::Text; 3]);
        }
        assert!(set.read(2).unwrap_err().to_string().contains("below 2"));
        let device = crate::fixture::device();
        let batch = Batch::stack(&[set.clone(), set], &[vec![1, 0], vec![0, 2]], &device).unwrap();
        let scored = if offset == 1 { [6, 3] } else { [4, 2] };
        assert_eq!(batch.scored, scored);
        let found: Vec<i32> = batch.tokens.into_data().iter().collect();
        assert_eq!(found, [&t[3..6], &t[..3], &t[..3], &[0; 3]].concat());
    }
    // The last target of the last window is the last token.
    assert_eq!(Dataset::of_tokens(tokens, 4, 1, 0).unwrap().read(1).unwrap().targets, t[5..]);
}

#[test]
fn an_epoch_sees_every_window_once_in_an_order_of_the_seed() {
    let cache = tempfile::tempdir().unwrap();
    let folder = corpus(".raw", plain);
    let tokens = tokens(folder.path(), Split::Train, cache.path());
    let order = |seed| {
        let mut set = Dataset::of_tokens(tokens.clone(), 8, 1, seed).unwrap();
        let windows = set.len();
        let epoch: Vec<usize> = (0..windows).flat_map(|step| set.order(step, 1).unwrap()).collect();
        assert_eq!(epoch.iter().collect::<HashSet<_>>().len(), windows);
        let mut seen: Vec<(usize, i32)> = Vec::new();
        for &window in &epoch {
            let tokens = set.read(window).unwrap().tokens;
            seen.extend(tokens.into_iter().enumerate().map(|(i, token)| (8 * window + i, token)));
        }
        seen.sort_unstable();
        let expected = tokens.window(0, 8 * windows).unwrap().into_iter().map(i32::from);
        assert_eq!(seen, expected.enumerate().collect::<Vec<_>>());
        epoch
    };
    assert_eq!(order(0), order(0));
    assert_ne!(order(0), order(1));
}

#[test]
fn a_damaged_cache_is_made_anew() {
    let damages: [fn(&mut Vec<u8>); 7] = [
        |bytes| bytes[0] ^= 1,
        |bytes| bytes[8] ^= 1,
        |bytes| bytes[12] ^= 1,
        |bytes| bytes[30] ^= 1,
        |bytes| *bytes.last_mut().unwrap() ^= 1,
        |bytes| bytes.truncate(bytes.len() - 2),
        |bytes| bytes.truncate(50),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let cache = tempfile::tempdir().unwrap();
        // Another folder each time: what a process has opened it doesn't check again.
        let (one, two) = (corpus(".raw", plain), corpus(".raw", plain));
        let whole = tokens(one.path(), Split::Train, cache.path());
        let bytes = std::fs::read(whole.path()).unwrap();
        let mut damaged = bytes.clone();
        damage(&mut damaged);
        std::fs::write(whole.path().with_extension("new"), damaged).unwrap();
        std::fs::rename(whole.path().with_extension("new"), whole.path()).unwrap();
        let healed = tokens(two.path(), Split::Train, cache.path());
        assert_eq!(all(&healed), all(&whole), "damage {number}");
        assert_eq!(std::fs::read(healed.path()).unwrap(), bytes, "damage {number}");
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1, "nothing is left behind");
    }
}

#[test]
fn a_folder_without_exactly_one_file_for_each_split_is_refused() {
    let folder = corpus(".raw", plain);
    plain(&folder.path().join("wiki.valid.raw.gz"), "");
    let message = failure(folder.path());
    assert!(message.contains("wiki.valid.raw and wiki.valid.raw.gz"), "{message}");
    std::fs::remove_file(folder.path().join("wiki.valid.raw")).unwrap();
    std::fs::remove_file(folder.path().join("wiki.valid.raw.gz")).unwrap();
    let message = failure(folder.path());
    assert!(message.contains("wiki.valid.{raw,tokens}") && message.contains("found none"), "{message}");
    assert!(message.starts_with(&folder.path().display().to_string()), "{message}");
    plain(&folder.path().join("wiki.valid.tokens"), TEXT);
    assert!(failure(folder.path()).contains("three .raw or three .tokens"));
    assert!(failure(&folder.path().join("absent")).contains("found nothing"));
}

#[test]
fn a_text_that_is_empty_or_not_utf_8_is_refused() {
    for (text, found) in [("", "found none"), (" \n\n", "blank lines only")] {
        let message = failure(corpus(".raw", |path, _| plain(path, text)).path());
        assert!(message.contains("train split") && message.contains(found), "{message}");
    }
    let broken = corpus(".raw", |path, text| {
        std::fs::write(path, [text.as_bytes(), b"x\xff\n"].concat()).unwrap();
    });
    let message = failure(broken.path());
    let at = format!("0xFF at offset {}", TEXT.repeat(20).len() + 1);
    assert!(message.contains("wiki.train.raw") && message.contains(&at), "{message}");
    // A file that isn't what its name says.
    let message = failure(corpus(".raw.zst", plain).path());
    assert!(message.contains("wiki.train.raw.zst"), "{message}");
}

#[test]
fn impossible_fields_are_named() {
    let check = |change: fn(&mut TextConfig)| {
        let mut config = TextConfig::default();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    for wrong in [|c: &mut TextConfig| c.target_offset = 0, |c: &mut TextConfig| c.target_offset = 3] {
        let message = check(wrong);
        assert!(
            message.contains("task.target_offset") && message.contains("1 (the next token) or 2"),
            "{message}"
        );
    }
    assert!(check(|c| c.seq_len = 1).contains("task.seq_len"));
    assert!(check(|c| c.train_tokens = 512).contains("task.train_tokens must be 0 (all) or 513"));
    assert!(check(|c| c.validation_tokens = usize::MAX).contains("task.validation_tokens"));
    assert!(check(|c| c.corpus = PathBuf::new()).contains("task.corpus"));
    let (_folder, tokens, _) = nine();
    let message = Dataset::of_tokens(tokens.clone(), 9, 1, 0).unwrap_err().to_string();
    assert!(message.contains("at least 10 tokens") && message.contains("wiki.train.raw"), "{message}");
    assert!(Dataset::of_tokens(tokens.clone(), 3, 5, 0).unwrap_err().to_string().contains("target_offset"));
    assert!(tokens.window(8, 2).unwrap_err().to_string().contains("within the 9 tokens"));
    let message = Dataset::open(&TaskConfig::default(), 0, Split::Test).unwrap_err().to_string();
    assert!(message.contains("mqar is drawn from seeds"), "{message}");
}

#[test]
fn a_text_file_is_divided_at_line_ends_into_90_5_and_5_percent() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..1000).map(|i| format!("line {i:04}\n")).collect();
    let files: [(&str, Writer); 3] = [("a.txt", plain), ("b.txt.gz", gz), ("c.txt.zst", zst)];
    for (name, write) in files {
        let path = folder.path().join(name);
        write(&path, &lines.concat());
        let cache = folder.path().join("cache");
        let text = |split| {
            let ids: Vec<u32> = all(&tokens(&path, split, &cache)).into_iter().map(u32::from).collect();
            Tokenizer::gpt2().decode(&ids).unwrap()
        };
        assert_eq!(text(Split::Train), lines[..900].concat(), "{name}");
        assert_eq!(text(Split::Validation), lines[900..950].concat(), "{name}");
        assert_eq!(text(Split::Test), lines[950..].concat(), "{name}");
    }
    // A share that ends within a line goes on to its end; then nothing may be left.
    let path = folder.path().join("short.txt");
    plain(&path, "one line\nand a long second line\n");
    assert_eq!(tokens(&path, Split::Train, folder.path()).record().file, "short.txt (bytes 0 to 32)");
    let corpus = Corpus::open(&path).unwrap();
    let message = corpus.tokens(Split::Validation, &TokenCache::at(folder.path())).unwrap_err().to_string();
    assert!(message.contains("valid split") && message.contains("found none"), "{message}");
}

proptest! {
    #[test]
    fn decoding_gives_back_what_was_encoded(text in any::<String>()) {
        let tokenizer = Tokenizer::gpt2();
        prop_assert_eq!(tokenizer.decode(&tokenizer.encode(&text)).unwrap(), text);
    }
}

#[test]
fn every_token_has_a_piece_that_can_be_printed() {
    let tokenizer = Tokenizer::gpt2();
    for token in 0..Tokenizer::VOCAB as u32 {
        let piece = tokenizer.piece(token).unwrap();
        assert!(!piece.is_empty() && !piece.chars().any(char::is_control), "{token}: {piece:?}");
    }
    let piece = |text| tokenizer.piece(tokenizer.encode(text)[0]).unwrap();
    assert_eq!(piece("\n"), "\\n");
    assert_eq!(piece(" the"), " the");
    assert_eq!(piece("\u{2603}"), "\\xE2\\x98");
    let message = tokenizer.piece(50_257).unwrap_err().to_string();
    assert!(message.contains("0 to 50256") && message.contains("50257"), "{message}");
    assert!(tokenizer.decode(&[0, 1 << 20]).is_err());
}

#[test]
fn a_configuration_survives_toml_and_another_length() {
    let text = TextConfig { corpus: "a/b".into(), target_offset: 2, ..TextConfig::default() };
    let config = loglinear::train::RunConfig { task: TaskConfig::Text(text), ..Default::default() };
    let toml = config.to_toml();
    assert!(toml.contains("name = \"text\"") && toml.contains("corpus = \"a/b\""), "{toml}");
    assert_eq!(toml::from_str::<loglinear::train::RunConfig>(&toml).unwrap(), config);
    assert_eq!(config.task.with_seq_len(64).task().seq_len(), 64);
    assert!(config.task.examples().is_none() && config.task.drawn().is_none());
    assert!(config.validate().unwrap_err().to_string().contains("model.max_seq_len"));
}

/// `loglinear train --task text`, small, with a cache of its own.
fn train(folder: &Path, more: &[&str]) -> std::process::Output {
    let arguments = "train --task text --corpus corpus --seq-len 16 --d-model 8 --layers 1 --steps 2 --batch 2 \
                     --eval-every 1 --lambda fixed --target 0 --quiet --out runs";
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_loglinear"));
    command.args(arguments.split_whitespace().chain(more.iter().copied())).current_dir(folder);
    command.env("LOGLINEAR_CACHE", folder.join("cache")).output().unwrap()
}

#[test]
fn processes_that_start_at_once_share_one_whole_cache_file() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..40_000).map(|i| format!("line {i} of a longer text .\n")).collect();
    plain(&folder.path().join("corpus"), &lines);
    let place = folder.path();
    std::thread::scope(|scope| {
        let start = |seed: &'static str| {
            scope.spawn(move || train(place, &["--seed", seed, "--validation-tokens", "64"]))
        };
        for process in ["0", "1", "2"].map(start) {
            let output = process.join().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    });
    // One of the training part, one of the validation part.
    assert_eq!(std::fs::read_dir(folder.path().join("cache/tokens")).unwrap().count(), 2);
}

#[test]
fn a_run_on_a_text_records_it_and_is_not_resumed_on_another() {
    let folder = corpus(".raw", |_, _| {});
    let place = folder.path().join("corpus");
    let run = folder.path().join("runs/fixed-seed0");
    let said = |output: std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    // A corpus that can't be used leaves no folder in the way.
    let message = said(train(folder.path(), &[]));
    assert!(message.contains("found nothing") && !run.exists(), "{message}");
    std::fs::create_dir(&place).unwrap();
    for split in ["train", "valid", "test"] {
        plain(&place.join(format!("wiki.{split}.raw")), &TEXT.repeat(20));
    }
    let output = train(folder.path(), &["--target-offset", "2"]);
    assert!(output.status.success(), "{}", said(output));
    let opened = loglinear::train::RunFolder::open(&run).unwrap();
    let record = opened.corpus().unwrap().unwrap();
    assert_eq!((record.tokenizer.as_str(), record.train.file.as_str()), ("gpt2", "wiki.train.raw"));
    assert_eq!(opened.config().unwrap().model.vocab, 50_257);
    assert!(folder.path().join("cache/tokens").is_dir());
    // As if it had been killed; the same text goes on, also when it is compressed meanwhile.
    std::fs::remove_file(run.join("result.json")).unwrap();
    gz(&place.join("wiki.train.raw.gz"), &TEXT.repeat(20));
    std::fs::remove_file(place.join("wiki.train.raw")).unwrap();
    let output = train(folder.path(), &["--target-offset", "2"]);
    assert!(output.status.success(), "{}", said(output));
    std::fs::remove_file(run.join("result.json")).unwrap();
    gz(&place.join("wiki.train.raw.gz"), &TEXT.repeat(21));
    let message = said(train(folder.path(), &["--target-offset", "2"]));
    assert!(message.contains("its corpus has changed") && message.contains("train split"), "{message}");
}

#[test]
fn flags_of_a_text_and_of_drawn_tasks_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, expected) in [
        (&["--train-examples", "5"][..], "--train-examples must be used with --task mqar"),
        (&["--pairs", "5"], "--pairs must be used with --task mqar only, found it with text"),
        (&["--target-offset", "3"], "task.target_offset must be 1 (the next token) or 2"),
    ] {
        let output = train(folder.path(), flags);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && message.contains(expected), "{message}");
    }
    for flag in ["--corpus", "--target-offset", "--train-tokens", "--validation-tokens"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_loglinear"))
            .args(["train", flag, "2"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains(&format!("{flag} must be used with --task text only")), "{message}");
    }
}
