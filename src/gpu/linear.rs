//! One linear map of many rows on GPUs: y = x Wᵀ for every run.

use super::launch::contiguous;
use super::maps::Maps;
use super::{Arithmetic, DeviceOp, DeviceTensor};
use std::sync::OnceLock;

/// Largest sizes of a weight [outputs, inputs] for which [`Linear`] and `projection` are meant: a cube goes through
/// all of it for its 64 rows. Larger ones are work for a library's product of matrices, which tiles both ways.
const MOST_INPUTS: usize = 256;
const MOST_OUTPUTS: usize = 512;

/// Whether a weight [R, O, I] is small enough for the operations of this module.
pub(crate) fn fits([_, outputs, inputs]: [usize; 3]) -> bool {
    outputs <= MOST_OUTPUTS && inputs <= MOST_INPUTS
}

/// y = x Wᵀ with x [R, M, I] and W [R, O, I] in f32; y [R, M, O].
#[derive(Debug)]
pub(crate) struct Linear {
    arithmetic: Arithmetic,
    /// The weight in tiles, from the forward pass for the backward pass.
    split: OnceLock<DeviceTensor>,
}

impl Linear {
    pub(crate) fn new(arithmetic: Arithmetic) -> Self {
        Self { arithmetic, split: OnceLock::new() }
    }

    fn maps(&self, [x, w]: &[DeviceTensor; 2]) -> Maps {
        let (arithmetic, x, weights) = (self.arithmetic, contiguous(x), vec![contiguous(w)]);
        match self.split.get().cloned() {
            Some(split) => Maps { arithmetic, x, weights, split },
            None => {
                let maps = Maps::new(arithmetic, x, weights);
                self.split.get_or_init(|| maps.split.clone());
                maps
            }
        }
    }
}

impl DeviceOp<2> for Linear {
    fn forward(&self, inputs: &[DeviceTensor; 2]) -> DeviceTensor {
        self.maps(inputs).forward().remove(0)
    }

    fn backward(
        &self,
        inputs: &[DeviceTensor; 2],
        grad: DeviceTensor,
        [need_x, need_w]: [bool; 2],
    ) -> [Option<DeviceTensor>; 2] {
        let (maps, grad) = (self.maps(inputs), [contiguous(&grad)]);
        [need_x.then(|| maps.input_gradient(&grad)), need_w.then(|| maps.weight_gradients(&grad).remove(0))]
    }
}
