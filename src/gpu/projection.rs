//! Several linear maps of one input on GPUs, as one kernel each way.
//!
//! A node of the autodiff graph has one output. So the maps together are a node whose output nobody reads, the joint,
//! and every map's output is a node on top of it. On the way back an output's node only leaves its gradient where the
//! joint finds it: the graph's order has the joint come after all of them.

use super::launch::contiguous;
use super::linear::fits as fits_linear;
use super::maps::Maps;
use super::{Arithmetic, DeviceTensor, Operand, empty, register, resolve};
use burn::backend::autodiff::{
    checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
    grads::Gradients,
    ops::{Backward, NodeGuard, Ops, OpsKind},
};
use burn::backend::{Autodiff, Cube, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};
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
    let maps = Maps::new(arithmetic, read(&x), weights.iter().map(read).collect());
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
        let gathered_count = gathered.len();
        // A map on which nothing depends has no gradient.
        let (mut parents, mut kept) = (Vec::new(), Vec::new());
        let Maps { arithmetic, x, weights, split } = ops.state;
        let [of_x, of_weights @ ..] = ops.parents.as_slice() else { return };
        for ((grad, weight), parent) in gathered.into_iter().zip(weights).zip(of_weights) {
            if let Some(grad) = grad {
                kept.push((grad, weight));
                parents.push(parent);
            }
        }
        let (grad, weights): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
        let all = weights.len() == gathered_count;
        let maps =
            if all { Maps { arithmetic, x, weights, split } } else { Maps::new(arithmetic, x, weights) };
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
