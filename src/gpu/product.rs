//! Products of tiles, each plane its part of the result.
//!
//! Of the products of parts those count whose numbers add up to less than the larger number of parts: the others are
//! below the last digit that is kept.

use super::tile::{GROUPS, PART, PITCH, Rows, SIDE, TileSlice, lane, plane_group, plane_row};
use cubecl::cmma::{MatrixIdent, MmaDefinition};
use cubecl::prelude::*;
use half::bf16;

/// How the factors of a product are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Orders {
    /// The left factor's tile is its transpose.
    pub(crate) left_transposed: bool,
    /// The right factor's tile is its transpose.
    pub(crate) right_transposed: bool,
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

/// What a unit has of a factor of a product of 16 × 16 numbers.
type Fragment = Array<Vector<bf16, Const<2>>>;

/// Adds left · right, of which the first 16 · `steps` of the inner axis.
#[cube]
pub(crate) fn multiply(
    sums: &mut Rows,
    left: &TileSlice,
    right: &TileSlice,
    steps: u32,
    #[comptime] orders: Orders,
    #[comptime] parts: (usize, usize),
) {
    let places = places(orders);
    for step in 0..steps {
        multiply_step(sums, left, right, step, &places, 0xffu32, orders, parts);
    }
}

/// Steps of a product over what a block of 64 has of `columns`.
#[cube]
pub(crate) fn steps_of(columns: u32, block: u32) -> u32 {
    min((columns - block * comptime!(SIDE as u32)).div_ceil(16), 4)
}

/// Adds a part of left · right.
#[cube]
pub(crate) fn multiply_part(
    sums: &mut Rows,
    left: &TileSlice,
    right: &TileSlice,
    extent: &Extent,
    #[comptime] orders: Orders,
    #[comptime] parts: (usize, usize),
) {
    let places = places(orders);
    // A bit for each group of columns.
    let groups = (1u32 << extent.end_group) - (1u32 << extent.first_group);
    let own = groups >> plane_group();
    if own % 16 > 0 {
        for step in extent.first_step..extent.end_step {
            multiply_step(sums, left, right, step, &places, own, orders, parts);
        }
    }
}

/// Where the rows of 8 × 8 matrices are that a unit points to in the two factors, in vectors: all others are at
/// constant distances.
#[derive(CubeType, Clone, Copy)]
struct Places {
    left: u32,
    right: u32,
}

#[cube]
fn places(#[comptime] orders: Orders) -> Places {
    let pitch = comptime!(PITCH as u32);
    let lane = lane();
    let row = plane_row();
    let column = plane_group();
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
}

/// Adds the product of 16 columns of the left factor with 16 rows of the right one, for the groups of columns
/// whose bit is set; products of the smallest parts first.
#[cube]
fn multiply_step(
    sums: &mut Rows,
    left: &TileSlice,
    right: &TileSlice,
    step: u32,
    places: &Places,
    groups: u32,
    #[comptime] orders: Orders,
    #[comptime] parts: (usize, usize),
) {
    let down = comptime!(16 * PITCH as u32);
    let definition = MmaDefinition::<bf16, bf16, f32>::new(16usize, 8usize, 16usize);
    let orders_taken = comptime!(part_pairs(parts));
    // Rows 0 and 8, then columns 0 and 8 of the fragment.
    let along = if comptime!(orders.left_transposed) { step * down } else { step * 2 };
    let start = (places.left + along) as usize;
    let mut lefts = Sequence::<Fragment>::new();
    #[unroll]
    for part in 0..comptime!(parts.0) {
        let at = start + comptime!(part * PART);
        lefts.push(definition.load_matrix::<_, Const<2>>(
            &left[at..at + 1],
            MatrixIdent::A,
            4usize,
            orders.left_transposed,
        ));
    }
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
            let mut rights = Sequence::<Fragment>::new();
            #[unroll]
            for part in 0..comptime!(parts.1) {
                let at = start + comptime!(part * PART);
                rights.push(definition.load_matrix::<_, Const<2>>(
                    &right[at..at + 1],
                    MatrixIdent::B,
                    4usize,
                    comptime!(!orders.right_transposed),
                ));
            }
            #[unroll]
            for pair in 0..comptime!(orders_taken.len()) {
                let (of_left, of_right) = comptime!(orders_taken[pair]);
                let b = rights.index(of_right);
                #[unroll]
                for i in 0..2 {
                    let mut fragment = Array::new(2usize);
                    fragment[0] = b[comptime!(2 * i)];
                    fragment[1] = b[comptime!(2 * i + 1)];
                    definition.execute_inplace(
                        lefts.index(of_left),
                        &fragment,
                        sums.index_mut(comptime!(2 * double + i)),
                    );
                }
            }
        }
    }
}

/// Which parts of the factors are multiplied with each other.
fn part_pairs((left, right): (usize, usize)) -> Vec<(usize, usize)> {
    let most = left.max(right);
    let mut pairs: Vec<_> = (0..left).flat_map(|l| (0..right).map(move |r| (l, r))).collect();
    pairs.retain(|(l, r)| l + r < most);
    pairs.sort_by_key(|(l, r)| std::cmp::Reverse(l + r));
    pairs
}
