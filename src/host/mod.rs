//! Operations of our own on the CPU: hand-derived forward and backward passes, parallel over
//! independent slices, registered with Burn's autodiff as single nodes.
//!
//! Not for: devices other than the CPU, where the same functions are tensor operations. Callers ask
//! [`applies`] and fall back.

pub(crate) mod attention;
mod attention_backward;
pub(crate) mod embedding;
pub(crate) mod linear;
pub(crate) mod loss;
mod math;
mod matrix;
mod memory;
pub(crate) mod norm;
pub(crate) mod pointwise;
pub(crate) mod softmax;

pub(crate) use math::{Scalar, dot, sum, vectorised};
pub(crate) use matrix::{MatMut, MatRef, product};

use burn::backend::autodiff::{
    checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::{Autodiff, Flex, flex::FlexTensor, tensor::FloatTensor};
use burn::tensor::{DType, Shape, Tensor, TensorData};
use std::fmt::Debug;
use std::sync::LazyLock;

/// A float tensor in host memory.
pub(crate) type HostTensor = FlexTensor;

/// A differentiable function of `N` host tensors with one output.
///
/// The inputs are saved for the backward pass, which recomputes what else it needs: an operation
/// keeps no more memory alive than its arguments.
pub(crate) trait HostOp<const N: usize>: Debug + Send + 'static {
    /// Output of the operation.
    fn forward(&self, inputs: &[HostTensor; N]) -> HostTensor;

    /// Gradients of the inputs that `needed` marks, from the output's gradient.
    fn backward(
        &self,
        inputs: &[HostTensor; N],
        grad: HostTensor,
        needed: [bool; N],
    ) -> [Option<HostTensor>; N];
}

/// Whether a tensor is one that the kernels of this module can take: on the CPU, in f32 or f64, and
/// not told to leave it to tensor operations by `LOGLINEAR_PORTABLE=1`, for comparisons.
pub(crate) fn applies<const D: usize>(tensor: &Tensor<D>) -> bool {
    matches!(tensor.dtype(), DType::F32 | DType::F64)
        && crate::device::is_cpu(&tensor.device())
        && !portable()
}

/// The gradients that `needed` marks.
pub(crate) fn only_needed<T, const N: usize>(grads: [T; N], needed: [bool; N]) -> [Option<T>; N] {
    let mut needed = needed.into_iter();
    grads.map(|grad| needed.next().unwrap_or(false).then_some(grad))
}

/// Whether kernels are to leave their work to tensor operations.
pub(crate) fn portable() -> bool {
    static PORTABLE: LazyLock<bool> =
        LazyLock::new(|| std::env::var("LOGLINEAR_PORTABLE").is_ok_and(|value| value == "1"));
    *PORTABLE
}

/// A host tensor with or without its place in the autodiff graph.
pub(crate) enum Operand {
    Plain(HostTensor),
    Graph(FloatTensor<Autodiff<Flex>>),
}

impl Operand {
    /// Primitive of a tensor for which [`applies`] holds.
    pub(crate) fn new<const D: usize>(tensor: Tensor<D>) -> Self {
        const HELD: &str = "`applies` holds for the tensor";
        if tensor.is_autodiff() {
            Self::Graph(tensor.try_into_primitive::<Autodiff<Flex>>().expect(HELD))
        } else {
            Self::Plain(tensor.try_into_primitive::<Flex>().expect(HELD))
        }
    }

    fn primitive(&self) -> HostTensor {
        match self {
            Self::Plain(tensor) => tensor.clone(),
            Self::Graph(tensor) => tensor.primitive().clone(),
        }
    }

    fn into_graph(self) -> FloatTensor<Autodiff<Flex>> {
        match self {
            Self::Plain(tensor) => FloatTensor::<Autodiff<Flex>>::new(tensor),
            Self::Graph(tensor) => tensor,
        }
    }
}

/// Runs `op` on its operands, as one node of the autodiff graph if any of them is in it.
pub(crate) fn apply<O: HostOp<N>, const N: usize, const D: usize>(
    op: O,
    operands: [Operand; N],
) -> Tensor<D> {
    memory::keep_freed();
    let inputs = operands.each_ref().map(Operand::primitive);
    let output = op.forward(&inputs);
    if operands.iter().all(|operand| matches!(operand, Operand::Plain(_))) {
        return Tensor::from_primitive::<Flex>(output);
    }
    let nodes = operands.map(|operand| operand.into_graph().node());
    let tracked = match Node(op).prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish(inputs, output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    };
    Tensor::from_primitive::<Autodiff<Flex>>(tracked)
}

/// Adapter from [`HostOp`] to Burn's backward trait.
#[derive(Debug)]
struct Node<O>(O);

impl<O: HostOp<N>, const N: usize> Backward<Flex, N> for Node<O> {
    type State = [HostTensor; N];

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let needed = ops.parents.each_ref().map(Option::is_some);
        let input_grads = self.0.backward(&ops.state, grad, needed);
        for (parent, grad) in ops.parents.into_iter().zip(input_grads) {
            if let (Some(parent), Some(grad)) = (parent, grad) {
                grads.register::<Flex>(parent.id, grad);
            }
        }
    }
}

/// Contiguous values of a tensor, in its logical order.
pub(crate) struct Contiguous(HostTensor);

impl Contiguous {
    pub(crate) fn new(tensor: &HostTensor) -> Self {
        Self(tensor.to_contiguous())
    }

    pub(crate) fn slice<S: Scalar>(&self) -> &[S] {
        let layout = self.0.layout();
        &self.0.storage::<S>()[layout.start_offset()..][..layout.num_elements()]
    }
}

/// Host tensor that owns `data` in row-major order.
pub(crate) fn tensor<S: Scalar>(data: Vec<S>, shape: impl Into<Shape>) -> HostTensor {
    FlexTensor::from_data(TensorData::new(data, shape))
}

/// Calls a function that is generic over the scalar type with the type of a tensor.
macro_rules! with_scalar {
    ($tensor:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        match $tensor.dtype() {
            burn::tensor::DType::F32 => $function::<f32>($($argument),*),
            burn::tensor::DType::F64 => $function::<f64>($($argument),*),
            other => unreachable!("`applies` admits f32 and f64, found {other:?}"),
        }
    };
}
pub(crate) use with_scalar;
