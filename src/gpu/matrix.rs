//! Products of matrices with few columns and many rows, for many runs at once: kernels.
//!
//! A cube works on 64 rows of one run; its planes hold a 64 × 64 tile of the result. Matrices are row-major
//! and read in vectors as wide as their columns allow; tiles are padded with zeros past the matrices' ends.

use super::product::{Orders, multiply, steps_of};
use super::tile::{
    Arithmetic, GROUPS, Rows, SIDE, TileSlice, UNITS, empty_tile, first_column, first_row, get, put, zeros,
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
    // Single numbers would all be in flight at once, in too many registers.
    #[unroll(width > 1)]
    for i in 0..comptime!((SIDE * SIDE / width / UNITS) as u32) {
        let at = UNIT_POS + i * comptime!(UNITS as u32);
        let (r, c) = (at / row_vectors, at % row_vectors);
        let from = column + c * comptime!(width as u32);
        let mut value = Vector::<f32, X>::new(0.0f32);
        if row + r < matrix.rows && from < matrix.columns {
            let first = matrix.start + (row + r) as usize * matrix.columns as usize + from as usize;
            value = x[first / width];
        }
        put::<f32, X>(tile, r as usize, c as usize, value, arithmetic);
    }
}

/// Writes a result to 64 × 64 elements of a matrix from (row, column) on.
#[cube]
fn store<Z: Size>(y: &mut [Vector<f32, Z>], sums: &Rows, matrix: &Matrix, row: u32, column: u32) {
    let width = Z::value();
    #[unroll]
    for group in 0..GROUPS {
        let pair = sums.index(group);
        let c = column + first_column() + comptime!(group as u32 * 8);
        #[unroll]
        for half in 0..2 {
            let r = row + first_row() + comptime!(half as u32 * 8);
            let at = matrix.start + r as usize * matrix.columns as usize + c as usize;
            if r < matrix.rows {
                #[unroll]
                for side in 0..comptime!(2 / width) {
                    if c + comptime!(side as u32) < matrix.columns {
                        let mut value = Vector::<f32, Z>::new(pair[half].extract(side));
                        if comptime!(width == 2) {
                            value.insert(1usize, pair[half].extract(1usize));
                        }
                        y[at / width + side] = value;
                    }
                }
            }
        }
    }
}

/// Adds to every row of a result its columns of a bias from `column` on.
#[cube]
fn add_bias(sums: &mut Rows, bias: &[f32], start: usize, column: u32, columns: u32) {
    #[unroll]
    for group in 0..GROUPS {
        let pair = sums.index_mut(group);
        let mut both = Vector::<f32, Const<2>>::new(0.0f32);
        #[unroll]
        for side in 0..2usize {
            let c = column + first_column() + comptime!(group as u32 * 8 + side as u32);
            if c < columns {
                both.insert(side, bias[start + c as usize]);
            }
        }
        pair[0] = pair[0] + both;
        pair[1] = pair[1] + both;
    }
}

/// y = x w (+ bias), where x is [runs, rows, inner], y [runs, rows, columns] and w [runs, inner, columns], or
/// [runs, columns, inner] if it is `transposed`.
/// Cubes: runs × blocks of 64 rows.
#[cube(launch_unchecked)]
pub(crate) fn products<X: Size, Y: Size, Z: Size>(
    x: &[Vector<f32, X>],
    w: &[Vector<f32, Y>],
    bias: &[f32],
    y: &mut [Vector<f32, Z>],
    rows: u32,
    inner: u32,
    columns: u32,
    #[comptime] transposed: bool,
    #[comptime] biased: bool,
    #[comptime] arithmetic: Arithmetic,
) {
    let side = comptime!(SIDE as u32);
    let blocks = rows.div_ceil(side);
    let (run, row) = ((CUBE_POS_X / blocks) as usize, CUBE_POS_X % blocks * side);
    let left_matrix = Matrix { start: run * rows as usize * inner as usize, rows, columns: inner };
    let start = run * inner as usize * columns as usize;
    let out = Matrix { start: run * rows as usize * columns as usize, rows, columns };
    let mut left = empty_tile(arithmetic);
    let mut right = empty_tile(arithmetic);
    if inner <= side {
        load::<X>(&mut left, x, &left_matrix, row, 0u32, arithmetic);
    }
    for block in 0..columns.div_ceil(side) {
        let column = block * side;
        let mut sums = zeros();
        for step in 0..inner.div_ceil(side) {
            let depth = step * side;
            sync_cube();
            // With one block of the inner axis, the left factor is still there.
            if inner > side {
                load::<X>(&mut left, x, &left_matrix, row, depth, arithmetic);
            }
            if comptime!(transposed) {
                load::<Y>(
                    &mut right,
                    w,
                    &Matrix { start, rows: columns, columns: inner },
                    column,
                    depth,
                    arithmetic,
                );
            } else {
                load::<Y>(&mut right, w, &Matrix { start, rows: inner, columns }, depth, column, arithmetic);
            }
            sync_cube();
            let orders = comptime!(Orders { left_transposed: false, right_transposed: transposed });
            multiply(&mut sums, &left, &right, steps_of(inner, step), orders, arithmetic.both());
        }
        if comptime!(biased) {
            add_bias(&mut sums, bias, run * columns as usize, column, columns);
        }
        store::<Z>(y, &sums, &out, row, column);
    }
}

