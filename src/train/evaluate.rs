//! Loss and accuracy of a cohort on its validation data.

use crate::cohort::Parameters;
use crate::metric::{Scored, correct};
use crate::model::{Model, cross_entropy};
use crate::task::{Batch, Dataset};
use crate::{Result, device};
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

/// Evaluates every run of a cohort on its own data set, `batch` sequences at a time.
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
    let length = sets.iter().map(Dataset::len).max().unwrap_or(0);
    for start in (0..length).step_by(batch) {
        // One shape for every batch: past its end a data set yields sequences without targets.
        let indices = vec![(start..start + batch).collect::<Vec<_>>(); runs];
        let batch = Batch::stack(sets, &indices, &device);
        let logits = model.forward(parameters, batch.tokens)?;
        let scored = correct(logits.clone(), batch.targets.clone());
        let means: Vec<f64> = cross_entropy(logits, batch.targets)?.into_data().iter().collect();
        for run in 0..runs {
            losses[run] += means[run] * scored[run].total as f64;
            counts[run].correct += scored[run].correct;
            counts[run].total += scored[run].total;
        }
    }
    let result = |(loss, count): (f64, &Scored)| Evaluation {
        loss: loss / count.total.max(1) as f64,
        accuracy: count.accuracy(),
        scored: count.total,
    };
    Ok(losses.into_iter().zip(&counts).map(result).collect())
}
