//! A Python environment of our own with pinned JupyterLab and nbclient.

use super::place::{Lab, output, visible};
use super::{State, Step};
use loglinear::{Error, Result};
use std::io::IsTerminal;
use std::process::Command;

/// Every package and version, as pip froze them.
const REQUIREMENTS: &str = include_str!("requirements.txt");

/// No questions about news at the first start, and no requests to fetch them.
const OVERRIDES: (&str, &str) = (
    "share/jupyter/lab/settings/overrides.json",
    "{\"@jupyterlab/apputils-extension:notification\": {\"fetchNews\": \"false\", \"checkForUpdates\": false}}\n",
);

/// Oldest Python that these versions run on.
const OLDEST: (u32, u32) = (3, 10);

pub struct Python;

impl Step for Python {
    fn name(&self) -> &'static str {
        "JupyterLab"
    }

    fn state(&self, lab: &Lab) -> Result<State> {
        let installed = std::fs::read_to_string(marker(lab)).is_ok_and(|text| text == REQUIREMENTS);
        if installed && lab.tool("python").exists() {
            return Ok(State::Ready(versions()));
        }
        Ok(match interpreter() {
            Ok(_) => State::Absent {
                found: "not installed".to_owned(),
                plan: format!("installing {} into a private environment", versions()),
            },
            Err(message) => State::Blocked(message),
        })
    }

    fn make(&self, lab: &Lab) -> Result<()> {
        let interpreter =
            interpreter().map_err(|message| Error::Command { command: "python3".to_owned(), message })?;
        let environment = lab.shared().join("python");
        let requirements = lab.shared().join("requirements.txt");
        super::place::write(&requirements, REQUIREMENTS)?;
        output(Command::new(interpreter).args(["-m", "venv", "--clear"]).arg(&environment))?;
        let mut pip = Command::new(lab.tool("python"));
        pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--requirement"]);
        pip.arg(&requirements);
        // Its bars on a terminal; a log needs no list of ninety packages.
        if !std::io::stderr().is_terminal() {
            pip.arg("--quiet");
        }
        visible(&mut pip)?;
        super::place::write(&environment.join(OVERRIDES.0), OVERRIDES.1)?;
        super::place::write(&marker(lab), REQUIREMENTS)
    }
}

/// Written last: its presence says that the environment is whole.
fn marker(lab: &Lab) -> std::path::PathBuf {
    lab.shared().join("python").join("installed.txt")
}

/// The versions that a reader asks about.
fn versions() -> String {
    let named = |name: &'static str| REQUIREMENTS.lines().find(|line| line.starts_with(name)).unwrap_or(name);
    format!("{}, {}", named("jupyterlab==").replace("==", " "), named("nbclient==").replace("==", " "))
}

/// A Python that is new enough and can make environments, or what is missing.
fn interpreter() -> std::result::Result<&'static str, String> {
    const PROBE: &str = "import sys, venv, ensurepip; print(sys.version_info[0], sys.version_info[1])";
    let wanted = format!("Python {}.{} or later", OLDEST.0, OLDEST.1);
    let mut found = format!("{wanted} (`python3`) on the path");
    for name in ["python3", "python3.13", "python3.12", "python3.11", "python3.10"] {
        let Ok(answer) = Command::new(name).args(["-c", PROBE]).output() else { continue };
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        let mut parts = text.split_whitespace().filter_map(|part| part.parse::<u32>().ok());
        match (parts.next(), parts.next()) {
            (Some(major), Some(minor)) if (major, minor) >= OLDEST => return Ok(name),
            (Some(major), Some(minor)) => found = format!("{wanted}; `{name}` is {major}.{minor}"),
            _ => found = format!("the module venv of `{name}` (on Debian: apt install python3-venv)"),
        }
    }
    Err(found)
}
