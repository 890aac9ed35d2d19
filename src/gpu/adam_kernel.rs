//! Adam and AdamW on a cohort's parameters as one matrix [runs, parameters]: kernels.
//!
//! A run's parameters are cut into slices, a cube each. Three kernels: squares of gradients are added up; everything
//! is updated, and a flag left where a number is not finite; runs that must not change keep their old numbers.

use super::math::is_finite;
use super::tile::lane;
use cubecl::prelude::*;

/// Units of a cube, and most slices of a run.
pub(crate) const UNITS: usize = 256;
/// Fewest parameters of a slice.
pub(crate) const SLICE: usize = 2048;

/// Numbers of a step.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct Step {
    /// Largest norm of a gradient; 0 for any.
    pub(crate) clip: f32,
    /// What is added to a norm before it is divided by.
    pub(crate) clip_epsilon: f32,
    pub(crate) weight_decay: f32,
    pub(crate) beta1: f32,
    pub(crate) beta2: f32,
    /// 1 − β1 and 1 − β2, which f32 would not have to full precision from β itself.
    pub(crate) first_weight: f32,
    pub(crate) second_weight: f32,
    pub(crate) epsilon: f32,
}

/// Sum of a number over all units, in a fixed order. Begins with a barrier that guards `scratch`, of 8 numbers.
#[cube]
fn cube_sum(value: f32, scratch: &mut [f32]) -> f32 {
    let sum = plane_sum(value);
    sync_cube();
    if lane() == 0 {
        scratch[(UNIT_POS / 32) as usize] = sum;
    }
    sync_cube();
    let mut total = 0.0f32;
    #[unroll]
    for i in 0..comptime!(UNITS / 32) {
        total += scratch[i];
    }
    total
}

/// Sum of a run's numbers, one a slice.
#[cube]
fn run_sum(values: &[f32], run: u32, slices: u32, scratch: &mut [f32]) -> f32 {
    let mut value = 0.0f32;
    if UNIT_POS < slices {
        value = values[(run * slices + UNIT_POS) as usize];
    }
    cube_sum(value, scratch)
}

/// Sums of squares of every slice: squares [runs, slices]. Cubes: runs × slices.
#[cube(launch_unchecked)]
pub(crate) fn square_sums(gradients: &[f32], squares: &mut [f32], count: u32, slices: u32, slice: u32) {
    let (run, first) = (CUBE_POS_X / slices, CUBE_POS_X % slices * slice);
    let start = run as usize * count as usize;
    let mut scratch = Shared::<[f32]>::new_slice(comptime!(UNITS / 32));
    let mut sum = 0.0f32;
    for i in range_stepped(first + UNIT_POS, min(first + slice, count), comptime!(UNITS as u32)) {
        let value = gradients[start + i as usize];
        sum += value * value;
    }
    let sum = cube_sum(sum, &mut scratch);
    if UNIT_POS == 0 {
        squares[CUBE_POS_X as usize] = sum;
    }
}

