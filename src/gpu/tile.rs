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

/// The first of this unit's two rows of a result; the second is 8 below.
#[cube]
pub(crate) fn first_row() -> u32 {
    plane_row() + UNIT_POS_PLANE / 4
}

/// The first of this unit's columns of a result: it has this one and the next in each of its plane's groups.
#[cube]
pub(crate) fn first_column() -> u32 {
    plane_group() * 8 + UNIT_POS_PLANE % 4 * 2
}

/// What of a product is computed where the rest is known to be zero or not needed: a triangle of it.
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

/// Adds left · right.
#[cube]
pub(crate) fn multiply<E: Float, W: Size>(
    sums: &mut Rows,
    left: &[Vector<E, W>],
    right: &[Vector<E, W>],
    #[comptime] orders: Orders,
    #[comptime] arithmetic: Arithmetic,
) {
    let places = places::<W>(orders, arithmetic);
    for step in 0..4u32 {
        multiply_step::<E, W>(sums, left, right, step, &places, 0xffu32, orders, arithmetic);
    }
}

/// Adds a part of left · right.
#[cube]
pub(crate) fn multiply_part<E: Float, W: Size>(
    sums: &mut Rows,
    left: &[Vector<E, W>],
    right: &[Vector<E, W>],
    extent: &Extent,
    #[comptime] orders: Orders,
    #[comptime] arithmetic: Arithmetic,
) {
    let places = places::<W>(orders, arithmetic);
    // A bit for each group of columns.
    let groups = (1u32 << extent.end_group) - (1u32 << extent.first_group);
    let own = groups >> plane_group();
    if own % 16 > 0 {
        for step in extent.first_step..extent.end_step {
            multiply_step::<E, W>(sums, left, right, step, &places, own, orders, arithmetic);
        }
    }
}

/// Where a unit's first elements of the two factors are: all others are at constant distances.
#[derive(CubeType, Clone, Copy)]
struct Places {
    left: u32,
    right: u32,
}

/// In vectors for bf16, of which a lane points to one row of an 8 × 8 matrix, or else in elements.
#[cube]
fn places<W: Size>(#[comptime] orders: Orders, #[comptime] arithmetic: Arithmetic) -> Places {
    let pitch = pitch::<W>();
    let width = W::value();
    let lane = UNIT_POS_PLANE;
    let row = plane_row();
    let column = plane_group();
    if comptime!(arithmetic == Arithmetic::Bf16) {
        let pitch = comptime!(pitch as u32);
        let (inner, outer) = (lane / 8 % 2, lane / 16);
        let left = if comptime!(orders.left_transposed) {
            (outer * 8 + lane % 8) * pitch + row / 8 + inner
        } else {
            (row + inner * 8 + lane % 8) * pitch + outer
        };
        let right = if comptime!(orders.right_transposed) {
            (column * 8 + outer * 8 + lane % 8) * pitch + inner
        } else {
            (inner * 8 + lane % 8) * pitch + column + outer
        };
        Places { left, right }
    } else {
        let pitch = comptime!((pitch * width) as u32);
        let (along, across) = (lane % 4 * 2, lane / 4);
        let left = if comptime!(orders.left_transposed) {
            along * pitch + row + across
        } else {
            (row + across) * pitch + along
        };
        let right = if comptime!(orders.right_transposed) {
            (column * 8 + across) * pitch + along
        } else {
            along * pitch + column * 8 + across
        };
        Places { left, right }
    }
}

/// Adds the product of 16 columns of the left factor with 16 rows of the right one, for the groups of columns
/// whose bit is set.
#[cube]
fn multiply_step<E: Float, W: Size>(
    sums: &mut Rows,
    left: &[Vector<E, W>],
    right: &[Vector<E, W>],
    step: u32,
    places: &Places,
    groups: u32,
    #[comptime] orders: Orders,
    #[comptime] arithmetic: Arithmetic,
) {
    if comptime!(arithmetic == Arithmetic::Bf16) {
        step_bf16::<E, W>(sums, left, right, step, places, groups, orders);
    } else {
        step_f32::<E, W>(sums, left, right, step, places, groups, orders, arithmetic);
    }
}

