//! Sums over rows in two steps: kernels leave the shares of slices of rows, which are added up here in their order.
//! No atomic additions: the same numbers at every run.

use super::launch::{buffers, sizes_arg};
use super::{DeviceTensor, empty};
use burn::tensor::DType;
use cubecl::prelude::*;

/// Adds up shares [runs, slices, sizes together] to results [runs, size]. A unit for every element.
#[cube(launch_unchecked)]
fn add_shares(
    shares: &[f32],
    results: &mut Sequence<Box<[f32]>>,
    sizes: &Sequence<u32>,
    slices: u32,
    all: u32,
    count: u32,
) {
    let at = ABSOLUTE_POS as u32;
    if at < count {
        let (run, element) = (at / all, at % all);
        let start = run as usize * slices as usize * all as usize + element as usize;
        let mut sum = 0.0f32;
        for slice in 0..slices {
            sum += shares[start + slice as usize * all as usize];
        }
        let mut rest = element;
        #[unroll]
        for i in 0..sizes.len() {
            let size = *sizes.index(i);
            if rest < size {
                results.index_mut(i)[(run * size + rest) as usize] = sum;
            }
            // Past the element's part this has wrapped around, and is larger than any size.
            rest -= size;
        }
    }
}

/// Sums of shares [runs, slices, …], whose last axis is made of parts of the given shapes [rows, columns]: a tensor
/// [runs, rows, columns] for each. A part may be empty.
pub(super) fn add_up<const N: usize>(
    shares: &DeviceTensor,
    runs: usize,
    slices: usize,
    shapes: [[usize; 2]; N],
) -> [DeviceTensor; N] {
    let mut results = add_up_many(shares, runs, slices, &shapes).into_iter();
    shapes.map(|_| results.next().expect("a result for each shape"))
}

/// As [`add_up`], for any number of parts.
pub(super) fn add_up_many(
    shares: &DeviceTensor,
    runs: usize,
    slices: usize,
    shapes: &[[usize; 2]],
) -> Vec<DeviceTensor> {
    // Memory there must be, also for an empty part.
    let result = |&[rows, columns]: &[usize; 2]| empty(shares, [runs, rows, columns.max(1)], DType::F32);
    let results: Vec<DeviceTensor> = shapes.iter().map(result).collect();
    let sizes: Vec<usize> = shapes.iter().map(|[rows, columns]| rows * columns).collect();
    let all: usize = sizes.iter().sum();
    let count = runs * all;
    // SAFETY: the sizes are those of the buffers.
    unsafe {
        add_shares::launch_unchecked(
            &shares.client,
            CubeCount::Static(count.div_ceil(128) as u32, 1, 1),
            CubeDim::new_1d(128),
            shares.clone().into_buffer_arg(),
            buffers!(results),
            sizes_arg(&sizes),
            slices as u32,
            all as u32,
            count as u32,
        );
    }
    results
}
