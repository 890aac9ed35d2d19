//! Language models as frames: loss by position in the window, and what decoding costs.

use super::runs::{column, run_name};
use crate::attention::BeyondLevels;
use crate::cohort::Parameters;
use crate::lambda::LambdaMap;
use crate::model::{Decoder, Model, ModelConfig};
use crate::random::Generator;
use crate::task::{Dataset, Split};
use crate::train::{RunConfig, RunFolder, evaluate_positions};
use crate::{Error, Result, device};
use burn::tensor::{DType, Device};
use polars::prelude::DataFrame;
use std::sync::Arc;
use std::time::Instant;

/// Loss of a trained run at every position of the windows of a split, in windows of `seq_len` tokens (by
/// default the trained length), with columns
///
/// | column | meaning |
/// |---|---|
/// | run, kind, seed | name of the run, its λ kind or baseline, its seed |
/// | target_offset | how far ahead the predicted token is |
/// | seq_len, trained_seq_len | window here, and in training |
/// | position | place in the window, from 0 |
/// | loss | mean cross-entropy over all windows, in nats |
/// | scored | number of windows in which the position is scored |
///
/// # Errors
///
/// If the run is not one on a text, its text is gone or another one, the window is longer than the model's
/// `max_seq_len`, or the folder has no usable checkpoint.
pub fn position_losses(
    folder: &RunFolder,
    seq_len: Option<usize>,
    split: Split,
    lambda: Option<Arc<dyn LambdaMap>>,
    device: &Device,
) -> Result<DataFrame> {
    let config = folder.config()?;
    let target_offset = folder.target_offset()?;
    folder.check_corpus()?;
    let seq_len = seq_len.unwrap_or(config.task.task().seq_len());
    Error::check_range("seq_len", seq_len, 2..=config.model.max_seq_len)?;
    let model = folder.model(lambda)?;
    let (parameters, _) = folder.parameters(&model, &device::plain(device))?;
    losses_by_position(folder, &config, (&model, &parameters), seq_len, split, target_offset, device)
}

/// [`position_losses`] of a run that is loaded already.
pub(crate) fn losses_by_position(
    folder: &RunFolder,
    config: &RunConfig,
    (model, parameters): (&Model, &Parameters),
    seq_len: usize,
    split: Split,
    target_offset: usize,
    device: &Device,
) -> Result<DataFrame> {
    let trained = config.task.task().seq_len();
    let data = Dataset::open(&config.task.with_seq_len(seq_len), config.seed, split)?;
    // As many tokens at once as in training.
    let batch = (config.train.batch * trained / seq_len).max(1);
    let losses = device::enter(device, || evaluate_positions(model, parameters, &data, batch, device))?;
    let columns = vec![
        column("run", vec![run_name(folder); seq_len]),
        column("kind", vec![model.kind(); seq_len]),
        column("seed", vec![config.seed as u32; seq_len]),
        column("target_offset", vec![target_offset as u32; seq_len]),
        column("seq_len", vec![seq_len as u32; seq_len]),
        column("trained_seq_len", vec![trained as u32; seq_len]),
        column("position", (0..seq_len as u32).collect::<Vec<_>>()),
        column("loss", losses.iter().map(|position| position.loss).collect::<Vec<_>>()),
        column("scored", losses.iter().map(|position| position.scored as u32).collect::<Vec<_>>()),
    ];
    Ok(DataFrame::new(seq_len, columns)?)
}

/// Losses by position that a sweep recorded with its runs (`positions.parquet` of their folders), one run below
/// the other; columns as [`position_losses`].
///
/// # Errors
///
/// If no folder has such a file, or one can't be read.
pub fn recorded_positions(folders: &[RunFolder]) -> Result<DataFrame> {
    let files = folders.iter().map(|folder| folder.file("positions.parquet"));
    let frames = files.filter(|file| file.is_file()).map(super::read_parquet).collect::<Result<Vec<_>>>()?;
    if frames.is_empty() {
        let expected = "with a positions.parquet, which a sweep on a text writes";
        return Err(Error::value("runs", expected, "none of them"));
    }
    stack_positions(frames)
}