/// Sum over 16 rows of one column of a tile: the upper rows for the first 64 units, the next for the next.
#[cube]
fn quarter_column(tile: &TileSlice, #[comptime] arithmetic: Arithmetic) -> f32 {
    let (row, column) = ((UNIT_POS / 64 * 16) as usize, (UNIT_POS % 64) as usize);
    let mut sum = 0.0f32;
    #[unroll]
    for i in 0..16 {
        sum += get::<Const<1>>(tile, row + i, column, arithmetic).extract(0usize);
    }
    sum
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

/// Shares of slices of rows in gradᵀ x, with grad [runs, rows, outputs] and x [runs, rows, inputs], and in the sums
/// of grad's columns: partials [runs, slices, outputs · inputs (+ outputs)].
/// Cubes: (runs × slices, tiles of outputs × inputs).
#[cube(launch_unchecked)]
pub(crate) fn weight_shares<X: Size, Y: Size>(
    grad: &[Vector<f32, Y>],
    x: &[Vector<f32, X>],
    partials: &mut [Vector<f32, Const<1>>],
    rows: u32,
    inputs: u32,
    outputs: u32,
    #[comptime] biased: bool,
    #[comptime] arithmetic: Arithmetic,
) {
    let (side, slice) = (comptime!(SIDE as u32), comptime!(SLICE as u32));
    let slices = rows.div_ceil(slice);
    let (run, first) = ((CUBE_POS_X / slices) as usize, CUBE_POS_X % slices * slice);
    let input_blocks = inputs.div_ceil(side);
    let (output, input) = (CUBE_POS_Y / input_blocks * side, CUBE_POS_Y % input_blocks * side);
    let of_grad = Matrix { start: run * rows as usize * outputs as usize, rows, columns: outputs };
    let of_x = Matrix { start: run * rows as usize * inputs as usize, rows, columns: inputs };
    let mut left = empty_tile(arithmetic);
    let mut right = empty_tile(arithmetic);
    let mut sums = zeros();
    let mut column_sum = 0.0f32;
    for step in 0..min(rows - first, slice).div_ceil(side) {
        let row = first + step * side;
        sync_cube();
        load::<Y>(&mut left, grad, &of_grad, row, output, arithmetic);
        load::<X>(&mut right, x, &of_x, row, input, arithmetic);
        sync_cube();
        let orders = comptime!(Orders { left_transposed: true, right_transposed: false });
        multiply(&mut sums, &left, &right, steps_of(rows - row, 0u32), orders, arithmetic.both());
        if comptime!(biased) {
            column_sum += quarter_column(&left, arithmetic);
        }
    }
    let weights = outputs as usize * inputs as usize;
    let mut size = weights;
    if comptime!(biased) {
        size = weights + outputs as usize;
    }
    let start = CUBE_POS_X as usize * size;
    let out = Matrix { start, rows: outputs, columns: inputs };
    store::<Const<1>>(partials, &sums, &out, output, input);
    if comptime!(biased) {
        let mut quarters = Shared::<[f32]>::new_slice(comptime!(UNITS));
        quarters[UNIT_POS as usize] = column_sum;
        sync_cube();
        if input == 0 && UNIT_POS < side && output + UNIT_POS < outputs {
            let mut sum = 0.0f32;
            #[unroll]
            for i in 0..comptime!(UNITS / 64) {
                sum += quarters[UNIT_POS as usize + comptime!(64 * i)];
            }
            partials[start + weights + (output + UNIT_POS) as usize] = Vector::new(sum);
        }
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
