//! What goes to standard output.

use crate::{Failure, Outcome};
use loglinear::frame::Described;
use loglinear::polars::prelude::{AnyValue, Column, DataFrame};
use loglinear::train::{RunResult, Status};
use std::io::{ErrorKind, Write};

/// Prints a line. A reader that has gone away (`| head`) ends the program quietly.
pub fn say(line: impl std::fmt::Display) -> Outcome {
    match writeln!(std::io::stdout(), "{line}") {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::Failed(loglinear::Error::io("standard output")(error))),
    }
}

/// Checks that a flag names every value once.
pub fn distinct<T: PartialEq + std::fmt::Debug>(flag: &str, values: &[T]) -> loglinear::Result<()> {
    match values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
        None => Ok(()),
        Some((_, value)) => {
            Err(loglinear::Error::value(flag, "different values", format!("{value:?} twice")))
        }
    }
}

/// Prints rows in aligned columns, the first row as a header.
pub fn table(rows: &[Vec<String>]) -> Outcome {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (index, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        say(cells.collect::<Vec<_>>().join("  ").trim_end())?;
        if index == 0 {
            say(widths.iter().map(|&width| "─".repeat(width)).collect::<Vec<_>>().join("  "))?;
        }
    }
    Ok(())
}

/// A frame with the sentence that says what it is.
pub fn described(described: &Described) -> Outcome {
    let wrapped = textwrap(&described.sentence, 110);
    say(format_args!("{wrapped}\n"))?;
    let frame = &described.frame;
    let mut rows = vec![frame.get_column_names().iter().map(|name| name.to_string()).collect::<Vec<_>>()];
    for row in 0..frame.height() {
        let cell = |column: &Column| column.get(row).map_or_else(|_| "–".to_owned(), |value| short(&value));
        rows.push(frame.columns().iter().map(cell).collect());
    }
    table(&rows)?;
    say("")
}

/// The claims table: a block a claim.
pub fn claims(heading: &str, claims: &DataFrame) -> Outcome {
    let cell = |name: &str, row: usize| match claims.column(name).and_then(|column| column.get(row)) {
        Ok(value) => short(&value),
        Err(_) => "–".to_owned(),
    };
    say(format_args!("{heading}:\n"))?;
    for row in 0..claims.height() {
        let verdict = cell("verdict", row).to_uppercase();
        say(textwrap(&format!("{verdict}: {} [{}]", cell("claim", row), cell("id", row)), 110))?;
        say(format_args!("    published: {}", cell("published", row)))?;
        let (ours, low, high, n) = (cell("ours", row), cell("low", row), cell("high", row), cell("n", row));
        if ours != "–" && low == "–" {
            say(format_args!("    ours:      {ours}, counted"))?;
        } else if n != "0" {
            let (of, minus) = (cell("of", row), cell("minus", row));
            let sides = if minus == "–" { String::new() } else { format!(" = {of} − {minus}") };
            say(format_args!("    ours:      {ours}{sides}, 95 % interval [{low}, {high}], n = {n}"))?;
        }
        if !cell("note", row).is_empty() {
            say(format_args!("    because:   {}", cell("note", row)))?;
        }
        say(textwrap(&format!("    rule: {}", cell("rule", row)), 110))?;
    }
    say("")
}

