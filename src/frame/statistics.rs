//! Statistics of collected runs, each a frame with a sentence that says what it is.

use super::runs::column;
use super::settings::{Cell, Ended, Settings, cell_column};
use crate::Result;
use crate::metric::{self, Interval, Paired, Summary};
use polars::prelude::{Column, DataFrame};
use std::collections::{BTreeMap, BTreeSet};

/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;

/// Seed of the bootstrap where its resamples are drawn.
pub(crate) const BOOTSTRAP_SEED: u64 = 0;

/// Settings of MLP-λ, which the baseline doesn't have.
const OF_MLP: [&str; 3] = ["activation", "hidden", "init"];

/// A frame, and what it is.
#[derive(Clone, Debug)]
pub struct Described {
    /// What a row is, in a sentence.
    pub sentence: String,
    /// The rows.
    pub frame: DataFrame,
}

/// Summary of a measure over seeds, a row for each setting: n, missing, mean, std_population, std_sample,
/// median, min, max, low and high (bootstrap interval of the mean), and for accuracies chance and
/// collapse_rate.
///
/// Runs that have ended count; `missing` are those among them without the measure (diverged before an
/// evaluation). Which columns name the setting depends on what varies.
///
/// # Errors
///
/// If the frame isn't a collected one, or has no such measure.
pub fn summaries(collected: &DataFrame, measure: &str) -> Result<Described> {
    let settings = Settings::of(collected, measure)?;
    let keys = settings.telling();
    let mut groups: BTreeMap<Vec<Cell>, Vec<&Ended>> = BTreeMap::new();
    for row in &settings.rows {
        groups.entry(cells_at(row, &keys)).or_default().push(row);
    }
    let mut rows = Vec::new();
    for rows_of in groups.values() {
        let values: Vec<f64> = rows_of.iter().filter_map(|row| row.value).collect();
        let chance = rows_of[0].chance;
        let found = if values.is_empty() {
            None
        } else {
            let interval = metric::bootstrap_interval(&values, CONFIDENCE, BOOTSTRAP_SEED)?;
            Some((Summary::of(&values)?, interval, metric::collapse_rate(&values, chance)?))
        };
        rows.push((rows_of.len() - values.len(), found, chance));
    }
    let of_summary =
        |pick: fn(&Summary) -> f64| each(&rows, |(_, found, _)| found.map(|(summary, ..)| pick(&summary)));
    let end = |pick: fn(&Interval) -> f64| each(&rows, |(_, found, _)| found.map(|(_, ends, _)| pick(&ends)));
    let sample = each(&rows, |(_, found, _)| found.and_then(|(summary, ..)| summary.std_sample));
    let mut columns = key_columns(&settings, &keys, &groups.into_keys().collect::<Vec<_>>());
    columns.extend([
        column("n", each(&rows, |(_, found, _)| found.map_or(0, |(summary, ..)| summary.n as u32))),
        column("missing", each(&rows, |(missing, ..)| *missing as u32)),
        column("mean", of_summary(|s| s.mean)),
        column("std_population", of_summary(|s| s.std_population)),
        column("std_sample", sample),
        column("median", of_summary(|s| s.median)),
        column("min", of_summary(|s| s.min)),
        column("max", of_summary(|s| s.max)),
        column("low", end(|i| i.low)),
        column("high", end(|i| i.high)),
    ]);
    let mut sentence = format!(
        "{measure} over seeds: n runs that ended (missing: those without a value), mean, deviations, median, range, and a 95 % bootstrap interval \
         [low, high] of the mean"
    );
    if measure.contains("accuracy") {
        columns.push(column("chance", each(&rows, |(.., chance)| *chance)));
        columns.push(column("collapse_rate", each(&rows, |(_, found, _)| found.map(|(.., rate)| rate))));
        sentence.push_str("; collapse_rate is the share of runs below twice chance");
    }
    sentence.push('.');
    if settings.open > 0 {
        sentence.push_str(&format!(" {} runs have not ended and don't count.", settings.open));
    }
    Ok(Described { sentence, frame: DataFrame::new(rows.len(), columns)? })
}

