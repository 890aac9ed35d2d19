//! A run's state in one safetensors file: parameters under their own names, Adam's moments beside
//! them, and what the loop needs to go on bit for bit.

use super::Adam;
use crate::cohort::{Parameters, Spec};
use crate::file::write_atomically;
use crate::{Error, Result};
use burn::tensor::{DType, Device, Tensor};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

const FIRST: &str = "optimizer.first.";
const SECOND: &str = "optimizer.second.";
const STATE: &str = "loglinear.state";

/// Where a run stands, besides its parameters and moments. Floats are written as bits, so that a
/// resumed run repeats an uninterrupted one exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Optimiser steps taken.
    pub step: usize,
    /// Best validation accuracy so far.
    #[serde(with = "bits")]
    pub best_accuracy: f64,
    /// Step of the best accuracy.
    pub best_step: usize,
    /// Sum of training losses since the last evaluation.
    #[serde(with = "bits")]
    pub loss_sum: f64,
    /// Number of those losses.
    pub loss_count: usize,
    /// Milliseconds of training so far.
    pub milliseconds: u64,
}

/// A float as the integer that has its bits.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, output: S) -> Result<S::Ok, S::Error> {
        output.serialize_u64(value.to_bits())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
        u64::deserialize(input).map(f64::from_bits)
    }
}

/// One run's checkpoint.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Parameters of a cohort of one.
    pub parameters: Parameters,
    /// Adam's moments.
    pub adam: Adam,
    /// Where the run stands.
    pub progress: Progress,
}

/// Parameters and moments of a cohort, read from the device once for all of its runs.
pub(super) struct Snapshot<'a> {
    specs: &'a [Spec],
    /// Each [runs, all elements].
    parameters: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
}

impl<'a> Snapshot<'a> {
    pub(super) fn read(parameters: &'a Parameters, adam: &Adam) -> Self {
        let values = |flat: Tensor<2>| flat.into_data().iter().collect();
        Self {
            specs: parameters.specs(),
            parameters: values(parameters.flatten()),
            first: values(adam.first.clone()),
            second: values(adam.second.clone()),
        }
    }

    /// [`Checkpoint::write`].
    pub(super) fn write(&self, path: &Path, run: usize, at: &Progress) -> Result<()> {
        let count: usize = self.specs.iter().map(Spec::count).sum();
        let mut arrays: Vec<(String, &[usize], Vec<u8>)> = Vec::new();
        for (prefix, all) in [("", &self.parameters), (FIRST, &self.first), (SECOND, &self.second)] {
            let mut rest = &all[run * count..][..count];
            for spec in self.specs {
                let (values, others) = rest.split_at(spec.count());
                rest = others;
                arrays.push((format!("{prefix}{}", spec.name), &spec.shape, bytes(values)));
            }
        }
        let failed =
            |error: &dyn std::fmt::Display| Error::format(path, format!("can't be encoded: {error}"));
        let views = arrays
            .iter()
            .map(|(name, shape, data)| Ok((name, TensorView::new(Dtype::F32, shape.to_vec(), data)?)))
            .collect::<std::result::Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(|error| failed(&error))?;
        let state = serde_json::to_string(at).map_err(|error| failed(&error))?;
        let metadata = HashMap::from([(STATE.to_owned(), state), ("format".to_owned(), "pt".to_owned())]);
        let file = serialize(views, Some(metadata)).map_err(|error| failed(&error))?;
        write_atomically(path, &file)
    }
}

impl Checkpoint {
    /// Writes one run of a cohort: to a temporary name, synced, then renamed, so that the file is
    /// always whole.
    ///
    /// # Errors
    ///
    /// If the file can't be written; an older checkpoint is still there then.
    pub fn write(path: &Path, parameters: &Parameters, adam: &Adam, run: usize, at: &Progress) -> Result<()> {
        Snapshot::read(parameters, adam).write(path, run, at)
    }

