//! What λ depends on: level, region, token.

use crate::Result;
use polars::prelude::{DataFrame, Expr, IntoLazy, LazyFrame, col, len, lit};

/// Rows of a frame of λ whose level holds something: λ of the others multiplies nothing.
fn present(lambda: &DataFrame) -> LazyFrame {
    lambda
        .clone()
        .lazy()
        .filter(col("present"))
        .with_column(col("lambda").cast(polars::prelude::DataType::Float64))
}

/// Keys in their order, whatever order the groups came in.
fn sorted(frame: LazyFrame, keys: &[&str]) -> Result<DataFrame> {
    Ok(frame.sort(keys.iter().copied(), polars::prelude::SortMultipleOptions::default()).collect()?)
}

fn columns<const N: usize>(names: [&str; N]) -> [Expr; N] {
    names.map(col)
}

/// Mean and population standard deviation of λ by kind, layer, region and level, over all runs, heads
/// and positions where the level is present; `n` values each.
///
/// # Errors
///
/// If the frame lacks a column.
pub fn lambda_by_region(lambda: &DataFrame) -> Result<DataFrame> {
    let keys = ["kind", "layer", "region", "level"];
    let value = || col("lambda");
    let grouped = present(lambda).group_by(columns(keys)).agg([
        value().mean().alias("mean"),
        value().std(0).alias("std"),
        len().alias("n"),
    ]);
    sorted(grouped, &keys)
}

/// How λ of each run, layer and head varies: with the level, or with the token at a level.
///
/// | column | meaning |
/// |---|---|
/// | run, kind, layer, head | whose λ |
/// | mean | mean over levels of the mean over tokens |
/// | between_levels | population variance over levels of the mean over tokens |
/// | within_levels | mean over levels of the population variance over tokens |
/// | content_share | within / (within + between): 0 if λ is a function of the level alone |
/// | level_variation | √between / mean: 0 if λ is the same at every level |
///
/// Levels weigh the same, however often they are present, so the two variances add up to the total
/// (law of total variance).
///
/// # Errors
///
/// If the frame lacks a column.
pub fn content_dependence(lambda: &DataFrame) -> Result<DataFrame> {
    let keys = ["run", "kind", "layer", "head"];
    let by_level = present(lambda)
        .group_by(columns(["run", "kind", "layer", "head", "level"]))
        .agg([col("lambda").mean().alias("level_mean"), col("lambda").var(0).alias("level_variance")]);
    let by_head = by_level.group_by(columns(keys)).agg([
        col("level_mean").mean().alias("mean"),
        col("level_mean").var(0).alias("between_levels"),
        col("level_variance").mean().alias("within_levels"),
    ]);
    let total = col("within_levels") + col("between_levels");
    let with_shares = by_head.with_columns([
        (col("within_levels") / total).alias("content_share"),
        (col("between_levels").sqrt() / col("mean")).alias("level_variation"),
    ]);
    sorted(with_shares, &keys)
}

/// What the paper reads from its heatmaps, as numbers: a row a run.
///
/// | column | meaning |
/// |---|---|
/// | run, kind | whose λ |
/// | level_variation, content_share | see [`content_dependence`], mean over layers and heads |
/// | task_ratio | mean λ of levels 0 and 1 at key, value and query tokens, over that at other tokens |
/// | deep_ratio | mean λ of levels 3 and above, over that of levels 0 and 1 |
///
/// Only where the level is present. A ratio is null where a task has no such tokens or levels.
///
/// # Errors
///
/// If the frame lacks a column.
pub fn lambda_reading(lambda: &DataFrame) -> Result<DataFrame> {
    let keys = ["run", "kind"];
    let shares = content_dependence(lambda)?
        .lazy()
        .group_by(columns(keys))
        .agg([col("level_variation").mean(), col("content_share").mean()]);
    let fine = || col("level").lt_eq(lit(1));
    let of_task =
        || ["key", "value", "query"].map(|name| col("region").eq(lit(name))).into_iter().reduce(Expr::or);
    let of_task = || of_task().unwrap_or_else(|| lit(false));
    let mean = |rows: Expr| col("lambda").filter(rows).mean();
    let ratios = present(lambda).group_by(columns(keys)).agg([
        (mean(fine().and(of_task())) / mean(fine().and(of_task().not()))).alias("task_ratio"),
        (mean(col("level").gt_eq(lit(3))) / mean(fine())).alias("deep_ratio"),
    ]);
    sorted(
        shares
            .inner_join(ratios, col("run"), col("run"))
            .select(["run", "kind", "level_variation", "content_share", "task_ratio", "deep_ratio"].map(col)),
        &keys,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::df;

    /// Two levels, two tokens each, and one value of an absent level.
    fn frame(values: [f32; 5]) -> DataFrame {
        df!(
            "run" => ["r"; 5], "kind" => ["k"; 5], "layer" => [0_u32; 5], "head" => [0_u32; 5],
            "region" => ["key", "value", "key", "value", "key"],
            "level" => [0_u32, 0, 1, 1, 2], "present" => [true, true, true, true, false],
            "lambda" => values
        )
        .unwrap()
    }

    fn number(frame: &DataFrame, name: &str) -> f64 {
        frame.column(name).unwrap().f64().unwrap().get(0).unwrap()
    }

    #[test]
    fn variances_by_hand() {
        // Means 2 and 4, so between = 1; variances 1 and 4, so within = 2.5.
        let found = content_dependence(&frame([1.0, 3.0, 2.0, 6.0, 1e9])).unwrap();
        assert_eq!(found.height(), 1);
        let numbers = ["mean", "between_levels", "within_levels"].map(|name| number(&found, name));
        assert_eq!(numbers, [3.0, 1.0, 2.5]);
        assert!((number(&found, "content_share") - 2.5 / 3.5).abs() < 1e-12);
        assert!((number(&found, "level_variation") - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_function_of_the_level_alone_has_no_content_share() {
        let found = content_dependence(&frame([1.0, 1.0, 2.0, 2.0, 0.0])).unwrap();
        assert_eq!(number(&found, "content_share"), 0.0);
        let uniform = content_dependence(&frame([1.0, 3.0, 2.0, 2.0, 0.0])).unwrap();
        assert_eq!((number(&uniform, "content_share"), number(&uniform, "level_variation")), (1.0, 0.0));
    }

    #[test]
    fn a_reading_by_hand() {
        let frame = df!(
            "run" => ["r"; 5], "kind" => ["k"; 5], "layer" => [0_u32; 5], "head" => [0_u32; 5],
            "region" => ["key", "filler", "query", "filler", "key"],
            "level" => [0_u32, 0, 1, 3, 4], "present" => [true; 5], "lambda" => [1.0_f32, 2.0, 5.0, 6.0, 2.0]
        );
        let found = lambda_reading(&frame.unwrap()).unwrap();
        // Fine at task tokens (1 + 5) / 2 against 2; deep (6 + 2) / 2 against (1 + 2 + 5) / 3.
        assert_eq!((number(&found, "task_ratio"), number(&found, "deep_ratio")), (1.5, 1.5));
    }

    #[test]
    fn regions_are_grouped_where_the_level_is_present() {
        let found = lambda_by_region(&frame([1.0, 3.0, 2.0, 6.0, 1e9])).unwrap();
        assert_eq!(found.height(), 4);
        let means: Vec<f64> = found.column("mean").unwrap().f64().unwrap().into_no_null_iter().collect();
        assert_eq!(means, [1.0, 2.0, 3.0, 6.0]);
    }
}
