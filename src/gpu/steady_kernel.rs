//! What a recorded training step is given, and what is kept from it: kernels.

use cubecl::prelude::*;

/// Units of a cube.
pub(crate) const UNITS: usize = 256;

/// Copies the sequences that were asked for, and the numbers behind them, to where a recorded step looks for them:
/// `sent` has the row of every sequence, then the bits of the numbers. A cube for each sequence.
#[cube(launch_unchecked)]
pub(crate) fn feed(
    all_tokens: &[i32],
    all_targets: &[i32],
    sent: &[i32],
    tokens: &mut [i32],
    targets: &mut [i32],
    numbers: &mut [f32],
    sequences: u32,
    seq_len: u32,
    count: u32,
) {
    let from = sent[CUBE_POS_X as usize] as usize * seq_len as usize;
    let to = CUBE_POS_X as usize * seq_len as usize;
    for i in range_stepped(UNIT_POS, seq_len, comptime!(UNITS as u32)) {
        tokens[to + i as usize] = all_tokens[from + i as usize];
        targets[to + i as usize] = all_targets[from + i as usize];
    }
    if CUBE_POS_X == 0 {
        for i in range_stepped(UNIT_POS, count, comptime!(UNITS as u32)) {
            numbers[i as usize] = f32::reinterpret(sent[(sequences + i) as usize]);
        }
    }
}

/// Copies numbers, a unit each.
#[cube(launch_unchecked)]
pub(crate) fn keep(from: &[f32], to: &mut [f32], count: u32) {
    let at = ABSOLUTE_POS as u32;
    if at < count {
        to[at as usize] = from[at as usize];
    }
}
