//! `README.md` beside the figures: what each shows, from what, made how.

use super::source::{Results, relative};
use super::{Claims, Entry, Outcome};
use crate::file::{self, write_atomically};
use crate::sweep::{Sitting, rfc3339};
use crate::{Error, Result};
use polars::prelude::{AnyValue, DataFrame};
use std::fmt::Write as _;
use std::path::Path;
use std::time::SystemTime;

/// Writes the page.
pub(super) fn write(
    entries: &[Entry],
    claims: &Claims,
    results: &Results,
    out: &Path,
    command: &str,
) -> Result<()> {
    let page = page(entries, claims, results, command)?;
    std::fs::create_dir_all(out).map_err(Error::io(out))?;
    write_atomically(&out.join("README.md"), page.as_bytes())
}

/// Names of the figures of the page that is there, if one is. Refuses a folder whose `README.md` isn't a page of ours.
pub(super) fn check_place(out: &Path) -> Result<Vec<String>> {
    let file = out.join("README.md");
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&file).map_err(Error::io(&file))?;
    if text.starts_with(START) {
        let name = |line: &str| Some(line.strip_prefix("![")?.split_once("](")?.0.to_owned());
        // A figure's name has no folder, so what is removed later lies beside the page.
        let plain = |name: &String| name.chars().all(|c| c.is_alphanumeric() || c == '-');
        return Ok(text.lines().filter_map(name).filter(plain).collect());
    }
    Err(Error::format(
        &file,
        "expected a page of this command or no file, found another text; choose another folder",
    ))
}

/// Removes the files of figures.
pub(super) fn remove(out: &Path, names: &[String]) -> Result<()> {
    let files = names.iter().flat_map(|name| ["svg", "png"].map(|end| out.join(format!("{name}.{end}"))));
    files.into_iter().try_for_each(|file| file::remove(&file))
}

/// First words of every page.
const START: &str = "# Figures\n\nMade by `loglinear paper figures";

fn page(entries: &[Entry], claims: &Claims, results: &Results, command: &str) -> Result<String> {
    let date = rfc3339(SystemTime::now());
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("LOGLINEAR_COMMIT"));
    let mut page = format!(
        "{START}{command}` on {date}, version {version}, commit {commit}. `loglinear` stands for \
         `cargo run --release --`. Each is an SVG and a PNG; hashes are SHA-256 of the files read.\n\n\
         The same results give the same pictures. Results themselves are repeated by the sweep that is named: by the same commit \
         bit for bit on the same kind of processor, else within rounding, which training amplifies.\n\n",
    );
    let mut write = |text: std::fmt::Arguments<'_>| {
        page.write_fmt(text).map_err(|error| Error::Figure(error.to_string()))
    };
    for Entry { name, caption, outcome } in entries {
        if let Outcome::Drawn(_, sources) = outcome {
            write(format_args!("## {name}\n\n![{name}]({name}.png)\n\n{caption}\n\n"))?;
            for source in sources {
                write(format_args!("- `{}` `{}`\n", source.path.display(), source.sha256))?;
            }
            if sources.is_empty() {
                write(format_args!("- drawn from nothing but a rule\n"))?;
            }
            write(format_args!("\n"))?;
        }
    }
    let missing = || entries.iter().filter(|entry| matches!(entry.outcome, Outcome::Missing(_)));
    if missing().count() > 0 {
        write(format_args!("## Not drawn\n\n| figure | made from |\n|---|---|\n"))?;
        for Entry { name, outcome, .. } in missing() {
            if let Outcome::Missing(command) = outcome {
                write(format_args!("| {name} | {command} |\n"))?;
            }
        }
        write(format_args!("\n"))?;
    }
    let header = "| claim | published | ours | n | verdict | rule |\n|---|---|---|---|---|---|\n";
    write(format_args!(
        "## Claims\n\nEach claim of the paper with the rule that was written into its sweep before the runs. Ours is \
         the quantity of the rule with its 95 % bootstrap interval over n runs (for a difference, pairs of runs that \
         differ in nothing else). What a rule does not name is pooled: seeds, and lengths where a sweep has several. With \
         few seeds such an interval is too narrow, and one run that fails can decide a verdict: the notes below say \
         where.\n\n{header}{}",
        rows(&claims.paper)?
    ))?;
    if claims.others.height() > 0 {
        write(format_args!(
            "\n## Small presets and other sweeps\n\nThe same rules at other sizes, to show how verdicts come about. They say \
             nothing of the published claims.\n\n{header}{}",
            rows(&claims.others)?
        ))?;
    }
    write(format_args!("{}", super::repeat::section(results)?))?;
    write(format_args!(
        "\n## Where the results are from\n\n| sweep | runs ended | trained on | sittings | seconds | commit |\n\
         |---|---|---|---|---|---|\n"
    ))?;
    for recorded in results.sweeps() {
        let sittings = recorded.folder.sittings()?;
        let list = |pick: fn(&Sitting) -> String| {
            let mut values: Vec<String> = sittings.iter().map(pick).collect();
            values.dedup();
            values.join(", ")
        };
        let ended = crate::frame::ended_runs(&recorded.collected)?.height();
        write(format_args!(
            "| `{}` in `{}` | {ended} of {} | {} | {} | {:.0} | {} |\n",
            recorded.folder.sweep().name,
            relative(recorded.folder.path()).display(),
            recorded.folder.runs().len(),
            list(machine),
            list(|s| s.started.clone()),
            sittings.iter().map(|sitting| sitting.seconds).sum::<f64>(),
            list(|s| s.commit.clone()),
        ))?;
    }
    for recorded in results.sweeps() {
        if let Some(notes) = notes(recorded.folder.path())? {
            write(format_args!("\n## Notes on `{}`\n\n{}\n", recorded.folder.sweep().name, notes.trim()))?;
        }
    }
    Ok(page)
}

