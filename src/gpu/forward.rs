//! Output of the operator, a chunk a cube.

use super::chunk::{
    LOCAL_LEVELS, add_scaled, cumulative_decay, first_column, first_row, lambda_of_rows, level_in_group,
    level_of_groups, load, local_lambda, place_of, store,
};
use super::tile::{
    Arithmetic, GROUPS, Orders, Rows, SIDE, all_groups, empty_tile, multiply, multiply_rows, zeros,
};
use super::tree::{Tree, load_node};
use cubecl::prelude::*;

/// Multiplies the scores of a chunk's positions by λ and decay; zero above the diagonal.
#[cube]
fn weigh(scores: &mut Rows, decay: &[f64], lambda: &[f32]) {
    let (row, column) = (first_row(), first_column());
    #[unroll]
    for group in 0..GROUPS {
        let number = comptime!(group as u32);
        let pair = scores.index_mut(group);
        #[unroll]
        for half in 0..2 {
            let i = row + comptime!(half as u32 * 8);
            let at = decay[i as usize];
            let weights = i as usize * comptime!(LOCAL_LEVELS);
            let mut weighted = Vector::<f32, Const<2>>::new(0.0f32);
            if number <= i / 8 {
                #[unroll]
                for side in 0..2usize {
                    let j = column + comptime!(group as u32 * 8 + side as u32);
                    if j <= i {
                        let mut level = level_in_group(i, j);
                        if number < i / 8 {
                            level = level_of_groups(i / 8, number);
                        }
                        let factor = f32::cast_from(at - decay[j as usize]).exp() * lambda[weights + level as usize];
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
    q: &Tensor<Vector<E, W>>,
    k: &Tensor<Vector<E, W>>,
    v: &Tensor<Vector<E, W>>,
    log_decay: &Tensor<f32>,
    lambda: &Tensor<f32>,
    states: &[Vector<f32, Const<4>>],
    totals: &[f32],
    y: &mut Tensor<Vector<E, Const<2>>>,
    tree: Tree,
    #[comptime] arithmetic: Arithmetic,
) {
    let (row, chunk) = (CUBE_POS_X / tree.chunks, CUBE_POS_X % tree.chunks);
    let value_block = CUBE_POS_Y;
    let place = place_of(row, chunk, log_decay.shape(2) as u32, log_decay.shape(1) as u32);
    let plane = UNIT_POS / 32;
    let mut decay = Shared::<[f64]>::new_slice(comptime!(SIDE));
    let mut weights = Shared::<[f32]>::new_slice(comptime!(SIDE * LOCAL_LEVELS));
    let mut left = empty_tile::<E, W>();
    let mut right = empty_tile::<E, W>();
    local_lambda(lambda, &place, &mut weights);
    cumulative_decay(log_decay, &place, &mut decay);

    let mut scores = zeros();
    for key_block in 0..tree.key_blocks {
        load::<E, W>(&mut left, q, &place, key_block);
        load::<E, W>(&mut right, k, &place, key_block);
        sync_cube();
        let orders = comptime!(Orders { left_transposed: false, right_transposed: true });
        multiply::<E, W>(&mut scores, &left, &right, (0u32, 2 * plane + 2), orders, arithmetic);
        sync_cube();
    }
    weigh(&mut scores, &decay, &weights);
    load::<E, W>(&mut right, v, &place, value_block);
    sync_cube();
    let mut sums = zeros();
    multiply_rows::<E, W>(&mut sums, &scores, &right, (0u32, plane + 1), arithmetic);

    let (first, second) = (f32::cast_from(decay[first_row() as usize]), f32::cast_from(decay[first_row() as usize + 8]));
    let mut before = 0.0f32;
    let mut offset = 0u32;
    let mut height = 0u32;
    while chunk >> height > 0 {
        let block = chunk >> height;
        if block % 2 == 1 {
            let node = (row * tree.nodes + offset + block - 1) as usize;
            let mut reads = zeros();
            for key_block in 0..tree.key_blocks {
                sync_cube();
                // With one block of keys, the queries are still there.
                if tree.key_blocks > 1 {
                    load::<E, W>(&mut left, q, &place, key_block);
                }
                load_node::<E, W>(&mut right, states, &tree, node, key_block, value_block);
                sync_cube();
                let orders = comptime!(Orders { left_transposed: false, right_transposed: false });
                multiply::<E, W>(&mut reads, &left, &right, all_groups(), orders, arithmetic);
            }
            let weight = lambda_of_rows(lambda, &place, comptime!(LOCAL_LEVELS as u32) + height);
            let factors = (weight.0 * (first + before).exp(), weight.1 * (second + before).exp());
            add_scaled(&mut sums, &reads, factors);
            before += totals[node];
        }
        offset += tree.chunks >> height;
        height += 1;
    }
    store::<E>(y, &sums, &place, value_block);
}
