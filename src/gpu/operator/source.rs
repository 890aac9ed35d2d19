//! Gradients of keys and values, a chunk a cube: the sources' side of what [`super::query`] explains.

use super::chunk::{
    LOCAL_LEVELS, contiguous, dot_rows, fetch, level_in_group, level_of_groups, load, local_lambda, place_of,
    put_share, row_sum, scale, staged, store, to_tile,
};
use super::decay::{Decay, between, cumulative_decay};
use super::tree::{Layouts, Tree, load_chunk_gradient};
use crate::gpu::product::{Extent, Orders, multiply, multiply_part, steps_of};
use crate::gpu::tile::{
    Arithmetic, GROUPS, Rows, SIDE, empty_tile, first_column, first_row, lane, plane_group, plane_row, zeros,
};
use cubecl::prelude::*;

/// As [`weigh_rows`] with the sources as rows and the targets as columns: leaves λ · decay · score in `scores`,
/// λ · decay · slope in `slopes`, and returns the rows' sums of f.
#[cube]
fn weigh_columns(scores: &mut Rows, slopes: &mut Rows, decay: &[Decay], lambda: &[f32]) -> (f32, f32) {
    let column = first_column();
    let mut flows = Array::new(2usize);
    flows[0] = 0.0f32;
    flows[1] = 0.0f32;
    #[unroll]
    for group in 0..GROUPS {
        let number = plane_group() + comptime!(group as u32);
        let score = scores.index_mut(group);
        let slope = slopes.index_mut(group);
        #[unroll]
        for half in 0..2 {
            let row_group = plane_row() / 8 + comptime!(half as u32);
            let i = first_row() + comptime!(half as u32 * 8);
            let mut weighted_score = Vector::<f32, Const<2>>::new(0.0f32);
            let mut weighted_slope = Vector::<f32, Const<2>>::new(0.0f32);
            if number > row_group {
                let (at, level) = (decay[i as usize], level_of_groups(number, row_group));
                #[unroll]
                for side in 0..2usize {
                    let j = column + comptime!(group as u32 * 8 + side as u32);
                    let factor = between(decay[j as usize], at).exp()
                        * lambda[j as usize * comptime!(LOCAL_LEVELS) + level as usize];
                    let weighted = factor * slope[half].extract(side);
                    flows[half] += weighted * score[half].extract(side);
                    weighted_score.insert(side, factor * score[half].extract(side));
                    weighted_slope.insert(side, weighted);
                }
            } else if number == row_group {
                let at = decay[i as usize];
                #[unroll]
                for side in 0..2usize {
                    let j = column + comptime!(group as u32 * 8 + side as u32);
                    if j >= i {
                        let factor = between(decay[j as usize], at).exp()
                            * lambda[j as usize * comptime!(LOCAL_LEVELS) + level_in_group(j, i) as usize];
                        let weighted = factor * slope[half].extract(side);
                        if j > i {
                            flows[half] += weighted * score[half].extract(side);
                        }
                        weighted_score.insert(side, factor * score[half].extract(side));
                        weighted_slope.insert(side, weighted);
                    }
                }
            }
            score[half] = weighted_score;
            slope[half] = weighted_slope;
        }
    }
    (row_sum(flows[0]), row_sum(flows[1]))
}

#[cube]
fn add(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
    (a.0 + b.0, a.1 + b.1)
}

