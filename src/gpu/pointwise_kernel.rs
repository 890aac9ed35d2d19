//! Elementwise functions, softmax of short rows, and the decay of the recall model: kernels.

use super::math::{normal, sigmoid, softplus};
use super::tile::lane;
use cubecl::prelude::*;

/// An elementwise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// x · Φ(x), exact.
    Gelu,
    /// ln(1 + e^x).
    Softplus,
}

/// Rows whose share of the gradients of bias and logarithm one cube adds up.
pub(crate) const SLICE: usize = 2048;
/// Units of a cube of [`decay_gradients`].
pub(crate) const UNITS: usize = 256;

/// y = f(x).
#[cube(launch_unchecked)]
pub(crate) fn apply<W: Size>(
    x: &[Vector<f32, W>],
    y: &mut [Vector<f32, W>],
    count: u32,
    #[comptime] function: Function,
) {
    let at = ABSOLUTE_POS as u32;
    if at < count {
        let width = W::value();
        let values = x[at as usize];
        let mut out = Vector::<f32, W>::new(0.0f32);
        #[unroll]
        for i in 0..width {
            let value = values.extract(i);
            if comptime!(function == Function::Gelu) {
                let (distribution, _density) = normal(value);
                out.insert(i, value * distribution);
            } else {
                out.insert(i, softplus(value));
            }
        }
        y[at as usize] = out;
    }
}

/// grad · f′(x).
#[cube(launch_unchecked)]
pub(crate) fn slopes<W: Size>(
    x: &[Vector<f32, W>],
    grad: &[Vector<f32, W>],
    y: &mut [Vector<f32, W>],
    count: u32,
    #[comptime] function: Function,
) {
    let at = ABSOLUTE_POS as u32;
    if at < count {
        let width = W::value();
        let values = x[at as usize];
        let mut out = Vector::<f32, W>::new(0.0f32);
        #[unroll]
        for i in 0..width {
            let value = values.extract(i);
            if comptime!(function == Function::Gelu) {
                let (distribution, density) = normal(value);
                out.insert(i, distribution + value * density);
            } else {
                out.insert(i, sigmoid(value));
            }
        }
        y[at as usize] = out * grad[at as usize];
    }
}

/// A lane's exponentials of x less the row's largest, and their sum over the row.
#[cube]
pub(crate) fn exponentials(
    x: &[f32],
    start: usize,
    columns: u32,
    #[comptime] count: usize,
) -> (Array<f32>, f32, f32) {
    let mut values = Array::<f32>::new(count);
    let mut most = x[start];
    #[unroll]
    for i in 0..count {
        let column = lane() + comptime!(i as u32 * 32);
        let mut value = most;
        if column < columns {
            value = x[start + column as usize];
            most = max(most, value);
        }
        values[i] = value;
    }
    let most = plane_max(most);
    let mut sum = 0.0f32;
    #[unroll]
    for i in 0..count {
        let column = lane() + comptime!(i as u32 * 32);
        let mut value = 0.0f32;
        if column < columns {
            value = (values[i] - most).exp();
        }
        values[i] = value;
        sum += value;
    }
    (values, plane_sum(sum), most)
}

/// Softmax of rows of x, or its gradient: p (grad − Σ p grad). A plane a row.
#[cube(launch_unchecked)]
pub(crate) fn softmax(
    x: &[f32],
    grad: &[f32],
    y: &mut [f32],
    rows: u32,
    columns: u32,
    #[comptime] count: usize,
    #[comptime] backward: bool,
) {
    let row = CUBE_POS_X * comptime!(UNITS as u32 / 32) + UNIT_POS / 32;
    if row < rows {
        let start = row as usize * columns as usize;
        let (values, sum, _most) = exponentials(x, start, columns, count);
        let scale = 1.0f32 / sum;
        if comptime!(backward) {
            let mut dot = 0.0f32;
            #[unroll]
            for i in 0..count {
                let column = lane() + comptime!(i as u32 * 32);
                if column < columns {
                    dot += values[i] * grad[start + column as usize];
                }
            }
            let mean = plane_sum(dot) * scale;
            #[unroll]
            for i in 0..count {
                let column = lane() + comptime!(i as u32 * 32);
                if column < columns {
                    let at = start + column as usize;
                    y[at] = values[i] * scale * (grad[at] - mean);
                }
            }
        } else {
            #[unroll]
            for i in 0..count {
                let column = lane() + comptime!(i as u32 * 32);
                if column < columns {
                    y[start + column as usize] = values[i] * scale;
                }
            }
        }
    }
}

/// y = −exp(a_log) · softplus(step + bias) for step [runs, rows, heads] and a_log, bias [runs, heads].
#[cube(launch_unchecked)]
pub(crate) fn decays(
    step: &[f32],
    bias: &[f32],
    a_log: &[f32],
    y: &mut [f32],
    rows: u32,
    heads: u32,
    count: u32,
) {
    let at = ABSOLUTE_POS as u32;
    if at < count {
        let shared = (at / (rows * heads) * heads + at % heads) as usize;
        y[at as usize] = -(a_log[shared].exp()) * softplus(step[at as usize] + bias[shared]);
    }
}

/// Gradient of step, and shares of slices of rows in those of bias and a_log: shares [runs, slices, 2 · heads].
/// Cubes: (runs × slices, heads).
#[cube(launch_unchecked)]
pub(crate) fn decay_gradients(
    step: &[f32],
    bias: &[f32],
    a_log: &[f32],
    grad: &[f32],
    step_grad: &mut [f32],
    shares: &mut [f32],
    rows: u32,
    heads: u32,
) {
    let slice = comptime!(SLICE as u32);
    let slices = rows.div_ceil(slice);
    let (run, first, head) = (CUBE_POS_X / slices, CUBE_POS_X % slices * slice, CUBE_POS_Y);
    let offset = bias[(run * heads + head) as usize];
    let scale = -(a_log[(run * heads + head) as usize].exp());
    let mut bias_sum = 0.0f32;
    let mut log_sum = 0.0f32;
    for row in range_stepped(first + UNIT_POS, min(first + slice, rows), comptime!(UNITS as u32)) {
        let at = (run as usize * rows as usize + row as usize) * heads as usize + head as usize;
        let x = step[at] + offset;
        let scaled = grad[at] * scale;
        let of_step = scaled * sigmoid(x);
        step_grad[at] = of_step;
        bias_sum += of_step;
        log_sum += scaled * softplus(x);
    }
    let bias_sum = plane_sum(bias_sum);
    let log_sum = plane_sum(log_sum);
    let mut sums = Shared::<[f32]>::new_slice(comptime!(2 * UNITS / 32));
    if lane() == 0 {
        sums[(UNIT_POS / 32) as usize] = bias_sum;
        sums[(UNIT_POS / 32) as usize + comptime!(UNITS / 32)] = log_sum;
    }
    sync_cube();
    if UNIT_POS < 2 {
        let mut sum = 0.0f32;
        #[unroll]
        for i in 0..comptime!(UNITS / 32) {
            sum += sums[UNIT_POS as usize * comptime!(UNITS / 32) + i];
        }
        shares[((CUBE_POS_X * 2 + UNIT_POS) * heads + head) as usize] = sum;
    }
}
