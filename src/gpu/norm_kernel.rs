//! Layer normalisation of short rows, a plane a row: kernels.

use super::tile::lane;
use cubecl::prelude::*;

/// Planes of a cube.
pub(crate) const PLANES: usize = 8;
/// Rows whose share of the weights' gradients one cube adds up.
pub(crate) const SLICE: usize = 256;
/// Most columns: a lane holds those of its row 32 apart.
pub(crate) const MOST_COLUMNS: usize = 1024;

/// A lane's share of (x + residual − mean) / std for the row that starts at `start`, and 1 / std.
#[cube]
fn normalise(
    x: &[f32],
    residual: &[f32],
    start: usize,
    columns: u32,
    epsilon: f32,
    #[comptime] count: usize,
    #[comptime] add: bool,
) -> (Array<f32>, f32) {
    let mut values = Array::<f32>::new(count);
    let mut sum = 0.0f32;
    #[unroll]
    for i in 0..count {
        let column = lane() + comptime!(i as u32 * 32);
        let mut value = 0.0f32;
        if column < columns {
            value = x[start + column as usize];
            if comptime!(add) {
                value += residual[start + column as usize];
            }
        }
        values[i] = value;
        sum += value;
    }
    let scale = 1.0f32 / f32::cast_from(columns);
    let mean = plane_sum(sum) * scale;
    let mut squares = 0.0f32;
    #[unroll]
    for i in 0..count {
        let column = lane() + comptime!(i as u32 * 32);
        let mut value = 0.0f32;
        if column < columns {
            value = values[i] - mean;
        }
        values[i] = value;
        squares += value * value;
    }
    let inverse = 1.0f32 / (plane_sum(squares) * scale + epsilon).sqrt();
    #[unroll]
    for i in 0..count {
        values[i] = values[i] * inverse;
    }
    (values, inverse)
}

/// y = (x + residual − mean) / std · weight + bias for rows [runs, rows, columns], with weight and bias
/// [runs, columns].
/// Cubes: blocks of 8 rows.
#[cube(launch_unchecked)]
pub(crate) fn norms(
    x: &[f32],
    residual: &[f32],
    weight: &[f32],
    bias: &[f32],
    y: &mut [f32],
    all_rows: u32,
    rows: u32,
    columns: u32,
    epsilon: f32,
    #[comptime] count: usize,
    #[comptime] add: bool,
) {
    let row = CUBE_POS_X * comptime!(PLANES as u32) + UNIT_POS / 32;
    if row < all_rows {
        let start = row as usize * columns as usize;
        let (hat, _inverse) = normalise(x, residual, start, columns, epsilon, count, add);
        let shared = (row / rows) as usize * columns as usize;
        #[unroll]
        for i in 0..count {
            let column = lane() + comptime!(i as u32 * 32);
            if column < columns {
                let at = shared + column as usize;
                y[start + column as usize] = hat[i] * weight[at] + bias[at];
            }
        }
    }
}

/// Gradient of the normalised rows, and shares of slices of rows in those of weight and bias: shares
/// [runs, slices, 2 · columns].
/// Cubes: runs × slices.
#[cube(launch_unchecked)]
pub(crate) fn norm_gradients(
    x: &[f32],
    residual: &[f32],
    weight: &[f32],
    grad: &[f32],
    x_grad: &mut [f32],
    shares: &mut [f32],
    rows: u32,
    columns: u32,
    epsilon: f32,
    #[comptime] count: usize,
    #[comptime] add: bool,
) {
    let (planes, slice) = (comptime!(PLANES as u32), comptime!(SLICE as u32));
    let slices = rows.div_ceil(slice);
    let (run, first) = (CUBE_POS_X / slices, CUBE_POS_X % slices * slice);
    let plane = UNIT_POS / 32;
    let mut weights = Array::<f32>::new(count);
    let mut weight_sums = Array::<f32>::new(count);
    let mut bias_sums = Array::<f32>::new(count);
    #[unroll]
    for i in 0..count {
        let column = lane() + comptime!(i as u32 * 32);
        let mut value = 0.0f32;
        if column < columns {
            value = weight[(run * columns + column) as usize];
        }
        weights[i] = value;
        weight_sums[i] = 0.0f32;
        bias_sums[i] = 0.0f32;
    }
    let scale = 1.0f32 / f32::cast_from(columns);
    for row in range_stepped(first + plane, min(first + slice, rows), planes) {
        let start = (run as usize * rows as usize + row as usize) * columns as usize;
        let (hat, inverse) = normalise(x, residual, start, columns, epsilon, count, add);
        let mut scaled = Array::<f32>::new(count);
        let mut sum = 0.0f32;
        let mut dot = 0.0f32;
        #[unroll]
        for i in 0..count {
            let column = lane() + comptime!(i as u32 * 32);
            let mut value = 0.0f32;
            if column < columns {
                value = grad[start + column as usize];
            }
            weight_sums[i] += value * hat[i];
            bias_sums[i] += value;
            let product = value * weights[i];
            scaled[i] = product;
            sum += product;
            dot += product * hat[i];
        }
        let mean = plane_sum(sum) * scale;
        let slope = plane_sum(dot) * scale;
        #[unroll]
        for i in 0..count {
            let column = lane() + comptime!(i as u32 * 32);
            if column < columns {
                x_grad[start + column as usize] = inverse * (scaled[i] - mean - hat[i] * slope);
            }
        }
    }
    // Planes' sums are added in their order, one group of 32 columns after another.
    let mut both = Shared::<[f32]>::new_slice(comptime!(PLANES * 64));
    let out = CUBE_POS_X as usize * 2 * columns as usize;
    #[unroll]
    for i in 0..count {
        both[(plane * 64 + lane()) as usize] = weight_sums[i];
        both[(plane * 64 + 32 + lane()) as usize] = bias_sums[i];
        sync_cube();
        let column = lane() + comptime!(i as u32 * 32);
        if plane < 2 && column < columns {
            let mut sum = 0.0f32;
            #[unroll]
            for other in 0..PLANES {
                sum += both[UNIT_POS as usize + comptime!(other * 64)];
            }
            shares[out + (plane * columns + column) as usize] = sum;
        }
        sync_cube();
    }
}