/// What a sitting ran on.
pub(super) fn machine(sitting: &Sitting) -> String {
    let driver = sitting.driver.as_ref().map_or_else(String::new, |driver| format!(", driver {driver}"));
    format!("{} ({}{driver})", sitting.device, sitting.hardware)
}

/// What somebody wrote down about a sweep's results, in `notes.md` beside them.
fn notes(folder: &Path) -> Result<Option<String>> {
    let file = folder.join("notes.md");
    if !file.is_file() {
        return Ok(None);
    }
    std::fs::read_to_string(&file).map(Some).map_err(Error::io(&file))
}

/// Rows of a claims table.
fn rows(claims: &DataFrame) -> Result<String> {
    let mut text = String::new();
    for row in 0..claims.height() {
        let ours = quantity(claims, row)?;
        let columns = ["claim", "published", "n", "verdict", "rule"].map(|name| cell(claims, name, row));
        let [claim, published, n, verdict, rule] = columns;
        let line =
            format!("| {} | {} | {ours} | {} | **{}** | {} |\n", claim?, published?, n?, verdict?, rule?);
        text.push_str(&line);
    }
    Ok(text)
}

/// The quantity of a claim, with its interval.
pub(super) fn quantity(claims: &DataFrame, row: usize) -> Result<String> {
    let [ours, low, high] = ["ours", "low", "high"].map(|name| cell(claims, name, row));
    Ok(match (ours?, low?) {
        // What was counted has no interval.
        (ours, low) if ours == "–" || low == "–" => ours,
        (ours, low) => format!("{ours} [{low}, {}]", high?),
    })
}

fn cell(frame: &DataFrame, name: &str, row: usize) -> Result<String> {
    Ok(text(&frame.column(name)?.get(row)?))
}

fn text(value: &AnyValue<'_>) -> String {
    match value {
        AnyValue::Null => "–".to_owned(),
        AnyValue::String(text) => (*text).to_owned(),
        AnyValue::StringOwned(text) => text.to_string(),
        // Rounding leaves −1e−16 of a difference of equal numbers.
        AnyValue::Float64(value) => {
            format!("{:.3}", if value.abs() < 5e-4 { 0.0 } else { *value }).replace('-', "−")
        }
        other => other.to_string(),
    }
}