/// Every λ kind less every other, seed by seed in the same setting: n, mean difference, low and high (its
/// bootstrap interval), wins, losses, p_value of the exact sign test.
///
/// # Errors
///
/// As [`summaries`].
pub fn kind_differences(collected: &DataFrame, measure: &str) -> Result<Described> {
    let settings = Settings::of(collected, measure)?.with_every(&OF_MLP);
    let Some(kind) = settings.place("kind") else { return described(String::new(), Vec::new(), Vec::new()) };
    let shown: Vec<usize> = settings.telling().into_iter().filter(|&column| column != kind).collect();
    let groups: BTreeSet<Vec<Cell>> = settings.rows.iter().map(|row| cells_at(row, &shown)).collect();
    let mut found = Vec::new();
    for of in groups {
        let group = settings.filtered(|row| cells_at(row, &shown) == of);
        let kinds = values_of(&group, kind);
        for (index, second) in kinds.iter().enumerate() {
            for first in &kinds[index + 1..] {
                if let Some(paired) = compare(&group, kind, &[], first, second)? {
                    found.push((of.clone(), (first.clone(), second.clone()), paired));
                }
            }
        }
    }
    let (groups, compared): (Vec<_>, Vec<_>) =
        found.into_iter().map(|(of, kinds, paired)| (of, (kinds, paired))).unzip();
    let mut columns = key_columns(&settings, &shown, &groups);
    columns.push(column("first", each(&compared, |((first, _), _)| first.to_string())));
    columns.push(column("second", each(&compared, |((_, second), _)| second.to_string())));
    let sentence = format!(
        "{measure} of the λ kind `first` less that of `second`, over the same seeds in the same setting: mean with a \
         95 % bootstrap interval, seeds on which each is larger, and the exact two-sided sign test (of n seeds its p \
         is at least 2^(1 − n))."
    );
    described(sentence, columns, compared.into_iter().map(|(_, paired)| paired).collect())
}

/// What each axis does: every value of an axis less its first one, all else and the seed equal, by kind.
/// Columns: axis, kind, from, to, n, mean, low, high, wins, losses, p_value.
///
/// # Errors
///
/// As [`summaries`].
pub fn axis_effects(collected: &DataFrame, measure: &str) -> Result<Described> {
    let all = Settings::of(collected, measure)?;
    let kind = all.place("kind").unwrap_or(0);
    let mut found = Vec::new();
    for (place, axis) in all.columns.iter().enumerate() {
        if ["kind", "task", "max_seq_len"].contains(&axis.as_str()) {
            continue;
        }
        // With its own length a run's evaluation changes too.
        let (settings, implied) = match (axis.as_str(), all.place("eval_seq_len")) {
            ("seq_len", Some(at)) => (all.filtered(|row| row.cells[place] == row.cells[at]), vec![at]),
            _ => (all.clone(), Vec::new()),
        };
        for of in values_of(&settings, kind) {
            let group = settings.filtered(|row| row.cells[kind] == of);
            let values = values_of(&group, place);
            for to in values.iter().skip(1) {
                if let Some(paired) = compare(&group, place, &implied, to, &values[0])? {
                    found.push(((axis.clone(), of.clone(), values[0].clone(), to.clone()), paired));
                }
            }
        }
    }
    let columns = vec![
        column("axis", each(&found, |((axis, ..), _)| axis.clone())),
        column("kind", each(&found, |((_, kind, ..), _)| kind.to_string())),
        column("from", each(&found, |((_, _, from, _), _)| from.to_string())),
        column("to", each(&found, |((.., to), _)| to.to_string())),
    ];
    let sentence = format!(
        "{measure} at the value `to` of an axis less that at `from`, all else and the seed equal, pooled over the \
         other axes: mean with a 95 % bootstrap interval, wins, losses, exact sign test."
    );
    described(sentence, columns, found.into_iter().map(|(_, paired)| paired).collect())
}

