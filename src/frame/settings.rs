//! Rows of a collected frame as settings and values: what statistics group and pair by.

use super::collect::ENDED;
use crate::{Error, Result};
use polars::prelude::{Column, DataFrame, DataType, NamedFrom, Series};
use std::cmp::Ordering;

/// Columns of every collected frame that say what came out, and not what was set.
const OUTCOMES: [&str; 18] = [
    "run",
    "seed",
    "chance",
    "status",
    "steps",
    "best_step",
    "run_seconds",
    "cohort",
    "device",
    "version",
    "step",
    "train_loss",
    "validation_loss",
    "accuracy",
    "best_accuracy",
    "gradient_norm",
    "seconds",
    "last",
];

/// Columns that frames collected by earlier versions lack, and that are no settings either: the perplexity
/// of a text, and the width, which is set by axes that have columns of their own.
const LATER: [&str; 2] = ["perplexity", "d_model"];

/// Settings that are shown even where another one says the same.
const ALWAYS: [&str; 4] = ["kind", "seq_len", "pairs", "eval_seq_len"];

/// A value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Missing,
    Number(f64),
    Text(String),
}

impl Eq for Cell {}

impl PartialOrd for Cell {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cell {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => kind_place(a).cmp(&kind_place(b)).then_with(|| a.cmp(b)),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

/// The paper's order of λ kinds; of what text and release do differently, the text first.
fn kind_place(name: &str) -> usize {
    const ORDER: [&str; 6] = ["fixed", "mlp-softplus", "mlp-softmax", "none", "2L", "text"];
    ORDER.iter().position(|&known| known == name).unwrap_or(ORDER.len())
}

impl Cell {
    fn rank(&self) -> u8 {
        match self {
            Self::Missing => 0,
            Self::Number(_) => 1,
            Self::Text(_) => 2,
        }
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("–"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The last row of one run at one length.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) seed: u64,
    /// By the columns of [`Settings`].
    pub(crate) cells: Vec<Cell>,
    pub(crate) value: Option<f64>,
    pub(crate) chance: f64,
}

/// The runs of a collected frame that have ended, with one number of each.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Ended>,
    /// Number of runs that haven't ended.
    pub(crate) open: usize,
}

impl Settings {
    /// Rows of the runs that have ended, with the column `measure`; only `accuracy`, `validation_loss` and
    /// `perplexity` are known at lengths other than the trained one.
    pub(crate) fn of(collected: &DataFrame, measure: &str) -> Result<Self> {
        let names: Vec<String> = collected.get_column_names().iter().map(|name| name.to_string()).collect();
        for needed in OUTCOMES.iter().chain(&ALWAYS) {
            if !names.iter().any(|name| name == needed) {
                let expected = "a collected frame (`loglinear collect`, `frame::collect`)";
                return Err(Error::value("frame", expected, format!("one without the column `{needed}`")));
            }
        }
        let columns: Vec<String> = names
            .iter()
            .filter(|name| !OUTCOMES.contains(&name.as_str()) && !LATER.contains(&name.as_str()))
            .filter(|name| !name.starts_with("lambda_"))
            .cloned()
            .collect();
        if !names.iter().any(|name| name == measure) || columns.iter().any(|name| name == measure) {
            let outcomes = names.iter().filter(|name| !columns.contains(name)).cloned().collect::<Vec<_>>();
            return Err(Error::value(
                "measure",
                format!("a column of numbers among {}", outcomes.join(", ")),
                measure,
            ));
        }
        let values = super::numbers(collected, measure)
            .map_err(|_| Error::value("measure", "a column of numbers", measure))?;
        let cells = columns.iter().map(|name| cells(collected, name)).collect::<Result<Vec<_>>>()?;
        let (seeds, chance) = (super::numbers(collected, "seed")?, super::numbers(collected, "chance")?);
        let (status, last) = (super::texts(collected, "status")?, super::numbers(collected, "last")?);
        let (own, at) = (super::numbers(collected, "seq_len")?, super::numbers(collected, "eval_seq_len")?);
        let anywhere = ["accuracy", "validation_loss", "perplexity"].contains(&measure);
        let ended = |row: usize| ENDED.contains(&status[row].as_str());
        let wanted = |&row: &usize| ended(row) && last[row] == 1.0 && (anywhere || own[row] == at[row]);
        let row = |row: usize| Ended {
            seed: seeds[row] as u64,
            cells: cells.iter().map(|column| column[row].clone()).collect(),
            value: values[row].is_finite().then_some(values[row]),
            chance: chance[row],
        };
        let rows = (0..collected.height()).filter(wanted).map(row).collect();
        let unended = |&row: &usize| !ended(row) && last[row] == 1.0 && own[row] == at[row];
        let open = (0..collected.height()).filter(unended).count();
        Ok(Self { columns, rows, open })
    }

