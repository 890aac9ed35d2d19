//! What collected runs say of a sweep's claims, by the rules that it holds.

use super::point::value_text;
use super::{Claim, Statistic};
use crate::frame::{BOOTSTRAP_SEED, CONFIDENCE, Cell, Ended, Settings};
use crate::metric;
use crate::{Error, Result};
use polars::prelude::{Column, DataFrame, NamedFrom, Series};
use std::collections::BTreeMap;
use toml::Table;

/// What was decided of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The interval lies where the claim says.
    Supported,
    /// It lies neither there nor where the claim would be contradicted.
    NotSupported,
    /// It lies where the claim is contradicted.
    Contradicted,
    /// There are too few runs.
    NotTested,
}

impl Verdict {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::NotSupported => "not supported",
            Self::Contradicted => "contradicted",
            Self::NotTested => "not tested",
        }
    }
}

/// A claim's quantity in our runs, and the verdict.
#[derive(Clone, Debug)]
struct Decided {
    /// The quantity, and the two it is the difference of.
    value: Option<f64>,
    of: Option<f64>,
    minus: Option<f64>,
    interval: Option<metric::Interval>,
    n: usize,
    verdict: Verdict,
    /// Why it is not tested.
    note: String,
}

/// The claims table: a row for each claim, with id, claim, published (words and figures), ours (the
/// quantity), of and minus (the two it is the difference of), low and high (its 95 % bootstrap interval over
/// seeds), n, verdict, note (why it is not tested), and the rule.
///
/// # Errors
///
/// If a claim names a column or measure that the frame lacks, or matches several runs of one seed.
pub fn claims_table(collected: &DataFrame, claims: &[Claim]) -> Result<DataFrame> {
    let decide = |claim: &Claim| decide(collected, claim);
    table(claims, &claims.iter().map(decide).collect::<Result<Vec<_>>>()?)
}

/// The row of a claim whose quantity was counted: of no run, without an interval.
pub(crate) fn counted(claim: &Claim, value: f64) -> Result<DataFrame> {
    let verdict =
        if claim.supported.holds(value, value) { Verdict::Supported } else { Verdict::Contradicted };
    let decided = Decided {
        value: Some(value),
        of: None,
        minus: None,
        interval: None,
        n: 0,
        verdict,
        note: String::new(),
    };
    table(std::slice::from_ref(claim), &[decided])
}

fn table(claims: &[Claim], decided: &[Decided]) -> Result<DataFrame> {
    fn text(name: &str, claims: &[Claim], pick: impl Fn(&Claim) -> String) -> Column {
        Series::new(name.into(), claims.iter().map(pick).collect::<Vec<_>>()).into()
    }
    let number = |name: &str, pick: fn(&Decided) -> Option<f64>| -> Column {
        Series::new(name.into(), decided.iter().map(pick).collect::<Vec<_>>()).into()
    };
    let counts: Vec<u32> = decided.iter().map(|found| found.n as u32).collect();
    let notes: Vec<&str> = decided.iter().map(|found| found.note.as_str()).collect();
    let verdicts: Vec<&str> = decided.iter().map(|found| found.verdict.name()).collect();
    let columns = vec![
        text("id", claims, |claim| claim.id.clone()),
        text("claim", claims, |claim| claim.claim.clone()),
        text("published", claims, |claim| claim.published.clone()),
        number("ours", |found| found.value),
        number("of", |found| found.of),
        number("minus", |found| found.minus),
        number("low", |found| found.interval.map(|interval| interval.low)),
        number("high", |found| found.interval.map(|interval| interval.high)),
        Series::new("n".into(), counts).into(),
        Series::new("verdict".into(), verdicts).into(),
        Series::new("note".into(), notes).into(),
        text("rule", claims, Claim::rule),
    ];
    Ok(DataFrame::new(claims.len(), columns)?)
}

