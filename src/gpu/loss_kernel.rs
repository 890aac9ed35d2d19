//! Cross-entropy of short rows of logits, a plane a row, and rows of a table by token: kernels.

use super::pointwise_kernel::exponentials;
use super::tile::lane;
use cubecl::prelude::*;

/// Units of a cube.
pub(crate) const UNITS: usize = 256;
/// Rows whose losses one cube adds up.
pub(crate) const SLICE: usize = 256;

/// Whether a target is one: PyTorch's −100, or any other number that is no token, is not scored.
#[cube]
fn is_scored(target: i32, vocab: u32) -> bool {
    target >= 0 && target < i32::cast_from(vocab)
}

/// Sums of losses and numbers of scored rows: shares [runs, slices, 2]. Cubes: runs × slices.
#[cube(launch_unchecked)]
pub(crate) fn loss_shares(
    logits: &[f32],
    targets: &[i32],
    shares: &mut [f32],
    rows: u32,
    vocab: u32,
    #[comptime] count: usize,
) {
    let (slice, planes) = (comptime!(SLICE as u32), comptime!(UNITS as u32 / 32));
    let slices = rows.div_ceil(slice);
    let (run, first) = (CUBE_POS_X / slices, CUBE_POS_X % slices * slice);
    let plane = UNIT_POS / 32;
    let mut total = 0.0f32;
    let mut scored = 0.0f32;
    for row in range_stepped(first + plane, min(first + slice, rows), planes) {
        let index = run as usize * rows as usize + row as usize;
        let target = targets[index];
        if is_scored(target, vocab) {
            let start = index * vocab as usize;
            let (_values, sum, most) = exponentials(logits, start, vocab, count);
            total += sum.ln() - (logits[start + target as usize] - most);
            scored += 1.0f32;
        }
    }
    let mut sums = Shared::<[f32]>::new_slice(comptime!(2 * UNITS / 32));
    if lane() == 0 {
        sums[plane as usize] = total;
        sums[plane as usize + comptime!(UNITS / 32)] = scored;
    }
    sync_cube();
    if UNIT_POS < 2 {
        let mut sum = 0.0f32;
        #[unroll]
        for i in 0..comptime!(UNITS / 32) {
            sum += sums[UNIT_POS as usize * comptime!(UNITS / 32) + i];
        }
        shares[(CUBE_POS_X * 2 + UNIT_POS) as usize] = sum;
    }
}

/// Loss of every run from its shares: their sum divided by the run's divisor, which is left or, if it is not
/// `given`, set to the number of scored rows. A plane a run.
#[cube(launch_unchecked)]
pub(crate) fn finish_losses(
    shares: &[f32],
    divisors: &mut [f32],
    losses: &mut [f32],
    slices: u32,
    #[comptime] given: bool,
) {
    let run = CUBE_POS_X;
    let mut total = 0.0f32;
    let mut scored = 0.0f32;
    for slice in range_stepped(lane(), slices, 32u32) {
        let at = ((run * slices + slice) * 2) as usize;
        total += shares[at];
        scored += shares[at + 1];
    }
    let total = plane_sum(total);
    let scored = plane_sum(scored);
    if UNIT_POS == 0 {
        let mut divisor = max(scored, 1.0f32);
        if comptime!(given) {
            divisor = divisors[run as usize];
        } else {
            divisors[run as usize] = divisor;
        }
        losses[run as usize] = total / divisor;
    }
}

/// Gradient of the logits: (softmax − indicator of the target) · the loss's gradient / divisor, zero where nothing
/// is scored. Cubes: blocks of 8 rows of all runs.
#[cube(launch_unchecked)]
pub(crate) fn loss_gradients(
    logits: &[f32],
    targets: &[i32],
    divisors: &[f32],
    grad: &[f32],
    out: &mut [f32],
    all_rows: u32,
    rows: u32,
    vocab: u32,
    #[comptime] count: usize,
) {
    let row = CUBE_POS_X * comptime!(UNITS as u32 / 32) + UNIT_POS / 32;
    if row < all_rows {
        let start = row as usize * vocab as usize;
        let target = targets[row as usize];
        let run = (row / rows) as usize;
        let (values, sum, _most) = exponentials(logits, start, vocab, count);
        let mut weight = grad[run] / divisors[run];
        if !is_scored(target, vocab) {
            weight = 0.0f32;
        }
        let scale = weight / sum;
        #[unroll]
        for i in 0..count {
            let column = lane() + comptime!(i as u32 * 32);
            if column < vocab {
                let mut value = values[i] * scale;
                if i32::cast_from(column) == target {
                    value -= weight;
                }
                out[start + column as usize] = value;
            }
        }
    }
}

/// Loss of every row, and 1 if its target has the largest logit; both 0 where nothing is scored.
/// Cubes: blocks of 8 rows.
#[cube(launch_unchecked)]
pub(crate) fn scores(
    logits: &[f32],
    targets: &[i32],
    losses: &mut [f32],
    hits: &mut [f32],
    all_rows: u32,
    vocab: u32,
    #[comptime] count: usize,
) {
    let row = CUBE_POS_X * comptime!(UNITS as u32 / 32) + UNIT_POS / 32;
    if row < all_rows {
        let start = row as usize * vocab as usize;
        let target = targets[row as usize];
        let (_values, sum, most) = exponentials(logits, start, vocab, count);
        if lane() == 0 {
            let mut loss = 0.0f32;
            let mut hit = 0.0f32;
            if is_scored(target, vocab) {
                let logit = logits[start + target as usize];
                loss = sum.ln() - (logit - most);
                if logit >= most {
                    hit = 1.0f32;
                }
            }
            losses[row as usize] = loss;
            hits[row as usize] = hit;
        }
    }
}

/// Rows of a table [runs, vocab, columns] by token [runs, rows]; zeros for what is no token.
/// A unit for every vector of the output.
#[cube(launch_unchecked)]
pub(crate) fn look_up<W: Size>(
    table: &[Vector<f32, W>],
    tokens: &[i32],
    out: &mut [Vector<f32, W>],
    rows: u32,
    row_vectors: u32,
    vocab: u32,
    count: u32,
) {
    let at = ABSOLUTE_POS as u32;
    if at < count {
        let (row, vector) = (at / row_vectors, at % row_vectors);
        let token = tokens[row as usize];
        let mut value = Vector::<f32, W>::new(0.0f32);
        if is_scored(token, vocab) {
            let from = (row / rows) as usize * vocab as usize + token as usize;
            value = table[from * row_vectors as usize + vector as usize];
        }
        out[at as usize] = value;
    }
}
