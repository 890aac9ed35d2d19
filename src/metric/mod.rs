//! Numbers about predictions and about λ.

mod statistics;

pub use statistics::{
    Interval, Paired, Summary, bootstrap, bootstrap_interval, collapse_rate, paired, sign_test,
};

use crate::host;
use crate::model::IGNORED;
use burn::tensor::{Int, Tensor};

/// Predictions that were right, of those that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scored {
    /// Positions whose most likely token is the target.
    pub correct: usize,
    /// Positions with a target.
    pub total: usize,
}

impl Scored {
    /// Share of scored positions that are right; 0 if none is scored.
    pub fn accuracy(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.correct as f64 / self.total as f64 }
    }
}

/// Counts right predictions of every run: logits [runs, batch × time, vocab] against targets
/// [runs, batch, time].
pub fn correct(logits: Tensor<3>, targets: Tensor<3, Int>) -> Vec<Scored> {
    let [runs, tokens, vocab] = logits.dims();
    if host::applies(&logits) {
        let targets = crate::cohort::integers(targets);
        let logits: Vec<f32> = logits.into_data().iter().collect();
        let count = |run: usize| {
            let mut scored = Scored::default();
            for token in run * tokens..(run + 1) * tokens {
                if targets[token] != IGNORED {
                    let row = &logits[token * vocab..][..vocab];
                    let best = (0..vocab).fold(0, |best, i| if row[i] > row[best] { i } else { best });
                    scored.total += 1;
                    scored.correct += usize::from(best as i64 == targets[token]);
                }
            }
            scored
        };
        return (0..runs).map(count).collect();
    }
    let counted = targets.clone().reshape([runs, tokens]).not_equal_scalar(IGNORED).int();
    let total = crate::cohort::integers(counted.sum_dim(1));
    let right = crate::cohort::integers(right(logits, targets));
    let pair = |(right, total): (i64, i64)| Scored { correct: right as usize, total: total as usize };
    right.into_iter().zip(total).map(pair).collect()
}

/// Numbers of right predictions \[runs\] of [`correct`], not read from the device.
pub(crate) fn right(logits: Tensor<3>, targets: Tensor<3, Int>) -> Tensor<1, Int> {
    let [runs, tokens, _] = logits.dims();
    let right = logits.argmax(2).reshape([runs, tokens]).equal(targets.reshape([runs, tokens]));
    right.int().sum_dim(1).reshape([runs])
}
