//! Sweeps that were trained a second time: what of their results is rounding's and not the seeds'.
//!
//! The runs of a repeat have the same seeds, data and settings, but other kernels or another machine, whose sums round
//! differently. Training amplifies that until, some hundred steps on, it is another run.

use super::page::{machine, quantity};
use super::source::{Recorded, Results, Source};
use crate::frame::{ended_runs, numbers, own_name, read_parquet, texts};
use crate::sweep::{Sitting, SweepFolder, claims_table, read_sittings};
use crate::train::Status;
use crate::{Error, Result};
use polars::prelude::DataFrame;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Folder in a sweep's in which a repeat's files lie.
const FOLDER: &str = "repeat";

/// A sweep's runs, trained again.
#[derive(Clone, Debug)]
pub struct Repeat {
    /// `repeat/collected.parquet` in the sweep's folder.
    pub collected: DataFrame,
    /// That file.
    pub source: Source,
    /// When, on what and from which commit they were trained.
    pub sittings: Vec<Sitting>,
}

impl Repeat {
    /// The repeat of a sweep whose runs came to `first`, if one lies in its folder.
    ///
    /// # Errors
    ///
    /// If its files can't be read, or it has other runs.
    pub(super) fn of(folder: &SweepFolder, first: &DataFrame) -> Result<Option<Self>> {
        let place = folder.path().join(FOLDER);
        let file = place.join("collected.parquet");
        if !file.is_file() {
            return Ok(None);
        }
        let collected = read_parquet(&file)?;
        let (expected, found) = (names(first)?, names(&collected)?);
        if let Some(name) = found.iter().find(|name| !expected.contains(name)) {
            let message = format!("expected the runs of `{}`, found `{name}`", folder.sweep().name);
            return Err(Error::format(&file, message));
        }
        let sittings = read_sittings(&place.join("sittings.jsonl"))?;
        Ok(Some(Self { collected, source: Source::of(&file)?, sittings }))
    }
}

/// A run that ended: its kind, whether it reached its target accuracy, and what it came to.
struct Ended {
    kind: String,
    reached: bool,
    best: f64,
    /// Last validation loss and gradient norm.
    last: [f64; 2],
}

impl Ended {
    /// Whether two runs are the same to the last digit.
    fn equals(&self, other: &Self) -> bool {
        let bits = |run: &Self| [run.best, run.last[0], run.last[1]].map(f64::to_bits);
        bits(self) == bits(other)
    }
}

/// The runs of a frame, without the folder that they were in.
fn names(collected: &DataFrame) -> Result<Vec<String>> {
    Ok(texts(collected, "run")?.iter().map(|run| own_name(run).to_owned()).collect())
}

/// Runs that ended, by name.
fn ended(collected: &DataFrame) -> Result<BTreeMap<String, Ended>> {
    let runs = ended_runs(collected)?;
    let (kinds, statuses) = (texts(&runs, "kind")?, texts(&runs, "status")?);
    let [best, losses, norms] =
        ["best_accuracy", "validation_loss", "gradient_norm"].map(|name| numbers(&runs, name));
    let (best, losses, norms) = (best?, losses?, norms?);
    let run = |(i, name): (usize, String)| {
        let reached = statuses[i] == Status::Target.name();
        (name, Ended { kind: kinds[i].clone(), reached, best: best[i], last: [losses[i], norms[i]] })
    };
    Ok(names(&runs)?.into_iter().enumerate().map(run).collect())
}

/// How two trainings of the runs of one kind compare.
#[derive(Default)]
struct Agreement {
    runs: usize,
    identical: usize,
    /// Runs that reached the target both times, the first time only, never, the second time only.
    reached: [usize; 4],
    /// Sums of the best accuracies of both times, and of their distances.
    first: f64,
    second: f64,
    apart: f64,
    /// Sum and number of distances between a run and those of other seeds in the same setting, the second time.
    of_others: (f64, usize),
}

impl Agreement {
    /// The mean distance between runs of different seeds, if there are any.
    fn distance_of_others(&self) -> String {
        match self.of_others {
            (_, 0) => "–".to_owned(),
            (sum, count) => format!("{:.1} points", 100.0 * sum / count as f64),
        }
    }
}

/// A run's name without its seed.
fn setting(name: &str) -> String {
    let kept = |part: &&str| part.strip_prefix("seed").is_none_or(|seed| seed.parse::<u64>().is_err());
    name.split('-').filter(kept).collect::<Vec<_>>().join("-")
}

