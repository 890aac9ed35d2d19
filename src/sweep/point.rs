//! Points of a sweep's axes: fields by dotted names, the names of runs.

use crate::lambda::LambdaConfig;
use crate::model::Mixer;
use crate::train::RunConfig;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Another axis of a point that sets a field too.
pub(super) fn varied_twice<'a>(point: &'a [(String, Value)], axis: &str, field: &str) -> Option<&'a str> {
    let sets = |(other, value): &&(String, Value)| {
        let same = match value.as_table() {
            Some(table) => flatten(table).contains_key(field),
            None => other == field,
        };
        other != axis && same
    };
    point.iter().find(sets).map(|(other, _)| other.as_str())
}

/// What of a configuration a run depends on: a baseline has no λ.
pub(super) fn effective(config: &RunConfig) -> String {
    let mut config = config.clone();
    if config.model.mixer != Mixer::LogLinear {
        config.model.lambda = LambdaConfig::default();
    }
    config.to_toml()
}

/// Name of a run: the λ kind first, the seed last.
pub(super) fn run_name(point: &[(String, Value)]) -> String {
    let place = |axis: &str| match axis {
        "model.lambda.kind" | "model.mixer" => 0,
        "seed" => 2,
        _ => 1,
    };
    let mut parts: Vec<&(String, Value)> = point.iter().collect();
    parts.sort_by_key(|(axis, _)| place(axis));
    let text = |(axis, value): &(String, Value)| {
        let last = axis.rsplit('.').next().unwrap_or(axis);
        match (axis.as_str(), value) {
            (_, Value::Table(table)) => plain(table.get("name").and_then(Value::as_str).unwrap_or(last)),
            ("model.lambda.kind" | "model.mixer", value) => plain(&value_text(value)),
            ("task.pairs", value) => format!("k{}", value_text(value)),
            ("task.seq_len", value) => format!("T{}", value_text(value)),
            (_, Value::String(value)) => format!("{last}-{}", plain(value)),
            (_, value) => format!("{last}{}", plain(&value_text(value))),
        }
    };
    let name = parts.into_iter().map(text).collect::<Vec<_>>().join("-");
    if name.is_empty() { "run".to_owned() } else { name }
}

/// A value without quotes.
pub(super) fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Text that can be part of a folder's name.
fn plain(text: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    text.chars().map(allowed).collect()
}

pub(super) fn excluded(point: &[(String, Value)], rule: &[(String, Vec<Value>)]) -> bool {
    let named = |value: &Value| match value {
        Value::Table(table) => table.get("name").cloned().unwrap_or(Value::Boolean(true)),
        value => value.clone(),
    };
    rule.iter()
        .all(|(axis, values)| point.iter().any(|(of, value)| of == axis && values.contains(&named(value))))
}

/// Nested tables as dotted names.
pub(super) fn flatten(table: &Table) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    for (name, value) in table {
        match value {
            Value::Table(inner) => {
                flat.extend(
                    flatten(inner).into_iter().map(|(rest, value)| (format!("{name}.{rest}"), value)),
                );
            }
            value => {
                flat.insert(name.clone(), value.clone());
            }
        }
    }
    flat
}

/// Sets a field by its dotted name.
pub(super) fn set(table: &mut Table, field: &str, value: Value) -> std::result::Result<(), String> {
    match field.split_once('.') {
        None => {
            table.insert(field.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => match table.entry(first).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => set(inner, rest, value),
            other => Err(format!("expected a table at `{first}`, found {other}")),
        },
    }
}
