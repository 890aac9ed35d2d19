//! Gradients of the operator, a chunk a cube, from recomputed scores.
//!
//! With w_ts = λ_t[level(t,s)] · exp(G_t − G_s), G the cumulative log-decay, and y_t = Σ_s w_ts (q_t·k_s) v_s, let
//! e_ts = (∂y_t·v_s)(q_t·k_s) exp(G_t − G_s). Then ∂λ_t[ℓ] is the sum of e_ts over s at level ℓ, and with
//! f_ts = λ e_ts, ∂G_t = Σ_{s<t} f_ts − Σ_{u>t} f_ut: rows less columns. What passes through states gives rows
//! q_t·∂q_t and columns k_s·∂k_s of that part. ∂log_decay is the sum of ∂G over all later positions and its own.

use super::chunk::{
    LOCAL_LEVELS, add_scaled, chunk_start, contiguous, dot_rows, lambda_at, level_in_group, level_of_groups,
    load, local_lambda, place_of, put_share, row_sum, staged, store, to_tile,
};
use super::decay::{Decay, between, cumulative_decay};
use super::tree::{Layouts, Tree, fetch_node, read_node};
use crate::gpu::product::{Extent, Orders, multiply, multiply_part, steps_of};
use crate::gpu::tile::{
    Arithmetic, GROUPS, Rows, SIDE, UNITS, empty_tile, first_column, first_row, lane, plane_group, plane_row,
    zeros,
};
use cubecl::prelude::*;

/// From scores q·k and slopes ∂y·v of a chunk's positions t (rows) and s (columns): adds e to the sums by level,
/// returns the rows' sums of f for s < t, and leaves λ · decay · slope in `slopes`.
#[cube]
fn weigh_rows(
    scores: &Rows,
    slopes: &mut Rows,
    decay: &[Decay],
    lambda: &[f32],
    by_level: &mut Array<f32>,
) -> (f32, f32) {
    let column = first_column();
    let mut flows = Array::new(2usize);
    flows[0] = 0.0f32;
    flows[1] = 0.0f32;
    #[unroll]
    for group in 0..GROUPS {
        let number = plane_group() + comptime!(group as u32);
        let score = scores.index(group);
        let slope = slopes.index_mut(group);
        #[unroll]
        for half in 0..2 {
            // The same for a whole plane, and so is the branch that is taken.
            let row_group = plane_row() / 8 + comptime!(half as u32);
            let i = first_row() + comptime!(half as u32 * 8);
            let weights = i as usize * comptime!(LOCAL_LEVELS);
            let mut weighted = Vector::<f32, Const<2>>::new(0.0f32);
            if number < row_group {
                // One level for the whole group: 4, 5 or 6.
                let level = level_of_groups(row_group, number);
                let (at, weight) = (decay[i as usize], lambda[weights + level as usize]);
                let mut e = 0.0f32;
                #[unroll]
                for side in 0..2usize {
                    let j = column + comptime!(group as u32 * 8 + side as u32);
                    let slope = slope[half].extract(side) * between(at, decay[j as usize]).exp();
                    e += slope * score[half].extract(side);
                    weighted.insert(side, slope * weight);
                }
                flows[half] += weight * e;
                #[unroll]
                for l in 4..LOCAL_LEVELS {
                    by_level[comptime!(half * LOCAL_LEVELS + l)] +=
                        select(level == comptime!(l as u32), e, 0.0f32);
                }
            } else if number == row_group {
                let at = decay[i as usize];
                #[unroll]
                for side in 0..2usize {
                    let j = column + comptime!(group as u32 * 8 + side as u32);
                    if j <= i {
                        let level = level_in_group(i, j);
                        let weight = lambda[weights + level as usize];
                        let slope = slope[half].extract(side) * between(at, decay[j as usize]).exp();
                        let e = slope * score[half].extract(side);
                        weighted.insert(side, slope * weight);
                        flows[half] += select(level > 0, weight * e, 0.0f32);
                        #[unroll]
                        for l in 0..4usize {
                            by_level[comptime!(half * LOCAL_LEVELS + l)] +=
                                select(level == comptime!(l as u32), e, 0.0f32);
                        }
                    }
                }
            }
            slope[half] = weighted;
        }
    }
    (row_sum(flows[0]), row_sum(flows[1]))
}

