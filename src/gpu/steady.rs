//! A cohort's training step as one recorded sequence of launches.
//!
//! A step of one run is some 90 kernels of a few microseconds each: launching them takes longer than they run. Every
//! step launches the same ones, so they are recorded once and started together from then on. They find everything
//! at the same place each time: tokens, targets and the numbers of a step are copied there before it, parameters and
//! moments are overwritten, losses left in a log.

use super::adam::{Rule, State, step_in_place};
use super::launch::{Plain, elementwise, integers};
use super::steady_kernel::{UNITS, feed, keep};
use burn::backend::{Cube, tensor::FloatTensor};
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use cubecl::client::{Client, Graph};
use cubecl::prelude::{CubeCount, CubeDim};
use cubecl::server::Handle;

/// Buffers of a step, and its recording once there is one.
pub(crate) struct Steady {
    /// Where all runs stand: matrices [runs, parameters].
    pub(crate) stand: Stand,
    /// Sequences of the step [runs, batch, time].
    pub(crate) tokens: Tensor<3, Int>,
    pub(crate) targets: Tensor<3, Int>,
    rule: Rule,
    decayed: Option<Tensor<2>>,
    /// Rates, scales of the moments, row of the log.
    numbers: Tensor<1>,
    /// Losses, norms and who is alive [rows, 3 · runs].
    log: Tensor<2>,
    /// Where the runs stood before a recording: one that fails leaves nothing of what it would have written.
    before: Stand,
    /// Memory that is held while steps are rehearsed and free when one is recorded: then nothing can be allocated, and
    /// what a step needs may come in another order than before.
    room: Vec<Handle>,
    /// Whether the device keeps allocations for a recording that is not done.
    prepared: bool,
    graph: Option<Graph>,
}

impl Drop for Steady {
    fn drop(&mut self) {
        if self.prepared {
            // Says that there is nothing to stop, and ends the preparation.
            let _ = self.client().stop_capture();
        }
    }
}

/// Parameters and moments of a cohort, and which runs are alive (1 or 0).
#[derive(Clone)]
pub(crate) struct Stand {
    pub(crate) parameters: Tensor<2>,
    pub(crate) first: Tensor<2>,
    pub(crate) second: Tensor<2>,
    pub(crate) alive: Tensor<1>,
}

impl Stand {
    /// The same numbers in memory of their own.
    fn copied(&self) -> Self {
        Self {
            parameters: copied(&self.parameters),
            first: copied(&self.first),
            second: copied(&self.second),
            alive: copied(&self.alive),
        }
    }

    /// Writes the numbers to another's memory.
    fn keep_in(&self, other: &Self) {
        write(&self.parameters, &other.parameters);
        write(&self.first, &other.first);
        write(&self.second, &other.second);
        write(&self.alive, &other.alive);
    }

    /// Which runs are alive.
    pub(crate) fn living(&self) -> Tensor<1, Bool> {
        copied(&self.alive).greater_elem(0.5)
    }
}

fn copied<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
    let copy = Plain::new(&tensor.clone().mul_scalar(1.0));
    copy.tensor(copy.memory.clone())
}

/// Writes one tensor's numbers to the memory of another of its shape.
fn write<const D: usize>(from: &Tensor<D>, to: &Tensor<D>) {
    let count = from.shape().num_elements();
    let [from, to] = [from, to].map(|tensor| Plain::new(tensor).memory);
    let (cubes, units) = elementwise(count);
    // SAFETY: both have `count` numbers, row-major.
    unsafe {
        keep::launch_unchecked(
            &from.client.clone(),
            cubes,
            units,
            from.into_buffer_arg(),
            to.into_buffer_arg(),
            count as u32,
        );
    }
}

impl Steady {
    /// Buffers for a cohort that stands where it is told, batches of [runs, batch, time] and a log of `rows` steps.
    pub(crate) fn new(
        rule: Rule,
        stand: &Stand,
        decayed: Option<Tensor<2>>,
        batch: [usize; 3],
        rows: usize,
    ) -> Self {
        let device = stand.parameters.device();
        let [runs, ..] = batch;
        let sequences = || {
            let zeros = TensorData::new(vec![0i32; batch.iter().product()], batch);
            Tensor::<3, Int>::from_data(zeros, (&device, DType::I32))
        };
        Self {
            stand: stand.copied(),
            tokens: sequences(),
            targets: sequences(),
            rule,
            decayed,
            before: stand.copied(),
            room: Vec::new(),
            numbers: zeros([runs + 3], &device),
            log: zeros([rows, 3 * runs], &device),
            prepared: false,
            graph: None,
        }
    }

