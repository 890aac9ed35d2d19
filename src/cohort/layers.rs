//! Layers as functions of their parameters, batched over runs. On the CPU, and on a GPU in single precision where
//! sizes are moderate, they are fused operations of our own; elsewhere, tensor operations.

#[cfg(feature = "cuda")]
use crate::gpu::{self, Operand as DeviceOperand};
use crate::host::{self, Operand};
use crate::{Error, Result};
use burn::tensor::{Int, Tensor, activation};
use std::sync::Arc;

/// Combines every row of x [R, M, D] with one row [R, 1, D] of its run, as `x + row` or `x * row` would.
///
/// The gradient of the row is a sum over all M rows, which a GPU would add up one after another; broadcast in
/// two steps it is a sum over groups of rows and then over their sums.
fn with_row(x: Tensor<3>, row: Tensor<3>, combine: impl Fn(Tensor<4>, Tensor<4>) -> Tensor<4>) -> Tensor<3> {
    let [runs, rows, dim] = x.dims();
    let most = rows.isqrt().max(1);
    let groups = (1..=most).rev().find(|groups| rows.is_multiple_of(*groups)).unwrap_or(1);
    let row = row.reshape([runs, 1, 1, dim]).expand([runs, groups, 1, dim]);
    combine(x.reshape([runs, groups, rows / groups, dim]), row).reshape([runs, rows, dim])
}

/// How products of numbers in f32 are computed where a GPU has a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Products {
    /// As f32.
    #[default]
    Full,
    /// Each factor as the sum of two bf16 numbers, 16 bits of mantissa; sums in f32. PyTorch's `high`.
    High,
}

/// y = x Wᵀ + b. Shapes: x [R, M, I], W [R, O, I] (PyTorch's order), b [R, 1, O]; y [R, M, O].
pub fn linear(x: Tensor<3>, weight: Tensor<3>, bias: Option<Tensor<3>>) -> Tensor<3> {
    linear_as(Products::Full, x, weight, bias)
}

/// [`linear`] with other products than f32's own.
#[cfg_attr(not(feature = "cuda"), expect(unused_variables))]
pub(crate) fn linear_as(
    products: Products,
    x: Tensor<3>,
    weight: Tensor<3>,
    bias: Option<Tensor<3>>,
) -> Tensor<3> {
    if host::applies(&x) {
        return match bias {
            None => host::apply(host::linear::Linear, [Operand::new(x), Operand::new(weight)]),
            Some(bias) => {
                let operands = [Operand::new(x), Operand::new(weight), Operand::new(bias)];
                host::apply(host::linear::Affine, operands)
            }
        };
    }
    #[cfg(feature = "cuda")]
    if gpu::single(&x) && gpu::linear::fits(weight.dims()) {
        let [x, weight] = [x, weight].map(DeviceOperand::new);
        let y = gpu::apply(gpu::linear::Linear::new(products.into()), [x, weight]);
        return match bias {
            None => y,
            Some(bias) => add_row(y, bias),
        };
    }
    let y = multiply(x, weight);
    match bias {
        None => y,
        Some(bias) => add_row(y, bias),
    }
}

/// Elements of a weight up to which its gradient is summed in groups of rows.
const SMALL_WEIGHT: usize = 1 << 13;

/// x Wᵀ as tensor operations. The gradient of a small W is a product whose inner axis is all of the rows, on
/// which a GPU sets a single block of threads: broadcast over groups of rows it is many products and a sum.
fn multiply(x: Tensor<3>, weight: Tensor<3>) -> Tensor<3> {
    let ([runs, rows, inputs], [_, outputs, _]) = (x.dims(), weight.dims());
    let groups = if outputs * inputs <= SMALL_WEIGHT { rows / 512 } else { 1 };
    if groups < 2 || !rows.is_multiple_of(groups) {
        return x.matmul(weight.swap_dims(1, 2));
    }
    let weight = weight.reshape([runs, 1, outputs, inputs]).expand([runs, groups, outputs, inputs]);
    let weight = weight.reshape([runs * groups, outputs, inputs]).swap_dims(1, 2);
    let x = x.reshape([runs * groups, rows / groups, inputs]);
    x.matmul(weight).reshape([runs, rows, outputs])
}

/// x + b for every row. Shapes: x [R, M, D], b [R, 1, D].
pub fn add_row(x: Tensor<3>, bias: Tensor<3>) -> Tensor<3> {
    with_row(x, bias, |x, bias| x + bias)
}

