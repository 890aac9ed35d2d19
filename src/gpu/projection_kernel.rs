//! Several linear maps of one input for many runs at once: kernels.
//!
//! Map i has outputs of its own and a weight of its own; `sizes` says how many columns each has. A cube knows by the
//! number of a tile which map it is working for.

use super::matrix::{Matrix, SLICE, load, store};
use super::product::{Extent, Orders, multiply, multiply_part, steps_of};
use super::tile::{
    Arithmetic, Rows, SIDE, TileSlice, empty_tile, plane_row, read_tile, whole, write_tile, zeros,
};
use cubecl::prelude::*;

/// [`load`] of a matrix whose number of columns allows no vectors, or vectors of four.
#[cube]
fn load_any(
    tile: &mut TileSlice,
    x: &[Vector<f32, Const<1>>],
    matrix: &Matrix,
    row: u32,
    column: u32,
    #[comptime] arithmetic: Arithmetic,
) {
    if matrix.columns % 4 == 0 {
        load::<Const<4>>(tile, x.with_vector_size::<Const<4>>(), matrix, row, column, arithmetic);
    } else {
        load::<Const<1>>(tile, x, matrix, row, column, arithmetic);
    }
}

/// Writes a result to 64 × 64 elements of a matrix from (row, column) on, two at a time where its columns allow it.
#[cube]
fn store_any(y: &mut [Vector<f32, Const<1>>], sums: &Rows, matrix: &Matrix, row: u32, column: u32) {
    if matrix.columns % 2 == 0 {
        store::<Const<2>>(y.with_vector_size_mut::<Const<2>>(), sums, matrix, row, column);
    } else {
        store::<Const<1>>(y, sums, matrix, row, column);
    }
}

/// The maps' weights [runs, size i, inner] in tiles, split into parts once for all that read them: tiles
/// [runs, tiles of all maps, blocks of 64 inputs]. A cube for each.
#[cube(launch_unchecked)]
pub(crate) fn split_weights<X: Size>(
    weights: &Sequence<Box<[Vector<f32, X>]>>,
    out: &mut TileSlice,
    sizes: &Sequence<u32>,
    inner: u32,
    tiles: u32,
    #[comptime] arithmetic: Arithmetic,
) {
    let side = comptime!(SIDE as u32);
    let input_blocks = inner.div_ceil(side);
    let (place, input) = (CUBE_POS_X / input_blocks, CUBE_POS_X % input_blocks * side);
    let (run, mut own) = ((place / tiles) as usize, place % tiles);
    let mut tile = empty_tile(arithmetic);
    #[unroll]
    for i in 0..sizes.len() {
        let size = *sizes.index(i);
        let count = size.div_ceil(side);
        if own < count {
            let matrix = Matrix { start: run * (size * inner) as usize, rows: size, columns: inner };
            load::<X>(&mut tile, weights.index(i), &matrix, own * side, input, arithmetic);
        }
        // Past the tile's map this has wrapped around, and is larger than any number of tiles.
        own -= count;
    }
    sync_cube();
    write_tile(&tile, out, CUBE_POS_X as usize * comptime!(whole(arithmetic)), arithmetic);
}

/// y_i = x w_iᵀ with x [runs, rows, inner], w_i [runs, size i, inner] as [`split_weights`] leaves them, y_i [runs, rows,
/// size i]. Cubes: runs × blocks of 64 rows.
#[cube(launch_unchecked)]
pub(crate) fn project<X: Size>(
    x: &[Vector<f32, X>],
    weights: &TileSlice,
    outputs: &mut Sequence<Box<[Vector<f32, Const<1>>]>>,
    sizes: &Sequence<u32>,
    rows: u32,
    inner: u32,
    tiles: u32,
    #[comptime] arithmetic: Arithmetic,
) {
    let side = comptime!(SIDE as u32);
    let (blocks, input_blocks) = (rows.div_ceil(side), inner.div_ceil(side));
    let (run, row) = (CUBE_POS_X / blocks, CUBE_POS_X % blocks * side);
    let of_x = Matrix { start: run as usize * (rows * inner) as usize, rows, columns: inner };
    let mut left = empty_tile(arithmetic);
    let mut right = empty_tile(arithmetic);
    if inner <= side {
        load::<X>(&mut left, x, &of_x, row, 0u32, arithmetic);
    }
    for tile in 0..tiles {
        let mut groups = 8u32;
        let mut own = tile;
        #[unroll]
        for i in 0..sizes.len() {
            let size = *sizes.index(i);
            let count = size.div_ceil(side);
            if own < count {
                groups = min((size - own * side).div_ceil(8), 8u32);
            }
            own -= count;
        }
        let mut sums = zeros();
        for step in 0..input_blocks {
            sync_cube();
            // With one block of the inner axis, the left factor is still there.
            if inner > side {
                load::<X>(&mut left, x, &of_x, row, step * side, arithmetic);
            }
            let place = ((run * tiles + tile) * input_blocks + step) as usize;
            read_tile(&mut right, weights, place * comptime!(whole(arithmetic)), arithmetic);
            sync_cube();
            let orders = comptime!(Orders { left_transposed: false, right_transposed: true });
            let steps = steps_of(inner, step);
            let extent = Extent { first_step: 0u32, end_step: steps, first_group: 0u32, end_group: groups };
            multiply_part(&mut sums, &left, &right, &extent, orders, arithmetic.both());
        }
        let mut own = tile;
        #[unroll]
        for i in 0..sizes.len() {
            let size = *sizes.index(i);
            let count = size.div_ceil(side);
            if own < count {
                let matrix = Matrix { start: run as usize * (rows * size) as usize, rows, columns: size };
                store_any(outputs.index_mut(i), &sums, &matrix, row, own * side);
            }
            own -= count;
        }
    }
}

