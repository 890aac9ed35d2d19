//! Products of 64 × 64 tiles on tensor cores.
//!
//! A cube has eight planes; each owns 16 rows and 32 columns of a result, in registers: plane p the rows from
//! 16 · (p % 4) and the columns from 32 · (p / 4) on. A tile in shared memory has 16 bytes of padding a row, so that
//! the lanes of a fragment fall into different banks.

use cubecl::cmma::{MatrixIdent, MmaDefinition};
use cubecl::prelude::*;
use cubecl::tf32;

/// Rows and columns of a tile.
pub(crate) const SIDE: usize = 64;
/// Units of a cube: eight planes of 32.
pub(crate) const UNITS: usize = 256;
/// Groups of 8 columns that a plane owns.
pub(crate) const GROUPS: usize = 4;

/// How numbers are multiplied; sums are f32 always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    /// Tiles of bf16.
    Bf16,
    /// Tiles of f32, rounded to 10 bits of mantissa.
    Tf32,
    /// Tiles of f32, each number as the sum of two of 10 bits: close to f32, at three times the products.
    Split,
}

/// How the factors of a product are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Orders {
    /// The left factor's tile is its transpose.
    pub(crate) left_transposed: bool,
    /// The right factor's tile is its transpose.
    pub(crate) right_transposed: bool,
}

/// Neighbouring columns 2t and 2t + 1 of a group of 8, in rows r and r + 8 of a plane's 16, where r = lane / 4
/// and t = lane % 4.
pub(crate) type Pair = Array<Vector<f32, Const<2>>>;
/// A plane's part of a result: a pair for each of its groups of 8 columns.
pub(crate) type Rows = Sequence<Pair>;

/// Vectors of W elements from one row of a tile to the next: one more than a row has.
#[cube]
pub(crate) fn pitch<W: Size>() -> comptime_type!(usize) {
    let width = W::value();
    comptime!(SIDE / width + 1)
}

/// An empty tile.
#[cube]
pub(crate) fn empty_tile<E: Float, W: Size>() -> Shared<[Vector<E, W>]> {
    let pitch = pitch::<W>();
    Shared::new_aligned_slice(comptime!(SIDE * pitch), 16usize)
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

/// What of a product is computed: the rest is known to be zero or not needed.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Extent {
    /// The inner axis counts from 16 times this on,
    pub(crate) first_step: u32,
    /// and up to 16 times this.
    pub(crate) end_step: u32,
    /// The result's columns are computed from 8 times this on,
    pub(crate) first_group: u32,
    /// and up to 8 times this.
    pub(crate) end_group: u32,
}

/// All of a product.
#[cube]
pub(crate) fn whole() -> Extent {
    Extent { first_step: 0u32, end_step: 4u32, first_group: 0u32, end_group: 8u32 }
}

/// Adds left · right.
#[cube]
pub(crate) fn multiply<E: Float, W: Size>(
    sums: &mut Rows,
    left: &[Vector<E, W>],
    right: &[Vector<E, W>],
    extent: &Extent,
    #[comptime] orders: Orders,
    #[comptime] arithmetic: Arithmetic,
) {
    let row = plane_row();
    for step in extent.first_step..extent.end_step {
        if comptime!(arithmetic == Arithmetic::Bf16) {
            let a = load_a::<E, W>(left, row, step * 16, orders.left_transposed);
            multiply_bf16::<E, W>(sums, &a, right, step * 16, extent, orders.right_transposed);
        } else {
            #[unroll]
            for half in 0..2 {
                let depth = step * 16 + comptime!(half as u32 * 8);
                let mut a = Array::new(4usize);
                #[unroll]
                for i in 0..4 {
                    let r = row + UNIT_POS_PLANE / 4 + comptime!(i as u32 % 2 * 8);
                    let c = UNIT_POS_PLANE % 4 * 2 + comptime!(i as u32 / 2) + depth;
                    a[i] = element::<E, W>(left, r, c, orders.left_transposed);
                }
                multiply_f32::<E, W>(sums, &a, right, depth, extent, orders.right_transposed, arithmetic);
            }
        }
    }
}

/// Element (row, column) of the matrix that a tile of f32 holds, itself or its transpose.
#[cube]
fn element<E: Float, W: Size>(
    tile: &[Vector<E, W>],
    row: u32,
    column: u32,
    #[comptime] transposed: bool,
) -> f32 {
    let pitch = pitch::<W>();
    let width = W::value();
    let pitch = comptime!((pitch * width) as u32);
    let scalars = tile.with_vector_size::<Const<1>>();
    let index = if comptime!(transposed) { column * pitch + row } else { row * pitch + column };
    f32::cast_from(scalars[index as usize].extract(0usize))
}

