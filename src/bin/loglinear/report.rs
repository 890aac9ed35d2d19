//! Tables for a terminal.

use loglinear::train::{RunResult, Status};

/// Prints rows in aligned columns, the first row as a header.
pub fn table(rows: &[Vec<String>]) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (index, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        if index == 0 {
            println!("{}", widths.iter().map(|&width| "─".repeat(width)).collect::<Vec<_>>().join("  "));
        }
    }
}

/// A share as a percentage with one decimal, or a dash.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// A table of results: a row a run.
pub fn results(results: &[RunResult]) {
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
    table(&rows);
    println!();
    let mut kinds: Vec<&str> = results.iter().map(|result| result.kind.as_str()).collect();
    kinds.dedup();
    for kind in kinds {
        let of_kind = results.iter().filter(|result| result.kind == kind);
        let best: Vec<f64> = of_kind.filter_map(|result| result.best_accuracy).collect();
        if !best.is_empty() {
            let n = best.len() as f64;
            let mean = best.iter().sum::<f64>() / n;
            let std = (best.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
            println!(
                "{kind}: best accuracy {:.1} ± {:.1} % (mean ± population std, n = {n})",
                100.0 * mean,
                100.0 * std
            );
        }
    }
}

/// Whether a result is that of an interrupted run.
pub fn interrupted(results: &[RunResult]) -> bool {
    results.iter().any(|result| result.status == Status::Interrupted)
}