#[cube]
fn step_bf16<E: Float, W: Size>(
    sums: &mut Rows,
    left: &[Vector<E, W>],
    right: &[Vector<E, W>],
    step: u32,
    places: &Places,
    groups: u32,
    #[comptime] orders: Orders,
) {
    let pitch = pitch::<W>();
    let down = comptime!(16 * pitch as u32);
    let definition = MmaDefinition::<E, E, f32>::new(16usize, 8usize, 16usize);
    // Rows 0 and 8, then columns 0 and 8 of the fragment.
    let along = if comptime!(orders.left_transposed) { step * down } else { step * 2 };
    let start = (places.left + along) as usize;
    let left_fragment = &left[start..start + 1];
    let a =
        definition.load_matrix::<_, Const<2>>(left_fragment, MatrixIdent::A, 4usize, orders.left_transposed);
    #[unroll]
    for double in 0..comptime!(GROUPS / 2) {
        if groups >> comptime!(2 * double as u32) & 3 > 0 {
            // Depths 0 and 8 of one group of columns, then of the next.
            let along = if comptime!(orders.right_transposed) {
                step * 2 + comptime!(double as u32 * down)
            } else {
                step * down + comptime!(double as u32 * 2)
            };
            let start = (places.right + along) as usize;
            let b = definition.load_matrix::<_, Const<2>>(
                &right[start..start + 1],
                MatrixIdent::B,
                4usize,
                comptime!(!orders.right_transposed),
            );
            #[unroll]
            for i in 0..2 {
                let mut fragment = Array::new(2usize);
                fragment[0] = b[comptime!(2 * i)];
                fragment[1] = b[comptime!(2 * i + 1)];
                definition.execute_inplace(&a, &fragment, sums.index_mut(comptime!(2 * double + i)));
            }
        }
    }
}

#[cube]
fn step_f32<E: Float, W: Size>(
    sums: &mut Rows,
    left: &[Vector<E, W>],
    right: &[Vector<E, W>],
    step: u32,
    places: &Places,
    groups: u32,
    #[comptime] orders: Orders,
    #[comptime] arithmetic: Arithmetic,
) {
    let pitch = pitch::<W>();
    let width = W::value();
    let pitch = comptime!((pitch * width) as u32);
    let left = left.with_vector_size::<Const<1>>();
    let right = right.with_vector_size::<Const<1>>();
    let definition = MmaDefinition::<tf32, tf32, f32>::new(16usize, 8usize, 8usize);
    #[unroll]
    for half in 0..2 {
        let mut a = Array::new(4usize);
        #[unroll]
        for i in 0..4 {
            // The inner axis may be walked in any order: lane t takes 2t and 2t + 1 of 8.
            let (across, along) = comptime!((i as u32 % 2 * 8, half as u32 * 8 + i as u32 / 2));
            let at = if comptime!(orders.left_transposed) {
                step * comptime!(16 * pitch) + comptime!(along * pitch + across)
            } else {
                step * 16 + comptime!(across * pitch + along)
            };
            a[i] = f32::cast_from(left[(places.left + at) as usize].extract(0usize));
        }
        let (a_high, a_low) = split(&a, 4usize, arithmetic);
        #[unroll]
        for group in 0..GROUPS {
            if groups >> comptime!(group as u32) & 1 > 0 {
                let mut b = Array::new(2usize);
                #[unroll]
                for i in 0..2 {
                    let (across, along) = comptime!((group as u32 * 8, half as u32 * 8 + i as u32));
                    let at = if comptime!(orders.right_transposed) {
                        step * 16 + comptime!(across * pitch + along)
                    } else {
                        step * comptime!(16 * pitch) + comptime!(along * pitch + across)
                    };
                    b[i] = f32::cast_from(right[(places.right + at) as usize].extract(0usize));
                }
                let (b_high, b_low) = split(&b, 2usize, arithmetic);
                let sum = sums.index_mut(group);
                if comptime!(arithmetic == Arithmetic::Split) {
                    definition.execute_inplace(&a_low, &b_high, sum);
                    definition.execute_inplace(&a_high, &b_low, sum);
                }
                definition.execute_inplace(&a_high, &b_high, sum);
            }
        }
    }
}

/// Numbers that tf32 holds.
type Rounded = Array<Vector<tf32, Const<1>>>;

/// Each number as the sum of two that tf32 holds.
#[cube]
fn split(
    values: &Array<f32>,
    #[comptime] count: usize,
    #[comptime] arithmetic: Arithmetic,
) -> (Rounded, Rounded) {
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
