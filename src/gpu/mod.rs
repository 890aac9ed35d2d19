//! Operations of our own on GPUs: CubeCL kernels with hand-derived backward passes, registered with Burn's autodiff
//! as single nodes.
//!
//! The counterpart of `host` on the CPU. Callers ask [`applies`] and fall back to tensor operations, which f64
//! always takes.

// A kernel is launched without bounds checks: every kernel keeps to the shapes that its launch passes.
#![allow(unsafe_code)]
// What a kernel takes is a list of buffers and numbers, and its language knows fewer forms than Rust.
#![allow(
    clippy::too_many_arguments,
    clippy::assign_op_pattern,
    clippy::collapsible_if,
    clippy::manual_div_ceil,
    clippy::manual_is_multiple_of,
    clippy::needless_range_loop,
    clippy::duplicate_underscore_argument
)]

pub(crate) mod adam;
mod adam_kernel;
pub(crate) mod embedding;
pub(crate) mod flat;
mod flat_kernel;
mod launch;
pub(crate) mod linear;
pub(crate) mod loss;
mod loss_kernel;
mod maps;
mod math;
mod matrix;
pub(crate) mod mlp;
mod mlp_gradient_kernel;
mod mlp_kernel;
pub(crate) mod norm;
mod norm_kernel;
pub(crate) mod operator;
mod partial;
pub(crate) mod pointwise;
mod pointwise_kernel;
mod product;
pub(crate) mod projection;
mod projection_kernel;
pub(crate) mod steady;
mod steady_kernel;
pub(crate) mod thread;
mod tile;

pub(crate) use launch::single;
pub(crate) use pointwise_kernel::Function;
pub(crate) use tile::Arithmetic;

use burn::backend::autodiff::{
    checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::{Autodiff, Cube, tensor::FloatTensor};
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use burn_fusion::NoOp;
use burn_ir::{InitOperationIr, OperationIr};
use std::fmt::Debug;

/// A float tensor in a GPU's memory.
pub(crate) type DeviceTensor = CubeTensor;

/// A differentiable function of `N` tensors with one output, as in `host::HostOp`.
pub(crate) trait DeviceOp<const N: usize>: Debug + Send + 'static {
    /// Output of the operation.
    fn forward(&self, inputs: &[DeviceTensor; N]) -> DeviceTensor;

    /// Gradients of the inputs that `needed` marks, from the output's gradient.
    fn backward(
        &self,
        inputs: &[DeviceTensor; N],
        grad: DeviceTensor,
        needed: [bool; N],
    ) -> [Option<DeviceTensor>; N];
}

/// Whether a tensor is one that the kernels of this module can take: on a GPU, in f32 or bf16, and not told to
/// leave it to tensor operations by `LOGLINEAR_PORTABLE=1`, for comparisons.
pub(crate) fn applies<const D: usize>(tensor: &Tensor<D>) -> bool {
    matches!(tensor.dtype(), DType::F32 | DType::BF16)
        && !crate::device::is_cpu(&tensor.device())
        && !crate::host::portable()
}

/// A GPU's tensor with or without its place in the autodiff graph.
pub(crate) enum Operand {
    Plain(FloatTensor<Cube>),
    Graph(FloatTensor<Autodiff<Cube>>),
}

impl Operand {
    /// Primitive of a tensor for which [`applies`] holds.
    pub(crate) fn new<const D: usize>(tensor: Tensor<D>) -> Self {
        const HELD: &str = "`applies` holds for the tensor";
        if tensor.is_autodiff() {
            Self::Graph(tensor.try_into_primitive::<Autodiff<Cube>>().expect(HELD))
        } else {
            Self::Plain(tensor.try_into_primitive::<Cube>().expect(HELD))
        }
    }

    fn primitive(&self) -> FloatTensor<Cube> {
        match self {
            Self::Plain(tensor) => tensor.clone(),
            Self::Graph(tensor) => tensor.primitive().clone(),
        }
    }

    fn into_graph(self) -> FloatTensor<Autodiff<Cube>> {
        match self {
            Self::Plain(tensor) => FloatTensor::<Autodiff<Cube>>::new(tensor),
            Self::Graph(tensor) => tensor,
        }
    }
}

/// The memory behind a tensor, after the operations that it waits for were issued.
fn resolve(tensor: FloatTensor<Cube>) -> DeviceTensor {
    tensor.client.clone().resolve_tensor_float::<CubeBackend>(tensor)
}

/// A tensor of the lazy backend for memory that a kernel has been told to fill.
fn register(tensor: DeviceTensor, like: &FloatTensor<Cube>) -> FloatTensor<Cube> {
    let client = like.client.clone();
    let (shape, dtype) = (tensor.meta.shape().clone(), tensor.dtype);
    let created = InitOperationIr::create(shape, dtype, || client.register_tensor_handle(tensor.into()));
    let mut outputs = client.register(like.stream, OperationIr::Init(created), NoOp::<CubeBackend>::new());
    outputs.remove(0)
}

/// Runs `op` on its operands, as one node of the autodiff graph if any of them is in it.
pub(crate) fn apply<O: DeviceOp<N>, const N: usize, const D: usize>(
    op: O,
    operands: [Operand; N],
) -> Tensor<D> {
    let primitives = operands.each_ref().map(Operand::primitive);
    let inputs = primitives.each_ref().map(|tensor| resolve(tensor.clone()));
    let output = register(op.forward(&inputs), &primitives[0]);
    if operands.iter().all(|operand| matches!(operand, Operand::Plain(_))) {
        return Tensor::from_primitive::<Cube>(output);
    }
    let nodes = operands.map(|operand| operand.into_graph().node());
    let tracked = match Node(op).prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish(inputs, output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    };
    Tensor::from_primitive::<Autodiff<Cube>>(tracked)
}

/// Adapter from [`DeviceOp`] to Burn's backward trait.
#[derive(Debug)]
struct Node<O>(O);

impl<O: DeviceOp<N>, const N: usize> Backward<Cube, N> for Node<O> {
    type State = [DeviceTensor; N];

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Cube>(&ops.node);
        let needed = ops.parents.each_ref().map(Option::is_some);
        let input_grads = self.0.backward(&ops.state, resolve(grad.clone()), needed);
        for (parent, input_grad) in ops.parents.into_iter().zip(input_grads) {
            if let (Some(parent), Some(input_grad)) = (parent, input_grad) {
                grads.register::<Cube>(parent.id, register(input_grad, &grad));
            }
        }
    }
}

/// Uninitialised memory beside `like`, row-major.
fn empty(like: &DeviceTensor, shape: impl Into<Shape>, dtype: DType) -> DeviceTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape.into(), dtype)
}

/// The tensor itself if a kernel can read its last axis `width` elements at a time, or else a row-major copy.
fn readable(tensor: &DeviceTensor, width: usize) -> DeviceTensor {
    let strides = tensor.meta.strides();
    let (last, others) = strides.split_last().expect("every tensor here has an axis");
    let start = tensor.handle.offset_start.unwrap_or(0) as usize;
    let aligned = start.is_multiple_of(width * tensor.dtype.size())
        && others.iter().all(|stride| stride.is_multiple_of(width));
    if *last == 1 && aligned { tensor.clone() } else { into_contiguous(tensor.clone()) }
}
