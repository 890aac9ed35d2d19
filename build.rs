//! Tells the crate which commit it is built from, so that results can name it.

use std::process::Command;

/// What a result depends on. The lock file is left out: a build for CUDA may patch it.
const SOURCES: [&str; 4] = ["src", "presets", "Cargo.toml", "build.rs"];

fn main() {
    // A file that changes makes the tree differ from its commit; a commit moves HEAD's log.
    for path in SOURCES.iter().chain(&[".git/logs/HEAD"]) {
        println!("cargo:rerun-if-changed={path}");
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&[&["status", "--porcelain", "--"], &SOURCES[..]].concat());
    let commit = match (git(&["rev-parse", "--short=12", "HEAD"]), changed) {
        (Some(commit), Some(changed)) if changed.is_empty() => commit,
        (Some(commit), _) => commit + "-dirty",
        (None, _) => "unknown".to_owned(),
    };
    println!("cargo:rustc-env=LOGLINEAR_COMMIT={commit}");
}
