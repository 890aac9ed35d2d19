//! Checks of a λ map of the reader's own, before a training takes it up.

use crate::cohort::Parameters;
use crate::lambda::LambdaMap;
use crate::model::Model;
use crate::task::{Batch, Dataset, Split};
use crate::train::{Job, RunConfig, RunFolder, evaluate};
use crate::{Error, Result, device};
use burn::tensor::DType;
use std::sync::Arc;

/// Sees what a map gives before anything is written: a wrong shape or a missing parameter ends here.
pub(super) fn try_map(config: &RunConfig, map: &Arc<dyn LambdaMap>) -> Result<()> {
    let model = Model::with_lambda(config.model.clone(), map.clone())?;
    let device = device::parse("cpu")?;
    let parameters = Parameters::initialise(model.specs(), &[config.seed], &device, DType::F32);
    let data = Dataset::generate(&config.task, config.seed, Split::Validation, 1)?;
    let batch = Batch::stack(&[data], &[vec![0]], &device)?;
    model.forward(&parameters, batch.tokens).map(|_| ())
}

/// Refuses to take up a run that was trained with another map of the same name: its checkpoint must give
/// the loss that was recorded with it.
pub(super) fn same_map(job: &Job, map: &Arc<dyn LambdaMap>) -> Result<()> {
    let Ok(run) = RunFolder::open(&job.folder) else { return Ok(()) };
    if !run.has_checkpoint() || run.config()? != job.config {
        return Ok(());
    }
    let device = device::parse("cpu")?;
    let model = run.model(Some(map.clone()))?;
    let other = |message: &str| {
        let name = map.kind();
        let message =
            format!("was trained with another map named `{name}` ({message}): rename kind() or the folder");
        Error::run(run.path(), message)
    };
    let checkpoint = run.checkpoint(&model, &device).map_err(|error| other(&error.to_string()))?;
    let step = checkpoint.progress.step;
    let Some(row) = run.metrics()?.into_iter().rev().find(|row| row.step == step) else { return Ok(()) };
    let data = Dataset::open(&job.config.task, job.config.seed, Split::Validation)?;
    let batch = job.config.train.batch;
    let found = evaluate(&model, &checkpoint.parameters, &[data], batch, &device)?[0].loss;
    // Another processor rounds differently in the last digits, a GPU in the third; another map is another
    // function.
    let on_cpu = run.result()?.is_none_or(|result| result.device == "cpu");
    let tolerance = if on_cpu { 1e-5 } else { 1e-2 };
    let close = (found - row.validation_loss).abs() <= tolerance * row.validation_loss.abs();
    if close || !row.validation_loss.is_finite() {
        return Ok(());
    }
    Err(other(&format!("recorded loss {:.4}, with this map {found:.4}", row.validation_loss)))
}
