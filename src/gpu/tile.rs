//! 64 × 64 tiles, and the results of their products.
//!
//! A cube has eight planes; each owns 16 rows and 32 columns of a result, in registers: plane p the rows from
//! 16 · (p % 4) and the columns from 32 · (p / 4) on.
//!
//! Tensor cores multiply numbers of few digits, so an f32 in a tile is the sum of several bf16, its parts: the first
//! is the number rounded, the next what that left, and so on. A part of a tile lies in shared memory with 16 bytes of padding a row, so
//! that the lanes of a fragment fall into different banks.

use crate::cohort::Products;
use cubecl::prelude::*;
use half::bf16;

/// Rows and columns of a tile.
pub(crate) const SIDE: usize = 64;
/// Units of a cube: eight planes of 32.
pub(crate) const UNITS: usize = 256;
/// Groups of 8 columns that a plane owns.
pub(crate) const GROUPS: usize = 4;
/// Elements of a tile's vectors: 16 bytes.
const WIDTH: usize = 8;
/// Vectors from one row of a tile to the next: one more than a row has.
pub(crate) const PITCH: usize = SIDE / WIDTH + 1;
/// Vectors from one part of a tile to the next.
pub(crate) const PART: usize = SIDE * PITCH;

/// How numbers are multiplied; sums are f32 always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    /// Numbers that are bf16, as they are: one product.
    Bf16,
    /// f32 in two parts, 16 bits of mantissa: three products.
    High,
    /// f32 in three parts, all 24 bits: six products.
    Full,
}

impl From<Products> for Arithmetic {
    fn from(products: Products) -> Self {
        match products {
            Products::Full => Self::Full,
            Products::High => Self::High,
        }
    }
}

impl Arithmetic {
    /// Parts of a number.
    pub(crate) const fn parts(self) -> usize {
        match self {
            Self::Bf16 => 1,
            Self::High => 2,
            Self::Full => 3,
        }
    }

    /// Parts of both factors of a product.
    pub(crate) const fn both(self) -> (usize, usize) {
        (self.parts(), self.parts())
    }
}

/// A tile in shared memory: 64 rows of 64 numbers, part after part.
pub(crate) type Tile = Shared<[Vector<bf16, Const<WIDTH>>]>;
/// A tile as functions take it.
pub(crate) type TileSlice = [Vector<bf16, Const<WIDTH>>];

/// Neighbouring columns 2t and 2t + 1 of a group of 8, in rows r and r + 8 of a plane's 16, where r = lane / 4
/// and t = lane % 4.
pub(crate) type Pair = Array<Vector<f32, Const<2>>>;
/// A plane's part of a result: a pair for each of its groups of 8 columns.
pub(crate) type Rows = Sequence<Pair>;

/// 16 bytes of a tensor, of whatever numbers: halves of words that a branch or a loop carries apart would have to be put
/// together again.
pub(crate) type Words = Vector<u32, Const<4>>;

/// An empty tile.
#[cube]
pub(crate) fn empty_tile(#[comptime] arithmetic: Arithmetic) -> Tile {
    Shared::new_aligned_slice(comptime!(arithmetic.parts() * PART), 16usize)
}

