//! Tells the crate which commit it is built from, so that results can name it.

use std::process::Command;

fn main() {
    // A file that changes makes the tree differ from its commit; a commit moves HEAD's log.
    for path in ["src", "presets", "Cargo.toml", "Cargo.lock", "build.rs", ".git/logs/HEAD"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let describe = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let output = Command::new("git").args(describe).output();
    let commit = output.ok().filter(|output| output.status.success());
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo:rustc-env=LOGLINEAR_COMMIT={}", commit.unwrap_or_else(|| "unknown".to_owned()));
}
