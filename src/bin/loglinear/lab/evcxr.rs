//! The evcxr kernel for Jupyter, pinned.

use super::place::{Lab, cargo, output, visible};
use super::{State, Step};
use loglinear::{Error, Result};
use std::path::PathBuf;

const VERSION: &str = "0.22.0";

pub struct Evcxr;

impl Step for Evcxr {
    fn name(&self) -> &'static str {
        "evcxr kernel"
    }

    fn state(&self, lab: &Lab) -> Result<State> {
        Ok(match program(lab)? {
            Some(program) => State::Ready(format!("evcxr_jupyter {VERSION} ({})", program.display())),
            None => State::Absent {
                found: format!("no evcxr_jupyter {VERSION}"),
                plan: format!("compiling evcxr_jupyter {VERSION} (once, about 400 crates)"),
            },
        })
    }

    fn make(&self, lab: &Lab) -> Result<()> {
        let build = lab.shared().join("evcxr-build");
        let mut install = cargo();
        install.args(["install", "--locked", "--version", VERSION, "evcxr_jupyter", "--root"]);
        // An interrupted build goes on: what was compiled stays until it is whole.
        install.arg(own(lab)).env("CARGO_TARGET_DIR", &build).env("CARGO_INCREMENTAL", "0");
        visible(&mut install)?;
        std::fs::remove_dir_all(&build).map_err(Error::io(&build))
    }
}

/// Where our own copy is installed.
fn own(lab: &Lab) -> PathBuf {
    lab.shared().join("evcxr")
}

/// The kernel's program, of exactly our version: ours, or one that the user has.
pub fn program(lab: &Lab) -> Result<Option<PathBuf>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    for root in [Some(own(lab)), home].into_iter().flatten() {
        let program = root.join("bin").join("evcxr_jupyter");
        if !program.is_file() {
            continue;
        }
        // The program itself doesn't tell its version; cargo's list of what it installed does.
        let list = output(cargo().args(["install", "--list", "--root"]).arg(&root))?;
        let wanted = format!("evcxr_jupyter v{VERSION}:");
        if String::from_utf8_lossy(&list).lines().any(|line| line == wanted) {
            return Ok(Some(program));
        }
    }
    Ok(None)
}
