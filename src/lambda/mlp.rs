//! The proposed map: a small MLP, with softplus or softmax on top.

use super::{Activation, Hidden, InitProtocol, LambdaInput, LambdaKind, LambdaMap, Scope};
use crate::Result;
use crate::cohort::{Init, Spec, gelu, linear, softmax, softplus};
#[cfg(feature = "cuda")]
use crate::gpu::{self, Operand};
use crate::model::INIT_STD;
use burn::tensor::Tensor;

/// b2 for which λ starts near 1: softplus(0.54) ≈ 0.9995.
const IDENTITY_BIAS: f64 = 0.54;

/// What makes λ positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalisation {
    /// Each level on its own.
    Softplus,
    /// Levels share a budget of 1.
    Softmax,
}

/// MLP-λ: λ_t = f(act(d_t W1 + b1) W2 + b2), shared by the heads of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Mlp {
    /// f: softplus or softmax over levels.
    pub normalisation: Normalisation,
    /// act, with b1 unless it is none.
    pub activation: Activation,
    /// Width of the hidden layer.
    pub hidden: Hidden,
    /// Initial values.
    pub init: InitProtocol,
}

impl LambdaMap for Mlp {
    fn kind(&self) -> String {
        let kind = match self.normalisation {
            Normalisation::Softplus => LambdaKind::MlpSoftplus,
            Normalisation::Softmax => LambdaKind::MlpSoftmax,
        };
        kind.name().to_owned()
    }

    fn specs(&self, _heads: usize, levels: usize) -> Vec<Spec> {
        let width = self.hidden.width(levels);
        let normal = Init::Normal { std: INIT_STD };
        let (w2, b2) = match (self.init, self.normalisation) {
            (InitProtocol::Release, _) => (normal.clone(), 0.0),
            (InitProtocol::Text, Normalisation::Softplus) => (Init::Constant(0.0), IDENTITY_BIAS),
            (InitProtocol::Text, Normalisation::Softmax) => (Init::Constant(0.0), 0.0),
        };
        let mut specs = vec![Spec::new("w1.weight", &[width, levels], normal)];
        if self.activation == Activation::Gelu {
            specs.push(Spec::new("w1.bias", &[width], Init::Constant(0.0)));
        }
        specs.push(Spec::new("w2.weight", &[levels, width], w2));
        specs.push(Spec::new("w2.bias", &[levels], Init::Constant(b2)));
        specs
    }

    fn forward(&self, input: LambdaInput, parameters: Scope<'_>) -> Result<Tensor<4>> {
        let [runs, tokens, heads, levels] = input.d.dims();
        let d = input.d.reshape([runs, tokens * heads, levels]);
        #[cfg(feature = "cuda")]
        if gpu::single(&d) && gpu::mlp::fits(levels, self.hidden.width(levels)) {
            return Ok(self.fused(d, parameters)?.reshape([runs, tokens, heads, levels]));
        }
        let hidden = match self.activation {
            Activation::None => linear(d, parameters.get("w1.weight")?, None),
            Activation::Gelu => {
                gelu(linear(d, parameters.get("w1.weight")?, Some(parameters.get("w1.bias")?)))
            }
        };
        let logits = linear(hidden, parameters.get("w2.weight")?, Some(parameters.get("w2.bias")?))
            .reshape([runs, tokens, heads, levels]);
        Ok(match self.normalisation {
            Normalisation::Softplus => softplus(logits),
            Normalisation::Softmax => softmax(logits),
        })
    }
}

#[cfg(feature = "cuda")]
impl Mlp {
    /// λ of d [R, P, L] as one operation of a GPU.
    fn fused(&self, d: Tensor<3>, parameters: Scope<'_>) -> Result<Tensor<3>> {
        let [w1, w2, b2] =
            [parameters.get("w1.weight")?, parameters.get("w2.weight")?, parameters.get("w2.bias")?];
        let [d, w1, w2, b2] = [d, w1, w2, b2].map(Operand::new);
        let softmax = self.normalisation == Normalisation::Softmax;
        Ok(match self.activation {
            Activation::None => gpu::apply(gpu::mlp::LinearMlp::new(softmax), [d, w1, w2, b2]),
            Activation::Gelu => {
                let b1 = Operand::new(parameters.get("w1.bias")?);
                gpu::apply(gpu::mlp::GeluMlp::new(softmax), [d, w1, b1, w2, b2])
            }
        })
    }
}