/// x's gradient Σ_i grad_i w_i. Cubes: (runs × blocks of 64 rows, blocks of 64 inputs).
#[cube(launch_unchecked)]
pub(crate) fn project_back<X: Size>(
    grads: &Sequence<Box<[Vector<f32, Const<1>>]>>,
    weights: &TileSlice,
    x_grad: &mut [Vector<f32, X>],
    sizes: &Sequence<u32>,
    rows: u32,
    inner: u32,
    tiles: u32,
    #[comptime] arithmetic: Arithmetic,
) {
    let side = comptime!(SIDE as u32);
    let (blocks, input_blocks) = (rows.div_ceil(side), inner.div_ceil(side));
    let (run, row) = (CUBE_POS_X / blocks, CUBE_POS_X % blocks * side);
    let mut left = empty_tile(arithmetic);
    let mut right = empty_tile(arithmetic);
    let mut sums = zeros();
    for tile in 0..tiles {
        sync_cube();
        let mut steps = 4u32;
        let mut own = tile;
        #[unroll]
        for i in 0..sizes.len() {
            let size = *sizes.index(i);
            let count = size.div_ceil(side);
            if own < count {
                let of_grad = Matrix { start: run as usize * (rows * size) as usize, rows, columns: size };
                load_any(&mut left, grads.index(i), &of_grad, row, own * side, arithmetic);
                steps = steps_of(size, own);
            }
            own -= count;
        }
        let place = ((run * tiles + tile) * input_blocks + CUBE_POS_Y) as usize;
        read_tile(&mut right, weights, place * comptime!(whole(arithmetic)), arithmetic);
        sync_cube();
        let orders = comptime!(Orders { left_transposed: false, right_transposed: false });
        multiply(&mut sums, &left, &right, steps, orders, arithmetic.both());
    }
    let matrix = Matrix { start: run as usize * (rows * inner) as usize, rows, columns: inner };
    store::<X>(x_grad, &sums, &matrix, row, CUBE_POS_Y * side);
}

/// Shares of slices of rows in the weights' gradients grad_iᵀ x: shares [runs, slices, Σ sizes · inner].
/// Cubes: tiles of all maps × inner within slices within runs, so that those which read the same rows are neighbours.
#[cube(launch_unchecked)]
pub(crate) fn projection_shares<X: Size>(
    grads: &Sequence<Box<[Vector<f32, Const<1>>]>>,
    x: &[Vector<f32, X>],
    shares: &mut [Vector<f32, Const<1>>],
    sizes: &Sequence<u32>,
    rows: u32,
    inner: u32,
    tiles: u32,
    all: u32,
    #[comptime] arithmetic: Arithmetic,
) {
    let (side, slice) = (comptime!(SIDE as u32), comptime!(SLICE as u32));
    let input_blocks = inner.div_ceil(side);
    let here = tiles * input_blocks;
    let (place, index) = (CUBE_POS_X / here, CUBE_POS_X % here);
    let (tile, input) = (index / input_blocks, index % input_blocks * side);
    let slices = rows.div_ceil(slice);
    let (run, first) = ((place / slices) as usize, place % slices * slice);
    let of_x = Matrix { start: run * rows as usize * inner as usize, rows, columns: inner };
    let mut left = empty_tile(arithmetic);
    let mut right = empty_tile(arithmetic);
    let mut sums = zeros();
    for step in 0..min(rows - first, slice).div_ceil(side) {
        let row = first + step * side;
        sync_cube();
        let mut outputs = 0u32;
        let mut own = tile;
        #[unroll]
        for i in 0..sizes.len() {
            let size = *sizes.index(i);
            let count = size.div_ceil(side);
            if own < count {
                let of_grad = Matrix { start: run * rows as usize * size as usize, rows, columns: size };
                load_any(&mut left, grads.index(i), &of_grad, row, own * side, arithmetic);
                outputs = min(size - own * side, side);
            }
            own -= count;
        }
        load::<X>(&mut right, x, &of_x, row, input, arithmetic);
        sync_cube();
        let orders = comptime!(Orders { left_transposed: true, right_transposed: false });
        // A small map's weight has rows for some of the planes only.
        if plane_row() < outputs {
            multiply(&mut sums, &left, &right, steps_of(rows - row, 0u32), orders, arithmetic.both());
        }
    }
    let mut own = tile;
    let mut start = place as usize * all as usize * inner as usize;
    #[unroll]
    for i in 0..sizes.len() {
        let size = *sizes.index(i);
        let count = size.div_ceil(side);
        if own < count {
            store_any(shares, &sums, &Matrix { start, rows: size, columns: inner }, own * side, input);
        }
        own -= count;
        start += size as usize * inner as usize;
    }
}
