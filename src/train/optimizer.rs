//! Adam and AdamW with per-run global clipping, on a cohort's parameters as one matrix.

use super::{OptimizerKind, TrainConfig};
use crate::cohort::{Parameters, select_runs};
use burn::tensor::{Bool, Tensor, TensorData};

/// PyTorch's `clip_grad_norm_` adds this to the norm that it divides by.
const CLIP_EPSILON: f64 = 1e-6;

/// Moments of Adam for a cohort: each [runs, parameters].
///
/// One step equals `torch.optim.Adam` (or `AdamW`) after `torch.nn.utils.clip_grad_norm_` over all
/// parameters of a run, to float precision.
#[derive(Clone, Debug)]
pub struct Adam {
    /// First moment.
    pub first: Tensor<2>,
    /// Second moment.
    pub second: Tensor<2>,
    /// Steps taken.
    pub steps: usize,
    /// 1 where weight decay applies and 0 elsewhere, [1, parameters]; none if it applies to all.
    pub decayed: Option<Tensor<2>>,
}

/// What one step did.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// New parameters [runs, parameters].
    pub parameters: Tensor<2>,
    /// Gradient norm of every run before clipping, \[runs\].
    pub norms: Tensor<1>,
    /// Which runs were updated, \[runs\]: alive before, with a finite loss, gradient and update now.
    pub alive: Tensor<1, Bool>,
}

impl Adam {
    /// Moments at zero.
    pub fn new(parameters: &Parameters) -> Self {
        let flat = parameters.flatten();
        Self {
            first: flat.zeros_like(),
            second: flat.zeros_like(),
            steps: 0,
            decayed: parameters.decay_mask(),
        }
    }

    /// Moments of some runs.
    pub fn select(&self, runs: &[usize]) -> Self {
        let pick = |moments| select_runs(moments, runs);
        Self {
            first: pick(&self.first),
            second: pick(&self.second),
            steps: self.steps,
            decayed: self.decayed.clone(),
        }
    }

    /// Clips every run's gradient by its norm over all parameters and takes one step. Runs that
    /// aren't alive, or whose loss, gradient or update isn't finite, keep parameters and moments.
    ///
    /// `rates` has a learning rate for each run.
    pub fn step(
        &mut self,
        config: &TrainConfig,
        parameters: Tensor<2>,
        gradients: Tensor<2>,
        losses: &Tensor<1>,
        alive: Tensor<1, Bool>,
        rates: &[f64],
    ) -> StepOutcome {
        let [runs, count] = parameters.dims();
        let device = parameters.device();
        let dtype = parameters.dtype();
        self.steps += 1;
        #[cfg(feature = "cuda")]
        if crate::gpu::single(&parameters) {
            return self.fused_step(config, &parameters, &gradients, losses, alive, rates);
        }
        let norms = row_sums(gradients.clone().square()).sqrt();
        let mut gradients = gradients;
        if config.clip > 0.0 {
            let factor = (norms.clone() + CLIP_EPSILON).recip().mul_scalar(config.clip).clamp_max(1.0);
            gradients = gradients * factor;
        }
        let rates = TensorData::new(rates.to_vec(), [runs, 1]);
        let rates = Tensor::<2>::from_data(rates, (&device, dtype));
        let mut updated = parameters.clone();
        if config.weight_decay > 0.0 {
            let decay = |factor: Tensor<2>| match &self.decayed {
                None => factor,
                Some(decayed) => factor * decayed.clone(),
            };
            match config.optimizer {
                OptimizerKind::Adam => {
                    gradients = gradients + decay(parameters.clone().mul_scalar(config.weight_decay));
                }
                OptimizerKind::AdamW => {
                    let rate = rates.clone().mul_scalar(-config.weight_decay);
                    updated = updated * decay(rate).add_scalar(1.0);
                }
            }
        }
        let first =
            self.first.clone().mul_scalar(config.beta1) + gradients.clone().mul_scalar(1.0 - config.beta1);
        let second =
            self.second.clone().mul_scalar(config.beta2) + gradients.square().mul_scalar(1.0 - config.beta2);
        let steps = self.steps as f64;
        let first_correction = 1.0 - config.beta1.powf(steps);
        let second_correction = 1.0 - config.beta2.powf(steps);
        let scale = second.clone().sqrt().div_scalar(second_correction.sqrt()).add_scalar(config.epsilon);
        let updated = updated - first.clone().div(scale) * rates.div_scalar(first_correction);

        // A huge rate overflows the parameters while loss and gradient are still finite.
        let unsound = updated.clone().is_finite().bool_not().float().cast(dtype);
        let sound = row_sums(unsound).equal_elem(0.0).reshape([runs]);
        let finite = norms.clone().reshape([runs]).is_finite().bool_and(losses.clone().is_finite());
        let alive = alive.bool_and(finite).bool_and(sound);
        let frozen = alive.clone().bool_not().reshape([runs, 1]).expand([runs, count]);
        self.first = first.mask_where(frozen.clone(), self.first.clone());
        self.second = second.mask_where(frozen.clone(), self.second.clone());
        StepOutcome {
            parameters: updated.mask_where(frozen, parameters),
            norms: norms.reshape([runs]),
            alive,
        }
    }

