//! Sweeps that were trained a second time, on the page of figures.

use loglinear::frame::{read_parquet, write_parquet};
use loglinear::paper::figures;
use loglinear::polars::prelude::*;
use std::path::Path;

/// A copy of the recorded `paper/induction`, without runs and repeat, and its frame.
fn copy(results: &Path) -> DataFrame {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/results/paper/induction");
    for file in ["sweep.toml", "collected.parquet"] {
        std::fs::copy(from.join(file), results.join(file)).unwrap();
    }
    read_parquet(results.join("collected.parquet")).unwrap()
}

/// Page of the figures of a folder's results, after `repeat` was put beside them.
fn page(results: &Path, repeat: Option<DataFrame>) -> loglinear::Result<String> {
    let out = tempfile::tempdir().unwrap();
    if let Some(mut repeat) = repeat {
        std::fs::create_dir_all(results.join("repeat")).unwrap();
        write_parquet(&mut repeat, results.join("repeat/collected.parquet")).unwrap();
    }
    figures(results, out.path(), " --test")?;
    Ok(std::fs::read_to_string(out.path().join("README.md")).unwrap())
}

/// The frame with another value in a column, in rows of one kind.
fn with(frame: &DataFrame, kind: &str, column: &str, value: Expr) -> DataFrame {
    let changed = when(col("kind").eq(lit(kind))).then(value).otherwise(col(column)).alias(column);
    frame.clone().lazy().with_column(changed).collect().unwrap()
}

#[test]
fn a_repeat_is_compared_run_by_run_and_verdict_by_verdict() {
    let results = tempfile::tempdir().unwrap();
    let first = copy(results.path());
    let heading = "## The same runs again";
    assert!(!page(results.path(), None).unwrap().contains(heading), "nothing was repeated");

    let same = page(results.path(), Some(first.clone())).unwrap();
    assert!(same.contains(heading));
    // Two of three runs of Fixed λ reach the target, none of MLP-λ (softmax).
    assert!(
        same.contains("| `paper/induction` | fixed | 3 | 3 | 2 | 0 | 0 | 1 | 67.2 % | 67.2 % | 0.0 points | 65.7 points |"),
        "{same}"
    );
    assert!(same.contains("| `paper/induction` | mlp-softmax | 3 | 3 | 0 | 0 | 0 | 3 |"), "{same}");
    assert!(same.contains("Of 3 claims that both times decide, 3 have the same verdict.\n"), "{same}");

    // The second time every run of MLP-λ (softplus) fails, and all of MLP-λ (softmax) reach the target.
    let second = with(&first, "mlp-softplus", "best_accuracy", lit(0.25));
    let second = with(&second, "mlp-softplus", "status", lit("completed"));
    let second = with(&second, "mlp-softmax", "status", lit("target"));
    let other = page(results.path(), Some(second)).unwrap();
    assert!(
        other.contains(
            "| `paper/induction` | mlp-softplus | 3 | 0 | 0 | 3 | 0 | 0 | 99.7 % | 25.0 % | 74.7 points | 74.7 points |"
        ),
        "{other}"
    );
    assert!(other.contains("| `paper/induction` | mlp-softmax | 3 | 3 | 0 | 0 | 3 | 0 |"), "{other}");
    assert!(other.contains("2 have the same verdict, these another:"), "{other}");
    assert!(other.contains("| **supported** | 0.250 [0.250, 0.250] | **contradicted** |"), "{other}");
}

#[test]
fn runs_that_have_not_ended_the_second_time_are_left_out() {
    let results = tempfile::tempdir().unwrap();
    let first = copy(results.path());
    let page = page(results.path(), Some(with(&first, "fixed", "status", lit("running")))).unwrap();
    assert!(
        !page.contains("| `paper/induction` | fixed | 3 | 3 |") && page.contains("6 of 9 runs ended"),
        "{page}"
    );
}

#[test]
fn a_repeat_of_other_runs_is_refused() {
    let results = tempfile::tempdir().unwrap();
    let first = copy(results.path());
    let message = page(results.path(), Some(with(&first, "fixed", "run", lit("induction/another"))))
        .unwrap_err()
        .to_string();
    assert!(message.contains("repeat/collected.parquet"), "{message}");
    assert!(message.contains("expected the runs of `paper/induction`, found `another`"), "{message}");
}
