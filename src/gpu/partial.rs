//! Sums over rows in two steps: kernels leave the shares of slices of rows, which are added up here in their order.
//! No atomic additions: the same numbers at every run.

use super::{DeviceTensor, empty};
use burn::tensor::DType;
use cubecl::prelude::*;

/// Most quantities whose shares lie side by side.
pub(crate) const MOST: usize = 4;

/// Adds up shares [runs, slices, sizes together] to four results [runs, size]. A unit for every element.
#[cube(launch_unchecked)]
fn add_shares(
    shares: &[f32],
    first: &mut [f32],
    second: &mut [f32],
    third: &mut [f32],
    fourth: &mut [f32],
    slices: u32,
    first_size: u32,
    second_size: u32,
    third_size: u32,
    fourth_size: u32,
    count: u32,
) {
    let at = ABSOLUTE_POS as u32;
    if at < count {
        let size = first_size + second_size + third_size + fourth_size;
        let (run, element) = (at / size, at % size);
        let start = (run as usize * slices as usize) * size as usize + element as usize;
        let mut sum = 0.0f32;
        for slice in 0..slices {
            sum += shares[start + slice as usize * size as usize];
        }
        let mut rest = element;
        if rest < first_size {
            first[(run * first_size + rest) as usize] = sum;
        } else {
            rest -= first_size;
            if rest < second_size {
                second[(run * second_size + rest) as usize] = sum;
            } else {
                rest -= second_size;
                if rest < third_size {
                    third[(run * third_size + rest) as usize] = sum;
                } else {
                    fourth[(run * fourth_size + rest - third_size) as usize] = sum;
                }
            }
        }
    }
}

/// Sums of shares [runs, slices, …], whose last axis is made of `N` ≤ 4 parts of the given shapes [rows, columns]:
/// a tensor [runs, rows, columns] for each.
pub(super) fn add_up<const N: usize>(
    shares: &DeviceTensor,
    runs: usize,
    slices: usize,
    shapes: [[usize; 2]; N],
) -> [DeviceTensor; N] {
    // A part may have no columns, but memory there must be.
    let results = shapes.map(|[rows, columns]| empty(shares, [runs, rows, columns.max(1)], DType::F32));
    let size = |i: usize| shapes.get(i).map_or(0, |[rows, columns]| rows * columns);
    // A part of size 0 is never written: any memory will do.
    let part = |i: usize| results.get(i).unwrap_or(&results[0]).clone().into_buffer_arg();
    let count = runs * (0..MOST).map(size).sum::<usize>();
    // SAFETY: the sizes are those of the buffers.
    unsafe {
        add_shares::launch_unchecked(
            &shares.client,
            CubeCount::Static(count.div_ceil(128) as u32, 1, 1),
            CubeDim::new_1d(128),
            shares.clone().into_buffer_arg(),
            part(0),
            part(1),
            part(2),
            part(3),
            slices as u32,
            size(0) as u32,
            size(1) as u32,
            size(2) as u32,
            size(3) as u32,
            count as u32,
        );
    }
    results
}
