//! What goes to standard output.

use crate::{Failure, Outcome};
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

/// A share as a percentage with one decimal, or a dash.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// A table of results: a row a run.
pub fn results(results: &[RunResult]) -> Outcome {
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
    let mut kinds: Vec<&str> = results.iter().map(|result| result.kind.as_str()).collect();
    kinds.dedup();
    for kind in kinds {
        let of_kind = results.iter().filter(|result| result.kind == kind);
        let best: Vec<f64> = of_kind.filter_map(|result| result.best_accuracy).collect();
        if !best.is_empty() {
            let n = best.len() as f64;
            let mean = best.iter().sum::<f64>() / n;
            let std = (best.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
            say(format_args!(
                "{kind}: best accuracy {:.1} ± {:.1} % (mean ± population std, n = {n})",
                100.0 * mean,
                100.0 * std
            ))?;
        }
    }
    Ok(())
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
