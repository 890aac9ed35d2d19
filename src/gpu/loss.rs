//! Cross-entropy over scored positions on GPUs, for vocabularies that are not large.

use super::launch::{Plain, contiguous, integers};
use super::loss_kernel::{SLICE, UNITS, finish_losses, loss_gradients, loss_shares, scores};
use super::{DeviceOp, DeviceTensor, empty};
use burn::tensor::{DType, Int, Tensor, TensorData};
use cubecl::prelude::{CubeCount, CubeDim};
use std::sync::OnceLock;

/// Most columns of the logits: a lane holds those of its row 32 apart.
const MOST_COLUMNS: usize = 1024;

/// Whether a vocabulary is small enough for the operations of this module.
pub(crate) fn fits(vocab: usize) -> bool {
    (1..=MOST_COLUMNS).contains(&vocab)
}

/// Cross-entropy of every run: logits [R, M, V] in f32 → loss [R], the sum over rows with a target in 0..V divided
/// by the run's divisor.
#[derive(Debug)]
pub(crate) struct CrossEntropy {
    /// Target of every row [R, M] as i32.
    targets: DeviceTensor,
    /// By what the sum of every run is divided [R]; without it, set by the forward pass to the number of scored rows.
    divisors: OnceLock<DeviceTensor>,
}

impl CrossEntropy {
    /// The mean over scored rows.
    pub(crate) fn mean<const D: usize>(targets: Tensor<D, Int>) -> Self {
        Self { targets: integers(targets), divisors: OnceLock::new() }
    }

    /// The sum divided by a number of every run, at least 1.
    pub(crate) fn over<const D: usize>(targets: Tensor<D, Int>, divisors: &[usize]) -> Self {
        let device = targets.device();
        let values: Vec<f32> = divisors.iter().map(|&divisor| divisor as f32).collect();
        let values = Tensor::<1>::from_data(TensorData::new(values, [divisors.len()]), (&device, DType::F32));
        Self { targets: integers(targets), divisors: OnceLock::from(Plain::new(&values).memory) }
    }
}

impl DeviceOp<1> for CrossEntropy {
    fn forward(&self, [logits]: &[DeviceTensor; 1]) -> DeviceTensor {
        let [runs, rows, vocab] = logits.meta.shape().dims();
        let slices = rows.div_ceil(SLICE);
        let shares = empty(logits, [runs, slices, 2], DType::F32);
        let losses = empty(logits, [runs], DType::F32);
        let given = self.divisors.get().is_some();
        let divisors = self.divisors.get_or_init(|| empty(logits, [runs], DType::F32));
        // SAFETY: the sizes are those of the buffers.
        unsafe {
            loss_shares::launch_unchecked(
                &logits.client,
                CubeCount::Static((runs * slices) as u32, 1, 1),
                CubeDim::new_1d(UNITS as u32),
                contiguous(logits).into_buffer_arg(),
                self.targets.clone().into_buffer_arg(),
                shares.clone().into_buffer_arg(),
                rows as u32,
                vocab as u32,
                vocab.div_ceil(32),
            );
            finish_losses::launch_unchecked(
                &logits.client,
                CubeCount::Static(runs as u32, 1, 1),
                CubeDim::new_1d(32),
                shares.into_buffer_arg(),
                divisors.clone().into_buffer_arg(),
                losses.clone().into_buffer_arg(),
                slices as u32,
                given,
            );
        }
        losses
    }

    fn backward(
        &self,
        [logits]: &[DeviceTensor; 1],
        grad: DeviceTensor,
        _: [bool; 1],
    ) -> [Option<DeviceTensor>; 1] {
        let [runs, rows, vocab] = logits.meta.shape().dims();
        let divisors = self.divisors.get().expect("set by the forward pass");
        let out = empty(logits, [runs, rows, vocab], DType::F32);
        // SAFETY: the sizes are those of the buffers.
        unsafe {
            loss_gradients::launch_unchecked(
                &logits.client,
                CubeCount::Static((runs * rows).div_ceil(UNITS / 32) as u32, 1, 1),
                CubeDim::new_1d(UNITS as u32),
                contiguous(logits).into_buffer_arg(),
                self.targets.clone().into_buffer_arg(),
                divisors.clone().into_buffer_arg(),
                contiguous(&grad).into_buffer_arg(),
                out.clone().into_buffer_arg(),
                (runs * rows) as u32,
                rows as u32,
                vocab as u32,
                vocab.div_ceil(32),
            );
        }
        [Some(out)]
    }
}

/// Cross-entropy of every row of logits [R, M, V], and whether its target has the largest one; 0 and false where
/// the target is no column.
pub(crate) fn score<const D: usize>(logits: &Tensor<3>, targets: Tensor<D, Int>) -> (Vec<f32>, Vec<bool>) {
    let [runs, rows, vocab] = logits.dims();
    let logits = Plain::new(logits);
    let column = || empty(&logits.memory, [runs * rows], DType::F32);
    let (losses, hits) = (column(), column());
    // SAFETY: the sizes are those of the buffers.
    unsafe {
        scores::launch_unchecked(
            &logits.memory.client,
            CubeCount::Static((runs * rows).div_ceil(UNITS / 32) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            logits.memory.clone().into_buffer_arg(),
            integers(targets).into_buffer_arg(),
            losses.clone().into_buffer_arg(),
            hits.clone().into_buffer_arg(),
            (runs * rows) as u32,
            vocab as u32,
            vocab.div_ceil(32),
        );
    }
    let read = |memory| logits.tensor::<1>(memory).into_data();
    (read(losses).iter().collect(), read(hits).iter::<f32>().map(|hit| hit > 0.5).collect())
}