/// Gradients of k, v and of the cumulative decay's columns. `single`: K and V are one tile each.
/// Cubes: heads of all sequences × chunks.
#[cube(launch_unchecked)]
pub(crate) fn source_gradients<E: Float, W: Size>(
    q: &[Vector<E, W>],
    k: &[Vector<E, W>],
    v: &[Vector<E, W>],
    grad: &[Vector<E, W>],
    log_decay: &[f32],
    lambda: &[f32],
    gradients: &[Vector<E, W>],
    totals: &[f32],
    k_grad: &mut [Vector<E, Const<2>>],
    v_grad: &mut [Vector<E, Const<2>>],
    column_flows: &mut [f32],
    tree: Tree,
    layouts: Layouts,
    #[comptime] single: bool,
    #[comptime] arithmetic: Arithmetic,
) {
    let (row, chunk) = (CUBE_POS_X / tree.chunks, CUBE_POS_X % tree.chunks);
    let seq_len = tree.seq_len;
    let place = place_of(row, chunk, tree.heads, tree.seq_len);
    // Of a plane's rows, which are sources here, only columns from the diagonal on.
    let diagonal = plane_row() / 8;
    let above = Extent { first_step: 0u32, end_step: 4u32, first_group: diagonal, end_group: 8u32 };
    let later = Extent { first_step: diagonal / 2, end_step: 4u32, first_group: 0u32, end_group: 8u32 };
    let transposed = comptime!(Orders { left_transposed: false, right_transposed: true });
    let as_stored = comptime!(Orders { left_transposed: false, right_transposed: false });
    let parts = comptime!(arithmetic.both());
    let mut decay = Shared::<[Decay]>::new_slice(comptime!(SIDE));
    let mut weights = Shared::<[f32]>::new_slice(comptime!(SIDE * LOCAL_LEVELS));
    let mut flow_sums = Shared::<[f32]>::new_slice(comptime!(2 * SIDE));
    let mut keys = empty_tile(arithmetic);
    let mut values = empty_tile(arithmetic);
    let mut right = empty_tile(arithmetic);
    // The first tiles are on their way meanwhile.
    let (mut of_left, mut of_right) = (staged::<W>(), staged::<W>());
    fetch::<E, W>(&mut of_left, k, &layouts.k, &place, 0u32);
    fetch::<E, W>(&mut of_right, q, &layouts.q, &place, 0u32);
    local_lambda(lambda, &layouts.lambda, &place, &mut weights);
    cumulative_decay(log_decay, &layouts.log_decay, &place, &mut decay);
    let end = decay[63];
    let factors = (
        between(end, decay[first_row() as usize]).exp(),
        between(end, decay[first_row() as usize + 8]).exp(),
    );
    let of_keys = contiguous(tree.heads, tree.seq_len, layouts.k.columns);
    let of_values = contiguous(tree.heads, tree.seq_len, layouts.v.columns);
    let key_pairs = k.with_vector_size::<Const<2>>();

    let mut scores = zeros();
    for key_block in 0..tree.key_blocks {
        put_share::<E, W>(&mut keys, &of_left, arithmetic);
        put_share::<E, W>(&mut right, &of_right, arithmetic);
        if key_block + 1 < tree.key_blocks {
            fetch::<E, W>(&mut of_left, k, &layouts.k, &place, key_block + 1);
            fetch::<E, W>(&mut of_right, q, &layouts.q, &place, key_block + 1);
        } else {
            fetch::<E, W>(&mut of_left, v, &layouts.v, &place, 0u32);
            fetch::<E, W>(&mut of_right, grad, &layouts.grad, &place, 0u32);
        }
        sync_cube();
        multiply_part(&mut scores, &keys, &right, &above, transposed, parts);
        sync_cube();
    }
    let mut slopes = zeros();
    for value_block in 0..tree.value_blocks {
        put_share::<E, W>(&mut values, &of_left, arithmetic);
        put_share::<E, W>(&mut right, &of_right, arithmetic);
        if value_block + 1 < tree.value_blocks {
            fetch::<E, W>(&mut of_left, v, &layouts.v, &place, value_block + 1);
            fetch::<E, W>(&mut of_right, grad, &layouts.grad, &place, value_block + 1);
        }
        sync_cube();
        multiply_part(&mut slopes, &values, &right, &above, transposed, parts);
        sync_cube();
    }
    let mut flows = weigh_columns(&mut scores, &mut slopes, &decay, &weights);

    if comptime!(single) {
        // Both products with the state's gradient, while it and the sources are there.
        load_chunk_gradient::<E, W>(&mut right, gradients, totals, &tree, row, chunk, 0u32, 0u32, arithmetic);
        sync_cube();
        let mut of_value = zeros();
        multiply(&mut of_value, &keys, &right, steps_of(layouts.k.columns, 0u32), as_stored, parts);
        let mut of_key = zeros();
        multiply(&mut of_key, &values, &right, steps_of(layouts.v.columns, 0u32), transposed, parts);
        sync_cube();
        to_tile(&mut keys, &scores, arithmetic);
        to_tile(&mut values, &slopes, arithmetic);
        load::<E, W>(&mut right, grad, &layouts.grad, &place, 0u32, arithmetic);
        sync_cube();
        scale(&mut of_value, factors);
        multiply_part(&mut of_value, &keys, &right, &later, as_stored, parts);
        store::<E>(v_grad, &of_values, &of_value, &place, 0u32);
        sync_cube();
        load::<E, W>(&mut right, q, &layouts.q, &place, 0u32, arithmetic);
        sync_cube();
        scale(&mut of_key, factors);
        flows = add(flows, dot_rows::<E>(&of_key, key_pairs, &layouts.k, &place, 0u32));
        multiply_part(&mut of_key, &values, &right, &later, as_stored, parts);
        store::<E>(k_grad, &of_keys, &of_key, &place, 0u32);
    } else {
        // One tile keeps the weighted scores, then the weighted slopes; one takes block after block of the sources.
        to_tile(&mut values, &scores, arithmetic);
        for value_block in 0..tree.value_blocks {
            let mut sums = zeros();
            for key_block in 0..tree.key_blocks {
                sync_cube();
                load::<E, W>(&mut keys, k, &layouts.k, &place, key_block, arithmetic);
                load_chunk_gradient::<E, W>(
                    &mut right,
                    gradients,
                    totals,
                    &tree,
                    row,
                    chunk,
                    key_block,
                    value_block,
                    arithmetic,
                );
                sync_cube();
                let steps = steps_of(layouts.k.columns, key_block);
                multiply(&mut sums, &keys, &right, steps, as_stored, parts);
            }
            scale(&mut sums, factors);
            sync_cube();
            load::<E, W>(&mut right, grad, &layouts.grad, &place, value_block, arithmetic);
            sync_cube();
            multiply_part(&mut sums, &values, &right, &later, as_stored, parts);
            store::<E>(v_grad, &of_values, &sums, &place, value_block);
        }
        sync_cube();
        to_tile(&mut values, &slopes, arithmetic);
        for key_block in 0..tree.key_blocks {
            let mut sums = zeros();
            for value_block in 0..tree.value_blocks {
                sync_cube();
                load::<E, W>(&mut keys, v, &layouts.v, &place, value_block, arithmetic);
                load_chunk_gradient::<E, W>(
                    &mut right,
                    gradients,
                    totals,
                    &tree,
                    row,
                    chunk,
                    key_block,
                    value_block,
                    arithmetic,
                );
                sync_cube();
                let steps = steps_of(layouts.v.columns, value_block);
                multiply(&mut sums, &keys, &right, steps, transposed, parts);
            }
            scale(&mut sums, factors);
            flows = add(flows, dot_rows::<E>(&sums, key_pairs, &layouts.k, &place, key_block));
            sync_cube();
            load::<E, W>(&mut right, q, &layouts.q, &place, key_block, arithmetic);
            sync_cube();
            multiply_part(&mut sums, &values, &right, &later, as_stored, parts);
            store::<E>(k_grad, &of_keys, &sums, &place, key_block);
        }
    }
    if lane() % 4 == 0 {
        let own = (UNIT_POS / 128 * comptime!(SIDE as u32) + first_row()) as usize;
        flow_sums[own] = flows.0;
        flow_sums[own + 8] = flows.1;
    }
    sync_cube();
    if UNIT_POS < place.length {
        let at = row as usize * seq_len as usize + (place.start + UNIT_POS) as usize;
        column_flows[at] = flow_sums[UNIT_POS as usize] + flow_sums[UNIT_POS as usize + comptime!(SIDE)];
    }
}
