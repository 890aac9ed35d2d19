//! Gradients of keys and values, a chunk a cube: the sources' side of what [`super::query`] explains.

use super::chunk::{
    LOCAL_LEVELS, contiguous, cumulative_decay, dot_rows, level_in_group, level_of_groups, load,
    local_lambda, place_of, row_sum, scale, store, to_tile,
};
use super::tree::{Layouts, Tree, load_chunk_gradient};
use crate::gpu::tile::{
    Arithmetic, Extent, GROUPS, Orders, Rows, SIDE, empty_tile, first_column, first_row, multiply,
    multiply_part, plane_group, plane_row, zeros,
};
use cubecl::prelude::*;

/// As [`weigh_rows`] with the sources as rows and the targets as columns: leaves λ · decay · score in `scores`,
/// λ · decay · slope in `slopes`, and returns the rows' sums of f.
#[cube]
fn weigh_columns(scores: &mut Rows, slopes: &mut Rows, decay: &[f64], lambda: &[f32]) -> (f32, f32) {
    let (row, column) = (first_row(), first_column());
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
            let i = row + comptime!(half as u32 * 8);
            let at = decay[i as usize];
            let mut weighted_score = Vector::<f32, Const<2>>::new(0.0f32);
            let mut weighted_slope = Vector::<f32, Const<2>>::new(0.0f32);
            if number >= i / 8 {
                #[unroll]
                for side in 0..2usize {
                    let j = column + comptime!(group as u32 * 8 + side as u32);
                    if j >= i {
                        let mut level = level_in_group(j, i);
                        if number > i / 8 {
                            level = level_of_groups(number, i / 8);
                        }
                        let factor = f32::cast_from(decay[j as usize] - at).exp()
                            * lambda[j as usize * comptime!(LOCAL_LEVELS) + level as usize];
                        let weighted = factor * slope[half].extract(side);
                        if level > 0 {
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

/// Gradients of k, v and of the cumulative decay's columns.
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
    #[comptime] arithmetic: Arithmetic,
) {
    let (row, chunk) = (CUBE_POS_X / tree.chunks, CUBE_POS_X % tree.chunks);
    let seq_len = tree.seq_len;
    let place = place_of(row, chunk, tree.heads, tree.seq_len);
    // Of a plane's rows, which are sources here, only columns from the diagonal on.
    let diagonal = plane_row() / 8;
    let above = Extent { first_step: 0u32, end_step: 4u32, first_group: diagonal, end_group: 8u32 };
    let later = Extent { first_step: diagonal / 2, end_step: 4u32, first_group: 0u32, end_group: 8u32 };
    let mut decay = Shared::<[f64]>::new_slice(comptime!(SIDE));
    let mut weights = Shared::<[f32]>::new_slice(comptime!(SIDE * LOCAL_LEVELS));
    let mut keys = empty_tile::<E, W>();
    let mut values = empty_tile::<E, W>();
    let mut right = empty_tile::<E, W>();
    let mut state = empty_tile::<E, W>();
    let mut weighted = empty_tile::<E, W>();
    let mut flow_sums = Shared::<[f32]>::new_slice(comptime!(2 * SIDE));
    local_lambda(lambda, &layouts.lambda, &place, &mut weights);
    cumulative_decay(log_decay, &layouts.log_decay, &place, &mut decay);

    let orders = comptime!(Orders { left_transposed: false, right_transposed: true });
    let mut scores = zeros();
    for key_block in 0..tree.key_blocks {
        load::<E, W>(&mut keys, k, &layouts.k, &place, key_block);
        load::<E, W>(&mut right, q, &layouts.q, &place, key_block);
        sync_cube();
        multiply_part::<E, W>(&mut scores, &keys, &right, &above, orders, arithmetic);
        sync_cube();
    }
    let mut slopes = zeros();
    for value_block in 0..tree.value_blocks {
        load::<E, W>(&mut values, v, &layouts.v, &place, value_block);
        load::<E, W>(&mut right, grad, &layouts.grad, &place, value_block);
        sync_cube();
        multiply_part::<E, W>(&mut slopes, &values, &right, &above, orders, arithmetic);
        sync_cube();
    }
    let mut flows = weigh_columns(&mut scores, &mut slopes, &decay, &weights);
    let single = tree.key_blocks * tree.value_blocks == 1;
    let end = decay[63];
    let factors = (
        f32::cast_from(end - decay[first_row() as usize]).exp(),
        f32::cast_from(end - decay[first_row() as usize + 8]).exp(),
    );

    let as_stored = comptime!(Orders { left_transposed: false, right_transposed: false });
    to_tile::<E, W>(&mut weighted, &scores);
    for value_block in 0..tree.value_blocks {
        sync_cube();
        load::<E, W>(&mut right, grad, &layouts.grad, &place, value_block);
        let mut reads = zeros();
        for key_block in 0..tree.key_blocks {
            if tree.key_blocks > 1 {
                sync_cube();
                load::<E, W>(&mut keys, k, &layouts.k, &place, key_block);
            }
            load_chunk_gradient::<E, W>(
                &mut state,
                gradients,
                totals,
                &tree,
                row,
                chunk,
                key_block,
                value_block,
            );
            sync_cube();
            multiply::<E, W>(&mut reads, &keys, &state, as_stored, arithmetic);
        }
        scale(&mut reads, factors);
        multiply_part::<E, W>(&mut reads, &weighted, &right, &later, as_stored, arithmetic);
        store::<E>(
            v_grad,
            &contiguous(tree.heads, tree.seq_len, layouts.v.columns),
            &reads,
            &place,
            value_block,
        );
    }
    sync_cube();
    to_tile::<E, W>(&mut weighted, &slopes);
    for key_block in 0..tree.key_blocks {
        sync_cube();
        load::<E, W>(&mut right, q, &layouts.q, &place, key_block);
        if tree.key_blocks > 1 {
            load::<E, W>(&mut keys, k, &layouts.k, &place, key_block);
        }
        let mut reads = zeros();
        for value_block in 0..tree.value_blocks {
            if !single {
                sync_cube();
                load::<E, W>(&mut values, v, &layouts.v, &place, value_block);
                load_chunk_gradient::<E, W>(
                    &mut state,
                    gradients,
                    totals,
                    &tree,
                    row,
                    chunk,
                    key_block,
                    value_block,
                );
            }
            sync_cube();
            multiply::<E, W>(&mut reads, &values, &state, orders, arithmetic);
        }
        scale(&mut reads, factors);
        let dots = dot_rows::<E, W>(&reads, &keys);
        flows = (flows.0 + dots.0, flows.1 + dots.1);
        multiply_part::<E, W>(&mut reads, &weighted, &right, &later, as_stored, arithmetic);
        store::<E>(
            k_grad,
            &contiguous(tree.heads, tree.seq_len, layouts.k.columns),
            &reads,
            &place,
            key_block,
        );
    }
    if UNIT_POS_PLANE % 4 == 0 {
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