/// Fragment of a left factor: rows from `row`, 16 of the inner axis from `depth`.
#[cube]
fn load_a<E: Float, W: Size>(
    tile: &[Vector<E, W>],
    row: u32,
    depth: u32,
    #[comptime] transposed: bool,
) -> Array<Vector<E, Const<2>>> {
    let pitch = pitch::<W>();
    let pitch = comptime!(pitch as u32);
    let lane = UNIT_POS_PLANE;
    // Lane l points to row l % 8 of the 8 × 8 matrix l / 8: rows 0 or 8, then columns 0 or 8.
    let (r, c) = if comptime!(transposed) {
        (lane / 16 * 8 + lane % 8 + depth, row + lane / 8 % 2 * 8)
    } else {
        (row + lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8 + depth)
    };
    let start = (r * pitch + c / 8) as usize;
    let definition = MmaDefinition::<E, E, f32>::new(16usize, 8usize, 16usize);
    definition.load_matrix::<_, Const<2>>(&tile[start..start + 1], MatrixIdent::A, 4usize, transposed)
}

#[cube]
fn multiply_bf16<E: Float, W: Size>(
    sums: &mut Rows,
    a: &Array<Vector<E, Const<2>>>,
    right: &[Vector<E, W>],
    depth: u32,
    extent: &Extent,
    #[comptime] transposed: bool,
) {
    let pitch = pitch::<W>();
    let pitch = comptime!(pitch as u32);
    let lane = UNIT_POS_PLANE;
    let definition = MmaDefinition::<E, E, f32>::new(16usize, 8usize, 16usize);
    #[unroll]
    for double in 0..comptime!(GROUPS / 2) {
        let number = plane_group() + comptime!(double as u32 * 2);
        if number + 2 > extent.first_group && number < extent.end_group {
            let column = number * 8;
            // Two groups of columns at once: matrices at depth 0 and 8 of the first, then of the second.
            let (r, c) = if comptime!(transposed) {
                (column + lane / 16 * 8 + lane % 8, depth + lane / 8 % 2 * 8)
            } else {
                (depth + lane / 8 % 2 * 8 + lane % 8, column + lane / 16 * 8)
            };
            let start = (r * pitch + c / 8) as usize;
            let b = definition.load_matrix::<_, Const<2>>(
                &right[start..start + 1],
                MatrixIdent::B,
                4usize,
                comptime!(!transposed),
            );
            #[unroll]
            for i in 0..2 {
                let mut fragment = Array::new(2usize);
                fragment[0] = b[comptime!(2 * i)];
                fragment[1] = b[comptime!(2 * i + 1)];
                definition.execute_inplace(a, &fragment, sums.index_mut(comptime!(2 * double + i)));
            }
        }
    }
}

#[cube]
fn multiply_f32<E: Float, W: Size>(
    sums: &mut Rows,
    a: &Array<f32>,
    right: &[Vector<E, W>],
    depth: u32,
    extent: &Extent,
    #[comptime] transposed: bool,
    #[comptime] arithmetic: Arithmetic,
) {
    let (high, low) = split(a, 4usize, arithmetic);
    let definition = MmaDefinition::<tf32, tf32, f32>::new(16usize, 8usize, 8usize);
    #[unroll]
    for group in 0..GROUPS {
        let number = plane_group() + comptime!(group as u32);
        if number >= extent.first_group && number < extent.end_group {
            let mut b = Array::new(2usize);
            #[unroll]
            for i in 0..2 {
                let r = UNIT_POS_PLANE % 4 * 2 + comptime!(i as u32) + depth;
                b[i] = element::<E, W>(right, r, UNIT_POS_PLANE / 4 + number * 8, transposed);
            }
            let (b_high, b_low) = split(&b, 2usize, arithmetic);
            let sum = sums.index_mut(group);
            if comptime!(arithmetic == Arithmetic::Split) {
                definition.execute_inplace(&low, &b_high, sum);
                definition.execute_inplace(&high, &b_low, sum);
            }
            definition.execute_inplace(&high, &b_high, sum);
        }
    }
}

/// Each number as the sum of two that tf32 holds.
#[cube]
fn split(
    values: &Array<f32>,
    #[comptime] count: usize,
    #[comptime] arithmetic: Arithmetic,
) -> (Array<Vector<tf32, Const<1>>>, Array<Vector<tf32, Const<1>>>) {
    let mut high = Array::new(count);
    let mut low = Array::new(count);
    #[unroll]
    for i in 0..count {
        // Products ignore the lower 13 bits of the mantissa. Alone, the number is rounded.
        let bits = u32::reinterpret(values[i]);
        let upper = if comptime!(arithmetic == Arithmetic::Tf32) {
            f32::reinterpret(bits + 0x1000u32)
        } else {
            f32::reinterpret(bits & 0xffff_e000u32)
        };
        high[i] = Vector::<tf32, Const<1>>::reinterpret(Vector::<f32, Const<1>>::new(upper));
        low[i] = Vector::<tf32, Const<1>>::reinterpret(Vector::<f32, Const<1>>::new(values[i] - upper));
    }
    (high, low)
}