    /// [`step`](Self::step) by a GPU's kernels, once the step is counted.
    #[cfg(feature = "cuda")]
    fn fused_step(
        &mut self,
        config: &TrainConfig,
        parameters: &Tensor<2>,
        gradients: &Tensor<2>,
        losses: &Tensor<1>,
        alive: Tensor<1, Bool>,
        rates: &[f64],
    ) -> StepOutcome {
        use crate::gpu::adam;
        let rule = rule(config);
        let (first, second, decayed) = (&self.first, &self.second, self.decayed.as_ref());
        let state = adam::State { parameters, gradients, first, second, decayed, losses };
        let outcome = adam::step(&rule, state, alive, rule.numbers(rates, self.steps));
        (self.first, self.second) = (outcome.first, outcome.second);
        StepOutcome { parameters: outcome.parameters, norms: outcome.norms, alive: outcome.alive }
    }
}

/// What a GPU's kernels take of a configuration.
#[cfg(feature = "cuda")]
pub(super) fn rule(config: &TrainConfig) -> crate::gpu::adam::Rule {
    crate::gpu::adam::Rule {
        clip: config.clip,
        clip_epsilon: CLIP_EPSILON,
        weight_decay: config.weight_decay,
        decoupled: config.optimizer == OptimizerKind::AdamW,
        beta1: config.beta1,
        beta2: config.beta2,
        epsilon: config.epsilon,
    }
}

/// Columns from which on a row is summed in two steps.
const MANY: usize = 1 << 20;

/// Sum of every row [R, N] as [R, 1]. A GPU sums a row with few threads: a long one is cut into many short.
fn row_sums(x: Tensor<2>) -> Tensor<2> {
    let [runs, count] = x.dims();
    if count < MANY {
        return x.sum_dim(1);
    }
    let side = count.isqrt();
    let square = x.clone().narrow(1, 0, side * side).reshape([runs, side, side]);
    let total = square.sum_dim(2).reshape([runs, side]).sum_dim(1);
    if side * side == count {
        total
    } else {
        total + x.narrow(1, side * side, count - side * side).sum_dim(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn long_rows_are_summed_as_a_whole() {
        for count in [5, MANY, MANY + 1, 1025 * 1025 + 7] {
            let row = |from: usize| (0..count).map(move |i| ((i + from) % 7) as f32);
            let values: Vec<f32> = row(0).chain(row(3)).collect();
            let x = Tensor::<2>::from_data(TensorData::new(values, [2, count]), &Device::flex());
            let sums: Vec<f64> = row_sums(x).into_data().iter().collect();
            for (sum, from) in sums.into_iter().zip([0, 3]) {
                let expected: f64 = row(from).map(f64::from).sum();
                assert!((sum / expected - 1.0).abs() < 1e-5, "{count}: {sum} against {expected}");
            }
        }
    }
}