    /// Gives the next step the sequences in these rows of all tokens and targets [rows, time], and its numbers: rates of
    /// the runs, steps taken with it, and its row of the log.
    pub(crate) fn feed(
        &self,
        all: [&Tensor<2, Int>; 2],
        places: &[i32],
        rates: &[f64],
        steps: usize,
        row: usize,
    ) {
        let mut numbers = self.rule.numbers(rates, steps);
        numbers.push(row as f32);
        let bits = numbers.iter().map(|number| number.to_bits().cast_signed());
        let sent: Vec<i32> = places.iter().copied().chain(bits).collect();
        let shape = [sent.len()];
        let sent =
            Tensor::<1, Int>::from_data(TensorData::new(sent, shape), (&self.numbers.device(), DType::I32));
        let [all_tokens, all_targets] = all.map(|all| integers(all.clone()));
        let [tokens, targets] = [&self.tokens, &self.targets].map(|own| integers(own.clone()));
        let numbers_memory = Plain::new(&self.numbers).memory;
        // SAFETY: every place is a row of all sequences, and the sizes are those of the buffers.
        unsafe {
            feed::launch_unchecked(
                &tokens.client.clone(),
                CubeCount::Static(places.len() as u32, 1, 1),
                CubeDim::new_1d(UNITS as u32),
                all_tokens.into_buffer_arg(),
                all_targets.into_buffer_arg(),
                integers(sent).into_buffer_arg(),
                tokens.into_buffer_arg(),
                targets.into_buffer_arg(),
                numbers_memory.into_buffer_arg(),
                places.len() as u32,
                self.tokens.dims()[2] as u32,
                numbers.len() as u32,
            );
        }
    }

    /// The end of a step: new parameters from their gradients, and a row of the log.
    pub(crate) fn update(&self, gradients: &Tensor<2>, losses: &Tensor<1>) {
        let Stand { parameters, first, second, alive } = &self.stand;
        let state = State { parameters, gradients, first, second, decayed: self.decayed.as_ref(), losses };
        step_in_place(&self.rule, state, alive, &self.log, &self.numbers);
    }

    /// Has the device keep what steps allocate from now on for a recording. The steps that follow are rehearsals.
    ///
    /// # Errors
    ///
    /// If the device doesn't record, or is recording.
    pub(crate) fn prepare(&mut self) -> Result<(), String> {
        self.client().graph_prepare().map_err(|error| format!("{error:?}"))?;
        self.prepared = true;
        Ok(())
    }

    /// Holds `count` pieces of memory of so many bytes until the recording.
    pub(crate) fn hold(&mut self, count: usize, bytes: usize) {
        let client = self.client();
        self.room.extend((0..count).map(|_| client.empty(bytes)));
    }

    /// Waits until all launches so far are with the device's driver, so that what a step frees is free at the same
    /// moments each time.
    pub(crate) fn align(&self) {
        self.lazy().client.sync(|| ());
        // Whether they went well shows where something is read.
        let _ = self.client().check(std::iter::empty::<&Handle>());
    }

    /// Records what `body` launches, without running it. If that fails, the buffers are lost, and where the runs
    /// stood comes back.
    ///
    /// # Errors
    ///
    /// If something in it can't be recorded.
    pub(crate) fn record(
        &mut self,
        body: impl FnOnce(&Self) -> crate::Result<()>,
    ) -> Result<(), (String, Box<Stand>)> {
        self.stand.keep_in(&self.before);
        let before = self.before.clone();
        let failed = |message: String| (message, Box::new(before.clone()));
        let (numbers, client) = (self.lazy(), self.client());
        self.room.clear();
        self.align();
        client.start_capture().map_err(|error| failed(format!("{error:?}")))?;
        let ran = body(self);
        numbers.client.sync(|| ());
        let graph = client.stop_capture();
        self.prepared = false;
        ran.map_err(|error| failed(error.to_string()))?;
        self.graph = Some(graph.map_err(|error| failed(format!("{error:?}")))?);
        Ok(())
    }

    /// Whether the step is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.graph.is_some()
    }

    /// Runs the recorded step.
    ///
    /// # Errors
    ///
    /// If there is none, or the device refuses it.
    pub(crate) fn replay(&self) -> Result<(), String> {
        let graph = self.graph.as_ref().ok_or("no step is recorded")?;
        // What was fed may still be queued.
        self.lazy().client.sync(|| ());
        // SAFETY: the buffers are this struct's, and live as long as the recording; what the step allocated lies on
        // pages that the recording keeps; all work of a cohort is on one stream.
        unsafe { graph.replay() }.map_err(|error| format!("{error:?}"))
    }

    /// The first rows of the log, read from the device.
    pub(crate) fn log(&self, rows: usize) -> Vec<f64> {
        self.log.clone().narrow(0, 0, rows).into_data().iter().collect()
    }

    fn client(&self) -> Client {
        Plain::new(&self.numbers).memory.client
    }

    fn lazy(&self) -> FloatTensor<Cube> {
        super::Operand::new(self.numbers.clone()).primitive()
    }
}

fn zeros<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    copied(&Tensor::zeros(shape, (device, DType::F32)))
}
