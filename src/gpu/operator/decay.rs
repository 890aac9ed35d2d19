//! Decay: its sums inside a chunk, and its gradient, whose sums are over all later positions, in spans.

use super::chunk::{Layout, Place, chunk_start};
use crate::gpu::tile::lane;
use cubecl::prelude::*;

/// Positions whose decay gradient one cube finishes.
pub(crate) const SPAN: usize = 1024;

/// Cumulative log-decay at a position: the sum of two numbers, the second what the first has lost. So that small
/// differences after a large decay are not lost.
pub(crate) type Decay = Vector<f32, Const<2>>;

/// The difference of two cumulative decays.
#[cube]
pub(crate) fn between(later: Decay, earlier: Decay) -> f32 {
    (later.extract(0usize) - earlier.extract(0usize)) + (later.extract(1usize) - earlier.extract(1usize))
}

/// Cumulative log-decay inside a chunk: the sum over its positions up to and with each. Ends with a barrier.
#[cube]
pub(crate) fn cumulative_decay(log_decay: &[f32], layout: &Layout, place: &Place, sums: &mut [Decay]) {
    if UNIT_POS < 32 {
        let start = chunk_start(layout, place);
        let first = UNIT_POS * 2;
        let mut a = 0.0f64;
        let mut b = 0.0f64;
        if first < place.length {
            a = f64::cast_from(log_decay[(start + first * layout.position) as usize]);
        }
        if first + 1 < place.length {
            b = f64::cast_from(log_decay[(start + (first + 1) * layout.position) as usize]);
        }
        let through = plane_inclusive_sum(a + b);
        sums[first as usize] = in_two(through - b);
        sums[first as usize + 1] = in_two(through);
    }
    sync_cube();
}

#[cube]
fn in_two(value: f64) -> Decay {
    let first = f32::cast_from(value);
    let mut both = Decay::new(first);
    both.insert(1usize, f32::cast_from(value - f64::cast_from(first)));
    both
}

/// Sums of rows less columns over each span of a head's positions. A cube of 256 units a span.
#[cube(launch_unchecked)]
pub(crate) fn decay_sums(
    row_flows: &[f32],
    column_flows: &[f32],
    sums: &mut [f64],
    seq_len: u32,
    spans: u32,
) {
    let (row, span) = (CUBE_POS_X / spans, CUBE_POS_X % spans);
    let mut plane_sums = Shared::<[f64]>::new_slice(8usize);
    let mut sum = 0.0f64;
    #[unroll]
    for i in 0..4usize {
        let position = span * comptime!(SPAN as u32) + comptime!(i as u32 * 256) + UNIT_POS;
        if position < seq_len {
            let at = (row * seq_len + position) as usize;
            sum += f64::cast_from(row_flows[at]) - f64::cast_from(column_flows[at]);
        }
    }
    let sum = plane_sum(sum);
    if lane() == 0 {
        plane_sums[(UNIT_POS / 32) as usize] = sum;
    }
    sync_cube();
    if UNIT_POS == 0 {
        let mut whole = 0.0f64;
        #[unroll]
        for i in 0..8usize {
            whole += plane_sums[i];
        }
        sums[CUBE_POS_X as usize] = whole;
    }
}

/// Gradient of log_decay [N, T, H]: at each position the sum of rows less columns from there to the end. A cube
/// of 256 units a span.
#[cube(launch_unchecked)]
pub(crate) fn decay_gradient(
    row_flows: &[f32],
    column_flows: &[f32],
    sums: &[f64],
    out: &mut [f32],
    seq_len: u32,
    spans: u32,
    heads: u32,
) {
    let (row, span) = (CUBE_POS_X / spans, CUBE_POS_X % spans);
    let plane = UNIT_POS / 32;
    let mut plane_sums = Shared::<[f64]>::new_slice(8usize);
    let mut total = 0.0f64;
    for later in span + 1..spans {
        total += sums[(row * spans + later) as usize];
    }
    let start = span * comptime!(SPAN as u32);
    let end = min(start + comptime!(SPAN as u32), seq_len);
    for tile in 0..(end - start).div_ceil(256) {
        let back = tile * 256 + UNIT_POS;
        let mut value = 0.0f64;
        if back < end - start {
            let at = (row * seq_len + end - 1 - back) as usize;
            value = f64::cast_from(row_flows[at]) - f64::cast_from(column_flows[at]);
        }
        let mut sum = plane_inclusive_sum(value);
        if lane() == 31 {
            plane_sums[plane as usize] = sum;
        }
        sync_cube();
        let mut whole = 0.0f64;
        for other in 0..8u32 {
            if other < plane {
                sum += plane_sums[other as usize];
            }
            whole += plane_sums[other as usize];
        }
        if back < end - start {
            let position = row / heads * seq_len + end - 1 - back;
            out[(position * heads + row % heads) as usize] = f32::cast_from(total + sum);
        }
        total += whole;
        sync_cube();
    }
}
