//! The language model: Mamba-2 blocks, with log-linear attention in place of the linear one.
//!
//! tokens → embedding → layers × { x + mix(RMSNorm(x)), then x + mlp(RMSNorm(x)) } → RMSNorm → linear head.
//! Parameters have the names of flash-linear-attention's `LogLinearMamba2ForCausalLM`, and start as there:
//! N(0, 0.02²), and what adds to the residual stream uniform within 1/√fan_in, divided by √(2 · layers).

use super::mixer::{Memory, mix, mixer_specs};
use super::{INIT_STD, LanguageConfig, Model, ModelConfig};
use crate::Result;
use crate::cohort::{Init, Parameters, Spec, embedding, rms_norm, silu};
use crate::lambda::Scope;
use burn::tensor::{Int, Tensor};

/// ε of every RMS normalisation.
pub(super) const NORM_EPSILON: f64 = 1e-5;

/// Name of the embedding's table.
pub(super) const EMBEDDING: &str = "backbone.embeddings.weight";

/// Name of the head's weight.
pub(super) const HEAD: &str = "lm_head.weight";

/// Width of the MLP's hidden layer: 2/3 of ratio · d_model, rounded up to a multiple of 256.
fn mlp_width(config: &ModelConfig, language: &LanguageConfig) -> usize {
    (config.d_model * language.mlp_ratio * 2 / 3).next_multiple_of(256)
}

/// Start of a linear map [out, in] that adds to the residual stream: PyTorch's default for a linear layer,
/// divided by √(2 · layers).
pub(super) fn residual_init(inputs: usize, layers: usize) -> Init {
    Init::Uniform { bound: 1.0 / libm::sqrt((inputs * 2 * layers) as f64) }
}

/// Declarations of all parameters, in order.
pub(super) fn specs(model: &Model, language: &LanguageConfig) -> Vec<Spec> {
    let ModelConfig { vocab, d_model, layers, .. } = model.config;
    let normal = Init::Normal { std: INIT_STD };
    let norm = |name: String| Spec::new(name, &[d_model], Init::Constant(1.0));
    let mut specs = vec![Spec::new(EMBEDDING, &[vocab, d_model], normal.clone())];
    for layer in 0..layers {
        let prefix = format!("backbone.layers.{layer}.");
        specs.push(norm(format!("{prefix}mixer_norm.weight")));
        for spec in mixer_specs(model, language) {
            specs.push(Spec { name: format!("{prefix}mixer.{}", spec.name), ..spec });
        }
        specs.push(norm(format!("{prefix}mlp_norm.weight")));
        let width = mlp_width(&model.config, language);
        for name in ["gate_proj", "up_proj"] {
            specs.push(Spec::new(format!("{prefix}mlp.{name}.weight"), &[width, d_model], normal.clone()));
        }
        let down = residual_init(width, layers);
        specs.push(Spec::new(format!("{prefix}mlp.down_proj.weight"), &[d_model, width], down));
    }
    specs.push(norm("backbone.norm_f.weight".to_owned()));
    specs.push(Spec::new(HEAD, &[vocab, d_model], normal));
    specs
}

/// What the head sees [runs, batch × time, d_model] for tokens [runs, batch, time]. With a memory for each
/// layer the tokens continue what it has seen.
pub(super) fn hidden(
    model: &Model,
    parameters: &Parameters,
    tokens: Tensor<3, Int>,
    memory: Option<&mut [Memory]>,
    see_lambda: impl FnMut(Tensor<4>),
) -> Result<Tensor<3>> {
    let batch = tokens.dims()[1];
    let x = embedding(parameters.get(EMBEDDING)?, tokens)?;
    layers(model, parameters, x, batch, memory, see_lambda)
}

/// As [`hidden`], from what the embedding gives.
pub(super) fn layers(
    model: &Model,
    parameters: &Parameters,
    mut x: Tensor<3>,
    batch: usize,
    mut memory: Option<&mut [Memory]>,
    mut see_lambda: impl FnMut(Tensor<4>),
) -> Result<Tensor<3>> {
    for layer in 0..model.config.layers {
        let prefix = format!("backbone.layers.{layer}.");
        let get = |name: &str| parameters.get(&format!("{prefix}{name}.weight"));
        let mixer = format!("{prefix}mixer.");
        let memory = memory.as_deref_mut().map(|layers| &mut layers[layer]);
        let normed = rms_norm(x.clone(), get("mixer_norm")?, NORM_EPSILON);
        x = x + mix(model, normed, batch, Scope::new(parameters, &mixer), memory, &mut see_lambda)?;
        let normed = rms_norm(x.clone(), get("mlp_norm")?, NORM_EPSILON);
        let gate = model.linear(normed.clone(), get("mlp.gate_proj")?);
        let up = model.linear(normed, get("mlp.up_proj")?);
        x = x + model.linear(silu(gate) * up, get("mlp.down_proj")?);
    }
    Ok(rms_norm(x, parameters.get("backbone.norm_f.weight")?, NORM_EPSILON))
}
