//! Parameters of a cohort from one matrix [runs, parameters], and into one: kernels.

use cubecl::prelude::*;

/// Units of a cube.
pub(crate) const UNITS: usize = 256;

/// Copies parts [runs, size] side by side into a matrix [runs, count]. Each part has cubes of its own.
/// Cubes: (blocks of 256 elements of every part, runs).
#[cube(launch_unchecked)]
pub(crate) fn join(parts: &Sequence<Box<[f32]>>, sizes: &Sequence<u32>, flat: &mut [f32], count: u32) {
    let run = CUBE_POS_Y as usize;
    let mut block = CUBE_POS_X;
    let mut start = 0u32;
    #[unroll]
    for i in 0..sizes.len() {
        let size = *sizes.index(i);
        let blocks = size.div_ceil(comptime!(UNITS as u32));
        // Past the cube's part this has wrapped around, and is larger than any number of blocks.
        if block < blocks {
            let at = block * comptime!(UNITS as u32) + UNIT_POS;
            if at < size {
                let from = run * size as usize + at as usize;
                flat[run * count as usize + (start + at) as usize] = parts.index(i)[from];
            }
        }
        block -= blocks;
        start += size;
    }
}

/// The reverse of [`join`].
#[cube(launch_unchecked)]
pub(crate) fn split(parts: &mut Sequence<Box<[f32]>>, sizes: &Sequence<u32>, flat: &[f32], count: u32) {
    let run = CUBE_POS_Y as usize;
    let mut block = CUBE_POS_X;
    let mut start = 0u32;
    #[unroll]
    for i in 0..sizes.len() {
        let size = *sizes.index(i);
        let blocks = size.div_ceil(comptime!(UNITS as u32));
        if block < blocks {
            let at = block * comptime!(UNITS as u32) + UNIT_POS;
            if at < size {
                let to = run * size as usize + at as usize;
                parts.index_mut(i)[to] = flat[run * count as usize + (start + at) as usize];
            }
        }
        block -= blocks;
        start += size;
    }
}
