//! Where GPU kernels are kept, and carrying them. `tests/fixtures/kernels.db` is an environment as CubeCL writes it: 12
//! kernels for sm_90, 3 more in its log, and one that wasn't committed.

use loglinear::kernel_cache::{Contents, Existing, export, import, size};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Kernels in the file, and with its log.
const IN_FILE: usize = 12;
const IN_ALL: usize = 15;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A cache folder that holds the environment, or only what is in its file.
fn filled(folder: &Path, log: bool) -> PathBuf {
    let kernels = folder.join("kernels");
    std::fs::create_dir_all(&kernels).unwrap();
    std::fs::copy(fixture("kernels.db"), kernels.join("loglinear.db")).unwrap();
    if log {
        std::fs::copy(fixture("kernels.db-wal"), kernels.join("loglinear.db-wal")).unwrap();
    }
    kernels.join("loglinear.db")
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// `loglinear cache`, with a cache folder, in a working folder without settings.
fn cache(cache: &Path, working: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loglinear"));
    command.arg("cache").args(arguments).current_dir(working);
    command.env("LOGLINEAR_CACHE", cache).env_remove("CUBECL_ENVIRONMENT").output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_environment_is_read_with_its_log_up_to_the_last_commit() {
    let folder = tempfile::tempdir().unwrap();
    let file = filled(folder.path(), false);
    assert_eq!(Contents::read(&file).unwrap().count(), IN_FILE);
    filled(folder.path(), true);
    let contents = Contents::read(&file).unwrap();
    assert_eq!(contents.describe(), format!("{IN_ALL} for sm_90 (CubeCL 0.11.3)"));
    assert_eq!(contents.others, 20);
    assert_eq!(size(&file).unwrap(), 36_864 + 26_232);
    // None yet, and a file that is something else or only half there.
    assert_eq!(Contents::read(&folder.path().join("none.db")).unwrap(), Contents::default());
    let whole = std::fs::read(&file).unwrap();
    std::fs::remove_file(folder.path().join("kernels/loglinear.db-wal")).unwrap();
    for (content, found) in
        [(&whole[..20_000], "is torn"), (&b"notes"[..], "SQLite"), (&[0; 4096][..], "SQLite")]
    {
        std::fs::write(&file, content).unwrap();
        let message = Contents::read(&file).unwrap_err().to_string();
        assert!(message.contains(found) && message.contains("loglinear.db"), "{message}");
    }
}

#[test]
fn what_one_machine_exports_another_imports() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there, working) = (folder.path().join("here"), folder.path().join("there"), folder.path());
    filled(&here, true);
    let before = json(&cache(&here, working, &["--json"]));
    assert_eq!(before["kernels"][0]["count"], IN_ALL);
    assert_eq!(json(&cache(&there, working, &["--json"]))["kernels"], serde_json::json!([]));

    let exported = json(&cache(&here, working, &["--export", "kernels.zst", "--json"]));
    assert_eq!(exported["kernels"], before["kernels"]);
    assert!(exported["bytes"].as_u64().unwrap() < 10_000);
    let imported = json(&cache(&there, working, &["--import", "kernels.zst", "--force", "--json"]));
    assert_eq!(imported["kernels"], before["kernels"]);
    for file in ["loglinear.db", "loglinear.db-wal"] {
        let content = |cache: &Path| std::fs::read(cache.join("kernels").join(file)).unwrap();
        assert_eq!(content(&here), content(&there));
    }
    assert_eq!(names(&there.join("kernels")), ["loglinear.db", "loglinear.db-wal"]);

    // Nothing is overwritten unasked.
    let refused = [
        (cache(&here, working, &["--export", "kernels.zst"]), "doesn't exist yet"),
        (cache(&there, working, &["--import", "kernels.zst"]), "--merge"),
        (cache(&working.join("empty"), working, &["--export", "other.zst"]), "found none"),
        (cache(&there, working, &["--import", "none.zst"]), "none.zst"),
    ];
    for (output, named) in refused {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && message.contains(named), "{message}");
    }
    assert_eq!(names(working), ["here", "kernels.zst", "there"]);
    // The log of what is replaced goes with it.
    filled(&here, false);
    std::fs::remove_file(here.join("kernels/loglinear.db-wal")).unwrap();
    assert!(cache(&here, working, &["--export", "kernels.zst", "--force"]).status.success());
    assert!(cache(&there, working, &["--import", "kernels.zst", "--force"]).status.success());
    assert_eq!(names(&there.join("kernels")), ["loglinear.db"]);
}

