//! The λ MLP, λ = f(act(d W1ᵀ + b1) W2ᵀ + b2), a unit a position: kernels.
//!
//! Weights lie in shared memory. For their gradients every unit leaves one row of a table there: its d, the hidden
//! layer's gradient and value, the logits' gradient and a one. Each of the gradients' elements is the inner product
//! of two columns of that table.

use super::math::{normal, sigmoid, softplus};
use cubecl::prelude::*;

/// Positions that a cube handles at once, one a unit.
pub(crate) const UNITS: usize = 128;
/// Positions whose share of the weights' gradients one cube adds up.
pub(crate) const SLICE: usize = 1024;

/// What a map is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Numbers in d and λ.
    pub(crate) levels: usize,
    /// Width of the hidden layer.
    pub(crate) hidden: usize,
    /// Whether the hidden layer has a bias and GELU, or is linear.
    pub(crate) gelu: bool,
    /// Softmax over levels, or softplus.
    pub(crate) softmax: bool,
}

impl Shape {
    /// Elements of W1, and of W2.
    pub(crate) fn matrix(self) -> usize {
        self.levels * self.hidden
    }

    /// Elements of W1, b1 (if there is one), W2 and b2.
    pub(crate) fn sizes(self) -> [usize; 4] {
        let bias = if self.gelu { self.hidden } else { 0 };
        [self.matrix(), bias, self.matrix(), self.levels]
    }

    pub(crate) fn size(self) -> usize {
        self.sizes().iter().sum()
    }

    /// Columns of the table: d, hidden gradients, hidden values, logits' gradients, one.
    pub(crate) fn columns(self) -> usize {
        2 * self.levels + 2 * self.hidden + 1
    }
}

/// Weights of a run in shared memory: W1 [hidden, levels], b1, W2 [levels, hidden], b2. Ends with a barrier.
#[cube]
fn load_weights(
    w1: &[f32],
    b1: &[f32],
    w2: &[f32],
    b2: &[f32],
    run: u32,
    weights: &mut [f32],
    #[comptime] shape: Shape,
) {
    let run = run as usize;
    let matrix = comptime!(shape.matrix());
    for i in range_stepped(UNIT_POS, comptime!(shape.matrix() as u32), comptime!(UNITS as u32)) {
        weights[i as usize] = w1[run * matrix + i as usize];
        weights[i as usize + comptime!(shape.matrix() + shape.hidden)] = w2[run * matrix + i as usize];
    }
    if UNIT_POS < comptime!(shape.hidden as u32) {
        let mut bias = 0.0f32;
        if comptime!(shape.gelu) {
            bias = b1[run * shape.hidden + UNIT_POS as usize];
        }
        weights[UNIT_POS as usize + matrix] = bias;
    }
    if UNIT_POS < comptime!(shape.levels as u32) {
        let at = UNIT_POS as usize + comptime!(2 * shape.matrix() + shape.hidden);
        weights[at] = b2[run * shape.levels + UNIT_POS as usize];
    }
    sync_cube();
}

/// A hidden unit's value before its activation.
#[cube]
fn before(d: &Array<f32>, weights: &[f32], unit: usize, #[comptime] shape: Shape) -> f32 {
    let mut sum = weights[unit + comptime!(shape.matrix())];
    #[unroll]
    for l in 0..comptime!(shape.levels) {
        sum += weights[unit * shape.levels + l] * d[l];
    }
    sum
}

/// d of one position; zeros if it is not `present`.
#[cube]
fn load_row(x: &[f32], at: usize, present: bool, #[comptime] levels: usize) -> Array<f32> {
    let mut row = Array::<f32>::new(levels);
    #[unroll]
    for l in 0..levels {
        let mut value = 0.0f32;
        if present {
            value = x[at + l];
        }
        row[l] = value;
    }
    row
}