/// New parameters and moments, and how many parameters of every slice are not finite: flags [runs, slices].
/// `numbers` has every run's rate, 1 / (1 − β1^steps) and 1 / √(1 − β2^steps). Cubes: runs × slices.
#[cube(launch_unchecked)]
pub(crate) fn updates(
    parameters: &[f32],
    gradients: &[f32],
    first: &[f32],
    second: &[f32],
    decayed: &[f32],
    numbers: &[f32],
    squares: &[f32],
    new_parameters: &mut [f32],
    new_first: &mut [f32],
    new_second: &mut [f32],
    flags: &mut [f32],
    runs: u32,
    count: u32,
    slices: u32,
    slice: u32,
    step: Step,
    #[comptime] masked: bool,
    #[comptime] decoupled: bool,
) {
    let (run, from) = (CUBE_POS_X / slices, CUBE_POS_X % slices * slice);
    let start = run as usize * count as usize;
    let mut scratch = Shared::<[f32]>::new_slice(comptime!(UNITS / 32));
    let norm = run_sum(squares, run, slices, &mut scratch).sqrt();
    let mut factor = 1.0f32;
    if step.clip > 0.0f32 {
        factor = min(step.clip / (norm + step.clip_epsilon), 1.0f32);
    }
    let rate = numbers[run as usize];
    let (first_scale, second_scale) = (numbers[runs as usize], numbers[runs as usize + 1]);
    let mut unsound = 0.0f32;
    for i in range_stepped(from + UNIT_POS, min(from + slice, count), comptime!(UNITS as u32)) {
        let at = start + i as usize;
        let parameter = parameters[at];
        let mut gradient = gradients[at] * factor;
        let mut decay = step.weight_decay;
        if comptime!(masked) {
            decay *= decayed[i as usize];
        }
        let mut updated = parameter;
        if comptime!(decoupled) {
            updated = parameter * (1.0f32 - rate * decay);
        } else {
            gradient += decay * parameter;
        }
        let moment = first[at] * step.beta1 + gradient * step.first_weight;
        let square = second[at] * step.beta2 + gradient * gradient * step.second_weight;
        updated -= moment / (square.sqrt() * second_scale + step.epsilon) * (rate * first_scale);
        if !is_finite(updated) {
            unsound += 1.0f32;
        }
        new_parameters[at] = updated;
        new_first[at] = moment;
        new_second[at] = square;
    }
    let unsound = cube_sum(unsound, &mut scratch);
    if UNIT_POS == 0 {
        flags[CUBE_POS_X as usize] = unsound;
    }
}

/// The end of a step. A run was alive before or not (`alive`, 1 or 0) and stays so with a finite loss, norm and update;
/// only then it has the new parameters and moments. If `in_place` they go where the old ones are, or else the old
/// ones to where the new ones are of the runs that don't have them. `outcome` are the norms [runs]; in place every run's
/// loss, norm and 1 or 0 for alive, in a row [3, runs] of it whose number is the last of `numbers`.
/// Cubes: runs × slices.
#[cube(launch_unchecked)]
pub(crate) fn settle(
    parameters: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
    squares: &[f32],
    flags: &[f32],
    losses: &[f32],
    alive: &mut [f32],
    new_parameters: &mut [f32],
    new_first: &mut [f32],
    new_second: &mut [f32],
    numbers: &[f32],
    outcome: &mut [f32],
    runs: u32,
    count: u32,
    slices: u32,
    slice: u32,
    #[comptime] in_place: bool,
) {
    let (run, from) = (CUBE_POS_X / slices, CUBE_POS_X % slices * slice);
    let start = run as usize * count as usize;
    let mut scratch = Shared::<[f32]>::new_slice(comptime!(UNITS / 32));
    let norm = run_sum(squares, run, slices, &mut scratch).sqrt();
    let unsound = run_sum(flags, run, slices, &mut scratch);
    let loss = losses[run as usize];
    // Whether another slice's cube has written its verdict before doesn't matter: it is the same.
    let living = alive[run as usize] > 0.5f32 && is_finite(loss) && is_finite(norm) && unsound == 0.0f32;
    let mut changes = living;
    if comptime!(!in_place) {
        changes = !living;
    }
    if changes {
        for i in range_stepped(from + UNIT_POS, min(from + slice, count), comptime!(UNITS as u32)) {
            let at = start + i as usize;
            if comptime!(in_place) {
                parameters[at] = new_parameters[at];
                first[at] = new_first[at];
                second[at] = new_second[at];
            } else {
                new_parameters[at] = parameters[at];
                new_first[at] = first[at];
                new_second[at] = second[at];
            }
        }
    }
    sync_cube();
    if from == 0 && UNIT_POS == 0 {
        let mut value = 0.0f32;
        if living {
            value = 1.0f32;
        }
        alive[run as usize] = value;
        if comptime!(in_place) {
            let row = u32::cast_from(numbers[runs as usize + 2]) * 3 * runs;
            outcome[(row + run) as usize] = loss;
            outcome[(row + runs + run) as usize] = norm;
            outcome[(row + 2 * runs + run) as usize] = value;
        } else {
            outcome[run as usize] = norm;
        }
    }
}
