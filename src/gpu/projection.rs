//! Several linear maps of one input on GPUs, as one kernel each way.
//!
//! A node of the autodiff graph has one output. So the maps together are a node whose output nobody reads, the joint,
//! and every map's output is a node on top of it. On the way back an output's node only leaves its gradient where the
//! joint finds it: the graph's order has the joint come after all of them.

use super::launch::{contiguous, width};
use super::linear::fits as fits_linear;
use super::projection_kernel::{project as project_kernel, project_back, projection_shares};
use super::{Arithmetic, DeviceTensor, Operand, empty, matrix, partial, register, resolve, tile};
use burn::backend::autodiff::{
    checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
    grads::Gradients,
    ops::{Backward, NodeGuard, Ops, OpsKind},
};
use burn::backend::{Autodiff, Cube, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};
use cubecl::prelude::{CubeCount, CubeDim, SequenceArg};
use std::sync::{Arc, Mutex, PoisonError};

/// Whether maps are as many and as small as [`project`] takes.
pub(crate) fn fits<const N: usize>(weights: &[Tensor<3>; N]) -> bool {
    (2..=5).contains(&N) && weights.iter().all(|weight| fits_linear(weight.dims()))
}

/// x W_iᵀ for every i, with x [R, M, I] and W_i [R, O_i, I] in f32: outputs [R, M, O_i].
pub(crate) fn project<const N: usize>(
    arithmetic: Arithmetic,
    x: Tensor<3>,
    weights: [Tensor<3>; N],
) -> [Tensor<3>; N] {
    let x = Operand::new(x);
    let weights = weights.map(Operand::new);
    let like = x.primitive();
    let read = |operand: &Operand| contiguous(&resolve(operand.primitive()));
    let maps = Maps { arithmetic, x: read(&x), weights: weights.iter().map(read).collect() };
    let mut outputs = maps.forward().into_iter();
    let outputs = weights.each_ref().map(|_| register(outputs.next().expect("an output a map"), &like));
    if std::iter::once(&x).chain(&weights).all(|operand| matches!(operand, Operand::Plain(_))) {
        return outputs.map(Tensor::from_primitive::<Cube>);
    }
    let nodes = std::iter::once(x).chain(weights).map(|operand| operand.into_graph().node()).collect();
    let left = Gathered::new(Mutex::new(vec![None; N]));
    // Never filled or read: what counts is its place in the graph.
    let nothing = register(empty(&maps.x, [1], DType::F32), &like);
    let joint = match N {
        2 => join::<3>(nodes, maps, left.clone(), nothing.clone()),
        3 => join::<4>(nodes, maps, left.clone(), nothing.clone()),
        4 => join::<5>(nodes, maps, left.clone(), nothing.clone()),
        _ => join::<6>(nodes, maps, left.clone(), nothing.clone()),
    };
    let mut index = 0..N;
    outputs.map(|output| {
        let output_node =
            OutputNode { index: index.next().unwrap_or(0), left: left.clone(), nothing: nothing.clone() };
        let prepared = output_node.prepare::<NoCheckpointing>([joint.clone().node()]);
        Tensor::from_primitive::<Autodiff<Cube>>(prepared.compute_bound().stateless(output))
    })
}

/// The maps' gradients, as far as they have come.
type Gathered = Arc<Mutex<Vec<Option<DeviceTensor>>>>;

fn join<const P: usize>(
    nodes: Vec<NodeGuard>,
    maps: Maps,
    left: Gathered,
    nothing: FloatTensor<Cube>,
) -> FloatTensor<Autodiff<Cube>> {
    let nodes: [NodeGuard; P] = nodes.try_into().expect("a node for the input and for each map");
    match JointNode::<P>(left).prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish(maps, nothing),
        OpsKind::UnTracked(prep) => prep.finish(nothing),
    }
}

/// The node of one map's output.
#[derive(Debug)]
struct OutputNode {
    index: usize,
    left: Gathered,
    nothing: FloatTensor<Cube>,
}

impl Backward<Cube, 1> for OutputNode {
    type State = ();

    fn backward(self, ops: Ops<(), 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = contiguous(&resolve(grads.consume::<Cube>(&ops.node)));
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        // The joint is due if anything has been registered for it; once is enough.
        if let [Some(joint)] = &ops.parents
            && left.iter().all(Option::is_none)
        {
            grads.register::<Cube>(joint.id, self.nothing);
        }
        left[self.index] = Some(grad);
    }
}

/// The node of all maps together: parents are the input and the weights.
#[derive(Debug)]
struct JointNode<const P: usize>(Gathered);

impl<const P: usize> Backward<Cube, P> for JointNode<P> {
    type State = Maps;

