//! What the kernels of the operator know of a chunk: its tiles, its decay and the weights inside it.
//!
//! A sequence is cut into chunks of 64 positions. Two positions of one chunk have the level of their places in
//! it, which is 0 to 6; a position and an earlier chunk have level 7 + the highest bit in which the two chunks'
//! indices differ.

use crate::gpu::tile::{GROUPS, Rows, SIDE, UNITS, first_column, first_row, pitch};
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

/// Vector `at` of the 64 columns of x [N, T, H, columns] from column 64 · `block` on, row after row: its row, its
/// place in a tile and its value, zero beyond the sequence and the last column.
#[cube]
fn vector_of<E: Float, W: Size>(
    x: &[Vector<E, W>],
    layout: &Layout,
    place: &Place,
    block: u32,
    at: u32,
) -> (usize, usize, Vector<E, W>) {
    let pitch = pitch::<W>();
    let width = W::value();
    let row_vectors = comptime!((SIDE / width) as u32);
    let (row, column) = (at / row_vectors, at % row_vectors);
    let from = block * comptime!(SIDE as u32) + column * comptime!(width as u32);
    let mut value = Vector::<E, W>::new(E::from_int(0));
    if row < place.length && from < layout.columns {
        let at = chunk_start(layout, place) + row * layout.position + from;
        value = x[(at / comptime!(width as u32)) as usize];
    }
    (row as usize, row as usize * pitch + column as usize, value)
}

/// Fills a tile with 64 columns of x [N, T, H, columns], from column 64 · `block` on.
#[cube]
pub(crate) fn load<E: Float, W: Size>(
    tile: &mut [Vector<E, W>],
    x: &[Vector<E, W>],
    layout: &Layout,
    place: &Place,
    block: u32,
) {
    let width = W::value();
    #[unroll]
    for i in 0..comptime!(SIDE * SIDE / width / UNITS) {
        let (_row, to, value) =
            vector_of::<E, W>(x, layout, place, block, UNIT_POS + comptime!((i * UNITS) as u32));
        tile[to] = value;
    }
}

/// [`load`], each row multiplied by its factor.
#[cube]
pub(crate) fn load_scaled<E: Float, W: Size>(
    tile: &mut [Vector<E, W>],
    x: &[Vector<E, W>],
    layout: &Layout,
    place: &Place,
    block: u32,
    factors: &[f32],
) {
    let width = W::value();
    #[unroll]
    for i in 0..comptime!(SIDE * SIDE / width / UNITS) {
        let (row, to, value) =
            vector_of::<E, W>(x, layout, place, block, UNIT_POS + comptime!((i * UNITS) as u32));
        let scaled = Vector::<f32, W>::cast_from(value) * Vector::<f32, W>::new(factors[row]);
        tile[to] = Vector::<E, W>::cast_from(scaled);
    }
}

/// Cumulative log-decay inside a chunk: the sum over its positions up to and with each. In f64, so that small
/// differences after a large decay are not lost. Ends with a barrier.
#[cube]
pub(crate) fn cumulative_decay(log_decay: &[f32], layout: &Layout, place: &Place, sums: &mut [f64]) {
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
        sums[first as usize] = through - b;
        sums[first as usize + 1] = through;
    }
    sync_cube();
}

/// λ of the levels inside the chunk: 7 numbers a position. Zero beyond the sequence and λ's levels.
#[cube]
pub(crate) fn local_lambda(lambda: &[f32], layout: &Layout, place: &Place, out: &mut [f32]) {
    let start = chunk_start(layout, place);
    for i in range_stepped(UNIT_POS, comptime!((SIDE * LOCAL_LEVELS) as u32), comptime!(UNITS as u32)) {
        let (row, level) = (i / comptime!(LOCAL_LEVELS as u32), i % comptime!(LOCAL_LEVELS as u32));
        let mut value = 0.0f32;
        if row < place.length && level < layout.columns {
            value = lambda[(start + row * layout.position + level) as usize];
        }
        out[i as usize] = value;
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

/// Products of each row with the same row of a tile, over a plane's columns.
#[cube]
pub(crate) fn dot_rows<E: Float, W: Size>(rows: &Rows, tile: &[Vector<E, W>]) -> (f32, f32) {
    let pitch = pitch::<W>();
    let width = W::value();
    let pairs = tile.with_vector_size::<Const<2>>();
    let half = comptime!(pitch * width / 2);
    let at = first_row() as usize * half + first_column() as usize / 2;
    let mut first = Vector::<f32, Const<2>>::new(0.0f32);
    let mut second = Vector::<f32, Const<2>>::new(0.0f32);
    #[unroll]
    for group in 0..GROUPS {
        let pair = rows.index(group);
        first += pair[0] * Vector::cast_from(pairs[at + comptime!(group * 4)]);
        second += pair[1] * Vector::cast_from(pairs[at + comptime!(group * 4 + 8 * half)]);
    }
    (
        row_sum(first.extract(0usize) + first.extract(1usize)),
        row_sum(second.extract(0usize) + second.extract(1usize)),
    )
}

/// Writes a result to a tile.
#[cube]
pub(crate) fn to_tile<E: Float, W: Size>(tile: &mut [Vector<E, W>], rows: &Rows) {
    let pitch = pitch::<W>();
    let width = W::value();
    let pairs = tile.with_vector_size_mut::<Const<2>>();
    let half = comptime!(pitch * width / 2);
    let at = first_row() as usize * half + first_column() as usize / 2;
    #[unroll]
    for group in 0..GROUPS {
        let pair = rows.index(group);
        pairs[at + comptime!(group * 4)] = Vector::cast_from(pair[0]);
        pairs[at + comptime!(group * 4 + 8 * half)] = Vector::cast_from(pair[1]);
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
    let start = chunk_start(layout, place);
    #[unroll]
    for group in 0..GROUPS {
        let column = block * comptime!(SIDE as u32) + comptime!(group as u32 * 8) + first_column();
        let pair = rows.index(group);
        #[unroll]
        for half in 0..2 {
            let row = first_row() + comptime!(half as u32 * 8);
            if row < place.length && column < layout.columns {
                let at = start + row * layout.position + column;
                x[(at / 2) as usize] = Vector::cast_from(pair[half]);
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
