//! The list of figures, in the order of the page.

use super::ablations::ablations;
use super::language::language;
use super::source::{Recorded, Results, Source};
use crate::frame::{
    ended_runs, evaluations, first_run, numbers, own_name, published, recorded_lambda, texts,
};
use crate::train::RunFolder;
use crate::visualization::{
    Bars, Cells, Figure, HeatmapGrid, Quantity, accuracy_against_pairs, accuracy_bars, fenwick_partition,
    heatmap_grid, lambda_by_level, lambda_heatmap, lambda_histogram, learning_curves, learning_curves_grid,
};
use crate::{Error, Result};
use polars::prelude::{DataFrame, Expr, IntoLazy, col, lit};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::OsStr;

/// A figure with the files it was drawn from, or the command that makes what is missing.
pub(super) struct Drawing {
    pub(super) name: String,
    pub(super) caption: String,
    pub(super) figure: std::result::Result<(Figure, Vec<Source>), String>,
}

/// Draws everything there are results for.
pub(super) fn all(results: &Results) -> Result<Vec<Drawing>> {
    let mut list = Vec::new();
    for (preset, name) in [("paper/mqar", "mqar"), ("paper/mqar-128", "mqar-128")] {
        list.extend(against_pairs(results, preset, name)?);
    }
    let bars = [
        (
            "paper/length-generalisation",
            "length-generalisation",
            "eval_seq_len",
            "accuracy",
            "MQAR at the trained length and at twice that: accuracy of the trained model",
        ),
        (
            "paper/selective-copying",
            "selective-copying",
            "seq_len",
            "best_accuracy",
            "Selective copying: best validation accuracy",
        ),
        ("paper/induction", "induction", "seq_len", "best_accuracy", "Induction: best validation accuracy"),
    ];
    for (preset, name, group, value, title) in bars {
        list.push(as_bars(results, preset, name, group, value, title)?);
    }
    for preset in ["paper/mqar", "paper/mqar-128", "paper/selective-copying"] {
        list.push(curves(results, preset)?);
    }
    list.extend(lambda(results, results.fullest(&["paper/mqar", "paper/mqar-128"])?)?);
    list.push(ablations(results)?);
    list.extend(quickstart(results)?);
    list.extend(language(results)?);
    list.push(Drawing {
        name: "fenwick-partition".to_owned(),
        caption: "The Fenwick partition: buckets of every prefix up to position 21, by level".to_owned(),
        figure: Ok((fenwick_partition(21)?, Vec::new())),
    });
    Ok(list)
}

/// What the page says of results that are smaller than the paper's.
pub(super) fn size(recorded: &Recorded) -> &'static str {
    match (recorded.is_preset(), recorded.is_small()) {
        (Ok(true), false) => "",
        (Ok(true), true) => " Small preset: other sizes than the published ones.",
        _ => " Not the checked-in preset of this name: other settings than the published ones.",
    }
}

pub(super) fn missing(name: &str, caption: &str, preset: &str) -> Drawing {
    let figure = Err(format!("`loglinear sweep {preset}` (on a CPU: {preset}-small)"));
    Drawing { name: name.to_owned(), caption: caption.to_owned(), figure }
}

/// Numbers that a column of a frame takes, in order.
pub(super) fn distinct(frame: &DataFrame, name: &str) -> Result<Vec<u32>> {
    let mut values: Vec<u32> = frame.column(name)?.u32()?.iter().flatten().collect();
    values.sort_unstable();
    values.dedup();
    Ok(values)
}

/// Rows of a frame that meet a condition.
pub(super) fn with(frame: &DataFrame, condition: Expr) -> Result<DataFrame> {
    Ok(frame.clone().lazy().filter(condition).collect()?)
}

/// Published figures of a benchmark.
fn published_of(benchmark: &str) -> Result<DataFrame> {
    with(&published()?, col("benchmark").eq(lit(benchmark)))
}

/// Accuracy against pairs, a figure for each length.
fn against_pairs(results: &Results, preset: &str, name: &str) -> Result<Vec<Drawing>> {
    let caption = "MQAR: best validation accuracy against the number of pairs, a dot a run, bars and lines the means of \
                   seeds; published values beside ours";
    let Some(recorded) = results.preset(preset)? else {
        return Ok(vec![missing(&format!("{name}-accuracy"), caption, preset)]);
    };
    let runs = ended_runs(&recorded.collected)?;
    // Kinds that were not run have no place in the legend.
    let kinds = ["fixed", "mlp-softplus", "mlp-softmax"]
        .into_iter()
        .filter(|&kind| texts(&runs, "kind").is_ok_and(|kinds| kinds.iter().any(|of| of == kind)));
    let ours = kinds.map(|kind| col("kind").eq(lit(kind))).reduce(Expr::or).unwrap_or_else(|| lit(false));
    let published = with(&published_of(name)?, ours)?;
    let one = |length: u32| {
        let figure = accuracy_against_pairs(&with(&runs, col("seq_len").eq(lit(length)))?, Some(&published))?;
        let sources = vec![recorded.source.clone()];
        let caption = format!("{caption}; T = {length}.{}", size(recorded));
        Ok(Drawing { name: format!("{name}-accuracy-T{length}"), caption, figure: Ok((figure, sources)) })
    };
    distinct(&runs, "seq_len")?.into_iter().map(one).collect()
}

