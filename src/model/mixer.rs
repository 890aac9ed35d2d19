//! What mixes positions in a block of the language model.
//!
//! Log-linear and linear: one projection of the input to gate, x, B, C, Δ (and d, for λ); a causal
//! convolution and SiLU on x, B and C; then q = C and k = B, shared by all heads, v = Δ · x and
//! g = −exp(A_log) · Δ with Δ = softplus(Δ + Δ_bias); a skip D · x; RMSNorm(y · SiLU(gate)); an output
//! projection. Softmax: multi-head attention with rotary positions and an output projection, whose four
//! square matrices have about as many parameters.

use super::language::{NORM_EPSILON, residual_init};
use super::{INIT_STD, LanguageConfig, Mixer, Model};
use crate::attention::{
    self, BeyondLevels, FenwickState, Inputs, LinearState, SoftmaxCache, chunkwise,
    linear as linear_attention, softmax,
};
use crate::cohort::{Init, Spec, add_row, causal_conv, rms_norm, rotate, scale_rows, silu, softplus};
use crate::lambda::{self, LambdaInput, Scope};
use crate::{Error, Result};
use burn::tensor::{DType, Device, Tensor};

/// Widths of the parts of a mixer.
#[derive(Clone, Copy)]
struct Widths {
    heads: usize,
    /// All heads' values together.
    inner: usize,
    /// Keys and queries.
    state: usize,
    /// d of all heads; 0 without λ.
    lambda: usize,
}

impl Widths {
    fn of(model: &Model, language: &LanguageConfig) -> Self {
        let config = &model.config;
        let lambda = if config.mixer == Mixer::LogLinear { config.heads * config.levels() } else { 0 };
        Self { heads: config.heads, inner: config.d_model * language.expand, state: language.state, lambda }
    }

    /// Channels of the convolution: x, B and C.
    fn conv(self) -> usize {
        self.inner + 2 * self.state
    }

    fn projected(self) -> usize {
        self.inner + self.conv() + self.heads + self.lambda
    }
}

/// Parameters of one layer's mixer.
pub(super) fn mixer_specs(model: &Model, language: &LanguageConfig) -> Vec<Spec> {
    let config = &model.config;
    let widths = Widths::of(model, language);
    let Widths { heads, inner, .. } = widths;
    let d_model = config.d_model;
    let normal = Init::Normal { std: INIT_STD };
    let out = |name: &str| Spec::new(name, &[d_model, inner], residual_init(inner, config.layers));
    if config.mixer == Mixer::Softmax {
        let square = |name: &str| Spec::new(name, &[inner, d_model], normal.clone());
        return vec![
            square("q_proj.weight"),
            square("k_proj.weight"),
            square("v_proj.weight"),
            out("o_proj.weight"),
        ];
    }
    let a_log = (1..=heads).map(|head| libm::log(head as f64)).collect();
    let mut specs = vec![
        Spec::new("in_proj.weight", &[widths.projected(), d_model], normal.clone()),
        Spec::new("conv1d.weight", &[widths.conv(), language.conv], normal),
        Spec::new("conv1d.bias", &[widths.conv()], Init::Constant(0.0)),
        Spec::new("dt_bias", &[heads], Init::InverseSoftplus { low: 0.001, high: 0.1 }).without_decay(),
        Spec::new("A_log", &[heads], Init::Values(a_log)).without_decay(),
        Spec::new("D", &[heads], Init::Constant(1.0)).without_decay(),
    ];
    if config.mixer == Mixer::LogLinear {
        specs.extend(model.lambda_specs());
    }
    specs.push(Spec::new("norm.weight", &[inner], Init::Constant(1.0)));
    specs.push(out("out_proj.weight"));
    specs
}

/// What a layer's mixer remembers while it decodes.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Inputs of the convolution at the last positions [1, N, W − 1, channels].
    conv: Option<Tensor<4>>,
    past: Past,
}

#[derive(Clone, Debug)]
enum Past {
    Levels(FenwickState),
    Linear(LinearState),
    Softmax(SoftmaxCache),
}

impl Memory {
    /// Empty memory of one sequence.
    pub(super) fn new(
        model: &Model,
        language: &LanguageConfig,
        beyond: BeyondLevels,
        device: &Device,
    ) -> Self {
        let Widths { heads, inner, state, .. } = Widths::of(model, language);
        let past = match model.config.mixer {
            Mixer::LogLinear => {
                let dims = [1, heads, state, inner / heads];
                Past::Levels(FenwickState::new(dims, beyond, device, DType::F32))
            }
            Mixer::Linear => Past::Linear(LinearState::default()),
            Mixer::Softmax => Past::Softmax(SoftmaxCache::default()),
        };
        Self { conv: None, past }
    }

    /// Bytes of everything remembered.
    pub(super) fn bytes(&self) -> usize {
        let conv = self.conv.as_ref().map_or(0, attention::bytes);
        conv + match &self.past {
            Past::Levels(state) => state.bytes(),
            Past::Linear(state) => state.bytes(),
            Past::Softmax(cache) => cache.bytes(),
        }
    }

    /// Number of states [K, V] a head, or of keys a head.
    pub(super) fn entries(&self) -> usize {
        match &self.past {
            Past::Levels(state) => state.num_states(),
            Past::Linear(_) => 1,
            Past::Softmax(cache) => cache.position(),
        }
    }
}

