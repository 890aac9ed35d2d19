//! Clipping and Adam on GPUs, in three kernels.

use super::adam_kernel::{SLICE, StepLaunch, UNITS, freeze, square_sums, updates};
use super::empty;
use super::launch::Plain;
use burn::tensor::{Bool, DType, Tensor, TensorData};
use cubecl::prelude::{CubeCount, CubeDim};

/// Numbers of a step that all runs share.
pub(crate) struct Step {
    /// Largest norm of a gradient; 0 for any.
    pub(crate) clip: f64,
    /// What is added to a norm before it is divided by.
    pub(crate) clip_epsilon: f64,
    pub(crate) weight_decay: f64,
    /// Decay of the parameters themselves (AdamW), not through the gradients.
    pub(crate) decoupled: bool,
    pub(crate) beta1: f64,
    pub(crate) beta2: f64,
    pub(crate) epsilon: f64,
    /// Steps taken, this one included.
    pub(crate) steps: usize,
}

/// What a step starts from: matrices [runs, parameters] in f32, outside the autodiff graph.
pub(crate) struct State<'a> {
    pub(crate) parameters: &'a Tensor<2>,
    pub(crate) gradients: &'a Tensor<2>,
    pub(crate) first: &'a Tensor<2>,
    pub(crate) second: &'a Tensor<2>,
    /// 1 where weight decay applies and 0 elsewhere, [1, parameters]; none if it applies to all.
    pub(crate) decayed: Option<&'a Tensor<2>>,
    pub(crate) losses: &'a Tensor<1>,
    pub(crate) alive: Tensor<1, Bool>,
}

/// What a step comes to.
pub(crate) struct Outcome {
    pub(crate) parameters: Tensor<2>,
    pub(crate) first: Tensor<2>,
    pub(crate) second: Tensor<2>,
    /// Gradient norms before clipping \[runs\].
    pub(crate) norms: Tensor<1>,
    pub(crate) alive: Tensor<1, Bool>,
}

/// One step of every run at its own rate; runs that were not alive, or whose loss, gradient or update is not finite,
/// keep parameters and moments.
pub(crate) fn step(step: &Step, state: State, rates: &[f64]) -> Outcome {
    let [runs, count] = state.parameters.dims();
    let device = state.parameters.device();
    let rates = Tensor::<1>::from_data(TensorData::new(rates.to_vec(), [runs]), (&device, DType::F32));
    let [parameters, gradients, first, second] =
        [state.parameters, state.gradients, state.first, state.second].map(Plain::new);
    let decayed = state.decayed.map(Plain::new);
    let [losses, alive, rates] =
        [state.losses, &state.alive.float().cast(DType::F32), &rates].map(Plain::new);
    let memory = |plain: &Plain| plain.memory.clone().into_buffer_arg();
    // A run has at most as many slices as a cube has units, which read one number of each.
    let slices = count.div_ceil(SLICE).clamp(1, UNITS);
    let slice = count.div_ceil(slices);
    let matrix = || empty(&parameters.memory, [runs, count], DType::F32);
    let column = |size: usize| empty(&parameters.memory, [size], DType::F32);
    let (new_parameters, new_first, new_second) = (matrix(), matrix(), matrix());
    let (squares, flags, norms, new_alive) =
        (column(runs * slices), column(runs * slices), column(runs), column(runs));
    let correction = |beta: f64| 1.0 - beta.powf(step.steps as f64);
    let numbers = StepLaunch::new(
        step.clip as f32,
        step.clip_epsilon as f32,
        step.weight_decay as f32,
        step.beta1 as f32,
        step.beta2 as f32,
        (1.0 - step.beta1) as f32,
        (1.0 - step.beta2) as f32,
        step.epsilon as f32,
        (1.0 / correction(step.beta1)) as f32,
        (1.0 / correction(step.beta2).sqrt()) as f32,
    );
    let client = &parameters.memory.client;
    let cubes = || CubeCount::Static((runs * slices) as u32, 1, 1);
    let units = CubeDim::new_1d(UNITS as u32);
    // SAFETY: the sizes are those of the buffers.
    unsafe {
        square_sums::launch_unchecked(
            client,
            cubes(),
            units,
            memory(&gradients),
            squares.clone().into_buffer_arg(),
            count as u32,
            slices as u32,
            slice as u32,
        );
        updates::launch_unchecked(
            client,
            cubes(),
            units,
            memory(&parameters),
            memory(&gradients),
            memory(&first),
            memory(&second),
            // Read only if there is a mask.
            memory(decayed.as_ref().unwrap_or(&parameters)),
            memory(&rates),
            squares.clone().into_buffer_arg(),
            new_parameters.clone().into_buffer_arg(),
            new_first.clone().into_buffer_arg(),
            new_second.clone().into_buffer_arg(),
            flags.clone().into_buffer_arg(),
            count as u32,
            slices as u32,
            slice as u32,
            numbers,
            decayed.is_some(),
            step.decoupled,
        );
        freeze::launch_unchecked(
            client,
            cubes(),
            units,
            memory(&parameters),
            memory(&first),
            memory(&second),
            squares.into_buffer_arg(),
            flags.into_buffer_arg(),
            memory(&losses),
            memory(&alive),
            new_parameters.clone().into_buffer_arg(),
            new_first.clone().into_buffer_arg(),
            new_second.clone().into_buffer_arg(),
            norms.clone().into_buffer_arg(),
            new_alive.clone().into_buffer_arg(),
            count as u32,
            slices as u32,
            slice as u32,
        );
    }
    Outcome {
        parameters: parameters.tensor(new_parameters),
        first: parameters.tensor(new_first),
        second: parameters.tensor(new_second),
        norms: parameters.tensor(norms),
        alive: parameters.tensor::<1>(new_alive).greater_elem(0.5),
    }
}
