//! Which runs train together: equal shapes, and as many as memory holds.

use super::{RunState, SweepRun};
use crate::lambda::LambdaKind;
use crate::model::Mixer;
use crate::train::RunConfig;

/// Runs that train as one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCohort {
    /// Places among the sweep's runs.
    pub runs: Vec<usize>,
    /// Step from which they go on; if a kill left some behind, theirs.
    pub step: usize,
    /// Estimated bytes while training.
    pub memory: u64,
}

/// What is left to train, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The cohorts.
    pub cohorts: Vec<PlannedCohort>,
    /// Number of runs that have ended.
    pub ended: usize,
    /// Positions left, if no run stops early: runs × steps × sequence length.
    pub positions: f64,
}

impl Plan {
    /// Groups the runs that haven't ended. A cohort has at most `most` runs and stays below `budget` bytes
    /// by estimate, but has at least one.
    pub fn new(runs: &[SweepRun], states: &[RunState], budget: u64, most: usize) -> Self {
        let mut plan = Self::default();
        let mut groups: Vec<Vec<(usize, usize)>> = Vec::new();
        for (index, (run, state)) in runs.iter().zip(states).enumerate() {
            let step = match state {
                RunState::Ended(_) => {
                    plan.ended += 1;
                    continue;
                }
                RunState::Started { step, .. } => *step,
                RunState::Waiting | RunState::Failed(_) => 0,
            };
            let left = run.config.train.steps.saturating_sub(step);
            plan.positions += (left * run.config.task.task().seq_len()) as f64;
            let fits =
                |members: &&mut Vec<(usize, usize)>| runs[members[0].0].config.same_cohort(&run.config);
            match groups.iter_mut().find(fits) {
                Some(members) => members.push((index, step)),
                None => groups.push(vec![(index, step)]),
            }
        }
        for mut members in groups {
            let one = memory(&runs[members[0].0].config);
            let most = usize::try_from(budget / one.max(1)).unwrap_or(usize::MAX).clamp(1, most.max(1));
            // 13 runs at most 12 at a time are 7 and 6: a small rest would cost nearly as much as a full one.
            let size = members.len().div_ceil(members.len().div_ceil(most));
            // Those that stand near each other go on together.
            members.sort_by_key(|&(_, step)| std::cmp::Reverse(step));
            plan.cohorts.extend(members.chunks(size).map(|members| PlannedCohort {
                runs: members.iter().map(|&(run, _)| run).collect(),
                step: members.iter().map(|&(_, step)| step).min().unwrap_or(0),
                memory: one * members.len() as u64,
            }));
        }
        plan
    }
}

/// Estimated bytes that one more run in a cohort takes while it trains: what forward keeps for backward,
/// gradients beside it, data, parameters with Adam's moments.
///
/// Counted in numbers a position: per layer 12 d (projections, mixed values, norms), λ and d of every head
/// and level, an MLP-λ's hidden values three times, scores of a chunk where tensor operations and not the
/// CPU's kernels compute them; 3 V for logits. All of it twice, for gradients.
///
/// For the language model, measured on an H200 at d 256 and 512: 115 d numbers a position and layer, four
/// arrays of a block of logits, seven of all parameters.
pub fn memory(config: &RunConfig) -> u64 {
    let model = &config.model;
    if model.language.is_some() {
        let tokens = config.train.batch / config.train.accumulate.max(1) * config.task.task().seq_len();
        let logits = (tokens * model.vocab).min(1 << 28);
        let parameters = 2 * model.vocab * model.d_model + model.layers * 13 * model.d_model * model.d_model;
        return (4 * (tokens * model.layers * 115 * model.d_model + 4 * logits + 7 * parameters)) as u64;
    }
    let (tokens, seq_len) = (config.train.batch * config.task.task().seq_len(), config.task.task().seq_len());
    let hidden = match model.lambda.kind {
        LambdaKind::Fixed => 0,
        LambdaKind::MlpSoftplus | LambdaKind::MlpSoftmax => model.lambda.hidden.width(model.levels()),
    };
    let mut layer = 12 * model.d_model;
    if model.mixer == Mixer::LogLinear {
        layer += model.heads * (4 * model.levels() + 3 * hidden);
    }
    layer += model.heads * 6 * model.chunk.min(seq_len);
    let activations = 2 * tokens * (model.layers * layer + 3 * model.vocab);
    let parameters = 2 * model.vocab * model.d_model + model.layers * 5 * model.d_model * model.d_model;
    // A text stays on disk.
    let (train, validation) = config.task.examples().unwrap_or((0, 0));
    (4 * (activations + 5 * parameters) + 9 * (train + validation) * seq_len) as u64
}