/// x · w for every row. Shapes: x [R, M, D], w [R, 1, D].
pub fn scale_rows(x: Tensor<3>, weight: Tensor<3>) -> Tensor<3> {
    with_row(x, weight, |x, weight| x * weight)
}

/// Several linear maps without bias of one input: x [R, M, I], each W [R, O, I]; outputs [R, M, O].
///
/// Where kernels are compiled for every shape, the weights are joined into one product.
pub fn linear_many<const N: usize>(x: &Tensor<3>, weights: [Tensor<3>; N]) -> [Tensor<3>; N] {
    linear_many_as(Products::Full, x, weights)
}

/// [`linear_many`] with other products than f32's own.
pub(crate) fn linear_many_as<const N: usize>(
    products: Products,
    x: &Tensor<3>,
    weights: [Tensor<3>; N],
) -> [Tensor<3>; N] {
    if host::applies(x) {
        return weights.map(|weight| linear(x.clone(), weight, None));
    }
    #[cfg(feature = "cuda")]
    if gpu::single(x) && gpu::projection::fits(&weights) {
        return gpu::projection::project(products.into(), x.clone(), weights);
    }
    let widths = weights.each_ref().map(|weight| weight.dims()[1]);
    let joined = linear_as(products, x.clone(), Tensor::cat(weights.to_vec(), 1), None);
    let mut start = 0;
    widths.map(|width| {
        let part = joined.clone().narrow(2, start, width);
        start += width;
        part
    })
}

/// Layer normalisation of x, or of x + residual, over the last axis:
/// (x − mean) / √(variance + ε) · weight + bias, with the population variance.
///
/// Shapes: x and residual [R, M, D], weight and bias [R, 1, D].
pub fn layer_norm(
    x: Tensor<3>,
    residual: Option<Tensor<3>>,
    weight: Tensor<3>,
    bias: Tensor<3>,
    epsilon: f64,
) -> Tensor<3> {
    if host::applies(&x) {
        let [x, weight, bias] = [x, weight, bias].map(Operand::new);
        return match residual {
            None => host::apply(host::norm::LayerNorm { epsilon }, [x, weight, bias]),
            Some(residual) => {
                let operands = [x, Operand::new(residual), weight, bias];
                host::apply(host::norm::AddLayerNorm { epsilon }, operands)
            }
        };
    }
    #[cfg(feature = "cuda")]
    if gpu::single(&x) && gpu::norm::fits(x.dims()[2]) {
        let [x, weight, bias] = [x, weight, bias].map(DeviceOperand::new);
        return match residual {
            None => gpu::apply(gpu::norm::LayerNorm { epsilon }, [x, weight, bias]),
            Some(residual) => {
                let operands = [x, DeviceOperand::new(residual), weight, bias];
                gpu::apply(gpu::norm::AddLayerNorm { epsilon }, operands)
            }
        };
    }
    let x = match residual {
        None => x,
        Some(residual) => x + residual,
    };
    let centred = x.clone() - x.mean_dim(2);
    let variance = centred.clone().square().mean_dim(2);
    add_row(scale_rows(centred / (variance + epsilon).sqrt(), weight), bias)
}

/// Rows of a table by token. Shapes: table [R, vocab, D], tokens [R, B, T]; output [R, B·T, D].
///
/// # Errors
///
/// On the CPU, if a token is negative or not below vocab; a GPU doesn't check.
pub fn embedding(table: Tensor<3>, tokens: Tensor<3, Int>) -> Result<Tensor<3>> {
    let [runs, vocab, dim] = table.dims();
    let [_, batch, time] = tokens.dims();
    if host::applies(&table) {
        let index = |token: i64| match usize::try_from(token) {
            Ok(token) if token < vocab => Ok(token),
            _ => Err(Error::value("tokens", format!("in 0..{vocab}"), token)),
        };
        let tokens: Arc<[usize]> = integers(tokens).into_iter().map(index).collect::<Result<_>>()?;
        return Ok(host::apply(host::embedding::Embedding { tokens }, [Operand::new(table)]));
    }
    #[cfg(feature = "cuda")]
    if gpu::single(&table) && gpu::embedding::fits(vocab) {
        return Ok(gpu::apply(gpu::embedding::Embedding::new(tokens), [DeviceOperand::new(table)]));
    }
    let offsets = Tensor::<1, Int>::arange(0..runs as i64, &tokens.device()) * vocab as i64;
    let rows = (tokens.reshape([runs, batch * time]) + offsets.reshape([runs, 1])).reshape([-1]);
    Ok(table.reshape([runs * vocab, dim]).select(0, rows).reshape([runs, batch * time, dim]))
}

