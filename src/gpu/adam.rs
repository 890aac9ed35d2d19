//! Clipping and Adam on GPUs, in three kernels.

use super::adam_kernel::{SLICE, StepLaunch, UNITS, settle, square_sums, updates};
use super::launch::Plain;
use super::{DeviceTensor, empty};
use burn::tensor::{Bool, DType, Tensor, TensorData};
use cubecl::prelude::{BufferArg, CubeCount, CubeDim};

/// What all steps and runs share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
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
}

impl Rule {
    /// What changes from step to step: every run's rate, and the scales of the moments after so many steps, this one
    /// included.
    pub(crate) fn numbers(&self, rates: &[f64], steps: usize) -> Vec<f32> {
        let correction = |beta: f64| 1.0 - beta.powf(steps as f64);
        let scales = [1.0 / correction(self.beta1), 1.0 / correction(self.beta2).sqrt()];
        rates.iter().chain(&scales).map(|&number| number as f32).collect()
    }

    fn launch(&self) -> StepLaunch {
        StepLaunch::new(
            self.clip as f32,
            self.clip_epsilon as f32,
            self.weight_decay as f32,
            self.beta1 as f32,
            self.beta2 as f32,
            (1.0 - self.beta1) as f32,
            (1.0 - self.beta2) as f32,
            self.epsilon as f32,
        )
    }
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

/// New numbers of all runs, whether they are to have them or not.
struct Updates {
    runs: u32,
    count: u32,
    slices: u32,
    slice: u32,
    parameters: Plain,
    first: Plain,
    second: Plain,
    losses: Plain,
    squares: DeviceTensor,
    flags: DeviceTensor,
    new_parameters: DeviceTensor,
    new_first: DeviceTensor,
    new_second: DeviceTensor,
}

impl Updates {
    fn new(rule: &Rule, state: &State, numbers: &Plain) -> Self {
        let [runs, count] = state.parameters.dims();
        let [parameters, gradients, first, second] =
            [state.parameters, state.gradients, state.first, state.second].map(Plain::new);
        let decayed = state.decayed.map(Plain::new);
        // A run has at most as many slices as a cube has units, which read one number of each.
        let slices = count.div_ceil(SLICE).clamp(1, UNITS);
        let slice = count.div_ceil(slices);
        let matrix = || empty(&parameters.memory, [runs, count], DType::F32);
        let column = || empty(&parameters.memory, [runs * slices], DType::F32);
        let all = Self {
            runs: runs as u32,
            count: count as u32,
            slices: slices as u32,
            slice: slice as u32,
            losses: Plain::new(state.losses),
            squares: column(),
            flags: column(),
            new_parameters: matrix(),
            new_first: matrix(),
            new_second: matrix(),
            parameters,
            first,
            second,
        };
        let client = &all.parameters.memory.client;
        // SAFETY: the sizes are those of the buffers.
        unsafe {
            square_sums::launch_unchecked(
                client,
                all.cubes(),
                units(),
                memory(&gradients),
                all.squares.clone().into_buffer_arg(),
                all.count,
                all.slices,
                all.slice,
            );
            updates::launch_unchecked(
                client,
                all.cubes(),
                units(),
                memory(&all.parameters),
                memory(&gradients),
                memory(&all.first),
                memory(&all.second),
                // Read only if there is a mask.
                memory(decayed.as_ref().unwrap_or(&all.parameters)),
                memory(numbers),
                all.squares.clone().into_buffer_arg(),
                all.new_parameters.clone().into_buffer_arg(),
                all.new_first.clone().into_buffer_arg(),
                all.new_second.clone().into_buffer_arg(),
                all.flags.clone().into_buffer_arg(),
                all.runs,
                all.count,
                all.slices,
                all.slice,
                rule.launch(),
                decayed.is_some(),
                rule.decoupled,
            );
        }
        all
    }

    /// Decides which runs have their new numbers. `alive` is overwritten.
    fn settle(&self, alive: &Plain, numbers: &Plain, outcome: &Plain, in_place: bool) {
        // SAFETY: as above.
        unsafe {
            settle::launch_unchecked(
                &self.parameters.memory.client,
                self.cubes(),
                units(),
                memory(&self.parameters),
                memory(&self.first),
                memory(&self.second),
                self.squares.clone().into_buffer_arg(),
                self.flags.clone().into_buffer_arg(),
                memory(&self.losses),
                memory(alive),
                self.new_parameters.clone().into_buffer_arg(),
                self.new_first.clone().into_buffer_arg(),
                self.new_second.clone().into_buffer_arg(),
                memory(numbers),
                memory(outcome),
                self.runs,
                self.count,
                self.slices,
                self.slice,
                in_place,
            );
        }
    }

    fn cubes(&self) -> CubeCount {
        CubeCount::Static(self.runs * self.slices, 1, 1)
    }
}

fn units() -> CubeDim {
    CubeDim::new_1d(UNITS as u32)
}

fn memory(plain: &Plain) -> BufferArg {
    plain.memory.clone().into_buffer_arg()
}

/// One step of every run at its own rate, with what [`Rule::numbers`] says of it; runs that were not alive, or whose
/// loss, gradient or update is not finite, keep parameters and moments.
pub(crate) fn step(rule: &Rule, state: State, alive: Tensor<1, Bool>, numbers: Vec<f32>) -> Outcome {
    let device = state.parameters.device();
    let shape = [numbers.len()];
    let numbers = Tensor::<1>::from_data(TensorData::new(numbers, shape), (&device, DType::F32));
    let numbers = Plain::new(&numbers);
    let all = Updates::new(rule, &state, &numbers);
    let alive = Plain::new(&alive.float().cast(DType::F32));
    let norms = empty(&all.parameters.memory, [all.runs as usize], DType::F32);
    let norms = Plain::new(&all.parameters.tensor::<1>(norms));
    all.settle(&alive, &numbers, &norms, false);
    let tensor = |memory: &DeviceTensor| all.parameters.tensor(memory.clone());
    Outcome {
        parameters: tensor(&all.new_parameters),
        first: tensor(&all.new_first),
        second: tensor(&all.new_second),
        norms: norms.tensor(norms.memory.clone()),
        alive: alive.tensor::<1>(alive.memory.clone()).greater_elem(0.5),
    }
}

/// [`step`] that overwrites parameters, moments and `alive` (1 or 0 a run), and leaves losses, norms and who is alive
/// in a row of `log` [rows, 3 · runs]: its number stands behind the other numbers.
pub(crate) fn step_in_place(
    rule: &Rule,
    state: State,
    alive: &Tensor<1>,
    log: &Tensor<2>,
    numbers: &Tensor<1>,
) {
    let numbers = Plain::new(numbers);
    let all = Updates::new(rule, &state, &numbers);
    all.settle(&Plain::new(alive), &numbers, &Plain::new(log), true);
}