/// Logits of one position.
#[cube]
fn logits(d: &Array<f32>, weights: &[f32], #[comptime] shape: Shape) -> Array<f32> {
    let mut out = Array::<f32>::new(shape.levels);
    #[unroll]
    for l in 0..comptime!(shape.levels) {
        out[l] = weights[comptime!(2 * shape.matrix() + shape.hidden + l)];
    }
    // Not unrolled: weights of many hidden units at once would fill the registers.
    for h in 0..comptime!(shape.hidden) {
        let mut value = before(d, weights, h, shape);
        if comptime!(shape.gelu) {
            let (distribution, _density) = normal(value);
            value *= distribution;
        }
        #[unroll]
        for l in 0..comptime!(shape.levels) {
            let weight = weights[h + comptime!(shape.matrix() + shape.hidden + l * shape.hidden)];
            out[l] = out[l] + weight * value;
        }
    }
    out
}

/// Softmax of a position's logits, in place.
#[cube]
fn normalise(logits: &mut Array<f32>, #[comptime] levels: usize) {
    let mut most = logits[0];
    #[unroll]
    for l in 1..levels {
        most = max(most, logits[l]);
    }
    let mut sum = 0.0f32;
    #[unroll]
    for l in 0..levels {
        let value = (logits[l] - most).exp();
        logits[l] = value;
        sum += value;
    }
    let scale = 1.0f32 / sum;
    #[unroll]
    for l in 0..levels {
        logits[l] = logits[l] * scale;
    }
}

/// λ [runs, positions, levels] of d. Cubes: runs × blocks of positions.
#[cube(launch_unchecked)]
pub(crate) fn lambdas(
    d: &[f32],
    w1: &[f32],
    b1: &[f32],
    w2: &[f32],
    b2: &[f32],
    out: &mut [f32],
    positions: u32,
    #[comptime] shape: Shape,
) {
    let blocks = positions.div_ceil(comptime!(UNITS as u32));
    let run = CUBE_POS_X / blocks;
    let position = CUBE_POS_X % blocks * comptime!(UNITS as u32) + UNIT_POS;
    let mut weights = Shared::<[f32]>::new_slice(comptime!(2 * shape.matrix() + shape.hidden + shape.levels));
    load_weights(w1, b1, w2, b2, run, &mut weights, shape);
    if position < positions {
        let at = (run as usize * positions as usize + position as usize) * shape.levels;
        let row = load_row(d, at, true, shape.levels);
        let mut values = logits(&row, &weights, shape);
        if comptime!(shape.softmax) {
            normalise(&mut values, shape.levels);
        }
        #[unroll]
        for l in 0..comptime!(shape.levels) {
            if comptime!(shape.softmax) {
                out[at + l] = values[l];
            } else {
                out[at + l] = softplus(values[l]);
            }
        }
    }
}

/// Gradient of a position's logits from that of its λ.
#[cube]
fn logit_gradients(values: &mut Array<f32>, grad: &Array<f32>, #[comptime] shape: Shape) {
    if comptime!(shape.softmax) {
        normalise(values, shape.levels);
        let mut dot = 0.0f32;
        #[unroll]
        for l in 0..comptime!(shape.levels) {
            dot += values[l] * grad[l];
        }
        #[unroll]
        for l in 0..comptime!(shape.levels) {
            values[l] = values[l] * (grad[l] - dot);
        }
    } else {
        #[unroll]
        for l in 0..comptime!(shape.levels) {
            values[l] = grad[l] * sigmoid(values[l]);
        }
    }
}

/// The two columns of the table whose inner product is element `i` of the weights' gradients.
#[cube]
fn factors(i: u32, #[comptime] shape: Shape) -> (u32, u32) {
    let (levels, hidden) = (comptime!(shape.levels as u32), comptime!(shape.hidden as u32));
    let (matrix, one) = (comptime!(shape.matrix() as u32), comptime!(shape.columns() as u32 - 1));
    let bias = comptime!(shape.sizes()[1] as u32);
    let (values, outputs) = (levels + hidden, levels + 2 * hidden);
    let mut pair = (levels + i / levels, i % levels);
    if i >= matrix {
        if i < matrix + bias {
            pair = (levels + i - matrix, one);
        } else {
            let rest = i - matrix - bias;
            if rest < matrix {
                pair = (outputs + rest / hidden, values + rest % hidden);
            } else {
                pair = (outputs + rest - matrix, one);
            }
        }
    }
    pair
}