/// Runs that ended both times, by kind.
fn agreements(first: &DataFrame, second: &DataFrame) -> Result<BTreeMap<String, Agreement>> {
    let (earlier, later) = (ended(first)?, ended(second)?);
    let mut kinds: BTreeMap<String, Agreement> = BTreeMap::new();
    for (name, first) in earlier {
        let Some(second) = later.get(&name) else { continue };
        let of_kind = kinds.entry(first.kind.clone()).or_default();
        of_kind.runs += 1;
        of_kind.identical += usize::from(first.equals(second));
        of_kind.reached[usize::from(!first.reached) * 2 + usize::from(first.reached != second.reached)] += 1;
        of_kind.first += first.best;
        of_kind.second += second.best;
        of_kind.apart += (first.best - second.best).abs();
        for (other, second) in &later {
            if *other != name && setting(other) == setting(&name) {
                of_kind.of_others.0 += (first.best - second.best).abs();
                of_kind.of_others.1 += 1;
            }
        }
    }
    Ok(kinds)
}

/// The page's section on repeats; empty without any.
pub(super) fn section(results: &Results) -> Result<String> {
    let mut text = String::new();
    let mut write = |part: std::fmt::Arguments<'_>| {
        text.write_fmt(part).map_err(|error| Error::Figure(error.to_string()))
    };
    let repeats: Vec<(&Recorded, &Repeat)> =
        results.sweeps().filter_map(|sweep| Some((sweep, sweep.repeat.as_ref()?))).collect();
    if repeats.is_empty() {
        return Ok(text);
    }
    write(format_args!(
        "\n## The same runs again\n\nThese sweeps were trained a second time with the same seeds, data and settings, most by kernels \
         that round differently; nothing was chosen, all above is of the first time. Two trainings of a run have nearly \
         equal losses for some hundred steps and then part, mostly before the loss falls. Identical runs are so to the \
         last digit. Where a run is as far from itself as from runs of other seeds (of its setting, the first time against \
         the second), its seed says no more than rounding does.\n\n\
         | sweep | λ | runs | identical | reach the target both times | first only | second only | never | mean best \
         accuracy, first | second | mean distance of a run from itself | from other seeds |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n"
    ))?;
    for (recorded, repeat) in &repeats {
        for (kind, of_kind) in agreements(&recorded.collected, &repeat.collected)? {
            let mean = |sum: f64| 100.0 * sum / of_kind.runs as f64;
            let [both, first, never, second] = of_kind.reached;
            write(format_args!(
                "| `{}` | {kind} | {} | {} | {both} | {first} | {second} | {never} | {:.1} % | {:.1} % | {:.1} points | {} |\n",
                recorded.folder.sweep().name,
                of_kind.runs,
                of_kind.identical,
                mean(of_kind.first),
                mean(of_kind.second),
                mean(of_kind.apart),
                of_kind.distance_of_others(),
            ))?;
        }
    }
    let (rows, decided) = verdicts(&repeats)?;
    let changed = rows.lines().count();
    write(format_args!(
        "\nOf {decided} claims that both times decide, {} have the same verdict{}\n",
        decided - changed,
        if changed == 0 { "." } else { ", these another:\n" }
    ))?;
    if changed > 0 {
        write(format_args!("| sweep | claim | first | | second | |\n|---|---|---|---|---|---|\n{rows}"))?;
    }
    write(format_args!("\nThe second time:\n\n"))?;
    for (recorded, repeat) in &repeats {
        let of = |sitting: &Sitting| {
            format!(
                "{} {}, {:.0} s, commit {}",
                sitting.started,
                machine(sitting),
                sitting.seconds,
                sitting.commit
            )
        };
        let sittings: Vec<String> = repeat.sittings.iter().map(of).collect();
        write(format_args!(
            "- `{}`, {} of {} runs ended: {}; `{}` `{}`\n",
            recorded.folder.sweep().name,
            ended(&repeat.collected)?.len(),
            recorded.folder.runs().len(),
            sittings.join("; "),
            repeat.source.path.display(),
            repeat.source.sha256,
        ))?;
    }
    Ok(text)
}

/// Rows of the claims whose verdict changed, and how many both times decide.
fn verdicts(repeats: &[(&Recorded, &Repeat)]) -> Result<(String, usize)> {
    let (mut rows, mut decided) = (String::new(), 0);
    for (recorded, repeat) in repeats {
        let sweep = recorded.folder.sweep();
        let tables = [&recorded.collected, &repeat.collected].map(|frame| claims_table(frame, &sweep.claims));
        let [first, second] = tables;
        let (first, second) = (first?, second?);
        let (claims, before, after) =
            (texts(&first, "claim")?, texts(&first, "verdict")?, texts(&second, "verdict")?);
        for (i, claim) in claims.iter().enumerate() {
            let untested = crate::sweep::Verdict::NotTested.name();
            if before[i] == untested || after[i] == untested {
                continue;
            }
            decided += 1;
            if before[i] != after[i] {
                let (of_first, of_second) = (quantity(&first, i)?, quantity(&second, i)?);
                let cells = format!("{of_first} | **{}** | {of_second} | **{}**", before[i], after[i]);
                rows.push_str(&format!("| `{}` | {claim} | {cells} |\n", sweep.name));
            }
        }
    }
    Ok((rows, decided))
}
