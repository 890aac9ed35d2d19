//! The λ MLP on GPUs, as one operation: the hidden layer is never in memory.

use super::launch::contiguous;
use super::mlp_gradient_kernel::{SLICE, lambda_gradients};
use super::mlp_kernel::{Shape, UNITS, lambdas};
use super::{DeviceOp, DeviceTensor, empty, partial};
use crate::host::only_needed;
use burn::tensor::DType;
use cubecl::prelude::{CubeCount, CubeDim};
use std::sync::OnceLock;

/// Largest sizes for which the operations of this module are meant: a unit holds a position's levels in registers,
/// a cube all weights and a row of both layers for each of its units in shared memory.
const MOST_LEVELS: usize = 16;
const MOST_HIDDEN: usize = 64;

/// Whether a map is small enough for the operations of this module.
pub(crate) fn fits(levels: usize, hidden: usize) -> bool {
    (1..=MOST_LEVELS).contains(&levels) && (1..=MOST_HIDDEN).contains(&hidden)
}

/// λ = f(d W1ᵀ W2ᵀ + b2), inputs d [R, P, L], W1 [R, H, L], W2 [R, L, H], b2 [R, 1, L] in f32.
#[derive(Clone, Debug)]
pub(crate) struct LinearMlp {
    /// f: softmax over levels, or softplus.
    softmax: bool,
    /// λ, once the forward pass has it.
    lambda: OnceLock<DeviceTensor>,
}

/// λ = f(GELU(d W1ᵀ + b1) W2ᵀ + b2), inputs d, W1, b1 [R, 1, H], W2, b2.
#[derive(Clone, Debug)]
pub(crate) struct GeluMlp {
    /// f: softmax over levels, or softplus.
    softmax: bool,
    /// λ, once the forward pass has it.
    lambda: OnceLock<DeviceTensor>,
}

impl LinearMlp {
    pub(crate) fn new(softmax: bool) -> Self {
        Self { softmax, lambda: OnceLock::new() }
    }
}

impl GeluMlp {
    pub(crate) fn new(softmax: bool) -> Self {
        Self { softmax, lambda: OnceLock::new() }
    }
}

impl DeviceOp<4> for LinearMlp {
    fn forward(&self, [d, w1, w2, b2]: &[DeviceTensor; 4]) -> DeviceTensor {
        let lambda = forward(self.softmax, d, &Weights::new(w1, None, w2), b2);
        self.lambda.get_or_init(|| lambda).clone()
    }

    fn backward(
        &self,
        [d, w1, w2, _]: &[DeviceTensor; 4],
        grad: DeviceTensor,
        [need_d, need_w1, need_w2, need_b2]: [bool; 4],
    ) -> [Option<DeviceTensor>; 4] {
        let lambda = self.lambda.get().expect(PASSED);
        let [d, w1, _, w2, b2] = backward(self.softmax, d, &Weights::new(w1, None, w2), lambda, &grad);
        [need_d.then_some(d), need_w1.then_some(w1), need_w2.then_some(w2), need_b2.then_some(b2)]
    }
}

impl DeviceOp<5> for GeluMlp {
    fn forward(&self, [d, w1, b1, w2, b2]: &[DeviceTensor; 5]) -> DeviceTensor {
        let lambda = forward(self.softmax, d, &Weights::new(w1, Some(b1), w2), b2);
        self.lambda.get_or_init(|| lambda).clone()
    }

    fn backward(
        &self,
        [d, w1, b1, w2, _]: &[DeviceTensor; 5],
        grad: DeviceTensor,
        needed: [bool; 5],
    ) -> [Option<DeviceTensor>; 5] {
        let lambda = self.lambda.get().expect(PASSED);
        let grads = backward(self.softmax, d, &Weights::new(w1, Some(b1), w2), lambda, &grad);
        only_needed(grads, needed)
    }
}

struct Weights {
    w1: DeviceTensor,
    b1: Option<DeviceTensor>,
    w2: DeviceTensor,
}

/// Why λ is there on the way back.
const PASSED: &str = "set by the forward pass";

impl Weights {
    fn new(w1: &DeviceTensor, b1: Option<&DeviceTensor>, w2: &DeviceTensor) -> Self {
        Self { w1: contiguous(w1), b1: b1.map(contiguous), w2: contiguous(w2) }
    }

    fn shape(&self, softmax: bool) -> Shape {
        let [_, hidden, levels] = self.w1.meta.shape().dims();
        Shape { levels, hidden, gelu: self.b1.is_some(), softmax }
    }

    /// b1, or memory that takes its place where none is read.
    fn b1(&self) -> DeviceTensor {
        self.b1.as_ref().unwrap_or(&self.w1).clone()
    }
}

fn forward(softmax: bool, d: &DeviceTensor, weights: &Weights, b2: &DeviceTensor) -> DeviceTensor {
    let [runs, positions, levels] = d.meta.shape().dims();
    let out = empty(d, [runs, positions, levels], DType::F32);
    // SAFETY: the sizes are those of the buffers.
    unsafe {
        lambdas::launch_unchecked(
            &d.client,
            CubeCount::Static((runs * positions.div_ceil(UNITS)) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            contiguous(d).into_buffer_arg(),
            weights.w1.clone().into_buffer_arg(),
            weights.b1().into_buffer_arg(),
            weights.w2.clone().into_buffer_arg(),
            contiguous(b2).into_buffer_arg(),
            out.clone().into_buffer_arg(),
            positions as u32,
            weights.shape(softmax),
        );
    }
    out
}

/// Gradients of d, W1, b1 (empty if there is none), W2, b2.
fn backward(
    softmax: bool,
    d: &DeviceTensor,
    weights: &Weights,
    lambda: &DeviceTensor,
    grad: &DeviceTensor,
) -> [DeviceTensor; 5] {
    let [runs, positions, levels] = d.meta.shape().dims();
    let shape = weights.shape(softmax);
    let slices = positions.div_ceil(SLICE);
    let of_d = empty(d, [runs, positions, levels], DType::F32);
    let shares = empty(d, [runs, slices, shape.size()], DType::F32);
    // SAFETY: the sizes are those of the buffers.
    unsafe {
        lambda_gradients::launch_unchecked(
            &d.client,
            CubeCount::Static((runs * slices) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            contiguous(d).into_buffer_arg(),
            weights.w1.clone().into_buffer_arg(),
            weights.b1().into_buffer_arg(),
            weights.w2.clone().into_buffer_arg(),
            contiguous(lambda).into_buffer_arg(),
            contiguous(grad).into_buffer_arg(),
            of_d.clone().into_buffer_arg(),
            shares.clone().into_buffer_arg(),
            positions as u32,
            shape,
        );
    }
    let bias = if shape.gelu { shape.hidden } else { 0 };
    let shapes = [[shape.hidden, levels], [1, bias], [levels, shape.hidden], [1, levels]];
    let [w1, b1, w2, b2] = partial::add_up(&shares, runs, slices, shapes);
    [of_d, w1, b1, w2, b2]
}
