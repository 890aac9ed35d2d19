//! States of blocks of chunks: a binary tree of matrices [K, V] a head, and its gradients.
//!
//! Height j of the tree has a node for every complete block of 2^j chunks: its state, decayed to the block's end,
//! and its whole log-decay. Heights follow one another, so that node b at height j has index b + Σ_{i<j} (chunks >> i).
//! K and V are rounded up to whole tiles, and elements have the type of the
//! inputs: a state is summed in f32 and rounded once, and once more at every height.

use super::chunk::{Layout, Staged, fetch, place_of, put_scaled, put_share, staged};
use super::decay::{Decay, between, cumulative_decay};
use crate::gpu::product::{Orders, multiply};
use crate::gpu::tile::{
    Arithmetic, GROUPS, Rows, SIDE, TileSlice, UNITS, Words, empty_tile, first_column, first_row, put, zeros,
};
use cubecl::prelude::*;

/// Layouts of the operator's inputs.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct Layouts {
    pub(crate) q: Layout,
    pub(crate) k: Layout,
    pub(crate) v: Layout,
    /// Of the output and its gradient.
    pub(crate) grad: Layout,
    pub(crate) log_decay: Layout,
    pub(crate) lambda: Layout,
}

/// Sizes of the sequences and of a head's tree.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct Tree {
    /// Chunks of a sequence.
    pub(crate) chunks: u32,
    /// Nodes of a head.
    pub(crate) nodes: u32,
    /// Tiles along V.
    pub(crate) value_blocks: u32,
    /// Tiles along K.
    pub(crate) key_blocks: u32,
    pub(crate) heads: u32,
    pub(crate) seq_len: u32,
}

/// First element of a tile of a node.
#[cube]
fn tile_start(tree: &Tree, node: usize, key_block: u32, value_block: u32) -> usize {
    let side = comptime!(SIDE);
    let columns = tree.value_blocks as usize * side;
    node * tree.key_blocks as usize * side * columns
        + key_block as usize * side * columns
        + value_block as usize * side
}

/// Vectors of a tile that a unit moves.
#[cube]
fn share<W: Size>() -> comptime_type!(usize) {
    let width = W::value();
    comptime!(SIDE * SIDE / width / UNITS)
}

/// Reads a unit's share of a tile of a node.
#[cube]
pub(crate) fn fetch_node<E: Float, W: Size>(
    staged: &mut Staged,
    states: &[Vector<E, W>],
    tree: &Tree,
    node: usize,
    key_block: u32,
    value_block: u32,
) {
    let width = W::value();
    let start = tile_start(tree, node, key_block, value_block);
    let columns = tree.value_blocks as usize * comptime!(SIDE);
    let (share, row_vectors) = (share::<W>(), comptime!(SIDE / width));
    #[unroll]
    for i in 0..share {
        let at = UNIT_POS as usize + comptime!(i * UNITS);
        staged[i] =
            Words::reinterpret(states[(start + at / row_vectors * columns) / width + at % row_vectors]);
    }
}

/// Node of a block, counted from the head's first: Σ (chunks >> i) over i < height before it, where such a sum over
/// all i is 2 · chunks less the bits that are set in it.
#[cube]
pub(crate) fn node_of(tree: &Tree, height: u32, block: u32) -> u32 {
    let rest = tree.chunks >> height;
    block + (2 * tree.chunks - tree.chunks.count_ones()) - (2 * rest - rest.count_ones())
}

/// The next block that a chunk reads, of the height of the lowest set bit of `remaining`, which is `chunk`
/// without the bits of the heights before: its node, counted from the head's first.
#[cube]
pub(crate) fn read_node(tree: &Tree, chunk: u32, remaining: u32) -> (u32, u32) {
    let height = 31 - (remaining & (0 - remaining)).leading_zeros();
    (height, node_of(tree, height, (chunk >> height) - 1))
}

/// Adds up tiles of the gradients that reach a chunk's state: those of every block that the chunk is in and that
/// later positions read, decayed from the chunk's end to the block's.
#[cube]
pub(crate) fn load_chunk_gradient<E: Float, W: Size>(
    tile: &mut TileSlice,
    gradients: &[Vector<E, W>],
    totals: &[f32],
    tree: &Tree,
    row: u32,
    chunk: u32,
    key_block: u32,
    value_block: u32,
    #[comptime] arithmetic: Arithmetic,
) {
    let width = W::value();
    let (share, row_vectors) = (share::<W>(), comptime!(SIDE / width));
    let columns = tree.value_blocks as usize * comptime!(SIDE);
    let mut sums = Array::<Vector<f32, W>>::new(share);
    #[unroll]
    for i in 0..share {
        sums[i] = Vector::new(0.0f32);
    }
    let first = row as usize * tree.nodes as usize;
    let mut decay = 0.0f32;
    let mut offset = 0u32;
    let mut height = 0u32;
    while (tree.chunks - 1) >> height > 0 {
        let block = chunk >> height;
        if block % 2 == 0 && ((block + 1) << height) < tree.chunks {
            let node = first + (offset + block) as usize;
            let factor = Vector::<f32, W>::new(decay.exp());
            let start = tile_start(tree, node, key_block, value_block);
            #[unroll]
            for i in 0..share {
                let at = UNIT_POS as usize + comptime!(i * UNITS);
                let gradient = gradients[(start + at / row_vectors * columns) / width + at % row_vectors];
                sums[i] += factor * Vector::cast_from(gradient);
            }
            // Only blocks that are complete have a total, and no other is asked for: higher ones are read
            // only if they are.
            if ((block + 2) << height) <= tree.chunks {
                decay += totals[node + 1];
            }
        }
        offset += tree.chunks >> height;
        height += 1;
    }
    #[unroll]
    for i in 0..share {
        let at = UNIT_POS as usize + comptime!(i * UNITS);
        put::<f32, W>(tile, at / row_vectors, at % row_vectors, sums[i], arithmetic);
    }
}

