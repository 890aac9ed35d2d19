//! Elementwise functions, softmax over the last axis, and the decay of the recall model, on GPUs.

use super::launch::{contiguous, elementwise, width};
use super::pointwise_kernel::{Function, SLICE, UNITS, apply, decay_gradients, decays, slopes, softmax};
use super::{DeviceOp, DeviceTensor, empty, partial};
use crate::host::only_needed;
use burn::tensor::DType;
use cubecl::prelude::{CubeCount, CubeDim};

/// Most columns of [`Softmax`]: a lane holds those of its row 32 apart.
const MOST_COLUMNS: usize = 1024;

/// An elementwise function of a tensor in f32, its derivative recomputed in the backward pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointwise(pub(crate) Function);

/// exp(x − max) / Σ exp(x − max) over the last axis, in f32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Softmax;

/// −exp(a) · softplus(x + b) with x [R, M, H], b and a [R, 1, H], in f32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogDecay;

/// Whether rows of this length are short enough for [`Softmax`].
pub(crate) fn fits(columns: usize) -> bool {
    (1..=MOST_COLUMNS).contains(&columns)
}

impl DeviceOp<1> for Pointwise {
    fn forward(&self, [x]: &[DeviceTensor; 1]) -> DeviceTensor {
        let count = x.meta.shape().num_elements();
        let width = width(count);
        let (cubes, units) = elementwise(count / width);
        let y = empty(x, x.meta.shape().clone(), DType::F32);
        // SAFETY: the sizes are those of the buffers.
        unsafe {
            apply::launch_unchecked(
                &x.client,
                cubes,
                units,
                width,
                contiguous(x).into_buffer_arg(),
                y.clone().into_buffer_arg(),
                (count / width) as u32,
                self.0,
            );
        }
        y
    }

    fn backward(
        &self,
        [x]: &[DeviceTensor; 1],
        grad: DeviceTensor,
        _: [bool; 1],
    ) -> [Option<DeviceTensor>; 1] {
        let count = x.meta.shape().num_elements();
        let width = width(count);
        let (cubes, units) = elementwise(count / width);
        let y = empty(x, x.meta.shape().clone(), DType::F32);
        // SAFETY: the sizes are those of the buffers.
        unsafe {
            slopes::launch_unchecked(
                &x.client,
                cubes,
                units,
                width,
                contiguous(x).into_buffer_arg(),
                contiguous(&grad).into_buffer_arg(),
                y.clone().into_buffer_arg(),
                (count / width) as u32,
                self.0,
            );
        }
        [Some(y)]
    }
}

impl DeviceOp<1> for Softmax {
    fn forward(&self, [x]: &[DeviceTensor; 1]) -> DeviceTensor {
        over_rows(x, None)
    }

    fn backward(
        &self,
        [x]: &[DeviceTensor; 1],
        grad: DeviceTensor,
        _: [bool; 1],
    ) -> [Option<DeviceTensor>; 1] {
        [Some(over_rows(x, Some(&grad)))]
    }
}

/// Softmax, or the gradient of its input from that of its output.
fn over_rows(x: &DeviceTensor, grad: Option<&DeviceTensor>) -> DeviceTensor {
    let shape = x.meta.shape().clone();
    let columns = shape.iter().next_back().copied().unwrap_or(1);
    let rows = shape.num_elements() / columns;
    let (x, grad) = (contiguous(x), grad.map(contiguous));
    let y = empty(&x, shape, DType::F32);
    // SAFETY: the sizes are those of the buffers.
    unsafe {
        softmax::launch_unchecked(
            &x.client,
            CubeCount::Static(rows.div_ceil(UNITS / 32) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            x.clone().into_buffer_arg(),
            // Read only on the way back.
            grad.as_ref().unwrap_or(&x).clone().into_buffer_arg(),
            y.clone().into_buffer_arg(),
            rows as u32,
            columns as u32,
            columns.div_ceil(32),
            grad.is_some(),
        );
    }
    y
}

impl DeviceOp<3> for LogDecay {
    fn forward(&self, [step, bias, a_log]: &[DeviceTensor; 3]) -> DeviceTensor {
        let [runs, rows, heads] = step.meta.shape().dims();
        let (cubes, units) = elementwise(runs * rows * heads);
        let y = empty(step, [runs, rows, heads], DType::F32);
        // SAFETY: the sizes are those of the buffers.
        unsafe {
            decays::launch_unchecked(
                &step.client,
                cubes,
                units,
                contiguous(step).into_buffer_arg(),
                contiguous(bias).into_buffer_arg(),
                contiguous(a_log).into_buffer_arg(),
                y.clone().into_buffer_arg(),
                rows as u32,
                heads as u32,
                (runs * rows * heads) as u32,
            );
        }
        y
    }

    fn backward(
        &self,
        [step, bias, a_log]: &[DeviceTensor; 3],
        grad: DeviceTensor,
        needed: [bool; 3],
    ) -> [Option<DeviceTensor>; 3] {
        let [runs, rows, heads] = step.meta.shape().dims();
        let slices = rows.div_ceil(SLICE);
        let of_step = empty(step, [runs, rows, heads], DType::F32);
        let shares = empty(step, [runs, slices, 2 * heads], DType::F32);
        // SAFETY: the sizes are those of the buffers.
        unsafe {
            decay_gradients::launch_unchecked(
                &step.client,
                CubeCount::Static((runs * slices) as u32, heads as u32, 1),
                CubeDim::new_1d(UNITS as u32),
                contiguous(step).into_buffer_arg(),
                contiguous(bias).into_buffer_arg(),
                contiguous(a_log).into_buffer_arg(),
                contiguous(&grad).into_buffer_arg(),
                of_step.clone().into_buffer_arg(),
                shares.clone().into_buffer_arg(),
                rows as u32,
                heads as u32,
            );
        }
        let [of_bias, of_log] = partial::add_up(&shares, runs, slices, [[1, heads]; 2]);
        only_needed([of_step, of_bias, of_log], needed)
    }
}