/// The best accuracy at any evaluation less the last one, run by run: what reporting the best adds. A row for
/// each setting.
///
/// # Errors
///
/// As [`summaries`].
pub fn best_less_last(collected: &DataFrame) -> Result<Described> {
    let (best, last) = (Settings::of(collected, "best_accuracy")?, Settings::of(collected, "accuracy")?);
    let own = |settings: &Settings| {
        let places = settings.place("seq_len").zip(settings.place("eval_seq_len"));
        settings.filtered(|row| places.is_none_or(|(own, at)| row.cells[own] == row.cells[at]))
    };
    let (best, last) = (own(&best), own(&last));
    let keys = best.telling();
    let mut groups: BTreeMap<Vec<Cell>, Vec<(f64, f64)>> = BTreeMap::new();
    // Both come from the same rows, in the same order.
    for (best, last) in best.rows.iter().zip(&last.rows) {
        groups.entry(cells_at(best, &keys)).or_default().extend(best.value.zip(last.value));
    }
    groups.retain(|_, pairs| !pairs.is_empty());
    let compare = |pairs: &Vec<(f64, f64)>| {
        let (best, last): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        metric::paired(&best, &last, CONFIDENCE, BOOTSTRAP_SEED)
    };
    let found = groups.values().map(compare).collect::<Result<Vec<_>>>()?;
    let columns = key_columns(&best, &keys, &groups.into_keys().collect::<Vec<_>>());
    let sentence = "Best validation accuracy at any evaluation less that at the last one, over seeds: mean with a \
                    95 % bootstrap interval, and the number of runs whose best is not their last.";
    described(sentence.to_owned(), columns, found)
}

/// Rows at two values of one setting, equal in the seed and all other settings but the implied ones.
fn compare(
    group: &Settings,
    place: usize,
    implied: &[usize],
    first: &Cell,
    second: &Cell,
) -> Result<Option<Paired>> {
    let max_seq_len = group.place("max_seq_len");
    let fixed: Vec<usize> = (0..group.columns.len())
        .filter(|&column| column != place && Some(column) != max_seq_len && !implied.contains(&column))
        .collect();
    let of = |cell: &Cell| -> BTreeMap<_, f64> {
        let rows = group.rows.iter().filter(|row| row.cells[place] == *cell);
        rows.filter_map(|row| Some(((row.seed, cells_at(row, &fixed)), row.value?))).collect()
    };
    let others = of(second);
    let pairs = of(first).into_iter().filter_map(|(key, value)| Some((value, *others.get(&key)?)));
    let (first, second): (Vec<f64>, Vec<f64>) = pairs.unzip();
    if first.is_empty() {
        return Ok(None);
    }
    metric::paired(&first, &second, CONFIDENCE, BOOTSTRAP_SEED).map(Some)
}

fn values_of(settings: &Settings, place: usize) -> Vec<Cell> {
    let values: BTreeSet<Cell> = settings.rows.iter().map(|row| row.cells[place].clone()).collect();
    values.into_iter().filter(|cell| *cell != Cell::Missing).collect()
}

fn cells_at(row: &Ended, places: &[usize]) -> Vec<Cell> {
    places.iter().map(|&place| row.cells[place].clone()).collect()
}

fn key_columns(settings: &Settings, keys: &[usize], groups: &[Vec<Cell>]) -> Vec<Column> {
    let of = |(index, &key): (usize, &usize)| {
        cell_column(&settings.columns[key], &each(groups, |group| group[index].clone()))
    };
    keys.iter().enumerate().map(of).collect()
}

/// Comparisons below the columns that say of what.
fn described(sentence: String, mut columns: Vec<Column>, rows: Vec<Paired>) -> Result<Described> {
    columns.extend([
        column("n", each(&rows, |paired| paired.difference.n as u32)),
        column("mean", each(&rows, |paired| paired.difference.mean)),
        column("low", each(&rows, |paired| paired.interval.low)),
        column("high", each(&rows, |paired| paired.interval.high)),
        column("wins", each(&rows, |paired| paired.wins as u32)),
        column("losses", each(&rows, |paired| paired.losses as u32)),
        column("p_value", each(&rows, |paired| paired.p_value)),
    ]);
    Ok(Described { sentence, frame: DataFrame::new(rows.len(), columns)? })
}

fn each<R, T>(rows: &[R], pick: impl Fn(&R) -> T) -> Vec<T> {
    rows.iter().map(pick).collect()
}