/// Most elements of an indicator matrix.
const MOST_INDICATORS: usize = 1 << 28;

/// Gradient of [`embedding`]'s table [R, vocab, D] from that of its output [R, M, D], as products with
/// indicator matrices. Burn's own on a GPU goes through all M rows one after another, column by column; atomic
/// additions would give another sum at every run.
pub(crate) fn embedding_gradient(tokens: Tensor<3, Int>, grad: Tensor<3>, vocab: usize) -> Tensor<3> {
    let [runs, rows, dim] = grad.dims();
    let tokens = tokens.reshape([runs, 1, rows]);
    let ids = Tensor::<1, Int>::arange(0..vocab as i64, &grad.device()).reshape([1, vocab, 1]);
    let block = (MOST_INDICATORS / (runs * vocab)).max(1);
    let mut total: Option<Tensor<3>> = None;
    for start in (0..rows).step_by(block) {
        let length = block.min(rows - start);
        let here = tokens.clone().narrow(2, start, length).expand([runs, vocab, length]);
        let indicators = ids.clone().expand([runs, vocab, length]).equal(here).float().cast(grad.dtype());
        let sum = indicators.matmul(grad.clone().narrow(1, start, length));
        total = Some(match total {
            None => sum,
            Some(total) => total + sum,
        });
    }
    total.unwrap_or_else(|| Tensor::zeros([runs, vocab, dim], (&grad.device(), grad.dtype())))
}

/// Values of an integer tensor, in row-major order.
pub(crate) fn integers<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i64> {
    tensor.into_data().iter::<i64>().collect()
}

/// Values of all tensors, one after another, in one reading from their device: each reading waits for it anew.
pub(crate) fn numbers(tensors: Vec<Tensor<1>>) -> Vec<f64> {
    if tensors.is_empty() { Vec::new() } else { Tensor::cat(tensors, 0).into_data().iter().collect() }
}

/// x · Φ(x) with the exact normal distribution, as `torch.nn.GELU()`.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if host::applies(&x) {
        return host::apply(host::pointwise::Pointwise::Gelu, [Operand::new(x)]);
    }
    #[cfg(feature = "cuda")]
    if gpu::single(&x) {
        return gpu::apply(gpu::pointwise::Pointwise(gpu::Function::Gelu), [DeviceOperand::new(x)]);
    }
    // Not Burn's own `gelu`, whose backward pass is that of the tanh approximation (Burn 0.22).
    let distribution = (x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf().add_scalar(1.0).mul_scalar(0.5);
    x * distribution
}

/// Softmax over the last axis.
pub fn softmax<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if host::applies(&x) {
        return host::apply(host::softmax::Softmax, [Operand::new(x)]);
    }
    #[cfg(feature = "cuda")]
    if gpu::single(&x) && gpu::pointwise::fits(x.dims()[D - 1]) {
        return gpu::apply(gpu::pointwise::Softmax, [DeviceOperand::new(x)]);
    }
    activation::softmax(x, D - 1)
}

/// ln(1 + e^x), finite for every finite x.
pub fn softplus<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if host::applies(&x) {
        return host::apply(host::pointwise::Pointwise::Softplus, [Operand::new(x)]);
    }
    #[cfg(feature = "cuda")]
    if gpu::single(&x) {
        return gpu::apply(gpu::pointwise::Pointwise(gpu::Function::Softplus), [DeviceOperand::new(x)]);
    }
    activation::relu(x.clone()) + x.abs().neg().exp().log1p()
}

/// Log-decay −exp(a) · softplus(step + b). Shapes: step [R, M, H], b and a [R, 1, H].
pub(crate) fn log_decay(step: Tensor<3>, bias: Tensor<3>, a_log: Tensor<3>) -> Tensor<3> {
    #[cfg(feature = "cuda")]
    if gpu::single(&step) {
        return gpu::apply(gpu::pointwise::LogDecay, [step, bias, a_log].map(DeviceOperand::new));
    }
    scale_rows(softplus(add_row(step, bias)), a_log.exp().neg())
}
