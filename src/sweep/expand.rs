//! From axes to runs.

use super::Sweep;
use super::point::{effective, excluded, flatten, run_name, set, varied_twice};
use crate::train::RunConfig;
use crate::{Error, Result};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The axis that adds evaluations and no runs.
const EVALUATION_LENGTH: &str = "evaluation.seq_len";

/// Most runs of a sweep.
const MOST_RUNS: usize = 100_000;

/// What a sweep's folder holds besides its runs.
const FILES: [&str; 6] =
    ["lock", "sweep.toml", "sittings.jsonl", "failures.json", "collected.parquet", "notes.md"];

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRun {
    /// Name of its folder.
    pub name: String,
    /// Its value on every axis; of an axis of several fields, the value's name.
    pub settings: Vec<(String, Value)>,
    /// Everything that determines it.
    pub config: RunConfig,
}

impl Sweep {
    /// All runs, in the order of the axes.
    ///
    /// # Errors
    ///
    /// Names the axis, field or run that is impossible; also if no run is left, or two are the same.
    pub fn runs(&self) -> Result<Vec<SweepRun>> {
        let axes = self.axis_values()?;
        let lengths = self.evaluation_lengths()?;
        let mut points = self.product(&axes)?;
        for (number, exclude) in self.exclude.iter().enumerate() {
            let rule = self.exclusion(number, exclude, &axes)?;
            let before = points.len();
            points.retain(|point| !excluded(point, &rule));
            if points.len() == before {
                let message = format!("exclude {}: matches no run; is a value misspelt?", number + 1);
                return Err(self.wrong(message));
            }
        }
        // The base alone is a run only where nothing varies.
        if axes.is_empty() && !self.include.is_empty() {
            points.clear();
        }
        for (number, include) in self.include.iter().enumerate() {
            let values = |(field, value): (String, Value)| match value {
                Value::Array(_) => {
                    let values = self.list(&format!("include {}: {field}", number + 1), &value)?;
                    Ok((field, values))
                }
                value => Ok((field, vec![value])),
            };
            let axes = flatten(include).into_iter().map(values).collect::<Result<Vec<_>>>()?;
            points.extend(self.product(&axes)?);
        }
        if points.is_empty() {
            return Err(self.wrong("expected at least one run, found none: everything is excluded"));
        }
        let (mut names, mut configs) = (BTreeMap::new(), BTreeMap::new());
        let mut runs: Vec<SweepRun> = Vec::new();
        for point in points {
            let run = self.run(point, &lengths)?;
            let name = &run.name;
            if name.starts_with('.') || name.len() > 200 || FILES.contains(&name.as_str()) {
                let expected =
                    "expected names that can be folders beside the sweep's own files, up to 200 letters";
                return Err(self.wrong(format!("{expected}, found `{name}`")));
            }
            let twin = names.insert(name.clone(), name.clone());
            let twin = configs.insert(effective(&run.config), name.clone()).or(twin);
            if let Some(other) = twin {
                let message =
                    format!("expected different runs, found `{other}` and `{name}`, which are the same");
                return Err(self.wrong(message));
            }
            // A text's number is known once it is opened.
            if let Some((_, held)) = run.config.task.examples()
                && self.lambda_sequences > held
            {
                let found = self.lambda_sequences;
                let expected =
                    format!("lambda_sequences: expected at most {held} (the validation set of `{name}`)");
                return Err(self.wrong(format!("{expected}, found {found}")));
            }
            runs.push(run);
        }
        Ok(runs)
    }

    /// Every combination of values.
    fn product(&self, axes: &[(String, Vec<Value>)]) -> Result<Vec<Vec<(String, Value)>>> {
        let mut points = vec![Vec::new()];
        for (axis, values) in axes {
            if points.len().saturating_mul(values.len()) > MOST_RUNS {
                return Err(self.wrong(format!("expected at most {MOST_RUNS} runs, found more")));
            }
            let extended = |point: &Vec<_>| {
                let extend = |value: &Value| [point.clone(), vec![(axis.clone(), value.clone())]].concat();
                values.iter().map(extend).collect::<Vec<_>>()
            };
            points = points.iter().flat_map(extended).collect();
        }
        Ok(points)
    }

    /// Whether another sweep has all runs of this one, as they are, and perhaps more, such as further seeds.
    ///
    /// # Errors
    ///
    /// If one of them says no runs.
    pub(crate) fn is_extended_by(&self, other: &Self) -> Result<bool> {
        let same_rest = self.name == other.name
            && self.lambda_sequences == other.lambda_sequences
            && self.evaluation_lengths()? == other.evaluation_lengths()?;
        let more = other.runs()?;
        let has =
            |run: SweepRun| more.iter().any(|other| other.name == run.name && other.config == run.config);
        Ok(same_rest && self.runs()?.into_iter().all(has))
    }