/// A value in at most four significant digits.
fn short(value: &AnyValue<'_>) -> String {
    match value {
        AnyValue::Null => "–".to_owned(),
        AnyValue::String(text) => (*text).to_owned(),
        AnyValue::StringOwned(text) => text.to_string(),
        // What rounding leaves of a difference of equal numbers.
        AnyValue::Float64(value) if value.abs() < 1e-12 => "0".to_owned(),
        AnyValue::Float64(value) if (1e-4..1e6).contains(&value.abs()) => {
            let text = format!("{value:.4}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            text.replace('-', "−")
        }
        AnyValue::Float64(value) => format!("{value:.2e}").replace('-', "−"),
        other => other.to_string(),
    }
}

/// Lines of at most `width` characters; the later ones start where the text does.
fn textwrap(text: &str, width: usize) -> String {
    let indent = text.len() - text.trim_start().len();
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + word.chars().count() + indent >= width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    let indented: Vec<String> = lines.iter().map(|line| format!("{}{line}", " ".repeat(indent))).collect();
    indented.join("\n")
}

/// A share as a percentage with one decimal, or a dash.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// A table of results: a row a run.
pub fn results(results: &[RunResult]) -> Outcome {
    let (texts, others): (Vec<_>, Vec<_>) =
        results.iter().cloned().partition(|result| result.target_offset.is_some());
    if !texts.is_empty() {
        text_results(&texts)?;
    }
    if others.is_empty() { Ok(()) } else { accuracies(&others) }
}

/// Results of runs on a text.
fn text_results(results: &[RunResult]) -> Outcome {
    let header = ["λ", "seed", "target", "perplexity", "loss (nats)", "steps", "seconds", "ended"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
    };
    rows.extend(results.iter().map(|result| {
        vec![
            result.kind.clone(),
            result.seed.to_string(),
            result.target_offset.map_or_else(String::new, |offset| format!("t+{offset}")),
            number(result.perplexity(), 2),
            number(result.validation_loss, 4),
            result.steps.to_string(),
            format!("{:.1}", result.seconds),
            result.status.name().to_owned(),
        ]
    }));
    table(&rows)?;
    say("")?;
    each_kind(
        results,
        |result| result.perplexity(),
        |kind, mean, std, n| {
            format!("{kind}: validation perplexity {mean:.2} ± {std:.2} (mean ± population std, n = {n})")
        },
    )
}

/// A line for each λ kind: the mean and deviation of a number of its runs.
fn each_kind(
    results: &[RunResult],
    pick: fn(&RunResult) -> Option<f64>,
    line: impl Fn(&str, f64, f64, usize) -> String,
) -> Outcome {
    let mut kinds: Vec<&str> = results.iter().map(|result| result.kind.as_str()).collect();
    kinds.dedup();
    for kind in kinds {
        let of_kind = results.iter().filter(|result| result.kind == kind);
        let values: Vec<f64> = of_kind.filter_map(pick).collect();
        if !values.is_empty() {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let std = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
            say(line(kind, mean, std, values.len()))?;
        }
    }
    Ok(())
}

/// Results of the synthetic tasks.
fn accuracies(results: &[RunResult]) -> Outcome {
    let header = ["λ", "seed", "accuracy", "best", "at step", "steps", "seconds", "ended"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(results.iter().map(|result| {
        vec![
            result.kind.clone(),
            result.seed.to_string(),
            percent(result.accuracy),
            percent(result.best_accuracy),
            result.best_step.map_or_else(|| "–".to_owned(), |step| step.to_string()),
            result.steps.to_string(),
            format!("{:.1}", result.seconds),
            result.status.name().to_owned(),
        ]
    }));
    table(&rows)?;
    say("")?;
    each_kind(
        results,
        |result| result.best_accuracy,
        |kind, mean, std, n| {
            let (mean, std) = (100.0 * mean, 100.0 * std);
            format!("{kind}: best accuracy {mean:.1} ± {std:.1} % (mean ± population std, n = {n})")
        },
    )
}

/// The outcome of a training by its results: interrupted and diverged runs are failures.
pub fn outcome(results: &[RunResult]) -> Outcome {
    let count = |status| results.iter().filter(|result| result.status == status).count();
    if count(Status::Interrupted) > 0 {
        return Err(Failure::Stopped("interrupted; give the same command again to go on".to_owned()));
    }
    match count(Status::Diverged) {
        0 => Ok(()),
        n => Err(Failure::Stopped(format!(
            "{n} of {} runs diverged (loss or gradient not finite)",
            results.len()
        ))),
    }
}
