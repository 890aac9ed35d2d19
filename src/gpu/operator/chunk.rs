//! What the kernels of the operator know of a chunk: its tiles, its decay and the weights inside it.
//!
//! A sequence is cut into chunks of 64 positions. Two positions of one chunk have the level of their places in
//! it, which is 0 to 6; a position and an earlier chunk have level 7 + the highest bit in which the two chunks'
//! indices differ.

use crate::gpu::tile::{
    Arithmetic, GROUPS, Rows, SIDE, TileSlice, UNITS, Words, first_column, first_row, put,
};
use cubecl::prelude::*;

/// Levels of positions inside a chunk.
pub(crate) const LOCAL_LEVELS: usize = 7;

/// Where the elements of a tensor [N, T, H, columns] are; columns are next to each other.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct Layout {
    /// Elements from one sequence to the next.
    pub(crate) sequence: u32,
    pub(crate) position: u32,
    pub(crate) head: u32,
    pub(crate) columns: u32,
}

/// First element of a chunk.
#[cube]
pub(crate) fn chunk_start(layout: &Layout, place: &Place) -> u32 {
    place.sequence * layout.sequence + place.head * layout.head + place.start * layout.position
}

/// A chunk of one head.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) sequence: u32,
    pub(crate) head: u32,
    /// First position.
    pub(crate) start: u32,
    /// Positions that the sequence has in this chunk.
    pub(crate) length: u32,
}

#[cube]
pub(crate) fn place_of(row: u32, chunk: u32, heads: u32, seq_len: u32) -> Place {
    let start = chunk * comptime!(SIDE as u32);
    Place {
        sequence: row / heads,
        head: row % heads,
        start,
        length: min(seq_len - start, comptime!(SIDE as u32)),
    }
}

/// A unit's share of 64 columns of x [N, T, H, columns], vectors of W below one another in every so many rows.
#[derive(CubeType, Clone, Copy)]
struct Share {
    /// Row of the first vector.
    row: u32,
    /// Rows that there are: none for a unit whose columns are beyond the last.
    length: u32,
    /// The first vector in memory, and vectors from one to the next.
    start: u32,
    step: u32,
}

#[cube]
fn share_of<W: Size>(layout: &Layout, place: &Place, block: u32) -> Share {
    let width = W::value();
    let row_vectors = comptime!((SIDE / width) as u32);
    let (row, index) = (UNIT_POS / row_vectors, UNIT_POS % row_vectors);
    let from = block * comptime!(SIDE as u32) + index * comptime!(width as u32);
    Share {
        row,
        length: select(from < layout.columns, place.length, 0u32),
        start: (chunk_start(layout, place) + row * layout.position + from) / comptime!(width as u32),
        step: layout.position * comptime!((UNITS * width / SIDE) as u32) / comptime!(width as u32),
    }
}

/// A unit's share of a tile on its way from global to shared memory: issued before other work, it arrives meanwhile.
pub(crate) type Staged = Array<Words>;

/// An empty share.
#[cube]
pub(crate) fn staged<W: Size>() -> Staged {
    let width = W::value();
    Array::new(comptime!(SIDE * SIDE / width / UNITS))
}

/// Reads a unit's share of 64 columns of x [N, T, H, columns], from column 64 · `block` on; zeros beyond the sequence
/// and the last column.
#[cube]
pub(crate) fn fetch<E: Float, W: Size>(
    staged: &mut Staged,
    x: &[Vector<E, W>],
    layout: &Layout,
    place: &Place,
    block: u32,
) {
    let width = W::value();
    let share = share_of::<W>(layout, place, block);
    #[unroll]
    for i in 0..comptime!(SIDE * SIDE / width / UNITS) {
        let row = share.row + comptime!((i * UNITS * width / SIDE) as u32);
        let mut words = Words::new(0u32);
        if row < share.length {
            words = Words::reinterpret(x[(share.start + share.step * comptime!(i as u32)) as usize]);
        }
        staged[i] = words;
    }
}