/// Writes a result to a tile of a node.
#[cube]
pub(crate) fn store_node<E: Float>(
    states: &mut [Vector<E, Const<2>>],
    rows: &Rows,
    tree: &Tree,
    node: usize,
    key_block: u32,
    value_block: u32,
) {
    let start = tile_start(tree, node, key_block, value_block);
    let columns = tree.value_blocks as usize * comptime!(SIDE);
    #[unroll]
    for group in 0..GROUPS {
        let pair = rows.index(group);
        #[unroll]
        for half in 0..2 {
            let row = first_row() as usize + comptime!(half * 8);
            states[(start + row * columns + comptime!(group * 8) + first_column() as usize) / 2] =
                Vector::cast_from(pair[half]);
        }
    }
}

/// States of chunks, Σ_s exp(decay from s to the chunk's end) k_s v_sᵀ, and their whole log-decay.
/// Cubes: (heads of all sequences × chunks, tiles of K × V).
#[cube(launch_unchecked)]
pub(crate) fn chunk_states<E: Float, W: Size>(
    k: &[Vector<E, W>],
    v: &[Vector<E, W>],
    log_decay: &[f32],
    states: &mut [Vector<E, Const<2>>],
    totals: &mut [f32],
    tree: Tree,
    layouts: Layouts,
    #[comptime] arithmetic: Arithmetic,
) {
    let (row, chunk) = (CUBE_POS_X / tree.chunks, CUBE_POS_X % tree.chunks);
    let (key_block, value_block) = (CUBE_POS_Y / tree.value_blocks, CUBE_POS_Y % tree.value_blocks);
    let place = place_of(row, chunk, tree.heads, tree.seq_len);
    let mut decay = Shared::<[Decay]>::new_slice(comptime!(SIDE));
    let mut factors = Shared::<[f32]>::new_slice(comptime!(SIDE));
    let mut keys = empty_tile(arithmetic);
    let mut values = empty_tile(arithmetic);
    let (mut staged_keys, mut staged_values) = (staged::<W>(), staged::<W>());
    fetch::<E, W>(&mut staged_keys, k, &layouts.k, &place, key_block);
    fetch::<E, W>(&mut staged_values, v, &layouts.v, &place, value_block);
    cumulative_decay(log_decay, &layouts.log_decay, &place, &mut decay);
    if UNIT_POS < 64 {
        factors[UNIT_POS as usize] = between(decay[63], decay[UNIT_POS as usize]).exp();
    }
    sync_cube();
    put_scaled::<E, W>(&mut keys, &staged_keys, &factors, arithmetic);
    put_share::<E, W>(&mut values, &staged_values, arithmetic);
    sync_cube();
    let mut state = zeros();
    let orders = comptime!(Orders { left_transposed: true, right_transposed: false });
    multiply(&mut state, &keys, &values, place.length.div_ceil(16), orders, arithmetic.both());
    let node = (row * tree.nodes + chunk) as usize;
    store_node::<E>(states, &state, &tree, node, key_block, value_block);
    if UNIT_POS == 0 && CUBE_POS_Y == 0 {
        totals[node] = decay[63].extract(0usize);
    }
}

/// One height of the tree from the one below: parent = exp(decay over the right child) · left + right.
/// A unit for a vector of a parent.
#[cube(launch_unchecked)]
pub(crate) fn merge_states<E: Float, W: Size>(
    states: &mut [Vector<E, W>],
    totals: &mut [f32],
    nodes: u32,
    below: u32,
    above: u32,
    parents: u32,
    size: u32,
    count: u32,
) {
    let at = ABSOLUTE_POS as u32;
    if at < count {
        let (element, parent, row) = ((at % size) as usize, at / size % parents, at / size / parents);
        let left = (row * nodes + below + 2 * parent) as usize;
        let to = (row * nodes + above + parent) as usize;
        let size = size as usize;
        let factor = Vector::<f32, W>::new(totals[left + 1].exp());
        let older = Vector::<f32, W>::cast_from(states[left * size + element]);
        let newer = Vector::<f32, W>::cast_from(states[(left + 1) * size + element]);
        states[to * size + element] = Vector::cast_from(older * factor + newer);
        if element == 0 {
            totals[to] = totals[left] + totals[left + 1];
        }
    }
}
