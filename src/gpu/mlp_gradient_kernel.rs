//! The gradients of the λ MLP: kernel.
//!
//! Every unit leaves a row of a table in shared memory: its d, the hidden layer's gradient and value, and the logits'
//! gradient. The gradient of W1 is made of inner products of columns of d with columns of the hidden gradient, that
//! of W2 of logits' gradients with hidden values: one unit has the products of one hidden unit with all levels, on
//! one of the two sides.

use super::math::{normal, one_less_exp};
use super::mlp_kernel::{Shape, UNITS, before, hidden_row, load_row, load_weights};
use super::tile::lane;
use cubecl::prelude::*;

/// Positions whose share of the weights' gradients one cube adds up.
pub(crate) const SLICE: usize = 512;

/// Gradient of a position's logits from its λ and that one's gradient: σ(z) is 1 − exp(−softplus(z)).
#[cube]
fn logit_gradients(lambda: &Array<f32>, grad: &Array<f32>, #[comptime] shape: Shape) -> Array<f32> {
    let mut out = Array::<f32>::new(shape.levels);
    let mut dot = 0.0f32;
    #[unroll]
    for l in 0..comptime!(shape.levels) {
        dot += lambda[l] * grad[l];
    }
    #[unroll]
    for l in 0..comptime!(shape.levels) {
        if comptime!(shape.softmax) {
            out[l] = lambda[l] * (grad[l] - dot);
        } else {
            out[l] = grad[l] * one_less_exp(lambda[l]);
        }
    }
    out
}

/// Adds the products of one hidden unit's column of the table with the columns of levels, over all rows. The first
/// half of the units has the first of a pair of columns, hidden gradients and d; the second half hidden values and
/// logits' gradients. Returns the sum of the hidden unit's own column.
#[cube]
fn add_products(
    table: &[f32],
    products: &mut Array<f32>,
    side: usize,
    unit: usize,
    #[comptime] shape: Shape,
) -> f32 {
    let own = comptime!(shape.levels) + side * shape.hidden + unit;
    let other = side * comptime!(shape.levels + 2 * shape.hidden);
    let mut sum = 0.0f32;
    for row in 0..comptime!(UNITS) {
        let start = row * comptime!(shape.columns());
        let value = table[start + own];
        sum += value;
        #[unroll]
        for l in 0..comptime!(shape.levels) {
            products[l] = products[l] + value * table[start + other + l];
        }
    }
    sum
}

/// Gradient of d, and shares of slices of positions in those of the weights: shares [runs, slices, all weights].
/// Cubes: runs × slices.
#[cube(launch_unchecked)]
pub(crate) fn lambda_gradients(
    d: &[f32],
    w1: &[f32],
    b1: &[f32],
    w2: &[f32],
    lambda: &[f32],
    grad: &[f32],
    d_grad: &mut [f32],
    shares: &mut [f32],
    positions: u32,
    #[comptime] shape: Shape,
) {
    let (units, slice) = (comptime!(UNITS as u32), comptime!(SLICE as u32));
    let slices = positions.div_ceil(slice);
    let (run, first) = (CUBE_POS_X / slices, CUBE_POS_X % slices * slice);
    let columns = comptime!(shape.columns());
    let mut weights = Shared::<[Vector<f32, Const<4>>]>::new_slice(comptime!(shape.quads()));
    let mut table = Shared::<[f32]>::new_slice(comptime!(UNITS * shape.columns()));
    load_weights(w1, b1, w2, run, &mut weights, shape);
    let mut products = Array::<f32>::new(shape.levels);
    let mut output_sums = Array::<f32>::new(shape.levels);
    #[unroll]
    for l in 0..comptime!(shape.levels) {
        products[l] = 0.0f32;
        output_sums[l] = 0.0f32;
    }
    let mut unit_sum = 0.0f32;
    let (side, unit) = (UNIT_POS as usize / comptime!(UNITS / 2), UNIT_POS as usize % comptime!(UNITS / 2));
    let own = UNIT_POS as usize * columns;
    for block in 0..min(positions - first, slice).div_ceil(units) {
        let position = first + block * units + UNIT_POS;
        let present = position < positions;
        let at = (run as usize * positions as usize + position as usize) * shape.levels;
        let row = load_row(d, at, present, shape.levels);
        let lambdas = load_row(lambda, at, present, shape.levels);
        let outputs = logit_gradients(&lambdas, &load_row(grad, at, present, shape.levels), shape);
        let mut of_row = Array::<f32>::new(shape.levels);
        #[unroll]
        for l in 0..comptime!(shape.levels) {
            of_row[l] = 0.0f32;
            table[own + l] = row[l];
            table[own + comptime!(shape.levels + 2 * shape.hidden + l)] = outputs[l];
            output_sums[l] = output_sums[l] + outputs[l];
        }
        for h in 0..comptime!(shape.hidden) {
            let weight = hidden_row(&weights, h, shape);
            let mut value = before(&row, &weight, shape.levels);
            let mut slope = 1.0f32;
            if comptime!(shape.gelu) {
                let (distribution, density) = normal(value);
                slope = distribution + value * density;
                value *= distribution;
            }
            let mut sum = 0.0f32;
            #[unroll]
            for l in 0..comptime!(shape.levels) {
                sum += weight[comptime!(shape.levels + 1 + l)] * outputs[l];
            }
            let of_before = sum * slope;
            table[own + h + comptime!(shape.levels)] = of_before;
            table[own + h + comptime!(shape.levels + shape.hidden)] = value;
            #[unroll]
            for l in 0..comptime!(shape.levels) {
                of_row[l] = of_row[l] + weight[l] * of_before;
            }
        }
        if present {
            #[unroll]
            for l in 0..comptime!(shape.levels) {
                d_grad[at + l] = of_row[l];
            }
        }
        sync_cube();
        if unit < shape.hidden {
            unit_sum += add_products(&table, &mut products, side, unit, shape);
        }
        sync_cube();
    }
    let start = CUBE_POS_X as usize * comptime!(shape.size());
    let (matrix, bias) = (comptime!(shape.matrix()), comptime!(shape.sizes()[1]));
    if unit < shape.hidden {
        #[unroll]
        for l in 0..comptime!(shape.levels) {
            let mut at = unit * shape.levels + l;
            if side == 1 {
                at = matrix + bias + unit + comptime!(l * shape.hidden);
            }
            shares[start + at] = products[l];
        }
        if comptime!(shape.gelu) {
            if side == 0 {
                shares[start + matrix + unit] = unit_sum;
            }
        }
    }
    // The table has served: it takes the planes' sums of the logits' gradients.
    #[unroll]
    for l in 0..comptime!(shape.levels) {
        let sum = plane_sum(output_sums[l]);
        if lane() == 0 {
            table[UNIT_POS as usize / 32 * shape.levels + l] = sum;
        }
    }
    sync_cube();
    if UNIT_POS < comptime!(shape.levels as u32) {
        let mut sum = 0.0f32;
        #[unroll]
        for plane in 0..comptime!(UNITS / 32) {
            sum += table[UNIT_POS as usize + comptime!(plane * shape.levels)];
        }
        shares[start + 2 * matrix + bias + UNIT_POS as usize] = sum;
    }
}