fn decide(collected: &DataFrame, claim: &Claim) -> Result<Decided> {
    let untested = |note: &str| Decided {
        value: None,
        of: None,
        minus: None,
        interval: None,
        n: 0,
        verdict: Verdict::NotTested,
        note: note.to_owned(),
    };
    if !claim.not_tested.is_empty() {
        return Ok(untested(&claim.not_tested));
    }
    let settings = Settings::of(collected, &claim.measure)?;
    if settings.rows.is_empty() {
        // Without runs there are no axes either, by which a claim may choose.
        return Ok(untested("no run that has ended is in `of`"));
    }
    let first = select(&settings, &claim.of, claim)?;
    let second = select(&settings, &claim.minus, claim)?;
    // What one side names or hasn't must not keep the two from pairing: the baseline has no MLP.
    let named = |column: &str| claim.of.contains_key(column) || claim.minus.contains_key(column);
    let none_of =
        |rows: &[Ended], c: usize| !rows.is_empty() && rows.iter().all(|row| row.cells[c] == Cell::Missing);
    let one_sided = |c: usize| none_of(&first, c) != none_of(&second, c) && !claim.minus.is_empty();
    let keys: Vec<usize> = (0..settings.columns.len())
        .filter(|&c| !named(&settings.columns[c]) && settings.columns[c] != "max_seq_len" && !one_sided(c))
        .collect();
    for (rows, name) in [(&first, "of"), (&second, "minus")] {
        if rows.is_empty() && !(name == "minus" && claim.minus.is_empty()) {
            return Ok(untested(&format!("no run that has ended is in `{name}`")));
        }
    }
    let first = by_key(&first, &keys, claim)?;
    let pairs: Vec<(f64, f64)> = if claim.minus.is_empty() {
        first.into_values().map(|value| (value, 0.0)).collect()
    } else {
        let second = by_key(&second, &keys, claim)?;
        first.into_iter().filter_map(|(key, value)| Some((value, *second.get(&key)?))).collect()
    };
    let n = pairs.len();
    if n == 0 {
        return Ok(untested("no two runs of `of` and `minus` are equal in seed and all else"));
    }
    let statistic = |values: &mut dyn Iterator<Item = f64>| {
        let values: Vec<f64> = values.collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        match claim.statistic {
            Statistic::Mean => mean,
            Statistic::Std => {
                (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
            }
        }
    };
    let side = |drawn: &[usize], pick: fn(&(f64, f64)) -> f64| {
        statistic(&mut drawn.iter().map(|&index| pick(&pairs[index])))
    };
    let quantity = |drawn: &[usize]| side(drawn, |pair| pair.0) - side(drawn, |pair| pair.1);
    let all: Vec<usize> = (0..n).collect();
    let interval = metric::bootstrap(n, CONFIDENCE, BOOTSTRAP_SEED, quantity)?;
    let verdict = if n < claim.least_runs {
        Verdict::NotTested
    } else if claim.supported.holds(interval.low, interval.high) {
        Verdict::Supported
    } else if claim.is_contradicted(interval.low, interval.high) {
        Verdict::Contradicted
    } else {
        Verdict::NotSupported
    };
    Ok(Decided {
        value: Some(quantity(&all)),
        of: Some(side(&all, |pair| pair.0)),
        minus: (!claim.minus.is_empty()).then(|| side(&all, |pair| pair.1)),
        interval: Some(interval),
        n,
        verdict,
        note: if n < claim.least_runs {
            format!("fewer than {} runs", claim.least_runs)
        } else {
            String::new()
        },
    })
}

/// Rows with the given values.
fn select(settings: &Settings, wanted: &Table, claim: &Claim) -> Result<Vec<Ended>> {
    let mut rows = settings.rows.clone();
    for (name, value) in wanted {
        let Some(place) = settings.place(name) else {
            let message = format!("a setting among {}", settings.columns.join(", "));
            return Err(Error::value(format!("claim {}: column", claim.id), message, format!("`{name}`")));
        };
        let text = Cell::Text(value_text(value));
        let number = value.as_float().or(value.as_integer().map(|number| number as f64)).map(Cell::Number);
        // A hidden width of 64 is a text beside "2L".
        rows.retain(|row| row.cells[place] == text || Some(&row.cells[place]) == number.as_ref());
    }
    // A claim that names no length is about the trained one.
    if let (Some(own), Some(at)) = (settings.place("seq_len"), settings.place("eval_seq_len"))
        && !wanted.contains_key("eval_seq_len")
    {
        rows.retain(|row| row.cells[own] == row.cells[at]);
    }
    Ok(rows)
}

/// Values by seed and the settings that a claim doesn't name.
fn by_key(rows: &[Ended], keys: &[usize], claim: &Claim) -> Result<BTreeMap<(Vec<Cell>, u64), f64>> {
    let mut found = BTreeMap::new();
    for row in rows {
        let Some(value) = row.value else { continue };
        let key = (keys.iter().map(|&key| row.cells[key].clone()).collect(), row.seed);
        if found.insert(key, value).is_some() {
            let place = format!("claim {}: of and minus", claim.id);
            let found = format!("several of seed {}: name more columns", row.seed);
            return Err(Error::value(place, "one run a seed and setting", found));
        }
    }
    Ok(found)
}
