//! Figures of the language model, in the order of the page.

use super::draw::{Drawing, with};
use super::source::{Recorded, Results, Source};
use crate::frame::{
    ended_runs, first_run, published, read_parquet, recorded_lambda, recorded_positions, with_text,
};
use crate::train::RunFolder;
use crate::visualization::{
    Cells, Figure, TextHeatmap, decoding_cost, loss_curves, perplexity_by_kind, perplexity_by_position,
    text_heatmap,
};
use crate::{Error, Result};
use polars::prelude::{ChunkAgg, DataFrame, col, lit};

/// The sweep on the text that is shipped, and the one on the paper's.
const SHIPPED: &str = "wikitext-2";
const PAPERS: &str = "paper/wikitext-103";

/// Commands that make what is missing.
const SWEEP: &str = "`loglinear sweep wikitext-2 --device cuda:0`";
const DECODING: &str = "`loglinear decoding --out data/results/decoding.parquet`";

/// Positions of the picture of λ.
const POSITIONS: usize = 64;

/// Draws what there are results for.
pub(super) fn language(results: &Results) -> Result<Vec<Drawing>> {
    let shipped = results.preset(SHIPPED)?;
    let of_shipped = |draw: fn(&Recorded) -> Result<Option<Drawn>>| shipped.map_or(Ok(None), draw);
    let list = [
        (
            "perplexity",
            "Validation perplexity by λ kind, a panel for each text and setting: ours with a dot a run, mean ± population \
             std; on grey the published values of WikiText-103, which are of another corpus, other sizes and another target \
             (the token after the next) than WikiText-2, and don't compare with it: what compares are the differences between kinds \
             within a panel. Axes are logarithmic and don't start at 0; all span the same ratio",
            perplexity(results)?,
            SWEEP,
        ),
        (
            "language-curves",
            "Language model on WikiText-2: training loss (mean since the evaluation before) and validation loss, and \
             validation perplexity, against the step; on the right the validation loss less that of Fixed λ with the same seed; mean ± \
             population std over seeds",
            of_shipped(curves)?,
            SWEEP,
        ),
        (
            "perplexity-by-position",
            "Language model on WikiText-2: validation perplexity by the position in the window, in bins that double, \
             mean ± population std over seeds",
            of_shipped(by_position)?,
            SWEEP,
        ),
        (
            "decoding-cost",
            "Decoding token by token: bytes of state and median time a token against the number of tokens read, for \
             log-linear attention, linear attention and softmax attention with its cache",
            decoding(results)?,
            DECODING,
        ),
        (
            "lambda-text",
            "λ of one MLP-λ (softplus) run on the last tokens of the first validation window of WikiText-2, level by \
             token; the layer in the middle, its first head; grey where a level holds nothing",
            of_shipped(lambda)?,
            SWEEP,
        ),
    ];
    let drawing = |(name, caption, drawn, command): (&str, &str, Option<Drawn>, &str)| Drawing {
        name: name.to_owned(),
        caption: format!("{caption}."),
        figure: drawn.ok_or_else(|| command.to_owned()),
    };
    Ok(list.into_iter().map(drawing).collect())
}

/// A figure and the files it was drawn from.
type Drawn = (Figure, Vec<Source>);

fn perplexity(results: &Results) -> Result<Option<Drawn>> {
    let (mut runs, mut sources): (Option<DataFrame>, _) = (None, Vec::new());
    for preset in [SHIPPED, PAPERS] {
        let Some(recorded) = results.preset(preset)? else { continue };
        let columns = ["kind", "corpus", "d_model", "steps", "target_offset", "perplexity"];
        let ended = ended_runs(&recorded.collected)?.select(columns)?;
        runs = Some(match runs {
            None => ended,
            Some(runs) => runs.vstack(&ended)?,
        });
        sources.push(recorded.source.clone());
    }
    let figure = |runs| perplexity_by_kind(&runs, Some(&published()?));
    runs.map(|runs| Ok((figure(runs)?, sources))).transpose()
}

fn curves(recorded: &Recorded) -> Result<Option<Drawn>> {
    let own = col("eval_seq_len").eq(col("seq_len")).and(col("step").is_not_null());
    let figure = loss_curves(&with(&recorded.collected, own)?)?;
    Ok(Some((figure, vec![recorded.source.clone()])))
}

/// Run folders that hold a file.
fn holding(recorded: &Recorded, file: &str) -> Result<Vec<RunFolder>> {
    let paths = recorded.folder.runs().iter().map(|run| recorded.folder.run_path(run));
    paths.filter(|path| path.join(file).is_file()).map(RunFolder::open).collect()
}

/// Along the longest windows that were evaluated.
fn by_position(recorded: &Recorded) -> Result<Option<Drawn>> {
    let folders = holding(recorded, "positions.parquet")?;
    if folders.is_empty() {
        return Ok(None);
    }
    let sources =
        folders.iter().map(|run| Source::of(&run.file("positions.parquet"))).collect::<Result<_>>()?;
    let all = recorded_positions(&folders)?;
    let longest = with(&all, col("seq_len").eq(col("seq_len").max()))?;
    Ok(Some((perplexity_by_position(&longest)?, sources)))
}

fn decoding(results: &Results) -> Result<Option<Drawn>> {
    let file = results.file("decoding.parquet");
    if !file.is_file() {
        return Ok(None);
    }
    Ok(Some((decoding_cost(&read_parquet(&file)?)?, vec![Source::of(&file)?])))
}

/// The first run of MLP-λ (softplus) with λ, or of another kind if there is none.
fn lambda(recorded: &Recorded) -> Result<Option<Drawn>> {
    let folders = holding(recorded, "lambda.parquet")?;
    let softplus = folders.iter().find(|run| run.path().to_string_lossy().contains("mlp-softplus"));
    let Some(chosen) = softplus.or(folders.first()) else { return Ok(None) };
    let first = with(&recorded_lambda(std::slice::from_ref(chosen))?, col("sequence").eq(lit(0)))?;
    let frame = if first.column("text").is_ok() { first } else { with_text(&first)? };
    let last = |name: &str| Ok::<_, Error>(frame.column(name)?.u32()?.max().map_or(0, |last| last as usize));
    let end = last("position")? + 1;
    let which = TextHeatmap {
        run: &first_run(&frame)?,
        layer: last("layer")?.div_ceil(2),
        head: 0,
        sequence: 0,
        positions: end.saturating_sub(POSITIONS)..end,
        cells: Cells::Present,
    };
    Ok(Some((text_heatmap(&frame, &which)?, vec![Source::of(&chosen.file("lambda.parquet"))?])))
}