/// Writes a share to a tile.
#[cube]
pub(crate) fn put_share<E: Float, W: Size>(
    tile: &mut TileSlice,
    staged: &Staged,
    #[comptime] arithmetic: Arithmetic,
) {
    let width = W::value();
    let row_vectors = comptime!(SIDE / width);
    #[unroll]
    for i in 0..comptime!(SIDE * SIDE / width / UNITS) {
        let at = UNIT_POS as usize + comptime!(i * UNITS);
        let value = Vector::<E, W>::reinterpret(staged[i]);
        put::<E, W>(tile, at / row_vectors, at % row_vectors, value, arithmetic);
    }
}

/// [`put_share`], each row multiplied by its factor.
#[cube]
pub(crate) fn put_scaled<E: Float, W: Size>(
    tile: &mut TileSlice,
    staged: &Staged,
    factors: &[f32],
    #[comptime] arithmetic: Arithmetic,
) {
    let width = W::value();
    let row_vectors = comptime!(SIDE / width);
    #[unroll]
    for i in 0..comptime!(SIDE * SIDE / width / UNITS) {
        let at = UNIT_POS as usize + comptime!(i * UNITS);
        let value = Vector::<f32, W>::cast_from(Vector::<E, W>::reinterpret(staged[i]));
        let scaled = value * Vector::<f32, W>::new(factors[at / row_vectors]);
        put::<f32, W>(tile, at / row_vectors, at % row_vectors, scaled, arithmetic);
    }
}

/// [`fetch`] and [`put_share`] at once.
#[cube]
pub(crate) fn load<E: Float, W: Size>(
    tile: &mut TileSlice,
    x: &[Vector<E, W>],
    layout: &Layout,
    place: &Place,
    block: u32,
    #[comptime] arithmetic: Arithmetic,
) {
    let mut share = staged::<W>();
    fetch::<E, W>(&mut share, x, layout, place, block);
    put_share::<E, W>(tile, &share, arithmetic);
}

/// λ of the levels inside the chunk: 7 numbers a position. Zero beyond the sequence and λ's levels.
#[cube]
pub(crate) fn local_lambda(lambda: &[f32], layout: &Layout, place: &Place, out: &mut [f32]) {
    // Four units a position.
    let (row, first) = (UNIT_POS / 4, UNIT_POS % 4);
    let start = chunk_start(layout, place) + row * layout.position;
    #[unroll]
    for i in 0..2u32 {
        let level = first + i * 4;
        if level < comptime!(LOCAL_LEVELS as u32) {
            let mut value = 0.0f32;
            if row < place.length && level < layout.columns {
                value = lambda[(start + level) as usize];
            }
            out[(row * comptime!(LOCAL_LEVELS as u32) + level) as usize] = value;
        }
    }
}

/// λ of one level at a position of the chunk, 0 beyond the sequence.
#[cube]
pub(crate) fn lambda_at(lambda: &[f32], layout: &Layout, place: &Place, row: u32, level: u32) -> f32 {
    let mut value = 0.0f32;
    if row < place.length {
        value = lambda[(chunk_start(layout, place) + row * layout.position + level) as usize];
    }
    value
}

/// Level of a row in group `row_group` of 8 positions and a column in an earlier group.
#[cube]
pub(crate) fn level_of_groups(row_group: u32, column_group: u32) -> u32 {
    35 - (row_group ^ column_group).leading_zeros()
}

/// Level of two positions in one group of 8.
#[cube]
pub(crate) fn level_in_group(row: u32, column: u32) -> u32 {
    32 - (row ^ column).leading_zeros()
}

/// Sum over the four lanes that share a row: over a plane's columns.
#[cube]
pub(crate) fn row_sum(value: f32) -> f32 {
    let pairs = value + plane_shuffle_xor(value, 1);
    pairs + plane_shuffle_xor(pairs, 2)
}