#[test]
fn torn_and_foreign_files_are_refused_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = filled(folder.path(), true);
    let carried = folder.path().join("kernels.zst");
    export(&file, &carried, false).unwrap();
    let whole = std::fs::read(&carried).unwrap();
    let plain = zstd::decode_all(&whole[..]).unwrap();
    let target = folder.path().join("there/kernels/loglinear.db");
    let refuse = |content: &[u8], architectures: &[&str], parts: &[&str]| {
        std::fs::write(&carried, content).unwrap();
        let here: Vec<String> = architectures.iter().map(|&name| name.to_owned()).collect();
        let message = import(&carried, &target, Existing::Replace, &here).unwrap_err().to_string();
        assert!(
            parts.iter().chain(&["kernels.zst"]).all(|part| message.contains(part)),
            "{parts:?}: {message}"
        );
        assert!(names(target.parent().unwrap()).is_empty(), "{parts:?}");
    };
    let packed = |content: &[u8]| zstd::encode_all(content, 3).unwrap();
    let changed = |from: &str, to: &str| {
        let text = plain.windows(from.len()).position(|bytes| bytes == from.as_bytes()).unwrap();
        packed(&[&plain[..text], to.as_bytes(), &plain[text + from.len()..]].concat())
    };
    for length in [whole.len() - 1, whole.len() / 2, whole.len() / 10] {
        refuse(&whole[..length], &[], &["torn"]);
    }
    for at in (200..whole.len()).step_by(501) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        refuse(&flipped, &[], &[]);
    }
    refuse(&packed(&plain[..plain.len() - 1]), &[], &["torn", "bytes"]);
    refuse(&packed(&[&plain[..], b"x"].concat()), &[], &["more in it"]);
    refuse(b"no archive at all", &[], &["cache --export"]);
    refuse(&packed(b"another archive"), &[], &["cache --export"]);
    refuse(&packed(b"LLKERNELS 1\n{}\n"), &[], &["manifest"]);
    refuse(&changed("0.11.3", "0.10.0"), &[], &["CubeCL 0.11.3", "0.10.0"]);
    refuse(&changed("\"count\":15", "\"count\":14"), &[], &["other kernels"]);
    refuse(&whole, &["sm_80", "sm_89"], &["sm_80, sm_89", "sm_90"]);

    std::fs::write(&carried, &whole).unwrap();
    let here = ["sm_80", "sm_90"].map(str::to_owned);
    import(&carried, &target, Existing::Refuse, &here).unwrap();
    assert_eq!(Contents::read(&target).unwrap().count(), IN_ALL);
}

#[test]
fn merging_adds_what_is_missing_where_there_is_cubecl() {
    let folder = tempfile::tempdir().unwrap();
    let (all, some) = (folder.path().join("all"), folder.path().join("some"));
    filled(&all, true);
    filled(&some, false);
    json(&cache(&all, folder.path(), &["--export", "kernels.zst", "--json"]));
    let merge = || cache(&some, folder.path(), &["--import", "kernels.zst", "--merge", "--json"]);
    if !cfg!(feature = "cuda") {
        let output = merge();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("`cuda` feature"));
        return;
    }
    assert_eq!(json(&merge())["added"], IN_ALL - IN_FILE);
    assert_eq!(Contents::read(&some.join("kernels/loglinear.db")).unwrap().count(), IN_ALL);
    assert_eq!(json(&merge())["added"], 0);
}

#[test]
fn the_place_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let show = |arguments: &[&str]| {
        let output = cache(&folder.path().join("mine"), folder.path(), arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = show(&[]);
    for part in
        ["mine/kernels/loglinear.db", "LOGLINEAR_CACHE is set", "kernels    none", "--export", "0.0 MB"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!folder.path().join("mine").exists(), "looking made something");
    let settings = folder.path().join("cubecl.toml");
    std::fs::write(&settings, "[environment]\nname = 'own'\npath = 'local'\n").unwrap();
    let text = show(&[]);
    assert!(text.contains("own.db") && text.contains("cubecl.toml says so"), "{text}");
    std::fs::write(&settings, "[compilation]\ncache = false\n").unwrap();
    assert!(show(&[]).contains("keeps      nothing"));
    let value: Value = serde_json::from_str(&show(&["--json"])).unwrap();
    assert_eq!((&value["keeps"], &value["bytes"]), (&Value::from(false), &Value::from(0)));
    std::fs::File::create(&settings).unwrap().write_all(b"[environment").unwrap();
    assert!(show(&[]).contains("left out   "));
}

#[test]
fn a_place_that_can_not_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    filled(&folder.path().join("full"), true);
    json(&cache(&folder.path().join("full"), folder.path(), &["--export", "kernels.zst", "--json"]));
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = cache(&file, folder.path(), &["--import", "kernels.zst", "--force"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("file/kernels") && !message.contains("panicked"), "{message}");
}
