//! Loss and accuracy of a cohort on its validation data.

use crate::cohort::{Parameters, numbers};
use crate::metric::{Scored, correct, right};
use crate::model::{IGNORED, Model, Precision, Scores, cross_entropy};
use crate::task::{Batch, Dataset};
use crate::{Error, Result, device};
use burn::tensor::Device;

/// One run's result on a data set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Mean cross-entropy over scored positions, in nats.
    pub loss: f64,
    /// Share of scored positions predicted right.
    pub accuracy: f64,
    /// Number of scored positions.
    pub scored: usize,
}

/// Loss at one position of a window, over all windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PositionLoss {
    /// Mean cross-entropy, in nats.
    pub loss: f64,
    /// Number of windows in which the position is scored.
    pub scored: usize,
}

/// Evaluates every run of a cohort on its own data set, `batch` sequences at a time. Every scored position of
/// the set counts once and equally, wherever batches end.
///
/// # Errors
///
/// If the model can't run on the data's shapes.
pub fn evaluate(
    model: &Model,
    parameters: &Parameters,
    sets: &[Dataset],
    batch: usize,
    device: &Device,
) -> Result<Vec<Evaluation>> {
    let device = device::plain(device);
    let runs = parameters.runs();
    let (mut losses, mut counts) = (vec![0.0; runs], vec![Scored::default(); runs]);
    // A GPU goes on to the next batch meanwhile: each reading would wait for it.
    let (mut unread, waits) = (Vec::new(), !device::is_cpu(&device));
    each_batch(sets, batch, runs, &device, |data| {
        if model.config().language.is_some() {
            let (scored, scores) = score(model, parameters, data)?;
            let each = scores.losses.len() / runs;
            for run in 0..runs {
                let part = run * each..(run + 1) * each;
                losses[run] += scores.losses[part.clone()].iter().map(|&loss| f64::from(loss)).sum::<f64>();
                counts[run].correct += scores.correct[part.clone()].iter().filter(|&&hit| hit).count();
                counts[run].total += scored[part].iter().filter(|&&scored| scored).count();
            }
            return Ok(());
        }
        let logits = model.forward(parameters, data.tokens)?;
        if waits {
            let right = right(logits.clone(), data.targets.clone());
            let means = cross_entropy(logits, data.targets)?;
            unread.push((data.scored, [means.clone(), right.float().cast(means.dtype())]));
            return Ok(());
        }
        let scored = correct(logits.clone(), data.targets.clone());
        let means: Vec<f64> = cross_entropy(logits, data.targets)?.into_data().iter().collect();
        for run in 0..runs {
            losses[run] += means[run] * scored[run].total as f64;
            counts[run].correct += scored[run].correct;
            counts[run].total += scored[run].total;
        }
        Ok(())
    })?;
    let numbers = numbers(unread.iter().flat_map(|(_, numbers)| numbers.clone()).collect());
    for ((scored, _), numbers) in unread.iter().zip(numbers.chunks(2 * runs.max(1))) {
        for run in 0..runs {
            losses[run] += numbers[run] * scored[run] as f64;
            counts[run].correct += numbers[runs + run].round() as usize;
            counts[run].total += scored[run];
        }
    }
    let result = |(loss, count): (f64, &Scored)| Evaluation {
        loss: loss / count.total.max(1) as f64,
        accuracy: count.accuracy(),
        scored: count.total,
    };
    Ok(losses.into_iter().zip(&counts).map(result).collect())
}

/// Loss of one run at every position of the windows of a data set.
///
/// # Errors
///
/// If the parameters are not of exactly one run, or the model can't run on the data's shapes.
pub fn evaluate_positions(
    model: &Model,
    parameters: &Parameters,
    set: &Dataset,
    batch: usize,
    device: &Device,
) -> Result<Vec<PositionLoss>> {
    if parameters.runs() != 1 {
        return Err(Error::value("parameters", "of one run", format!("{} runs", parameters.runs())));
    }
    let mut positions = vec![PositionLoss::default(); set.seq_len()];
    each_batch(std::slice::from_ref(set), batch, 1, &device::plain(device), |data| {
        let (scored, scores) = score(model, parameters, data)?;
        for (i, (loss, scored)) in scores.losses.iter().zip(scored).enumerate() {
            let position = &mut positions[i % set.seq_len()];
            position.loss += f64::from(*loss);
            position.scored += usize::from(scored);
        }
        Ok(())
    })?;
    for position in &mut positions {
        position.loss /= position.scored.max(1) as f64;
    }
    Ok(positions)
}

/// Losses and hits of a batch, and which positions are scored.
fn score(model: &Model, parameters: &Parameters, data: Batch) -> Result<(Vec<bool>, Scores)> {
    // In f32 whatever the training's arithmetic, so that every machine finds the same loss.
    let model = model.clone().with_precision(Precision::F32);
    let scored = crate::cohort::integers(data.targets.clone()).into_iter().map(|target| target != IGNORED);
    Ok((scored.collect(), model.score(parameters, data.tokens, data.targets)?))
}

/// Goes through data sets, `batch` sequences of each at a time, all batches of one shape: past its end a data
/// set yields sequences without targets.
fn each_batch(
    sets: &[Dataset],
    batch: usize,
    runs: usize,
    device: &Device,
    mut body: impl FnMut(Batch) -> Result<()>,
) -> Result<()> {
    let length = sets.iter().map(Dataset::len).max().unwrap_or(0);
    for start in (0..length).step_by(batch.max(1)) {
        let indices = vec![(start..start + batch.max(1)).collect::<Vec<_>>(); runs];
        body(Batch::stack(sets, &indices, device)?)?;
    }
    Ok(())
}