/// result += factor of each row · rows.
#[cube]
pub(crate) fn add_scaled(result: &mut Rows, rows: &Rows, factors: (f32, f32)) {
    #[unroll]
    for group in 0..GROUPS {
        let pair = rows.index(group);
        let sum = result.index_mut(group);
        sum[0] = sum[0] + pair[0] * Vector::new(factors.0);
        sum[1] = sum[1] + pair[1] * Vector::new(factors.1);
    }
}

/// Multiplies each row by its factor.
#[cube]
pub(crate) fn scale(rows: &mut Rows, factors: (f32, f32)) {
    #[unroll]
    for group in 0..GROUPS {
        let pair = rows.index_mut(group);
        pair[0] = pair[0] * Vector::new(factors.0);
        pair[1] = pair[1] * Vector::new(factors.1);
    }
}

/// Products of each row with the same row of 64 columns of x [N, T, H, columns], from column 64 · `block` on, over a
/// plane's columns.
#[cube]
pub(crate) fn dot_rows<E: Float>(
    rows: &Rows,
    x: &[Vector<E, Const<2>>],
    layout: &Layout,
    place: &Place,
    block: u32,
) -> (f32, f32) {
    let column = block * comptime!(SIDE as u32) + first_column();
    let start = chunk_start(layout, place) + first_row() * layout.position + column;
    let mut sums = Array::<f32>::new(2usize);
    #[unroll]
    for half in 0..2 {
        let at = (start + layout.position * comptime!(8 * half as u32)) / 2;
        let mut sum = Vector::<f32, Const<2>>::new(0.0f32);
        if first_row() + comptime!(8 * half as u32) < place.length {
            #[unroll]
            for group in 0..GROUPS {
                if column + comptime!(8 * group as u32) < layout.columns {
                    let value = x[(at + comptime!(4 * group as u32)) as usize];
                    sum += rows.index(group)[half] * Vector::cast_from(value);
                }
            }
        }
        sums[half] = row_sum(sum.extract(0usize) + sum.extract(1usize));
    }
    (sums[0], sums[1])
}

/// Writes a result to a tile.
#[cube]
pub(crate) fn to_tile(tile: &mut TileSlice, rows: &Rows, #[comptime] arithmetic: Arithmetic) {
    let (row, index) = (first_row() as usize, first_column() as usize / 2);
    #[unroll]
    for group in 0..GROUPS {
        let pair = rows.index(group);
        let index = index + comptime!(group * 4);
        put::<f32, Const<2>>(tile, row, index, pair[0], arithmetic);
        put::<f32, Const<2>>(tile, row + 8, index, pair[1], arithmetic);
    }
}

/// Writes a result to 64 columns of x [N, T, H, columns], from column 64 · `block` on.
#[cube]
pub(crate) fn store<E: Float>(
    x: &mut [Vector<E, Const<2>>],
    layout: &Layout,
    rows: &Rows,
    place: &Place,
    block: u32,
) {
    let column = block * comptime!(SIDE as u32) + first_column();
    let start = chunk_start(layout, place) + first_row() * layout.position + column;
    #[unroll]
    for half in 0..2 {
        let at = (start + layout.position * comptime!(8 * half as u32)) / 2;
        if first_row() + comptime!(8 * half as u32) < place.length {
            #[unroll]
            for group in 0..GROUPS {
                if column + comptime!(8 * group as u32) < layout.columns {
                    x[(at + comptime!(4 * group as u32)) as usize] =
                        Vector::cast_from(rows.index(group)[half]);
                }
            }
        }
    }
}

/// Layout of a row-major tensor [N, T, H, columns].
#[cube]
pub(crate) fn contiguous(heads: u32, seq_len: u32, columns: u32) -> Layout {
    let position = heads * columns;
    Layout { sequence: seq_len * position, position, head: columns, columns }
}