fn as_bars(
    results: &Results,
    preset: &str,
    name: &str,
    group: &str,
    value: &str,
    title: &str,
) -> Result<Drawing> {
    let published = published_of(name)?;
    let beside = if published.height() > 0 { "; published values beside ours" } else { "" };
    let caption = format!("{title}, mean ± population std, a dot a seed{beside}.");
    let Some(recorded) = results.preset(preset)? else { return Ok(missing(name, &caption, preset)) };
    let ended = if group == "seq_len" {
        ended_runs(&recorded.collected)?
    } else {
        with(&recorded.collected, col("last").and(col("steps").is_not_null()))?
    };
    let x_label = if group == "seq_len" { "sequence length T" } else { "evaluated at T" };
    let published = (published.height() > 0).then_some(&published);
    let figure = accuracy_bars(&ended, &Bars { group, value, title, x_label, published })?;
    let figure = Ok((figure, vec![recorded.source.clone()]));
    Ok(Drawing { name: name.to_owned(), caption: format!("{caption}{}", size(recorded)), figure })
}

fn curves(results: &Results, preset: &str) -> Result<Drawing> {
    let name = format!("{}-curves", preset.trim_start_matches("paper/"));
    let caption = "Validation accuracy while training, one panel a setting: thin lines are runs, up to where they \
                   stopped or stand, thick ones means over seeds, in which a run counts with its last value from then on.";
    let Some(recorded) = results.preset(preset)? else { return Ok(missing(&name, caption, preset)) };
    let own = col("eval_seq_len").eq(col("seq_len")).and(col("accuracy").is_not_null());
    let rows = with(&recorded.collected, own)?;
    let panels: &[&str] = match rows.column("pairs")?.null_count() {
        0 => &["seq_len", "pairs"],
        _ => &["seq_len"],
    };
    let figure = learning_curves_grid(&rows, Quantity::Accuracy, panels)?;
    let caption = format!("{caption}{}", size(recorded));
    Ok(Drawing { name, caption, figure: Ok((figure, vec![recorded.source.clone()])) })
}

/// Heatmaps, means by level and a histogram of λ that was recorded with a sweep's runs.
fn lambda(results: &Results, preset: &str) -> Result<Vec<Drawing>> {
    let names = ["lambda-heatmap", "lambda-grid", "lambda-by-level", "lambda-histogram"];
    let captions = [
        "λ of one MLP-λ (softplus) run on one validation sequence, level by position, one panel a layer, with its \
         own scale; grey where a level holds nothing",
        "λ of layer 0 on one validation sequence: a row a λ kind, with its own scale, a column a seed",
        "Mean λ of each level by λ kind, ± std over runs, layers and positions where the level is present",
        "Histogram of λ by kind, where the level is present",
    ];
    let nothing = || Ok((0..4).map(|i| missing(names[i], captions[i], preset)).collect());
    let Some(recorded) = results.preset(preset)? else { return nothing() };
    let (folders, setting) = with_lambda(recorded)?;
    if folders.is_empty() {
        return nothing();
    }
    let frame = recorded_lambda(&folders)?;
    let sources = |folders: &[RunFolder]| {
        folders.iter().map(|run| Source::of(&run.file("lambda.parquet"))).collect::<Result<Vec<_>>>()
    };
    let proposed = folders.iter().find(|run| run.path().to_string_lossy().contains("mlp-softplus"));
    let chosen = proposed.unwrap_or(&folders[0]).clone();
    let single = recorded_lambda(std::slice::from_ref(&chosen))?;
    let heatmap = lambda_heatmap(&single, &first_run(&single)?, 0, Cells::Present)?;
    let grid = heatmap_grid(&frame, &HeatmapGrid { layer: 0, head: 0, sequence: 0, cells: Cells::Present })?;
    let figures = [
        (heatmap, sources(std::slice::from_ref(&chosen))?),
        (grid, sources(&folders)?),
        (lambda_by_level(&frame)?, sources(&folders)?),
        (lambda_histogram(&frame)?, sources(&folders)?),
    ];
    let reached = accuracies(recorded, &folders)?;
    let drawing = |(i, figure): (usize, (Figure, Vec<Source>))| Drawing {
        name: names[i].to_owned(),
        caption: format!("{}; MQAR, {setting}. {reached}{}", captions[i], size(recorded)),
        figure: Ok(figure),
    };
    Ok(figures.into_iter().enumerate().map(drawing).collect())
}

