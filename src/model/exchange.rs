//! Weights in the names and shapes of flash-linear-attention's `LogLinearMamba2ForCausalLM`.
//!
//! Our names are theirs but for Fixed λ's scale (`L` there) and the convolution, which PyTorch stores as
//! [channels, 1, width]. MLP-λ and the baselines have parameters that no model there has; they keep our names.

use super::{LanguageConfig, Model, ModelConfig};
use crate::cohort::Parameters;
use crate::file::write_atomically;
use crate::lambda::{LambdaConfig, LambdaKind};
use crate::{Error, Result, fenwick};
use burn::tensor::{DType, Device};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Our name of a parameter as flash-linear-attention has it.
fn their_name(name: &str) -> String {
    match name.strip_suffix(".mixer.lp") {
        Some(layer) => format!("{layer}.mixer.L"),
        None => name.to_owned(),
    }
}

fn their_shape(name: &str, shape: &[usize]) -> Vec<usize> {
    match shape {
        &[channels, width] if name.ends_with("conv1d.weight") => vec![channels, 1, width],
        _ => shape.to_vec(),
    }
}

/// Writes one run's weights as a safetensors file in flash-linear-attention's names, in f32.
///
/// # Errors
///
/// If the model is not a language model, the parameters are not of exactly one run, or the file can't be
/// written.
pub fn export(model: &Model, parameters: &Parameters, path: &Path) -> Result<()> {
    if model.config().language.is_none() {
        return Err(Error::value("model.language", "present: only a language model is exported", "none"));
    }
    if parameters.runs() != 1 {
        return Err(Error::value("parameters", "of one run", format!("{} runs", parameters.runs())));
    }
    let mut arrays = Vec::new();
    for (index, spec) in parameters.specs().iter().enumerate() {
        let values = parameters.values_of(index, 0).into_iter();
        let bytes: Vec<u8> = values.flat_map(|value| (value as f32).to_le_bytes()).collect();
        arrays.push((their_name(&spec.name), their_shape(&spec.name, &spec.shape), bytes));
    }
    let failed = |error: &dyn std::fmt::Display| Error::format(path, format!("can't be encoded: {error}"));
    let views = arrays
        .iter()
        .map(|(name, shape, data)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), data)?)))
        .collect::<std::result::Result<Vec<_>, safetensors::SafeTensorError>>()
        .map_err(|error| failed(&error))?;
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let file = serialize(views, Some(metadata)).map_err(|error| failed(&error))?;
    write_atomically(path, &file)
}

/// Reads weights in flash-linear-attention's names, with the configuration that their shapes imply. Other
/// files hold Fixed λ only, as that model has no other.
///
/// # Errors
///
/// If the file can't be read, is no safetensors file, lacks a tensor or has one of another shape or type.
pub fn import(path: &Path, device: &Device) -> Result<(Model, Parameters)> {
    let file = std::fs::read(path).map_err(Error::io(path))?;
    let tensors = SafeTensors::deserialize(&file)
        .map_err(|error| Error::format(path, format!("not a whole safetensors file: {error}")))?;
    let shapes: BTreeMap<String, Vec<usize>> =
        tensors.tensors().into_iter().map(|(name, view)| (name, view.shape().to_vec())).collect();
    let model = Model::new(implied_config(path, &shapes)?)?;
    let specs = model.specs();
    let known: BTreeMap<String, String> =
        specs.iter().map(|spec| (their_name(&spec.name), spec.name.clone())).collect();
    if let Some(name) = shapes.keys().find(|name| !known.contains_key(*name)) {
        let message = format!("tensor `{name}` is not one of a log-linear Mamba-2 with Fixed λ");
        return Err(Error::format(path, message));
    }
    let mut arrays = BTreeMap::new();
    for (name, view) in tensors.tensors() {
        arrays.insert(known[&name].clone(), floats(path, &name, &view)?);
    }
    for spec in &specs {
        let found = shapes.get(&their_name(&spec.name));
        let expected = their_shape(&spec.name, &spec.shape);
        if found.is_some_and(|found| *found != expected) {
            let message =
                format!("tensor `{}` must have shape {expected:?}, found {found:?}", their_name(&spec.name));
            return Err(Error::format(path, message));
        }
    }
    let lookup = |name: &str| arrays.get(name).cloned();
    let parameters =
        Parameters::load(specs, device, DType::F32, lookup).map_err(|error| Error::format(path, error))?;
    Ok((model, parameters))
}