/// Gradient of d, and shares of slices of positions in those of the weights: shares [runs, slices, all weights].
/// Cubes: runs × slices.
#[cube(launch_unchecked)]
pub(crate) fn lambda_gradients(
    d: &[f32],
    w1: &[f32],
    b1: &[f32],
    w2: &[f32],
    b2: &[f32],
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
    let owned = comptime!(shape.size().div_ceil(UNITS));
    let mut weights = Shared::<[f32]>::new_slice(comptime!(2 * shape.matrix() + shape.hidden + shape.levels));
    let mut table = Shared::<[f32]>::new_slice(comptime!(UNITS * shape.columns()));
    load_weights(w1, b1, w2, b2, run, &mut weights, shape);
    let mut sums = Array::<f32>::new(owned);
    #[unroll]
    for i in 0..owned {
        sums[i] = 0.0f32;
    }
    let own = UNIT_POS as usize * columns;
    for block in 0..min(positions - first, slice).div_ceil(units) {
        let position = first + block * units + UNIT_POS;
        let present = position < positions;
        let at = (run as usize * positions as usize + position as usize) * shape.levels;
        let row = load_row(d, at, present, shape.levels);
        let of_lambda = load_row(grad, at, present, shape.levels);
        let mut outputs = logits(&row, &weights, shape);
        logit_gradients(&mut outputs, &of_lambda, shape);
        let mut of_row = Array::<f32>::new(shape.levels);
        #[unroll]
        for l in 0..comptime!(shape.levels) {
            of_row[l] = 0.0f32;
            table[own + l] = row[l];
            table[own + comptime!(shape.levels + 2 * shape.hidden + l)] = outputs[l];
        }
        table[own + comptime!(shape.columns() - 1)] = 1.0f32;
        for h in 0..comptime!(shape.hidden) {
            let mut value = before(&row, &weights, h, shape);
            let mut slope = 1.0f32;
            if comptime!(shape.gelu) {
                let (distribution, density) = normal(value);
                slope = distribution + value * density;
                value *= distribution;
            }
            let mut sum = 0.0f32;
            #[unroll]
            for l in 0..comptime!(shape.levels) {
                sum += weights[h + comptime!(shape.matrix() + shape.hidden + l * shape.hidden)] * outputs[l];
            }
            let of_before = sum * slope;
            table[own + h + comptime!(shape.levels)] = of_before;
            table[own + h + comptime!(shape.levels + shape.hidden)] = value;
            #[unroll]
            for l in 0..comptime!(shape.levels) {
                of_row[l] = of_row[l] + weights[h * shape.levels + l] * of_before;
            }
        }
        if present {
            #[unroll]
            for l in 0..comptime!(shape.levels) {
                d_grad[at + l] = of_row[l];
            }
        }
        sync_cube();
        #[unroll]
        for i in 0..owned {
            let element = UNIT_POS + comptime!((i * UNITS) as u32);
            if element < comptime!(shape.size() as u32) {
                let (a, b) = factors(element, shape);
                let mut sum = 0.0f32;
                for row in 0..comptime!(UNITS) {
                    sum += table[row * columns + a as usize] * table[row * columns + b as usize];
                }
                sums[i] = sums[i] + sum;
            }
        }
        sync_cube();
    }
    #[unroll]
    for i in 0..owned {
        let element = UNIT_POS + comptime!((i * UNITS) as u32);
        if element < comptime!(shape.size() as u32) {
            shares[CUBE_POS_X as usize * comptime!(shape.size()) + element as usize] = sums[i];
        }
    }
}
