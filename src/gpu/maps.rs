//! Launches of the kernels of linear maps: one or several of one input.

use super::launch::{buffers, sizes_arg, width};
use super::projection_kernel::{project, project_back, projection_shares, split_weights};
use super::{Arithmetic, DeviceTensor, empty, matrix, partial, tile};
use burn::tensor::DType;
use cubecl::prelude::{CubeCount, CubeDim, SequenceArg};

/// x [R, M, I] and weights [R, O_i, I] of maps y_i = x W_iᵀ, row-major, in f32.
#[derive(Clone, Debug)]
pub(super) struct Maps {
    pub(super) arithmetic: Arithmetic,
    pub(super) x: DeviceTensor,
    pub(super) weights: Vec<DeviceTensor>,
    /// The weights in tiles, as products take them.
    pub(super) split: DeviceTensor,
}

impl Maps {
    pub(super) fn new(arithmetic: Arithmetic, x: DeviceTensor, weights: Vec<DeviceTensor>) -> Self {
        let [runs, _, inner] = x.meta.shape().dims();
        let blocks = inner.div_ceil(tile::SIDE);
        let mut maps = Self { arithmetic, split: x.clone(), x, weights };
        let cubes = runs * maps.tiles() * blocks;
        let size = cubes * arithmetic.parts() * tile::SIDE * tile::SIDE;
        let split = empty(&maps.x, [size], DType::BF16);
        // SAFETY: the sizes are those of the buffers, and widths divide rows.
        unsafe {
            split_weights::launch_unchecked(
                &maps.x.client,
                CubeCount::Static(cubes as u32, 1, 1),
                Self::units(),
                width(inner),
                buffers!(maps.weights),
                split.clone().into_buffer_arg(),
                sizes_arg(&maps.sizes()),
                inner as u32,
                maps.tiles() as u32,
                arithmetic,
            );
        }
        maps.split = split;
        maps
    }

    fn units() -> CubeDim {
        CubeDim::new_1d(tile::UNITS as u32)
    }

    /// R, M, I.
    fn dims(&self) -> [usize; 3] {
        self.x.meta.shape().dims()
    }

    /// O_i of every map.
    fn sizes(&self) -> Vec<usize> {
        self.weights.iter().map(|weight| weight.meta.shape().dims::<3>()[1]).collect()
    }

    /// Blocks of 64 outputs, each map's own.
    fn tiles(&self) -> usize {
        self.sizes().iter().map(|size| size.div_ceil(tile::SIDE)).sum()
    }

    /// y_i [R, M, O_i].
    pub(super) fn forward(&self) -> Vec<DeviceTensor> {
        let [runs, rows, inner] = self.dims();
        let output = |size: usize| empty(&self.x, [runs, rows, size], DType::F32);
        let outputs: Vec<DeviceTensor> = self.sizes().into_iter().map(output).collect();
        // SAFETY: as above.
        unsafe {
            project::launch_unchecked(
                &self.x.client,
                CubeCount::Static((runs * rows.div_ceil(tile::SIDE)) as u32, 1, 1),
                Self::units(),
                width(inner),
                self.x.clone().into_buffer_arg(),
                self.split.clone().into_buffer_arg(),
                buffers!(outputs),
                sizes_arg(&self.sizes()),
                rows as u32,
                inner as u32,
                self.tiles() as u32,
                self.arithmetic,
            );
        }
        outputs
    }

    /// Gradient of x from those of the outputs.
    pub(super) fn input_gradient(&self, grads: &[DeviceTensor]) -> DeviceTensor {
        let [runs, rows, inner] = self.dims();
        let x_grad = empty(&self.x, [runs, rows, inner], DType::F32);
        let blocks = (runs * rows.div_ceil(tile::SIDE)) as u32;
        // SAFETY: as above.
        unsafe {
            project_back::launch_unchecked(
                &self.x.client,
                CubeCount::Static(blocks, inner.div_ceil(tile::SIDE) as u32, 1),
                Self::units(),
                width(inner).min(2),
                buffers!(grads),
                self.split.clone().into_buffer_arg(),
                x_grad.clone().into_buffer_arg(),
                sizes_arg(&self.sizes()),
                rows as u32,
                inner as u32,
                self.tiles() as u32,
                self.arithmetic,
            );
        }
        x_grad
    }

    /// Gradients of the weights from those of the outputs.
    pub(super) fn weight_gradients(&self, grads: &[DeviceTensor]) -> Vec<DeviceTensor> {
        let [runs, rows, inner] = self.dims();
        let (sizes, slices) = (self.sizes(), rows.div_ceil(matrix::SLICE));
        let all: usize = sizes.iter().sum();
        let shares = empty(&self.x, [runs, slices, all * inner], DType::F32);
        let cubes = runs * slices * self.tiles() * inner.div_ceil(tile::SIDE);
        // SAFETY: as above.
        unsafe {
            projection_shares::launch_unchecked(
                &self.x.client,
                CubeCount::Static(cubes as u32, 1, 1),
                Self::units(),
                width(inner),
                buffers!(grads),
                self.x.clone().into_buffer_arg(),
                shares.clone().into_buffer_arg(),
                sizes_arg(&self.sizes()),
                rows as u32,
                inner as u32,
                self.tiles() as u32,
                all as u32,
                self.arithmetic,
            );
        }
        let shapes: Vec<[usize; 2]> = sizes.iter().map(|&size| [size, inner]).collect();
        partial::add_up_many(&shares, runs, slices, &shapes)
    }
}
