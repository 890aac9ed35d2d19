//! Output of the operator, a chunk a cube.

use super::chunk::{
    LOCAL_LEVELS, add_scaled, fetch, lambda_at, level_in_group, level_of_groups, load, local_lambda,
    place_of, put_share, staged, store, to_tile,
};
use super::decay::{Decay, between, cumulative_decay};
use super::tree::{Layouts, Tree, fetch_node, read_node};
use crate::gpu::product::{Extent, Orders, multiply, multiply_part, steps_of};
use crate::gpu::tile::{
    Arithmetic, GROUPS, Rows, SIDE, empty_tile, first_column, first_row, plane_group, plane_row, zeros,
};
use cubecl::prelude::*;

/// Multiplies the scores of a chunk's positions by λ and decay; zero above the diagonal.
#[cube]
fn weigh(scores: &mut Rows, decay: &[Decay], lambda: &[f32]) {
    let column = first_column();
    #[unroll]
    for group in 0..GROUPS {
        let number = plane_group() + comptime!(group as u32);
        let pair = scores.index_mut(group);
        #[unroll]
        for half in 0..2 {
            // The same for a whole plane, and so is the branch that is taken.
            let row_group = plane_row() / 8 + comptime!(half as u32);
            let i = first_row() + comptime!(half as u32 * 8);
            let weights = i as usize * comptime!(LOCAL_LEVELS);
            let mut weighted = Vector::<f32, Const<2>>::new(0.0f32);
            if number < row_group {
                let level = level_of_groups(row_group, number);
                let (at, weight) = (decay[i as usize], lambda[weights + level as usize]);
                #[unroll]
                for side in 0..2usize {
                    let j = column + comptime!(group as u32 * 8 + side as u32);
                    let factor = between(at, decay[j as usize]).exp() * weight;
                    weighted.insert(side, pair[half].extract(side) * factor);
                }
            } else if number == row_group {
                let at = decay[i as usize];
                #[unroll]
                for side in 0..2usize {
                    let j = column + comptime!(group as u32 * 8 + side as u32);
                    if j <= i {
                        let weight = lambda[weights + level_in_group(i, j) as usize];
                        let factor = between(at, decay[j as usize]).exp() * weight;
                        weighted.insert(side, pair[half].extract(side) * factor);
                    }
                }
            }
            pair[half] = weighted;
        }
    }
}

/// y of one chunk: its own positions by the masked product, and one state for every set bit of its index.
/// Cubes: (heads of all sequences × chunks, tiles along V).
#[cube(launch_unchecked)]
pub(crate) fn outputs<E: Float, W: Size>(
    q: &[Vector<E, W>],
    k: &[Vector<E, W>],
    v: &[Vector<E, W>],
    log_decay: &[f32],
    lambda: &[f32],
    states: &[Vector<E, W>],
    totals: &[f32],
    y: &mut [Vector<E, Const<2>>],
    tree: Tree,
    layouts: Layouts,
    #[comptime] arithmetic: Arithmetic,
) {
    let (row, chunk) = (CUBE_POS_X / tree.chunks, CUBE_POS_X % tree.chunks);
    let value_block = CUBE_POS_Y;
    let place = place_of(row, chunk, tree.heads, tree.seq_len);
    let mut decay = Shared::<[Decay]>::new_slice(comptime!(SIDE));
    let mut weights = Shared::<[f32]>::new_slice(comptime!(SIDE * LOCAL_LEVELS));
    let mut left = empty_tile(arithmetic);
    let mut right = empty_tile(arithmetic);
    let mut weighted = empty_tile(arithmetic);
    // The first tiles are on their way meanwhile.
    let (mut queries, mut keys, mut values) = (staged::<W>(), staged::<W>(), staged::<W>());
    fetch::<E, W>(&mut queries, q, &layouts.q, &place, 0u32);
    fetch::<E, W>(&mut keys, k, &layouts.k, &place, 0u32);
    fetch::<E, W>(&mut values, v, &layouts.v, &place, value_block);
    local_lambda(lambda, &layouts.lambda, &place, &mut weights);
    cumulative_decay(log_decay, &layouts.log_decay, &place, &mut decay);

    let mut scores = zeros();
    // Of a plane's rows, only columns up to the diagonal.
    let diagonal = plane_row() / 8 + 2;
    for key_block in 0..tree.key_blocks {
        put_share::<E, W>(&mut left, &queries, arithmetic);
        put_share::<E, W>(&mut right, &keys, arithmetic);
        if key_block + 1 < tree.key_blocks {
            fetch::<E, W>(&mut queries, q, &layouts.q, &place, key_block + 1);
            fetch::<E, W>(&mut keys, k, &layouts.k, &place, key_block + 1);
        }
        sync_cube();
        let orders = comptime!(Orders { left_transposed: false, right_transposed: true });
        let extent = Extent { first_step: 0u32, end_step: 4u32, first_group: 0u32, end_group: diagonal };
        multiply_part(&mut scores, &left, &right, &extent, orders, arithmetic.both());
        sync_cube();
    }
    weigh(&mut scores, &decay, &weights);
    to_tile(&mut weighted, &scores, arithmetic);
    put_share::<E, W>(&mut right, &values, arithmetic);
    sync_cube();
    let orders = comptime!(Orders { left_transposed: false, right_transposed: false });
    let mut sums = zeros();
    let extent = Extent { first_step: 0u32, end_step: diagonal / 2, first_group: 0u32, end_group: 8u32 };
    multiply_part(&mut sums, &weighted, &right, &extent, orders, arithmetic.both());

    let (first, second) =
        (decay[first_row() as usize].extract(0usize), decay[first_row() as usize + 8].extract(0usize));
    let mut before = 0.0f32;
    let mut remaining = chunk;
    let mut share = staged::<W>();
    let first_node = row * tree.nodes;
    let mut height = 0u32;
    let mut node = 0u32;
    if remaining > 0 {
        let next = read_node(&tree, chunk, remaining);
        height = next.0;
        node = next.1;
        fetch_node::<E, W>(&mut share, states, &tree, (first_node + node) as usize, 0u32, value_block);
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
        for key_block in 0..tree.key_blocks {
            sync_cube();
            // With one block of keys, the queries are still there.
            if tree.key_blocks > 1 {
                load::<E, W>(&mut left, q, &layouts.q, &place, key_block, arithmetic);
            }
            put_share::<E, W>(&mut right, &share, arithmetic);
            sync_cube();
            if key_block + 1 < tree.key_blocks {
                fetch_node::<E, W>(&mut share, states, &tree, this_node as usize, key_block + 1, value_block);
            } else if remaining > 0 {
                fetch_node::<E, W>(
                    &mut share,
                    states,
                    &tree,
                    (first_node + node) as usize,
                    0u32,
                    value_block,
                );
            }
            let steps = steps_of(layouts.q.columns, key_block);
            multiply(&mut reads, &left, &right, steps, orders, arithmetic.both());
        }
        let weight = (
            lambda_at(lambda, &layouts.lambda, &place, first_row(), level),
            lambda_at(lambda, &layouts.lambda, &place, first_row() + 8, level),
        );
        let factors = (weight.0 * (first + before).exp(), weight.1 * (second + before).exp());
        add_scaled(&mut sums, &reads, factors);
        before += totals[this_node as usize];
    }
    store::<E>(y, &layouts.grad, &sums, &place, value_block);
}
