//! Embedding look-up on GPUs, for tables that are not large.

use super::launch::{contiguous, elementwise, integers, width};
use super::loss_kernel::look_up;
use super::matrix::{SLICE, table_shares};
use super::{Arithmetic, DeviceOp, DeviceTensor, empty, partial, tile};
use burn::tensor::{DType, Int, Tensor};
use cubecl::prelude::{CubeCount, CubeDim};

/// Most rows of a table: its gradient is a product with an indicator matrix of as many columns.
const MOST_ROWS: usize = 1024;

/// Whether a table is small enough for [`Embedding`].
pub(crate) fn fits(vocab: usize) -> bool {
    vocab <= MOST_ROWS
}

/// Rows of a table [R, vocab, D] in f32 by token: output [R, M, D]; zeros for what is no token.
#[derive(Debug)]
pub(crate) struct Embedding {
    /// Tokens [R, M] as i32.
    tokens: DeviceTensor,
    /// Their number M.
    rows: usize,
}

impl Embedding {
    /// Tokens [R, …].
    pub(crate) fn new<const D: usize>(tokens: Tensor<D, Int>) -> Self {
        let rows = tokens.dims()[1..].iter().product();
        Self { tokens: integers(tokens), rows }
    }
}

impl DeviceOp<1> for Embedding {
    fn forward(&self, [table]: &[DeviceTensor; 1]) -> DeviceTensor {
        let [runs, vocab, columns] = table.meta.shape().dims();
        let width = width(columns);
        let count = runs * self.rows * columns / width;
        let (cubes, units) = elementwise(count);
        let out = empty(table, [runs, self.rows, columns], DType::F32);
        // SAFETY: the sizes are those of the buffers.
        unsafe {
            look_up::launch_unchecked(
                &table.client,
                cubes,
                units,
                width,
                contiguous(table).into_buffer_arg(),
                self.tokens.clone().into_buffer_arg(),
                out.clone().into_buffer_arg(),
                self.rows as u32,
                (columns / width) as u32,
                vocab as u32,
                count as u32,
            );
        }
        out
    }

    fn backward(
        &self,
        [table]: &[DeviceTensor; 1],
        grad: DeviceTensor,
        _: [bool; 1],
    ) -> [Option<DeviceTensor>; 1] {
        let [runs, vocab, columns] = table.meta.shape().dims();
        let slices = self.rows.div_ceil(SLICE);
        let shares = empty(table, [runs, slices, vocab * columns], DType::F32);
        let tiles = vocab.div_ceil(tile::SIDE) * columns.div_ceil(tile::SIDE);
        // SAFETY: the sizes are those of the buffers.
        unsafe {
            table_shares::launch_unchecked(
                &table.client,
                CubeCount::Static((runs * slices) as u32, tiles as u32, 1),
                CubeDim::new_1d(tile::UNITS as u32),
                width(columns),
                self.tokens.clone().into_buffer_arg(),
                contiguous(&grad).into_buffer_arg(),
                shares.clone().into_buffer_arg(),
                self.rows as u32,
                columns as u32,
                vocab as u32,
                // Sums of gradients, not to be rounded.
                Arithmetic::Full,
            );
        }
        let [of_table] = partial::add_up(&shares, runs, slices, [[vocab, columns]]);
        [Some(of_table)]
    }
}