/// Mixes positions: x [runs, tokens, d_model] → the same shape. With a memory, tokens of one run and one
/// sequence continue what it has seen.
pub(super) fn mix(
    model: &Model,
    x: Tensor<3>,
    batch: usize,
    layer: Scope<'_>,
    memory: Option<&mut Memory>,
    see_lambda: &mut impl FnMut(Tensor<4>),
) -> Result<Tensor<3>> {
    let Some(language) = &model.config.language else {
        return Err(Error::value("model.language", "present in a language model", "none"));
    };
    let widths = Widths::of(model, language);
    if model.config.mixer == Mixer::Softmax {
        return mix_softmax(model, x, batch, widths, layer, memory);
    }
    let Widths { heads, inner, state, .. } = widths;
    let [runs, tokens, _] = x.dims();
    let (n, seq_len) = (runs * batch, tokens / batch);
    let projected = model.linear(x.clone(), layer.get("in_proj.weight")?);
    let mut start = 0;
    let mut next = |width: usize| {
        start += width;
        projected.clone().narrow(2, start - width, width)
    };
    let (gate, channels, step) = (next(inner), next(widths.conv()), next(heads));
    let d = (widths.lambda > 0).then(|| next(widths.lambda));

    let channels = channels.reshape([runs, batch, seq_len, widths.conv()]);
    let (conv_past, past) = match memory {
        Some(memory) => {
            let past = memory.conv.take();
            memory.conv = last(past.as_ref(), &channels, language.conv - 1);
            (past, Some(&mut memory.past))
        }
        None => (None, None),
    };
    let mixed =
        silu(causal_conv(channels, layer.get("conv1d.weight")?, layer.get("conv1d.bias")?, conv_past));
    let mixed = mixed.reshape([n, seq_len, widths.conv()]);
    let value = mixed.clone().narrow(2, 0, inner).reshape([n, seq_len, heads, inner / heads]);
    let shared = |start: usize| -> Tensor<4> {
        let part = mixed.clone().narrow(2, start, state).reshape([n, seq_len, 1, state]);
        part.expand([n, seq_len, heads, state])
    };
    let (k, q) = (shared(inner), shared(inner + state));
    let step = softplus(add_row(step, layer.get("dt_bias")?));
    let log_decay = scale_rows(step.clone(), layer.get("A_log")?.exp().neg()).reshape([n, seq_len, heads]);
    let v = value.clone() * step.reshape([n, seq_len, heads, 1]);

    let y = match d {
        Some(d) => {
            let levels = model.config.levels();
            let d = d.reshape([runs, tokens, heads, levels]);
            let input = LambdaInput { d, x, batch, seq_len };
            let lambda = lambda::evaluate(&*model.map, input, layer)?;
            see_lambda(lambda.clone());
            let lambda = lambda.reshape([n, seq_len, heads, levels]);
            let inputs =
                Inputs::from_trusted_values(q, k, v, log_decay, lambda)?.with_products(model.products());
            match past {
                Some(Past::Levels(state)) => state.extend(inputs, model.chunk)?,
                _ => chunkwise(inputs, model.chunk),
            }
        }
        None => match past {
            Some(Past::Linear(state)) => state.extend(q, k, v, log_decay, model.chunk),
            _ => linear_attention(q, k, v, log_decay, model.chunk),
        },
    };
    // One D a head, for all its values.
    let skip = layer.get("D")?.reshape([runs, heads, 1]).expand([runs, heads, inner / heads]);
    let by_run = |tensor: Tensor<4>| tensor.reshape([runs, tokens, inner]);
    let y = by_run(y) + scale_rows(by_run(value), skip.reshape([runs, 1, inner]));
    let y = rms_norm(y * silu(gate), layer.get("norm.weight")?, NORM_EPSILON);
    Ok(model.linear(y, layer.get("out_proj.weight")?))
}

/// The last `count` positions of what was before and what came.
fn last(past: Option<&Tensor<4>>, new: &Tensor<4>, count: usize) -> Option<Tensor<4>> {
    if count == 0 {
        return None;
    }
    let [runs, batch, _, channels] = new.dims();
    let past = past
        .cloned()
        .unwrap_or_else(|| Tensor::zeros([runs, batch, count, channels], (&new.device(), new.dtype())));
    let all = Tensor::cat(vec![past, new.clone()], 2);
    let length = all.dims()[2];
    Some(all.narrow(2, length - count, count))
}

fn mix_softmax(
    model: &Model,
    x: Tensor<3>,
    batch: usize,
    widths: Widths,
    layer: Scope<'_>,
    memory: Option<&mut Memory>,
) -> Result<Tensor<3>> {
    let [runs, tokens, _] = x.dims();
    let Widths { heads, inner, .. } = widths;
    let project = |name: &str| -> Result<Tensor<4>> {
        let y = model.linear(x.clone(), layer.get(name)?);
        Ok(y.reshape([runs * batch, tokens / batch, heads, inner / heads]))
    };
    let (q, k, v) = (project("q_proj.weight")?, project("k_proj.weight")?, project("v_proj.weight")?);
    let y = match memory.map(|memory| &mut memory.past) {
        Some(Past::Softmax(cache)) => {
            let first = cache.position();
            cache.extend(rotate(q, first), rotate(k, first), v)
        }
        _ => softmax(rotate(q, 0), rotate(k, 0), v),
    };
    Ok(model.linear(y.reshape([runs, tokens, inner]), layer.get("o_proj.weight")?))
}
