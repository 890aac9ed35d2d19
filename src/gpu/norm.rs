//! Layer normalisation on GPUs, alone or fused with the residual sum before it.

use super::launch::contiguous;
use super::norm_kernel::{MOST_COLUMNS, PLANES, SLICE, norm_gradients, norms};
use super::{DeviceOp, DeviceTensor, empty, partial};
use crate::host::only_needed;
use burn::tensor::DType;
use cubecl::prelude::{CubeCount, CubeDim};

/// Whether rows of this length are short enough for the operations of this module.
pub(crate) fn fits(columns: usize) -> bool {
    columns <= MOST_COLUMNS
}

/// LayerNorm(x) over the last axis, with x [R, M, D], weight and bias [R, 1, D], in f32.
#[derive(Clone, Debug)]
pub(crate) struct LayerNorm {
    pub(crate) epsilon: f64,
}

/// LayerNorm(x + residual), inputs x, residual, weight, bias.
#[derive(Clone, Debug)]
pub(crate) struct AddLayerNorm {
    pub(crate) epsilon: f64,
}

impl DeviceOp<3> for LayerNorm {
    fn forward(&self, [x, weight, bias]: &[DeviceTensor; 3]) -> DeviceTensor {
        forward(self.epsilon, x, None, weight, bias)
    }

    fn backward(
        &self,
        [x, weight, _]: &[DeviceTensor; 3],
        grad: DeviceTensor,
        needed: [bool; 3],
    ) -> [Option<DeviceTensor>; 3] {
        only_needed(backward(self.epsilon, x, None, weight, &grad), needed)
    }
}

impl DeviceOp<4> for AddLayerNorm {
    fn forward(&self, [x, residual, weight, bias]: &[DeviceTensor; 4]) -> DeviceTensor {
        forward(self.epsilon, x, Some(residual), weight, bias)
    }

    fn backward(
        &self,
        [x, residual, weight, _]: &[DeviceTensor; 4],
        grad: DeviceTensor,
        [need_x, need_residual, need_weight, need_bias]: [bool; 4],
    ) -> [Option<DeviceTensor>; 4] {
        let [sum, weight, bias] = backward(self.epsilon, x, Some(residual), weight, &grad);
        [
            need_x.then(|| sum.clone()),
            need_residual.then_some(sum),
            need_weight.then_some(weight),
            need_bias.then_some(bias),
        ]
    }
}

fn forward(
    epsilon: f64,
    x: &DeviceTensor,
    residual: Option<&DeviceTensor>,
    weight: &DeviceTensor,
    bias: &DeviceTensor,
) -> DeviceTensor {
    let [runs, rows, columns] = x.meta.shape().dims();
    let (x, residual) = (contiguous(x), residual.map(contiguous));
    let y = empty(&x, [runs, rows, columns], DType::F32);
    // SAFETY: the sizes are those of the buffers.
    unsafe {
        norms::launch_unchecked(
            &x.client,
            CubeCount::Static((runs * rows).div_ceil(PLANES) as u32, 1, 1),
            CubeDim::new_1d(32 * PLANES as u32),
            x.clone().into_buffer_arg(),
            // Read only if there is a residual.
            residual.as_ref().unwrap_or(&x).clone().into_buffer_arg(),
            contiguous(weight).into_buffer_arg(),
            contiguous(bias).into_buffer_arg(),
            y.clone().into_buffer_arg(),
            (runs * rows) as u32,
            rows as u32,
            columns as u32,
            epsilon as f32,
            columns.div_ceil(32),
            residual.is_some(),
        );
    }
    y
}

/// Gradients of the normalised sum, the weight and the bias.
fn backward(
    epsilon: f64,
    x: &DeviceTensor,
    residual: Option<&DeviceTensor>,
    weight: &DeviceTensor,
    grad: &DeviceTensor,
) -> [DeviceTensor; 3] {
    let [runs, rows, columns] = x.meta.shape().dims();
    let (x, residual) = (contiguous(x), residual.map(contiguous));
    let slices = rows.div_ceil(SLICE);
    let x_grad = empty(&x, [runs, rows, columns], DType::F32);
    let shares = empty(&x, [runs, slices, 2 * columns], DType::F32);
    // SAFETY: the sizes are those of the buffers.
    unsafe {
        norm_gradients::launch_unchecked(
            &x.client,
            CubeCount::Static((runs * slices) as u32, 1, 1),
            CubeDim::new_1d(32 * PLANES as u32),
            x.clone().into_buffer_arg(),
            residual.as_ref().unwrap_or(&x).clone().into_buffer_arg(),
            contiguous(weight).into_buffer_arg(),
            contiguous(grad).into_buffer_arg(),
            x_grad.clone().into_buffer_arg(),
            shares.clone().into_buffer_arg(),
            rows as u32,
            columns as u32,
            epsilon as f32,
            columns.div_ceil(32),
            residual.is_some(),
        );
    }
    let [of_weight, of_bias] = partial::add_up(&shares, runs, slices, [[1, columns]; 2]);
    [x_grad, of_weight, of_bias]
}