    fn backward(self, ops: Ops<Maps, P>, grads: &mut Gradients, _: &mut Checkpointer) {
        let like = grads.consume::<Cube>(&ops.node);
        let gathered = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        // A map on which nothing depends has no gradient.
        let (mut parents, mut kept) = (Vec::new(), Vec::new());
        let Maps { arithmetic, x, weights } = ops.state;
        let [of_x, of_weights @ ..] = ops.parents.as_slice() else { return };
        for ((grad, weight), parent) in gathered.into_iter().zip(weights).zip(of_weights) {
            if let Some(grad) = grad {
                kept.push((grad, weight));
                parents.push(parent);
            }
        }
        let (grad, weights): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
        let maps = Maps { arithmetic, x, weights };
        if let Some(parent) = of_x {
            grads.register::<Cube>(parent.id, register(maps.input_gradient(&grad), &like));
        }
        if parents.iter().any(|parent| parent.is_some()) {
            for (parent, grad) in parents.into_iter().zip(maps.weight_gradients(&grad)) {
                if let Some(parent) = parent {
                    grads.register::<Cube>(parent.id, register(grad, &like));
                }
            }
        }
    }
}

/// What the maps were given, row-major.
#[derive(Clone, Debug)]
struct Maps {
    arithmetic: Arithmetic,
    x: DeviceTensor,
    weights: Vec<DeviceTensor>,
}

impl Maps {
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

    fn size_args(&self) -> SequenceArg<u32> {
        let mut numbers = SequenceArg::new();
        self.sizes().iter().for_each(|&size| numbers.push(size as u32));
        numbers
    }

    fn forward(&self) -> Vec<DeviceTensor> {
        let [runs, rows, inner] = self.dims();
        let output = |size: usize| empty(&self.x, [runs, rows, size], DType::F32);
        let outputs: Vec<DeviceTensor> = self.sizes().into_iter().map(output).collect();
        let (mut weight_args, mut output_args) = (SequenceArg::new(), SequenceArg::new());
        self.weights.iter().for_each(|weight| weight_args.push(weight.clone().into_buffer_arg()));
        outputs.iter().for_each(|output| output_args.push(output.clone().into_buffer_arg()));
        // SAFETY: the sizes are those of the buffers, and widths divide rows.
        unsafe {
            project_kernel::launch_unchecked(
                &self.x.client,
                CubeCount::Static((runs * rows.div_ceil(tile::SIDE)) as u32, 1, 1),
                CubeDim::new_1d(tile::UNITS as u32),
                width(inner),
                self.x.clone().into_buffer_arg(),
                weight_args,
                output_args,
                self.size_args(),
                rows as u32,
                inner as u32,
                self.tiles() as u32,
                self.arithmetic,
            );
        }
        outputs
    }

    /// Gradient of x from those of the outputs.
    fn input_gradient(&self, grads: &[DeviceTensor]) -> DeviceTensor {
        let [runs, rows, inner] = self.dims();
        let x_grad = empty(&self.x, [runs, rows, inner], DType::F32);
        let (mut weight_args, mut grad_args) = (SequenceArg::new(), SequenceArg::new());
        self.weights.iter().for_each(|weight| weight_args.push(weight.clone().into_buffer_arg()));
        grads.iter().for_each(|grad| grad_args.push(grad.clone().into_buffer_arg()));
        let blocks = (runs * rows.div_ceil(tile::SIDE)) as u32;
        // SAFETY: as above.
        unsafe {
            project_back::launch_unchecked(
                &self.x.client,
                CubeCount::Static(blocks, inner.div_ceil(tile::SIDE) as u32, 1),
                CubeDim::new_1d(tile::UNITS as u32),
                width(inner),
                grad_args,
                weight_args,
                x_grad.clone().into_buffer_arg(),
                self.size_args(),
                rows as u32,
                inner as u32,
                self.tiles() as u32,
                self.arithmetic,
            );
        }
        x_grad
    }

    /// Gradients of the weights from those of the outputs.
    fn weight_gradients(&self, grads: &[DeviceTensor]) -> Vec<DeviceTensor> {
        let [runs, rows, inner] = self.dims();
        let (sizes, slices) = (self.sizes(), rows.div_ceil(matrix::SLICE));
        let all: usize = sizes.iter().sum();
        let shares = empty(&self.x, [runs, slices, all * inner], DType::F32);
        let mut grad_args = SequenceArg::new();
        grads.iter().for_each(|grad| grad_args.push(grad.clone().into_buffer_arg()));
        let cubes = runs * slices * self.tiles() * inner.div_ceil(tile::SIDE);
        // SAFETY: as above.
        unsafe {
            projection_shares::launch_unchecked(
                &self.x.client,
                CubeCount::Static(cubes as u32, 1, 1),
                CubeDim::new_1d(tile::UNITS as u32),
                width(inner),
                grad_args,
                self.x.clone().into_buffer_arg(),
                shares.clone().into_buffer_arg(),
                self.size_args(),
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
