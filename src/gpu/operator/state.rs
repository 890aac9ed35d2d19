//! Gradients of the states that later blocks read.

use super::chunk::{LOCAL_LEVELS, fetch, lambda_at, load, place_of, put_scaled, staged};
use super::decay::{Decay, cumulative_decay};
use super::tree::{Layouts, Tree, node_of, store_node};
use crate::gpu::product::{Orders, multiply};
use crate::gpu::tile::{Arithmetic, SIDE, empty_tile, zeros};
use cubecl::prelude::*;

/// Chunks that one cube adds up for the gradient of a state; there are several cubes for a block of more.
pub(crate) const SEGMENT: usize = 16;

/// A block whose state is read, and a part of the chunks that read it.
#[derive(CubeType, Clone, Copy)]
struct Item {
    height: u32,
    /// The block's number at its height.
    block: u32,
    segment: u32,
}

/// Item of a head by its number: all segments of the highest block first.
#[cube]
fn item(tree: &Tree, number: u32) -> Item {
    let last = tree.chunks - 1;
    let mut index = number;
    let mut height = 31 - last.leading_zeros();
    let mut count = items_at(last, height);
    while index >= count {
        index -= count;
        height -= 1;
        count = items_at(last, height);
    }
    let segments = segments(height);
    Item { height, block: index / segments * 2, segment: index % segments }
}

/// Segments of a block at a height.
#[cube]
fn segments(height: u32) -> u32 {
    max((1u32 << height) / comptime!(SEGMENT as u32), 1)
}

#[cube]
fn items_at(last: u32, height: u32) -> u32 {
    ((last >> height) + 1) / 2 * segments(height)
}

/// Gradients of the states that are read, each Σ_t λ_t · exp(decay from the block's end to t) · q_t ∂y_tᵀ over
/// the positions of the block's right neighbour; of large blocks, the sums of its segments.
/// Cubes: (heads of all sequences × items, tiles of K × V); the first `partial` items of a head are segments.
#[cube(launch_unchecked)]
pub(crate) fn state_gradients<E: Float, W: Size>(
    q: &[Vector<E, W>],
    grad: &[Vector<E, W>],
    log_decay: &[f32],
    lambda: &[f32],
    totals: &[f32],
    gradients: &mut [Vector<E, Const<2>>],
    segment_sums: &mut [Vector<f32, Const<2>>],
    tree: Tree,
    layouts: Layouts,
    items: u32,
    partial: u32,
    #[comptime] arithmetic: Arithmetic,
) {
    let (row, number) = (CUBE_POS_X / items, CUBE_POS_X % items);
    let (key_block, value_block) = (CUBE_POS_Y / tree.value_blocks, CUBE_POS_Y % tree.value_blocks);
    let item = item(&tree, number);
    let first = row * tree.nodes;
    let start = ((item.block + 1) << item.height) + item.segment * comptime!(SEGMENT as u32);
    let end = min(start + min(1u32 << item.height, comptime!(SEGMENT as u32)), tree.chunks);
    let level = comptime!(LOCAL_LEVELS as u32) + item.height;

    // Decay of the segments before this one, from the nodes that cover them.
    let mut before = 0.0f32;
    let mut covered = (item.block + 1) << item.height;
    let mut remaining = item.segment;
    while remaining > 0 && start < end {
        let bit = 31 - remaining.leading_zeros();
        let height = comptime!(SEGMENT.ilog2()) + bit;
        before += totals[(first + node_of(&tree, height, covered >> height)) as usize];
        covered += comptime!(SEGMENT as u32) << bit;
        remaining -= 1u32 << bit;
    }

    let mut decay = Shared::<[Decay]>::new_slice(comptime!(SIDE));
    let mut factors = Shared::<[f32]>::new_slice(comptime!(SIDE));
    let mut queries = empty_tile(arithmetic);
    let mut grads = empty_tile(arithmetic);
    let mut sums = zeros();
    let mut share = staged::<W>();
    for chunk in start..end {
        let place = place_of(row, chunk, tree.heads, tree.seq_len);
        cumulative_decay(log_decay, &layouts.log_decay, &place, &mut decay);
        if UNIT_POS < 64 {
            let weight = lambda_at(lambda, &layouts.lambda, &place, UNIT_POS, level);
            factors[UNIT_POS as usize] = weight * (decay[UNIT_POS as usize].extract(0usize) + before).exp();
        }
        before += totals[(first + chunk) as usize];
        sync_cube();
        fetch::<E, W>(&mut share, q, &layouts.q, &place, key_block);
        put_scaled::<E, W>(&mut queries, &share, &factors, arithmetic);
        load::<E, W>(&mut grads, grad, &layouts.grad, &place, value_block, arithmetic);
        sync_cube();
        let orders = comptime!(Orders { left_transposed: true, right_transposed: false });
        multiply(&mut sums, &queries, &grads, place.length.div_ceil(16), orders, arithmetic.both());
    }
    if number < partial {
        store_node::<f32>(
            segment_sums,
            &sums,
            &tree,
            (row * partial + number) as usize,
            key_block,
            value_block,
        );
    } else {
        let node = first + node_of(&tree, item.height, item.block);
        store_node::<E>(gradients, &sums, &tree, node as usize, key_block, value_block);
    }
}

/// Gradients of the states of large blocks: the sums of their segments'. A unit for two elements of a node.
#[cube(launch_unchecked)]
pub(crate) fn add_segments<E: Float>(
    segment_sums: &[Vector<f32, Const<2>>],
    gradients: &mut [Vector<E, Const<2>>],
    tree: Tree,
    partial: u32,
    size: u32,
    count: u32,
) {
    let at = ABSOLUTE_POS as u32;
    if at < count {
        let (element, number, row) = ((at % size) as usize, at / size % partial, at / size / partial);
        let item = item(&tree, number);
        // One unit of a block's first segment adds up all.
        if item.segment == 0 {
            let mut sum = Vector::<f32, Const<2>>::new(0.0f32);
            for segment in 0..segments(item.height) {
                sum += segment_sums[(row * partial + number + segment) as usize * size as usize + element];
            }
            let node = row * tree.nodes + node_of(&tree, item.height, item.block);
            gradients[node as usize * size as usize + element] = Vector::cast_from(sum);
        }
    }
}
