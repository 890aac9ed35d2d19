//! The λ MLP, λ = f(act(d W1ᵀ + b1) W2ᵀ + b2), a unit a position: sizes and the forward kernel.
//!
//! Weights lie in shared memory, those of a hidden unit in one row.

use super::math::{normal, softplus};
use cubecl::prelude::*;

/// Positions that a cube handles at once, one a unit.
pub(crate) const UNITS: usize = 128;

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

    /// Columns of the table: d, hidden gradients, hidden values, logits' gradients. An odd number of them, so that
    /// one column of 32 rows lies in 32 banks.
    pub(crate) fn columns(self) -> usize {
        (2 * self.levels + 2 * self.hidden) | 1
    }

    /// What a hidden unit has of the weights: its row of W1, its b1, its column of W2; a multiple of 4.
    pub(crate) fn row(self) -> usize {
        (2 * self.levels + 1).next_multiple_of(4)
    }

    /// All hidden units' weights, four at a time.
    pub(crate) fn quads(self) -> usize {
        self.hidden * self.row() / 4
    }
}

/// Weights of a run in shared memory. Ends with a barrier.
#[cube]
pub(crate) fn load_weights(
    w1: &[f32],
    b1: &[f32],
    w2: &[f32],
    run: u32,
    weights: &mut [Vector<f32, Const<4>>],
    #[comptime] shape: Shape,
) {
    let run = run as usize;
    let matrix = comptime!(shape.matrix());
    let out = weights.with_vector_size_mut::<Const<1>>();
    for i in range_stepped(UNIT_POS as usize, matrix, UNITS) {
        let (h, l) = (i / shape.levels, i % shape.levels);
        out[h * comptime!(shape.row()) + l] = Vector::new(w1[run * matrix + i]);
        let (l, h) = (i / shape.hidden, i % shape.hidden);
        out[h * comptime!(shape.row()) + l + comptime!(shape.levels + 1)] = Vector::new(w2[run * matrix + i]);
    }
    for h in range_stepped(UNIT_POS as usize, shape.hidden, UNITS) {
        let mut bias = 0.0f32;
        if comptime!(shape.gelu) {
            bias = b1[run * shape.hidden + h];
        }
        out[h * comptime!(shape.row()) + shape.levels] = Vector::new(bias);
    }
    sync_cube();
}

/// Weights of one hidden unit.
#[cube]
pub(crate) fn hidden_row(
    weights: &[Vector<f32, Const<4>>],
    unit: usize,
    #[comptime] shape: Shape,
) -> Array<f32> {
    let mut row = Array::<f32>::new(comptime!(shape.row()));
    #[unroll]
    for i in 0..comptime!(shape.row() / 4) {
        let quad = weights[unit * comptime!(shape.row() / 4) + i];
        #[unroll]
        for j in 0..4usize {
            row[comptime!(4 * i + j)] = quad.extract(j);
        }
    }
    row
}

/// A hidden unit's value before its activation.
#[cube]
pub(crate) fn before(d: &Array<f32>, row: &Array<f32>, #[comptime] levels: usize) -> f32 {
    let mut sum = row[levels];
    #[unroll]
    for l in 0..levels {
        sum += row[l] * d[l];
    }
    sum
}

/// d of one position; zeros if it is not `present`.
#[cube]
pub(crate) fn load_row(x: &[f32], at: usize, present: bool, #[comptime] levels: usize) -> Array<f32> {
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
fn logits(
    d: &Array<f32>,
    weights: &[Vector<f32, Const<4>>],
    b2: &[f32],
    run: usize,
    #[comptime] shape: Shape,
) -> Array<f32> {
    let mut out = Array::<f32>::new(shape.levels);
    #[unroll]
    for l in 0..comptime!(shape.levels) {
        out[l] = b2[run * shape.levels + l];
    }
    // Not unrolled: weights of many hidden units at once would fill the registers.
    for h in 0..comptime!(shape.hidden) {
        let row = hidden_row(weights, h, shape);
        let mut value = before(d, &row, shape.levels);
        if comptime!(shape.gelu) {
            let (distribution, _density) = normal(value);
            value *= distribution;
        }
        #[unroll]
        for l in 0..comptime!(shape.levels) {
            out[l] = out[l] + row[comptime!(shape.levels + 1 + l)] * value;
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
    let mut weights = Shared::<[Vector<f32, Const<4>>]>::new_slice(comptime!(shape.quads()));
    load_weights(w1, b1, w2, run, &mut weights, shape);
    if position < positions {
        let at = (run as usize * positions as usize + position as usize) * shape.levels;
        let row = load_row(d, at, true, shape.levels);
        let mut values = logits(&row, &weights, b2, run as usize, shape);
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