/// Writes a vector of W numbers to a tile: the one of this index in a row.
#[cube]
pub(crate) fn put<E: Float, W: Size>(
    tile: &mut TileSlice,
    row: usize,
    index: usize,
    value: Vector<E, W>,
    #[comptime] arithmetic: Arithmetic,
) {
    let width = W::value();
    let out = tile.with_vector_size_mut::<W>();
    let at = row * comptime!(PITCH * WIDTH / width) + index;
    if comptime!(arithmetic == Arithmetic::Bf16) {
        out[at] = Vector::<bf16, W>::cast_from(value);
    } else {
        let mut rest = Vector::<f32, W>::cast_from(value);
        #[unroll]
        for part in 0..comptime!(arithmetic.parts() - 1) {
            let mut rounded = Vector::<bf16, W>::new(bf16::from_int(0));
            #[unroll]
            for i in 0..comptime!(width / 2) {
                // One instruction rounds two numbers to one word, of which each half is one as f32 begins.
                let mut two = Vector::<f32, Const<2>>::new(rest.extract(comptime!(2 * i)));
                two.insert(1usize, rest.extract(comptime!(2 * i + 1)));
                let pair = Vector::<bf16, Const<2>>::cast_from(two);
                let word = u32::reinterpret(pair);
                rounded.insert(comptime!(2 * i), pair.extract(0usize));
                rounded.insert(comptime!(2 * i + 1), pair.extract(1usize));
                let (first, second) = (f32::reinterpret(word << 16), f32::reinterpret(word & 0xffff_0000u32));
                rest.insert(comptime!(2 * i), two.extract(0usize) - first);
                rest.insert(comptime!(2 * i + 1), two.extract(1usize) - second);
            }
            if comptime!(width == 1) {
                rounded = Vector::cast_from(rest);
                rest = rest - Vector::cast_from(rounded);
            }
            out[at + comptime!(part * PART * WIDTH / width)] = rounded;
        }
        out[at + comptime!((arithmetic.parts() - 1) * PART * WIDTH / width)] = Vector::cast_from(rest);
    }
}

/// Vectors of a tile with all its parts, without padding.
pub(crate) const fn whole(arithmetic: Arithmetic) -> usize {
    arithmetic.parts() * SIDE * SIDE / WIDTH
}

/// Place in a tile of a vector of a tile without padding.
#[cube]
fn padded(at: u32) -> usize {
    let (row, index) = (at / comptime!((SIDE / WIDTH) as u32), at % comptime!((SIDE / WIDTH) as u32));
    // Rows of all parts follow one another.
    (row * comptime!(PITCH as u32) + index) as usize
}

/// Copies a tile from memory where it lies without padding, from this vector on.
#[cube]
pub(crate) fn read_tile(
    tile: &mut TileSlice,
    from: &TileSlice,
    start: usize,
    #[comptime] arithmetic: Arithmetic,
) {
    #[unroll]
    for i in 0..comptime!((whole(arithmetic) / UNITS) as u32) {
        let at = UNIT_POS + comptime!(i * UNITS as u32);
        tile[padded(at)] = from[start + at as usize];
    }
}

/// The reverse of [`read_tile`].
#[cube]
pub(crate) fn write_tile(
    tile: &TileSlice,
    to: &mut TileSlice,
    start: usize,
    #[comptime] arithmetic: Arithmetic,
) {
    #[unroll]
    for i in 0..comptime!((whole(arithmetic) / UNITS) as u32) {
        let at = UNIT_POS + comptime!(i * UNITS as u32);
        to[start + at as usize] = tile[padded(at)];
    }
}

/// A result of zeros.
#[cube]
pub(crate) fn zeros() -> Rows {
    let mut rows = Sequence::new();
    #[unroll]
    for _ in 0..GROUPS {
        let mut pair = Array::new(2usize);
        pair[0] = Vector::new(0.0f32);
        pair[1] = Vector::new(0.0f32);
        rows.push(pair);
    }
    rows
}

/// Place of a unit in its plane: of 32 always here, which a compiler is not told of a plane's own size.
#[cube]
pub(crate) fn lane() -> u32 {
    UNIT_POS % 32
}

/// This plane's first row.
#[cube]
pub(crate) fn plane_row() -> u32 {
    UNIT_POS / 32 % 4 * 16
}

/// Number of this plane's first group of 8 columns.
#[cube]
pub(crate) fn plane_group() -> u32 {
    UNIT_POS / 128 * comptime!(GROUPS as u32)
}

/// The first of this unit's two rows of a result; the second is 8 below.
#[cube]
pub(crate) fn first_row() -> u32 {
    plane_row() + lane() / 4
}

/// The first of this unit's columns of a result: it has this one and the next in each of its plane's groups.
#[cube]
pub(crate) fn first_column() -> u32 {
    plane_group() * 8 + lane() % 4 * 2
}
