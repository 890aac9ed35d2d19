//! Layers that only the language model has, batched over runs, as tensor operations.

use super::{add_row, scale_rows};
use burn::tensor::{Tensor, TensorData, activation};

/// x / √(mean of x² + ε) · weight over the last axis. Shapes: x [R, M, D], weight [R, 1, D].
pub fn rms_norm(x: Tensor<3>, weight: Tensor<3>, epsilon: f64) -> Tensor<3> {
    let scale = x.clone().square().mean_dim(2).add_scalar(epsilon).sqrt().recip();
    scale_rows(x * scale, weight)
}

/// x · sigmoid(x).
pub fn silu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    x.clone() * activation::sigmoid(x)
}

/// Depthwise causal convolution: y_t = Σ_i w_i · x_{t−W+1+i} + b, for every channel alone.
///
/// Shapes: x [R, B, T, C], weight [R, C, W], bias [R, 1, C]; y [R, B, T, C]. `past` [R, B, W−1, C] is what
/// stands before the first position; zeros if absent.
pub fn causal_conv(x: Tensor<4>, weight: Tensor<3>, bias: Tensor<3>, past: Option<Tensor<4>>) -> Tensor<4> {
    let [runs, batch, time, channels] = x.dims();
    let width = weight.dims()[2];
    let past =
        past.unwrap_or_else(|| Tensor::zeros([runs, batch, width - 1, channels], (&x.device(), x.dtype())));
    let padded = if width > 1 { Tensor::cat(vec![past, x], 2) } else { x };
    let rows = |tensor: Tensor<4>| tensor.reshape([runs, batch * time, channels]);
    let mut y: Option<Tensor<3>> = None;
    for tap in 0..width {
        let weight = weight.clone().narrow(2, tap, 1).reshape([runs, 1, channels]);
        let term = scale_rows(rows(padded.clone().narrow(2, tap, time)), weight);
        y = Some(match y {
            None => add_row(term, bias.clone()),
            Some(y) => y + term,
        });
    }
    y.unwrap_or_else(|| rows(padded)).reshape([runs, batch, time, channels])
}

/// Base of the rotary angles.
const ROTARY_BASE: f64 = 10_000.0;

/// Rotary positions: turns the pair (x_i, x_{i+K/2}) of position t by the angle t · base^(−2i/K), so that
/// products of queries and keys depend on their distance. x [N, T, H, K] with K even; the first position
/// is `first`.
///
/// Source: Su et al., *RoFormer* (arXiv 2104.09864), with halves as pairs, as LLaMA has it.
pub fn rotate(x: Tensor<4>, first: usize) -> Tensor<4> {
    let [_, time, _, dim] = x.dims();
    let half = dim / 2;
    let table = |function: fn(f64) -> f64| {
        let angle = |i: usize| {
            let (t, pair) = ((first + i / half) as f64, (i % half) as f64);
            function(t * libm::pow(ROTARY_BASE, -2.0 * pair / dim as f64))
        };
        let values: Vec<f64> = (0..time * half).map(angle).collect();
        Tensor::<4>::from_data(TensorData::new(values, [1, time, 1, half]), (&x.device(), x.dtype()))
    };
    let (cos, sin) = (table(libm::cos), table(libm::sin));
    let [a, b] = [0, half].map(|start| x.clone().narrow(3, start, half));
    Tensor::cat(vec![a.clone() * cos.clone() - b.clone() * sin.clone(), a * sin + b * cos], 3)
}
