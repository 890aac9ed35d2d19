//! Parameters of a cohort from one matrix [runs, parameters], and into one, on GPUs: a kernel each way.

use super::flat_kernel::{UNITS, join as join_kernel, split as split_kernel};
use super::launch::{Plain, buffers, sizes_arg};
use super::{DeviceTensor, empty};
use burn::tensor::{DType, Tensor};
use cubecl::prelude::{CubeCount, CubeDim, SequenceArg};

/// Tensors [runs, rows, columns] in f32 side by side as a matrix [runs, all elements].
pub(crate) fn join(parts: &[Tensor<3>]) -> Tensor<2> {
    let runs = parts[0].dims()[0];
    let plain: Vec<Plain> = parts.iter().map(Plain::new).collect();
    let sizes: Vec<usize> = parts.iter().map(|part| part.dims()[1] * part.dims()[2]).collect();
    let count = sizes.iter().sum();
    let flat = empty(&plain[0].memory, [runs, count], DType::F32);
    let memories: Vec<DeviceTensor> = plain.iter().map(|part| part.memory.clone()).collect();
    // SAFETY: the sizes are those of the buffers.
    unsafe {
        join_kernel::launch_unchecked(
            &flat.client,
            cubes(&sizes, runs),
            CubeDim::new_1d(UNITS as u32),
            buffers!(memories),
            sizes_arg(&sizes),
            flat.clone().into_buffer_arg(),
            count as u32,
        );
    }
    plain[0].tensor(flat)
}

/// The reverse of [`join`]: tensors [runs, rows, columns] of the given [rows, columns].
pub(crate) fn split(flat: &Tensor<2>, shapes: &[[usize; 2]]) -> Vec<Tensor<3>> {
    let [runs, count] = flat.dims();
    let flat = Plain::new(flat);
    let part = |&[rows, columns]: &[usize; 2]| empty(&flat.memory, [runs, rows, columns], DType::F32);
    let parts: Vec<DeviceTensor> = shapes.iter().map(part).collect();
    let sizes: Vec<usize> = shapes.iter().map(|[rows, columns]| rows * columns).collect();
    // SAFETY: the sizes are those of the buffers.
    unsafe {
        split_kernel::launch_unchecked(
            &flat.memory.client,
            cubes(&sizes, runs),
            CubeDim::new_1d(UNITS as u32),
            buffers!(parts),
            sizes_arg(&sizes),
            flat.memory.clone().into_buffer_arg(),
            count as u32,
        );
    }
    parts.into_iter().map(|part| flat.tensor(part)).collect()
}

fn cubes(sizes: &[usize], runs: usize) -> CubeCount {
    let blocks: usize = sizes.iter().map(|size| size.div_ceil(UNITS)).sum();
    CubeCount::Static(blocks as u32, runs as u32, 1)
}