/// Gradients of q, λ and of the cumulative decay's rows.
/// Cubes: heads of all sequences × chunks.
#[cube(launch_unchecked)]
pub(crate) fn query_gradients<E: Float, W: Size>(
    q: &[Vector<E, W>],
    k: &[Vector<E, W>],
    v: &[Vector<E, W>],
    grad: &[Vector<E, W>],
    log_decay: &[f32],
    lambda: &[f32],
    states: &[Vector<E, W>],
    totals: &[f32],
    q_grad: &mut [Vector<E, Const<2>>],
    lambda_grad: &mut [f32],
    row_flows: &mut [f32],
    tree: Tree,
    layouts: Layouts,
    #[comptime] levels: usize,
    #[comptime] arithmetic: Arithmetic,
) {
    let (row, chunk) = (CUBE_POS_X / tree.chunks, CUBE_POS_X % tree.chunks);
    let seq_len = tree.seq_len;
    let place = place_of(row, chunk, tree.heads, tree.seq_len);
    let quarter = lane() % 4;
    // This plane's first row, in the sums of its half of the columns.
    let own = (UNIT_POS / 128 * comptime!(SIDE as u32) + first_row()) as usize;
    // Of a plane's rows, only columns up to the diagonal.
    let diagonal = plane_row() / 8 + 2;
    let below = Extent { first_step: 0u32, end_step: 4u32, first_group: 0u32, end_group: diagonal };
    let mut decay = Shared::<[Decay]>::new_slice(comptime!(SIDE));
    let mut weights = Shared::<[f32]>::new_slice(comptime!(SIDE * LOCAL_LEVELS));
    // One sum for each half of the columns.
    let mut lambda_sums = Shared::<[f32]>::new_slice(comptime!(2 * SIDE * levels));
    let mut flow_sums = Shared::<[f32]>::new_slice(comptime!(2 * SIDE));
    let mut left = empty_tile(arithmetic);
    let mut right = empty_tile(arithmetic);
    let mut weighted = empty_tile(arithmetic);
    local_lambda(lambda, &layouts.lambda, &place, &mut weights);
    for i in range_stepped(UNIT_POS, comptime!((2 * SIDE * levels) as u32), comptime!(UNITS as u32)) {
        lambda_sums[i as usize] = 0.0f32;
    }
    cumulative_decay(log_decay, &layouts.log_decay, &place, &mut decay);

    let orders = comptime!(Orders { left_transposed: false, right_transposed: true });
    let mut scores = zeros();
    for key_block in 0..tree.key_blocks {
        load::<E, W>(&mut left, q, &layouts.q, &place, key_block, arithmetic);
        load::<E, W>(&mut right, k, &layouts.k, &place, key_block, arithmetic);
        sync_cube();
        multiply_part(&mut scores, &left, &right, &below, orders, arithmetic.both());
        sync_cube();
    }
    let mut slopes = zeros();
    for value_block in 0..tree.value_blocks {
        load::<E, W>(&mut left, grad, &layouts.grad, &place, value_block, arithmetic);
        load::<E, W>(&mut right, v, &layouts.v, &place, value_block, arithmetic);
        sync_cube();
        multiply_part(&mut slopes, &left, &right, &below, orders, arithmetic.both());
        sync_cube();
    }
    let mut by_level = Array::<f32>::new(comptime!(2 * LOCAL_LEVELS));
    #[unroll]
    for i in 0..comptime!(2 * LOCAL_LEVELS) {
        by_level[i] = 0.0f32;
    }
    let mut flows = weigh_rows(&scores, &mut slopes, &decay, &weights, &mut by_level);
    #[unroll]
    for half in 0..2 {
        #[unroll]
        for l in 0..LOCAL_LEVELS {
            let sum = row_sum(by_level[comptime!(half * LOCAL_LEVELS + l)]);
            if quarter == 0 && comptime!(l < levels) {
                lambda_sums[(own + comptime!(half * 8)) * levels + l] = sum;
            }
        }
    }

    to_tile(&mut weighted, &slopes, arithmetic);

    let (first, second) =
        (decay[first_row() as usize].extract(0usize), decay[first_row() as usize + 8].extract(0usize));
    let first_node = row * tree.nodes;
    let mut share = staged::<W>();
    let pairs = q.with_vector_size::<Const<2>>();
    for key_block in 0..tree.key_blocks {
        sync_cube();
        load::<E, W>(&mut right, k, &layouts.k, &place, key_block, arithmetic);
        sync_cube();
        let mut sums = zeros();
        let extent = Extent { first_step: 0u32, end_step: diagonal / 2, first_group: 0u32, end_group: 8u32 };
        let as_stored = comptime!(Orders { left_transposed: false, right_transposed: false });
        multiply_part(&mut sums, &weighted, &right, &extent, as_stored, arithmetic.both());
        let mut before = 0.0f32;
        let mut remaining = chunk;
        let mut height = 0u32;
        let mut node = 0u32;
        if remaining > 0 {
            let next = read_node(&tree, chunk, remaining);
            height = next.0;
            node = next.1;
            fetch_node::<E, W>(&mut share, states, &tree, (first_node + node) as usize, key_block, 0u32);
        }
        while remaining > 0 {
            let (level, this_node) = (comptime!(LOCAL_LEVELS as u32) + height, first_node + node);
            remaining &= remaining - 1;
            if remaining > 0 {
                let next = read_node(&tree, chunk, remaining);
                height = next.0;
                node = next.1;
            }
            let mut reads = zeros();
            for value_block in 0..tree.value_blocks {
                sync_cube();
                if tree.value_blocks > 1 {
                    load::<E, W>(&mut left, grad, &layouts.grad, &place, value_block, arithmetic);
                }
                put_share::<E, W>(&mut right, &share, arithmetic);
                sync_cube();
                if value_block + 1 < tree.value_blocks {
                    fetch_node::<E, W>(
                        &mut share,
                        states,
                        &tree,
                        this_node as usize,
                        key_block,
                        value_block + 1,
                    );
                } else if remaining > 0 {
                    fetch_node::<E, W>(
                        &mut share,
                        states,
                        &tree,
                        (first_node + node) as usize,
                        key_block,
                        0u32,
                    );
                }
                let steps = steps_of(layouts.v.columns, value_block);
                multiply(&mut reads, &left, &right, steps, orders, arithmetic.both());
            }
            let weight = (
                lambda_at(lambda, &layouts.lambda, &place, first_row(), level),
                lambda_at(lambda, &layouts.lambda, &place, first_row() + 8, level),
            );
            let factors = ((first + before).exp(), (second + before).exp());
            let dots = dot_rows::<E>(&reads, pairs, &layouts.q, &place, key_block);
            let e = (dots.0 * factors.0, dots.1 * factors.1);
            if quarter == 0 {
                let at = own * levels + level as usize;
                lambda_sums[at] = lambda_sums[at] + e.0;
                lambda_sums[at + comptime!(8 * levels)] = lambda_sums[at + comptime!(8 * levels)] + e.1;
            }
            flows = (flows.0 + weight.0 * e.0, flows.1 + weight.1 * e.1);
            add_scaled(&mut sums, &reads, (weight.0 * factors.0, weight.1 * factors.1));
            before += totals[this_node as usize];
        }
        store::<E>(
            q_grad,
            &contiguous(tree.heads, tree.seq_len, layouts.q.columns),
            &sums,
            &place,
            key_block,
        );
    }
    if quarter == 0 {
        flow_sums[own] = flows.0;
        flow_sums[own + 8] = flows.1;
    }
    sync_cube();
    if UNIT_POS < place.length {
        let at = row as usize * seq_len as usize + (place.start + UNIT_POS) as usize;
        row_flows[at] = flow_sums[UNIT_POS as usize] + flow_sums[UNIT_POS as usize + comptime!(SIDE)];
    }
    let layout = contiguous(tree.heads, tree.seq_len, comptime!(levels as u32));
    let start = chunk_start(&layout, &place);
    for i in range_stepped(UNIT_POS, place.length * comptime!(levels as u32), comptime!(UNITS as u32)) {
        let (position, level) = (i / comptime!(levels as u32), i % comptime!(levels as u32));
        lambda_grad[(start + position * layout.position + level) as usize] =
            lambda_sums[i as usize] + lambda_sums[i as usize + comptime!(SIDE * levels)];
    }
}