/// Losses by position of several runs in one frame, one below the other.
///
/// # Errors
///
/// If there is no frame, or their columns differ.
pub fn stack_positions(frames: impl IntoIterator<Item = DataFrame>) -> Result<DataFrame> {
    let mut frames = frames.into_iter();
    let first = frames.next().ok_or_else(|| Error::value("runs", "at least one", 0))?;
    frames.try_fold(first, |all, frame| Ok(all.vstack(&frame)?))
}

/// Steps that are timed at each position.
const TIMED: usize = 16;

/// What decoding costs by position: a model with weights as they start sees random tokens up to each position,
/// and then single ones, which are timed. Costs don't depend on the weights.
///
/// | column | meaning |
/// |---|---|
/// | kind, d_model, layers | the model |
/// | position | tokens seen before |
/// | state_bytes | bytes of what all layers remember |
/// | entries | what a head keeps: states [K, V], or keys and values |
/// | milliseconds | of one token, the median of 16, with logits read back |
/// | prefill_seconds | of all tokens up to the position, in blocks; from the last position in the list |
/// | device | processor or GPU |
///
/// `see` is told of each position as it is measured.
///
/// # Errors
///
/// If a configuration is no language model's, the positions don't grow, or one is past the model's
/// `max_seq_len`: build it with enough levels.
pub fn decoding_cost(
    configs: &[ModelConfig],
    positions: &[usize],
    on: &Device,
    mut see: impl FnMut(&str, usize, f64),
) -> Result<DataFrame> {
    if !positions.is_sorted_by(|a, b| a < b) {
        return Err(Error::value("positions", "growing numbers", format!("{positions:?}")));
    }
    let mut rows = Vec::new();
    for config in configs {
        let model = Model::new(config.clone())?;
        let parameters = Parameters::initialise(model.specs(), &[0], &device::plain(on), DType::F32);
        let mut generator = Generator::new(0, "decoding");
        let mut draw =
            |count: usize| -> Vec<u32> { (0..count).map(|_| generator.below(config.vocab) as u32).collect() };
        let mut decoder = Decoder::new(&model, &parameters, BeyondLevels::Error, on)?;
        // Kernels are compiled, and memory is fetched, at the first use.
        decoder.clone().extend(&draw(positions.first().map_or(1, |&first| first.max(1))))?;
        let mut prefill = 0.0;
        for &position in positions {
            let tokens = draw(position.saturating_sub(decoder.position()));
            let start = Instant::now();
            if !tokens.is_empty() {
                decoder.extend(&tokens)?;
            }
            prefill += start.elapsed().as_secs_f64();
            let (bytes, entries) = (decoder.state_bytes(), decoder.entries());
            let mut probe = decoder.clone();
            let mut times = Vec::new();
            for token in draw(TIMED + 2) {
                let start = Instant::now();
                probe.extend(&[token])?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            let times = &mut times[2..];
            times.sort_by(f64::total_cmp);
            see(&model.kind(), position, times[TIMED / 2]);
            rows.push((model.kind(), config, position, bytes, entries, times[TIMED / 2], prefill));
        }
    }
    let hardware = device::hardware(on);
    let columns = vec![
        column("kind", rows.iter().map(|row| row.0.clone()).collect::<Vec<_>>()),
        column("d_model", rows.iter().map(|row| row.1.d_model as u32).collect::<Vec<_>>()),
        column("layers", rows.iter().map(|row| row.1.layers as u32).collect::<Vec<_>>()),
        column("position", rows.iter().map(|row| row.2 as u32).collect::<Vec<_>>()),
        column("state_bytes", rows.iter().map(|row| row.3 as u64).collect::<Vec<_>>()),
        column("entries", rows.iter().map(|row| row.4 as u32).collect::<Vec<_>>()),
        column("milliseconds", rows.iter().map(|row| row.5).collect::<Vec<_>>()),
        column("prefill_seconds", rows.iter().map(|row| row.6).collect::<Vec<_>>()),
        column("device", vec![hardware; rows.len()]),
    ];
    Ok(DataFrame::new(rows.len(), columns)?)
}
