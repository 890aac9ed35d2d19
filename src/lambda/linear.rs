//! The baseline map: a learned scale.

use super::{LambdaInput, LambdaMap, Scope};
use crate::Result;
use crate::cohort::{Init, Spec, scale_rows, softplus};
use burn::tensor::Tensor;

/// Fixed λ: λ_t = softplus(Lp ⊙ d_t), with Lp [heads, levels] learned from 1.
#[derive(Clone, Copy, Debug)]
pub struct Linear;

impl LambdaMap for Linear {
    fn kind(&self) -> String {
        super::LambdaKind::Fixed.name().to_owned()
    }

    fn specs(&self, heads: usize, levels: usize) -> Vec<Spec> {
        vec![Spec::new("lp", &[heads, levels], Init::Constant(1.0)).without_decay()]
    }

    fn forward(&self, input: LambdaInput, parameters: Scope<'_>) -> Result<Tensor<4>> {
        let [runs, tokens, heads, levels] = input.d.dims();
        let scale = parameters.get("lp")?.reshape([runs, 1, heads * levels]);
        let scaled = scale_rows(input.d.reshape([runs, tokens, heads * levels]), scale);
        Ok(softplus(scaled).reshape([runs, tokens, heads, levels]))
    }
}
