//! Products of matrices with few columns and many rows, for many runs at once: kernels.
//!
//! A cube works on 64 rows of one run; its planes hold a 64 × 64 tile of the result. Matrices are row-major
//! and read in vectors as wide as their columns allow; tiles are padded with zeros past the matrices' ends.

use super::product::{Orders, multiply, steps_of};
use super::tile::{
    Arithmetic, GROUPS, Rows, SIDE, TileSlice, UNITS, empty_tile, first_column, first_row, put, zeros,
};
use cubecl::prelude::*;

/// Rows whose share of a weight's gradient one cube adds up.
pub(crate) const SLICE: usize = 512;

/// A row-major matrix inside a buffer.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Matrix {
    /// Index of its first element.
    pub(crate) start: usize,
    pub(crate) rows: u32,
    pub(crate) columns: u32,
}

/// Fills a tile with 64 × 64 elements of a matrix from (row, column) on.
#[cube]
pub(crate) fn load<X: Size>(
    tile: &mut TileSlice,
    x: &[Vector<f32, X>],
    matrix: &Matrix,
    row: u32,
    column: u32,
    #[comptime] arithmetic: Arithmetic,
) {
    let width = X::value();
    let row_vectors = comptime!((SIDE / width) as u32);
    // A unit has vectors below one another, in every so many rows.
    let apart = comptime!((UNITS * width / SIDE) as u32);
    let (first, index) = (UNIT_POS / row_vectors, UNIT_POS % row_vectors);
    let from = column + index * comptime!(width as u32);
    let rows = select(from < matrix.columns, matrix.rows - min(row, matrix.rows), 0u32);
    let start = (matrix.start + ((row + first) * matrix.columns + from) as usize) / width;
    let step = (matrix.columns * apart / comptime!(width as u32)) as usize;
    // Single numbers would all be in flight at once, in too many registers.
    #[unroll(width > 1)]
    for i in 0..comptime!((SIDE * SIDE / width / UNITS) as u32) {
        let r = first + i * apart;
        let mut value = Vector::<f32, X>::new(0.0f32);
        if r < rows {
            value = x[start + i as usize * step];
        }
        put::<f32, X>(tile, r as usize, index as usize, value, arithmetic);
    }
}

/// Writes a result to 64 × 64 elements of a matrix from (row, column) on.
#[cube]
pub(crate) fn store<Z: Size>(y: &mut [Vector<f32, Z>], sums: &Rows, matrix: &Matrix, row: u32, column: u32) {
    let width = Z::value();
    let (first, own) = (row + first_row(), column + first_column());
    let start = matrix.start + (first * matrix.columns + own) as usize;
    #[unroll]
    for half in 0..2 {
        let at = (start + (matrix.columns * comptime!(8 * half as u32)) as usize) / width;
        if first + comptime!(8 * half as u32) < matrix.rows {
            #[unroll]
            for group in 0..GROUPS {
                let pair = sums.index(group);
                #[unroll]
                for side in 0..comptime!(2 / width) {
                    if own + comptime!((8 * group + side) as u32) < matrix.columns {
                        let mut value = Vector::<f32, Z>::new(pair[half].extract(side));
                        if comptime!(width == 2) {
                            value.insert(1usize, pair[half].extract(1usize));
                        }
                        y[at + comptime!(8 * group / width + side)] = value;
                    }
                }
            }
        }
    }
}

/// Fills a tile with indicators: 1 at (i, j) if row `row` + i has token `column` + j, else 0.
#[cube]
fn indicate(tile: &mut TileSlice, tokens: &[i32], start: usize, rows: u32, row: u32, column: u32) {
    for i in 0..comptime!((SIDE * SIDE / UNITS) as u32) {
        let at = UNIT_POS + i * comptime!(UNITS as u32);
        let (r, c) = (at / comptime!(SIDE as u32), at % comptime!(SIDE as u32));
        let mut value = 0.0f32;
        if row + r < rows && tokens[start + (row + r) as usize] == i32::cast_from(column + c) {
            value = 1.0f32;
        }
        put::<f32, Const<1>>(tile, r as usize, c as usize, Vector::new(value), Arithmetic::Bf16);
    }
}

/// Shares of slices of rows in the gradient of a table: its row v is the sum of the gradients of the rows that have
/// token v. partials [runs, slices, vocab · columns].
/// Cubes: (runs × slices, tiles of vocab × columns).
#[cube(launch_unchecked)]
pub(crate) fn table_shares<Y: Size>(
    tokens: &[i32],
    grad: &[Vector<f32, Y>],
    partials: &mut [Vector<f32, Const<1>>],
    rows: u32,
    columns: u32,
    vocab: u32,
    #[comptime] arithmetic: Arithmetic,
) {
    let (side, slice) = (comptime!(SIDE as u32), comptime!(SLICE as u32));
    let slices = rows.div_ceil(slice);
    let (run, first) = ((CUBE_POS_X / slices) as usize, CUBE_POS_X % slices * slice);
    let column_blocks = columns.div_ceil(side);
    let (token, column) = (CUBE_POS_Y / column_blocks * side, CUBE_POS_Y % column_blocks * side);
    let of_grad = Matrix { start: run * rows as usize * columns as usize, rows, columns };
    // Zeros and ones are exact.
    let mut left = empty_tile(Arithmetic::Bf16);
    let mut right = empty_tile(arithmetic);
    let mut sums = zeros();
    for step in 0..min(rows - first, slice).div_ceil(side) {
        let row = first + step * side;
        sync_cube();
        indicate(&mut left, tokens, run * rows as usize, rows, row, token);
        load::<Y>(&mut right, grad, &of_grad, row, column, arithmetic);
        sync_cube();
        let orders = comptime!(Orders { left_transposed: true, right_transposed: false });
        let parts = comptime!((1, arithmetic.parts()));
        multiply(&mut sums, &left, &right, steps_of(rows - row, 0u32), orders, parts);
    }
    let start = CUBE_POS_X as usize * vocab as usize * columns as usize;
    let out = Matrix { start, rows: vocab, columns };
    store::<Const<1>>(partials, &sums, &out, token, column);
}