    /// Reads a checkpoint of a model with these parameters.
    ///
    /// # Errors
    ///
    /// If the file can't be read, is damaged, or its parameters don't fit the model.
    pub fn read(path: &Path, specs: Vec<Spec>, device: &Device) -> Result<Self> {
        let file = std::fs::read(path).map_err(Error::io(path))?;
        let progress = progress(path, &file)?;
        let load = |prefix: &str| load(path, &file, prefix, &specs, device);
        let parameters = load("")?;
        let adam = Adam {
            first: load(FIRST)?.flatten(),
            second: load(SECOND)?.flatten(),
            steps: progress.step,
            decayed: parameters.decay_mask(),
        };
        Ok(Self { parameters, adam, progress })
    }

    /// The parameters of a checkpoint and where its run stands, without the optimiser's state.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_parameters(path: &Path, specs: &[Spec], device: &Device) -> Result<(Parameters, Progress)> {
        let file = std::fs::read(path).map_err(Error::io(path))?;
        Ok((load(path, &file, "", specs, device)?, progress(path, &file)?))
    }

    /// Where the run of a checkpoint stands, without its tensors.
    ///
    /// # Errors
    ///
    /// If the file can't be read or is damaged.
    pub fn read_progress(path: &Path) -> Result<Progress> {
        progress(path, &std::fs::read(path).map_err(Error::io(path))?)
    }

    /// One cohort from checkpoints at the same step.
    ///
    /// # Errors
    ///
    /// If the parameters' names or shapes differ.
    pub(super) fn stack(checkpoints: &[Self]) -> Result<(Parameters, Adam)> {
        let parameters: Vec<_> = checkpoints.iter().map(|c| c.parameters.clone()).collect();
        let moments = |pick: fn(&Adam) -> &Tensor<2>| {
            Tensor::cat(checkpoints.iter().map(|c| pick(&c.adam).clone()).collect(), 0)
        };
        let adam = Adam {
            first: moments(|adam| &adam.first),
            second: moments(|adam| &adam.second),
            steps: checkpoints.first().map_or(0, |c| c.adam.steps),
            decayed: checkpoints.first().and_then(|c| c.adam.decayed.clone()),
        };
        Ok((Parameters::stack(&parameters)?, adam))
    }
}

/// Tensors of a checkpoint whose names start with `prefix`.
fn load(path: &Path, file: &[u8], prefix: &str, specs: &[Spec], device: &Device) -> Result<Parameters> {
    let tensors = SafeTensors::deserialize(file).map_err(|error| damaged(path, &error))?;
    let mut arrays = BTreeMap::new();
    for spec in specs {
        let name = format!("{prefix}{}", spec.name);
        let Ok(view) = tensors.tensor(&name) else { continue };
        if view.dtype() != Dtype::F32 {
            return Err(damaged(path, &format!("`{name}` is {:?}, expected F32", view.dtype())));
        }
        let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let values: Vec<f64> = values.map(f64::from).collect();
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(damaged(path, &format!("`{name}` holds {value}, expected finite numbers")));
        }
        arrays.insert(spec.name.as_str(), values);
    }
    let lookup = |name: &str| arrays.get(name).cloned();
    Parameters::load(specs.to_vec(), device, DType::F32, lookup)
        .map_err(|error| Error::format(path, format!("doesn't fit the model: {error}")))
}

fn progress(path: &Path, file: &[u8]) -> Result<Progress> {
    let (_, header) = SafeTensors::read_metadata(file).map_err(|error| damaged(path, &error))?;
    let state = header.metadata().as_ref().and_then(|metadata| metadata.get(STATE));
    let state = state.ok_or_else(|| damaged(path, &format!("its header lacks `{STATE}`")))?;
    serde_json::from_str(state).map_err(|error| damaged(path, &error))
}

fn damaged(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::format(path, format!("not a whole checkpoint of this program: {error}"))
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