fn floats(path: &Path, name: &str, view: &TensorView<'_>) -> Result<Vec<f64>> {
    let data = view.data();
    let values: Vec<f64> = match view.dtype() {
        Dtype::F32 => {
            data.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect()
        }
        // bfloat16 is the upper half of an f32.
        Dtype::BF16 => {
            data.chunks_exact(2).map(|b| f64::from(f32::from_le_bytes([0, 0, b[0], b[1]]))).collect()
        }
        other => {
            return Err(Error::format(path, format!("tensor `{name}` must be F32 or BF16, found {other:?}")));
        }
    };
    match values.iter().find(|value| !value.is_finite()) {
        Some(bad) => {
            Err(Error::format(path, format!("tensor `{name}` holds {bad}, expected finite numbers")))
        }
        None => Ok(values),
    }
}

/// The configuration of a model with these tensors.
fn implied_config(path: &Path, shapes: &BTreeMap<String, Vec<usize>>) -> Result<ModelConfig> {
    let shape = |name: &str, axes: usize| match shapes.get(name) {
        Some(shape) if shape.len() == axes => Ok(shape.clone()),
        Some(shape) => {
            Err(Error::format(path, format!("tensor `{name}` must have {axes} axes, found shape {shape:?}")))
        }
        None => {
            let message =
                format!("lacks tensor `{name}`: not a LogLinearMamba2ForCausalLM of flash-linear-attention");
            Err(Error::format(path, message))
        }
    };
    let mixer = |name: &str| format!("backbone.layers.0.mixer.{name}");
    let embedding = shape("backbone.embeddings.weight", 2)?;
    let scale = shape(&mixer("L"), 2)?;
    let conv = shape(&mixer("conv1d.weight"), 3)?;
    let inner = shape(&mixer("norm.weight"), 1)?[0];
    let width = shape("backbone.layers.0.mlp.gate_proj.weight", 2)?[0];
    let (vocab, d_model) = (embedding[0], embedding[1]);
    let layers =
        (0..).take_while(|layer| shapes.contains_key(&format!("backbone.layers.{layer}.mixer.L"))).count();
    if d_model == 0 || !inner.is_multiple_of(d_model) || conv[0] <= inner || scale[1] == 0 {
        let message = format!("its widths don't fit: d_model {d_model}, inner {inner}, channels {}", conv[0]);
        return Err(Error::format(path, message));
    }
    // Several ratios round to one width; any of them makes this model.
    let of_width = |ratio: &usize| (d_model * ratio * 2 / 3).next_multiple_of(256) == width;
    let Some(mlp_ratio) = [4].into_iter().chain(1..=64).find(of_width) else {
        return Err(Error::format(path, format!("MLP width {width} is 2/3 of no multiple of {d_model}")));
    };
    let config = ModelConfig {
        vocab,
        d_model,
        layers,
        heads: scale[0],
        max_seq_len: 1 << (scale[1] - 1).min(24),
        lambda: LambdaConfig::text(LambdaKind::Fixed),
        language: Some(LanguageConfig {
            state: (conv[0] - inner) / 2,
            expand: inner / d_model,
            conv: conv[2],
            mlp_ratio,
        }),
        ..ModelConfig::default()
    };
    debug_assert_eq!(fenwick::num_levels(config.max_seq_len), scale[1].min(25));
    Ok(config)
}
