//! The recall model of the synthetic tasks.
//!
//! tokens → embedding → layers × { LayerNorm(W_o mix(x) + x) } → LayerNorm → linear head. In a layer
//! q, k, v, d and Δ are projections without bias, g = −exp(A_log) · softplus(Δ + Δ_bias), and v is
//! not scaled by Δ.

use super::{INIT_STD, Mixer, Model, ModelConfig};
use crate::Result;
use crate::attention::{Inputs, chunkwise, linear as linear_attention, softmax};
use crate::cohort::{Init, Parameters, Spec, embedding, layer_norm, linear_as, linear_many_as, log_decay};
use crate::lambda::{self, LambdaInput, Scope};
use burn::tensor::{Int, Tensor};

/// ε of every layer normalisation (PyTorch's default).
const NORM_EPSILON: f64 = 1e-5;

/// Declarations of all parameters, in order.
pub(super) fn specs(model: &Model) -> Vec<Spec> {
    let ModelConfig { vocab, d_model, layers, heads, .. } = model.config;
    let normal = || Init::Normal { std: INIT_STD };
    let norm = |prefix: &str| {
        [("weight", 1.0), ("bias", 0.0)]
            .map(|(name, value)| Spec::new(format!("{prefix}.{name}"), &[d_model], Init::Constant(value)))
    };
    let mut specs = vec![Spec::new("embedding.weight", &[vocab, d_model], normal())];
    for layer in 0..layers {
        let mut add = |name: &str, shape: &[usize], init| {
            specs.push(Spec::new(format!("layers.{layer}.{name}"), shape, init));
        };
        for name in ["q.weight", "k.weight", "v.weight"] {
            add(name, &[d_model, d_model], normal());
        }
        if model.config.mixer != Mixer::Softmax {
            add("dt.weight", &[heads, d_model], normal());
            add("dt_bias", &[heads], Init::InverseSoftplus { low: 0.001, high: 0.1 });
            let a_log = (1..=heads).map(|head| libm::log(head as f64)).collect();
            add("a_log", &[heads], Init::Values(a_log));
        }
        if model.config.mixer == Mixer::LogLinear {
            add("d_proj.weight", &[heads * model.config.levels(), d_model], normal());
            for spec in model.lambda_specs() {
                add(&spec.name, &spec.shape, spec.init);
            }
        }
        // Scaled by the number of residual additions up to a layer's end, as in GPT-2.
        let std = INIT_STD / libm::sqrt(2.0 * layers as f64);
        add("out.weight", &[d_model, d_model], Init::Normal { std });
        specs.extend(norm(&format!("layers.{layer}.norm")));
    }
    specs.extend(norm("norm"));
    specs.push(Spec::new("head.weight", &[vocab, d_model], normal()));
    specs
}

/// What the head sees [runs, batch × time, d_model] for tokens [runs, batch, time].
pub(super) fn hidden(
    model: &Model,
    parameters: &Parameters,
    tokens: Tensor<3, Int>,
    mut see_lambda: impl FnMut(Tensor<4>),
) -> Result<Tensor<3>> {
    let batch = tokens.dims()[1];
    let mut x = embedding(parameters.get("embedding.weight")?, tokens)?;
    for layer in 0..model.config.layers {
        let prefix = format!("layers.{layer}.");
        let get = |name: &str| parameters.get(&format!("{prefix}{name}"));
        let y = mix(model, x.clone(), batch, Scope::new(parameters, &prefix), &mut see_lambda)?;
        let y = linear_as(model.products(), y, get("out.weight")?, None);
        x = layer_norm(y, Some(x), get("norm.weight")?, get("norm.bias")?, NORM_EPSILON);
    }
    Ok(layer_norm(x, None, parameters.get("norm.weight")?, parameters.get("norm.bias")?, NORM_EPSILON))
}

/// Mixes positions: x [runs, tokens, features] → [runs, tokens, features].
fn mix(
    model: &Model,
    x: Tensor<3>,
    batch: usize,
    layer: Scope<'_>,
    see_lambda: &mut impl FnMut(Tensor<4>),
) -> Result<Tensor<3>> {
    let [runs, tokens, d_model] = x.dims();
    let seq_len = tokens / batch;
    let (heads, products) = (model.config.heads, model.products());
    let by_head = |projected: Tensor<3>| -> Tensor<4> {
        projected.reshape([runs * batch, seq_len, heads, d_model / heads])
    };
    let [q, k, v] = [layer.get("q.weight")?, layer.get("k.weight")?, layer.get("v.weight")?];
    let log_decay = |step: Tensor<3>| -> Result<Tensor<3>> {
        let log_decay = log_decay(step, layer.get("dt_bias")?, layer.get("a_log")?);
        Ok(log_decay.reshape([runs * batch, seq_len, heads]))
    };
    let y = match model.config.mixer {
        Mixer::Softmax => {
            let [q, k, v] = linear_many_as(products, &x, [q, k, v]).map(by_head);
            softmax(q, k, v)
        }
        Mixer::Linear => {
            let [q, k, v, step] = linear_many_as(products, &x, [q, k, v, layer.get("dt.weight")?]);
            let [q, k, v] = [q, k, v].map(by_head);
            linear_attention(q, k, v, log_decay(step)?, model.chunk)
        }
        Mixer::LogLinear => {
            let weights = [q, k, v, layer.get("dt.weight")?, layer.get("d_proj.weight")?];
            let [q, k, v, step, d] = linear_many_as(products, &x, weights);
            let [q, k, v] = [q, k, v].map(by_head);
            let levels = model.config.levels();
            let d = d.reshape([runs, tokens, heads, levels]);
            let input = LambdaInput { d, x, batch, seq_len };
            let lambda = lambda::evaluate(&*model.map, input, layer)?;
            see_lambda(lambda.clone());
            let lambda = lambda.reshape([runs * batch, seq_len, heads, levels]);
            let inputs = Inputs::from_trusted_values(q, k, v, log_decay(step)?, lambda)?;
            chunkwise(inputs.with_products(products), model.chunk)
        }
    };
    Ok(y.reshape([runs, tokens, d_model]))
}
