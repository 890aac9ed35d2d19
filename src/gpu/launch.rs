//! What launches of kernels on whole tensors have in common.

use super::{DeviceTensor, Operand, register, resolve};
use burn::backend::{Cube, tensor::FloatTensor};
use burn::tensor::{DType, Int, IntDType, Tensor};
use burn_cubecl::{CubeBackend, kernel::into_contiguous};
use cubecl::prelude::{CubeCount, CubeDim, SequenceArg};

/// Units of a cube that works element by element.
pub(super) const ELEMENTWISE: usize = 256;

/// Whether a tensor is in single precision on a GPU, for operations that know no other.
pub(crate) fn single<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::F32 && super::applies(tensor)
}

/// The tensor itself if it is row-major, or else a row-major copy.
pub(super) fn contiguous(tensor: &DeviceTensor) -> DeviceTensor {
    into_contiguous(tensor.clone())
}

/// How many elements of a row a unit reads at once, 16 bytes at most, so that every row starts at such a vector.
/// Tensors start at multiples of more.
pub(super) fn width(columns: usize) -> usize {
    [4, 2].into_iter().find(|width| columns.is_multiple_of(*width)).unwrap_or(1)
}

/// Integers on a GPU as i32, row-major.
pub(crate) fn integers<const D: usize>(tensor: Tensor<D, Int>) -> DeviceTensor {
    const HELD: &str = "callers ask whether the tensor is on a GPU";
    let tensor = if tensor.is_autodiff() { tensor.inner() } else { tensor };
    let tensor = tensor.cast(IntDType::I32).try_into_primitive::<Cube>().expect(HELD);
    contiguous(&tensor.client.clone().resolve_tensor_int::<CubeBackend>(tensor))
}

/// Buffers of tensors, of whatever kind the kernel takes them.
macro_rules! buffers {
    ($tensors:expr) => {{
        let mut buffers = SequenceArg::new();
        $tensors.iter().for_each(|tensor: &DeviceTensor| buffers.push(tensor.clone().into_buffer_arg()));
        buffers
    }};
}
pub(super) use buffers;

/// Sizes that a kernel takes beside such buffers.
pub(super) fn sizes_arg(sizes: &[usize]) -> SequenceArg<u32> {
    let mut numbers = SequenceArg::new();
    sizes.iter().for_each(|&size| numbers.push(size as u32));
    numbers
}

/// A unit for each of `count` elements.
pub(super) fn elementwise(count: usize) -> (CubeCount, CubeDim) {
    let cubes = CubeCount::Static(count.div_ceil(ELEMENTWISE) as u32, 1, 1);
    (cubes, CubeDim::new_1d(ELEMENTWISE as u32))
}

/// A tensor outside the autodiff graph, for functions that are no operations of that graph.
pub(super) struct Plain {
    lazy: FloatTensor<Cube>,
    pub(super) memory: DeviceTensor,
}

impl Plain {
    /// A tensor for which [`single`] holds.
    pub(super) fn new<const D: usize>(tensor: &Tensor<D>) -> Self {
        let lazy = Operand::new(crate::cohort::plain(tensor)).primitive();
        Self { memory: contiguous(&resolve(lazy.clone())), lazy }
    }

    /// A tensor for memory that a kernel has been told to fill.
    pub(super) fn tensor<const D: usize>(&self, memory: DeviceTensor) -> Tensor<D> {
        Tensor::from_primitive::<Cube>(register(memory, &self.lazy))
    }
}