/// Best accuracies of some runs of a sweep, by kind and seed: λ of a run that failed shows another thing than λ of one
/// that solved its task.
fn accuracies(recorded: &Recorded, folders: &[RunFolder]) -> Result<String> {
    let ended = ended_runs(&recorded.collected)?;
    let (runs, kinds) = (texts(&ended, "run")?, texts(&ended, "kind")?);
    let (seeds, reached) = (numbers(&ended, "seed")?, numbers(&ended, "best_accuracy")?);
    let shown: HashSet<_> = folders.iter().filter_map(|folder| folder.path().file_name()).collect();
    let is_shown = |&row: &usize| shown.contains(OsStr::new(own_name(&runs[row])));
    let mut rows: Vec<usize> = (0..runs.len()).filter(is_shown).collect();
    rows.sort_by(|&a, &b| {
        (&kinds[a], seeds[a]).partial_cmp(&(&kinds[b], seeds[b])).unwrap_or(Ordering::Equal)
    });
    let of_kind = |rows: &[usize]| {
        let shares: Vec<String> = rows.iter().map(|&row| format!("{:.1}", reached[row] * 100.0)).collect();
        format!("{} {} %", kinds[rows[0]], shares.join(", "))
    };
    let all: Vec<String> = rows.chunk_by(|&a, &b| kinds[a] == kinds[b]).map(of_kind).collect();
    Ok(format!("Best accuracies of these runs, by seed: {}.", all.join("; ")))
}

/// Runs of one setting with recorded λ: k = 8 if there is, else the most pairs, at the shortest length.
fn with_lambda(recorded: &Recorded) -> Result<(Vec<RunFolder>, String)> {
    let runs = recorded
        .folder
        .runs()
        .iter()
        .filter(|run| recorded.folder.run_path(run).join("lambda.parquet").is_file());
    let setting = |run: &&crate::sweep::SweepRun| match &run.config.task {
        crate::task::TaskConfig::Mqar(task) => Some((task.pairs, task.seq_len)),
        _ => None,
    };
    let runs: Vec<_> = runs.filter_map(|run| setting(&run).map(|setting| (setting, run))).collect();
    let place = |(pairs, seq_len): (usize, usize)| (pairs != 8, std::cmp::Reverse(pairs), seq_len);
    let Some(&(chosen, _)) = runs.iter().min_by_key(|(setting, _)| place(*setting)) else {
        return Ok((Vec::new(), String::new()));
    };
    let open = |(_, run): &(_, &crate::sweep::SweepRun)| RunFolder::open(recorded.folder.run_path(run));
    let folders = runs.iter().filter(|(setting, _)| *setting == chosen).map(open).collect::<Result<_>>()?;
    Ok((folders, format!("k = {}, T = {}", chosen.0, chosen.1)))
}

/// The figures of the main job.
fn quickstart(results: &Results) -> Result<Vec<Drawing>> {
    let names = ["quickstart-lambda", "quickstart-accuracy", "quickstart-lambda-by-level"];
    let captions = [
        "λ of MLP-λ (softplus), seed 0, on the first validation sequence of the quickstart",
        "Validation accuracy of three λ kinds × 2 seeds in the quickstart",
        "Mean λ of each level by kind in the quickstart",
    ];
    let Some(folder) = results.quickstart() else {
        let lacking = |i: usize| Drawing {
            name: names[i].to_owned(),
            caption: captions[i].to_owned(),
            figure: Err("`loglinear quickstart`".to_owned()),
        };
        return Ok((0..3).map(lacking).collect());
    };
    let folders = RunFolder::find(&folder)?;
    let of = |file: &str, folders: &[RunFolder]| {
        folders.iter().map(|run| Source::of(&run.file(file))).collect::<Result<Vec<_>>>()
    };
    let frame = recorded_lambda(&folders)?;
    let chosen: Vec<RunFolder> =
        folders.iter().filter(|run| run.path().ends_with("mlp-softplus-seed0")).cloned().collect();
    if chosen.is_empty() {
        return Err(Error::run(&folder, "expected the quickstart's run mlp-softplus-seed0, found none"));
    }
    let single = recorded_lambda(&chosen)?;
    let figures = [
        (lambda_heatmap(&single, &first_run(&single)?, 0, Cells::Present)?, of("lambda.parquet", &chosen)?),
        (learning_curves(&evaluations(&folders)?, Quantity::Accuracy)?, of("metrics.jsonl", &folders)?),
        (lambda_by_level(&frame)?, of("lambda.parquet", &folders)?),
    ];
    let drawing = |(i, figure): (usize, (Figure, Vec<Source>))| Drawing {
        name: names[i].to_owned(),
        caption: format!("{}.", captions[i]),
        figure: Ok(figure),
    };
    Ok(figures.into_iter().enumerate().map(drawing).collect())
}