    pub(crate) fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|name| name == column)
    }

    /// Columns in which rows differ, without those that others imply.
    pub(crate) fn telling(&self) -> Vec<usize> {
        let distinct = |columns: &[usize]| {
            let mut keys: Vec<Vec<&Cell>> =
                self.rows.iter().map(|row| columns.iter().map(|&c| &row.cells[c]).collect()).collect();
            keys.sort();
            keys.dedup();
            keys.len()
        };
        let mut kept: Vec<usize> =
            (0..self.columns.len()).filter(|&column| distinct(&[column]) > 1).collect();
        let all = distinct(&kept);
        for column in kept.clone() {
            let others: Vec<usize> = kept.iter().copied().filter(|&other| other != column).collect();
            if !ALWAYS.contains(&self.columns[column].as_str()) && distinct(&others) == all {
                kept = others;
            }
        }
        // A length that is everywhere the trained one says nothing.
        if let (Some(own), Some(at)) = (self.place("seq_len"), self.place("eval_seq_len"))
            && self.rows.iter().all(|row| row.cells[own] == row.cells[at])
        {
            kept.retain(|&column| column != at);
        }
        if kept.is_empty() {
            kept.extend(self.place("kind"));
        }
        kept
    }
}

impl Settings {
    /// The same rows, those without some settings once for every value that others have of them: the
    /// baseline, which has no MLP, compares with each MLP.
    pub(crate) fn with_every(&self, names: &[&str]) -> Self {
        let places: Vec<usize> = names.iter().filter_map(|name| self.place(name)).collect();
        let of = |row: &Ended| places.iter().map(|&place| row.cells[place].clone()).collect::<Vec<_>>();
        let mut known: Vec<Vec<Cell>> =
            self.rows.iter().map(of).filter(|v| !v.contains(&Cell::Missing)).collect();
        known.sort();
        known.dedup();
        let filled = |row: &Ended| {
            if known.is_empty() || !of(row).contains(&Cell::Missing) {
                return vec![row.clone()];
            }
            let fill = |values: &Vec<Cell>| {
                let mut row = row.clone();
                for (&place, value) in places.iter().zip(values) {
                    row.cells[place] = value.clone();
                }
                row
            };
            known.iter().map(fill).collect()
        };
        Self { rows: self.rows.iter().flat_map(filled).collect(), ..self.clone() }
    }

    /// The rows for which a test of their cells holds.
    pub(crate) fn filtered(&self, test: impl Fn(&Ended) -> bool) -> Self {
        let rows = self.rows.iter().filter(|row| test(row)).cloned().collect();
        Self { rows, ..self.clone() }
    }
}

fn cells(frame: &DataFrame, name: &str) -> Result<Vec<Cell>> {
    let column = frame.column(name)?;
    if column.dtype() == &DataType::String {
        let cell = |value: Option<&str>| value.map_or(Cell::Missing, |text| Cell::Text(text.to_owned()));
        return Ok(column.str()?.iter().map(cell).collect());
    }
    let cell = |value: f64| if value.is_nan() { Cell::Missing } else { Cell::Number(value) };
    Ok(super::numbers(frame, name)?.into_iter().map(cell).collect())
}

/// Cells as a column: numbers where no text is among them, whole ones as integers.
pub(crate) fn cell_column(name: &str, cells: &[Cell]) -> Column {
    let number = |cell: &Cell| if let Cell::Number(value) = cell { Some(*value) } else { None };
    if cells.iter().any(|cell| matches!(cell, Cell::Text(_))) {
        let text = |cell: &Cell| (*cell != Cell::Missing).then(|| cell.to_string());
        return Series::new(name.into(), cells.iter().map(text).collect::<Vec<_>>()).into();
    }
    let numbers: Vec<Option<f64>> = cells.iter().map(number).collect();
    if numbers.iter().flatten().all(|value| value.fract() == 0.0) {
        let whole: Vec<Option<i64>> = numbers.iter().map(|value| value.map(|value| value as i64)).collect();
        return Series::new(name.into(), whole).into();
    }
    Series::new(name.into(), numbers).into()
}