    /// Lengths at which every run is evaluated besides its own, in order.
    ///
    /// # Errors
    ///
    /// If one isn't a whole number above 0.
    pub fn evaluation_lengths(&self) -> Result<Vec<usize>> {
        let Some(values) = flatten(&self.axes).remove(EVALUATION_LENGTH) else { return Ok(Vec::new()) };
        let length = |value: &Value| match value.as_integer().map(usize::try_from) {
            Some(Ok(length)) if length > 0 => Ok(length),
            _ => Err(self.wrong(format!("axes.{EVALUATION_LENGTH}: expected lengths ≥ 1, found {value}"))),
        };
        let mut lengths: Vec<usize> = self
            .list(&format!("axes.{EVALUATION_LENGTH}"), &values)?
            .iter()
            .map(length)
            .collect::<Result<_>>()?;
        lengths.sort_unstable();
        lengths.dedup();
        Ok(lengths)
    }

    /// Axes that make runs, with their values.
    fn axis_values(&self) -> Result<Vec<(String, Vec<Value>)>> {
        let mut axes = Vec::new();
        for (axis, values) in flatten(&self.axes) {
            if axis != EVALUATION_LENGTH {
                let values = self.list(&format!("axes.{axis}"), &values)?;
                axes.push((axis, values));
            }
        }
        Ok(axes)
    }

    fn list(&self, place: &str, values: &Value) -> Result<Vec<Value>> {
        let Value::Array(values) = values else {
            return Err(self.wrong(format!("{place}: expected a list of values, found {values}")));
        };
        if values.is_empty() {
            return Err(self.wrong(format!("{place}: expected at least one value, found none")));
        }
        for (index, value) in values.iter().enumerate() {
            if values[..index].contains(value) {
                return Err(self.wrong(format!("{place}: expected different values, found {value} twice")));
            }
            let name = value.as_table().map(|table| table.get("name").and_then(Value::as_str));
            if name == Some(None) {
                let message = format!("{place}: expected a text `name` in each table, found {value}");
                return Err(self.wrong(message));
            }
        }
        Ok(values.clone())
    }

    /// Axis names with the values to leave out together.
    fn exclusion(
        &self,
        number: usize,
        exclude: &Table,
        axes: &[(String, Vec<Value>)],
    ) -> Result<Vec<(String, Vec<Value>)>> {
        let rule = |(axis, value): (String, Value)| {
            if !axes.iter().any(|(known, _)| *known == axis) {
                let known: Vec<_> = axes.iter().map(|(known, _)| known.as_str()).collect();
                let message = format!(
                    "exclude {}: expected one of the axes [{}], found {axis}",
                    number + 1,
                    known.join(", ")
                );
                return Err(self.wrong(message));
            }
            Ok((axis, if let Value::Array(values) = value { values } else { vec![value] }))
        };
        flatten(exclude).into_iter().map(rule).collect()
    }

    fn run(&self, point: Vec<(String, Value)>, lengths: &[usize]) -> Result<SweepRun> {
        let name = run_name(&point);
        let mut table = Table::new();
        let fields =
            flatten(&self.base).into_iter().chain(point.iter().flat_map(|(axis, value)| match value {
                Value::Table(fields) => {
                    let mut fields = fields.clone();
                    fields.remove("name");
                    flatten(&fields).into_iter().collect()
                }
                value => vec![(axis.clone(), value.clone())],
            }));
        for (axis, value) in &point {
            let inner = value.as_table().map(flatten).unwrap_or_default();
            let named = inner.keys().filter(|field| *field != "name").cloned().collect::<Vec<_>>();
            for field in if value.is_table() { named } else { vec![axis.clone()] } {
                if let Some(twice) = varied_twice(&point, axis, &field) {
                    let message =
                        format!("expected that one axis sets `{field}`, found `{twice}` and `{axis}`");
                    return Err(self.wrong(message));
                }
            }
        }
        for (field, value) in fields {
            set(&mut table, &field, value)
                .map_err(|message| self.wrong(format!("run `{name}`: {message}")))?;
        }
        let given = table.get("model").and_then(|model| model.get("max_seq_len")).is_some();
        let mut config: RunConfig = Value::Table(table).try_into().map_err(|error: toml::de::Error| {
            let message = error.message().trim_end().to_owned();
            self.wrong(format!("run `{name}`: {message}"))
        })?;
        if !given {
            let longest = lengths.iter().copied().max().unwrap_or(0);
            config.model.max_seq_len = longest.max(config.task.task().seq_len());
        }
        let wrong = |error: &dyn std::fmt::Display| self.wrong(format!("run `{name}`: {error}"));
        config.validate().map_err(|error| wrong(&error))?;
        for &length in lengths {
            let longer = RunConfig { task: config.task.with_seq_len(length), ..config.clone() };
            longer.validate().map_err(|error| wrong(&format!("evaluated at {length}: {error}")))?;
        }
        let named = |(axis, value): (String, Value)| match value {
            Value::Table(mut table) => (axis, table.remove("name").unwrap_or(Value::Boolean(true))),
            value => (axis, value),
        };
        Ok(SweepRun { name, settings: point.into_iter().map(named).collect(), config })
    }

    fn wrong(&self, message: impl std::fmt::Display) -> Error {
        Error::sweep(&self.name, message)
    }
}
