//! Linear maps of many rows on GPUs: y = x Wᵀ (+ b) for every run.

use super::launch::{contiguous, width};
use super::matrix::{SLICE, products, weight_shares};
use super::{Arithmetic, DeviceOp, DeviceTensor, empty, partial, tile};
use burn::tensor::DType;
use cubecl::prelude::{CubeCount, CubeDim};

/// Largest sizes of a weight [outputs, inputs] for which [`Linear`] and [`Affine`] are meant: a cube goes through
/// all of it for its 64 rows. Larger ones are work for a library's product of matrices, which tiles both ways.
const MOST_INPUTS: usize = 256;
const MOST_OUTPUTS: usize = 512;

/// Whether a weight [R, O, I] is small enough for the operations of this module.
pub(crate) fn fits([_, outputs, inputs]: [usize; 3]) -> bool {
    outputs <= MOST_OUTPUTS && inputs <= MOST_INPUTS
}

/// y = x Wᵀ with x [R, M, I] and W [R, O, I] in f32; y [R, M, O].
#[derive(Clone, Debug)]
pub(crate) struct Linear(pub(crate) Arithmetic);

/// y = x Wᵀ + b, with b [R, 1, O] besides.
#[derive(Clone, Debug)]
pub(crate) struct Affine(pub(crate) Arithmetic);

impl DeviceOp<2> for Linear {
    fn forward(&self, [x, w]: &[DeviceTensor; 2]) -> DeviceTensor {
        product(self.0, x, w, None, true)
    }

    fn backward(
        &self,
        [x, w]: &[DeviceTensor; 2],
        grad: DeviceTensor,
        [need_x, need_w]: [bool; 2],
    ) -> [Option<DeviceTensor>; 2] {
        [
            need_x.then(|| product(self.0, &grad, w, None, false)),
            need_w.then(|| weight_gradient(self.0, x, &grad)),
        ]
    }
}

impl DeviceOp<3> for Affine {
    fn forward(&self, [x, w, b]: &[DeviceTensor; 3]) -> DeviceTensor {
        product(self.0, x, w, Some(b), true)
    }

    fn backward(
        &self,
        [x, w, _]: &[DeviceTensor; 3],
        grad: DeviceTensor,
        [need_x, need_w, need_b]: [bool; 3],
    ) -> [Option<DeviceTensor>; 3] {
        let of_x = need_x.then(|| product(self.0, &grad, w, None, false));
        if !need_w && !need_b {
            return [of_x, None, None];
        }
        let [of_w, of_b] = affine_gradients(self.0, x, &grad);
        [of_x, need_w.then_some(of_w), need_b.then_some(of_b)]
    }
}

fn dims(tensor: &DeviceTensor) -> [usize; 3] {
    tensor.meta.shape().dims()
}

/// x Wᵀ (+ b), or x W if the weight is not `transposed`.
fn product(
    arithmetic: Arithmetic,
    x: &DeviceTensor,
    w: &DeviceTensor,
    b: Option<&DeviceTensor>,
    transposed: bool,
) -> DeviceTensor {
    let ([runs, rows, inner], [_, outputs, inputs]) = (dims(x), dims(w));
    let columns = if transposed { outputs } else { inputs };
    let (x, w, b) = (contiguous(x), contiguous(w), b.map(contiguous));
    let y = empty(&x, [runs, rows, columns], DType::F32);
    // SAFETY: the sizes are those of the buffers, and widths divide rows.
    unsafe {
        products::launch_unchecked(
            &x.client,
            CubeCount::Static((runs * rows.div_ceil(tile::SIDE)) as u32, 1, 1),
            CubeDim::new_1d(tile::UNITS as u32),
            width(inner),
            width(inputs),
            width(columns).min(2),
            x.clone().into_buffer_arg(),
            w.clone().into_buffer_arg(),
            // Read only if there is a bias.
            b.as_ref().unwrap_or(&w).clone().into_buffer_arg(),
            y.clone().into_buffer_arg(),
            rows as u32,
            inner as u32,
            columns as u32,
            transposed,
            b.is_some(),
            arithmetic,
        );
    }
    y
}

/// Shares of slices of rows in the gradients of W and, if `biased`, of b; and how many slices there are.
fn shares(
    arithmetic: Arithmetic,
    x: &DeviceTensor,
    grad: &DeviceTensor,
    biased: bool,
) -> (DeviceTensor, usize) {
    let ([runs, rows, inputs], [_, _, outputs]) = (dims(x), dims(grad));
    let (x, grad) = (contiguous(x), contiguous(grad));
    let slices = rows.div_ceil(SLICE);
    let size = outputs * inputs + if biased { outputs } else { 0 };
    let shares = empty(&x, [runs, slices, size], DType::F32);
    let tiles = outputs.div_ceil(tile::SIDE) * inputs.div_ceil(tile::SIDE);
    // SAFETY: the sizes are those of the buffers, and widths divide rows.
    unsafe {
        weight_shares::launch_unchecked(
            &x.client,
            CubeCount::Static((runs * slices) as u32, tiles as u32, 1),
            CubeDim::new_1d(tile::UNITS as u32),
            width(inputs),
            width(outputs),
            grad.into_buffer_arg(),
            x.clone().into_buffer_arg(),
            shares.clone().into_buffer_arg(),
            rows as u32,
            inputs as u32,
            outputs as u32,
            biased,
            arithmetic,
        );
    }
    (shares, slices)
}

fn weight_gradient(arithmetic: Arithmetic, x: &DeviceTensor, grad: &DeviceTensor) -> DeviceTensor {
    let ([runs, _, inputs], [_, _, outputs]) = (dims(x), dims(grad));
    let (shares, slices) = shares(arithmetic, x, grad, false);
    let [of_w] = partial::add_up(&shares, runs, slices, [[outputs, inputs]]);
    of_w
}

fn affine_gradients(arithmetic: Arithmetic, x: &DeviceTensor, grad: &DeviceTensor) -> [DeviceTensor; 2] {
    let ([runs, _, inputs], [_, _, outputs]) = (dims(x), dims(grad));
    let (shares, slices) = shares(arithmetic, x, grad, true);
    partial::add_up(&shares, runs, slices, [[outputs, inputs], [1, outputs]])
}
