//! Choice of the next token, again and again.

use super::Decoder;
use crate::random::Generator;
use crate::{Error, Result};

/// How the next token is drawn from logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by this; 0 takes the most likely token.
    pub temperature: f64,
    /// Only this many of the most likely tokens; 0 for all.
    pub top_k: usize,
    /// Only the most likely tokens that together reach this probability; 1 for all.
    pub top_p: f64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 1.0, top_k: 0, top_p: 1.0 }
    }
}

impl Sampling {
    /// The most likely token, always.
    pub const GREEDY: Self = Self { temperature: 0.0, top_k: 0, top_p: 1.0 };

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// Names the field that is out of range.
    pub fn validate(&self) -> Result<()> {
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return Err(Error::value("temperature", "a number ≥ 0", self.temperature));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(Error::value("top_p", "in (0, 1]", self.top_p));
        }
        Ok(())
    }

    /// Draws a token. Of equally likely ones the first counts as more likely.
    ///
    /// # Errors
    ///
    /// If there is no logit, or one is not a number.
    pub fn draw(&self, logits: &[f32], generator: &mut Generator) -> Result<u32> {
        self.validate()?;
        if let Some(bad) = logits.iter().find(|logit| logit.is_nan()) {
            return Err(Error::value("logits", "numbers", bad));
        }
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        let Some(&first) = order.first() else {
            return Err(Error::value("logits", "at least one", 0));
        };
        if self.temperature == 0.0 {
            return Ok(first as u32);
        }
        if self.top_k > 0 {
            order.truncate(self.top_k);
        }
        let weight = |token: usize| {
            libm::exp((f64::from(logits[token]) - f64::from(logits[first])) / self.temperature)
        };
        let mut weights: Vec<f64> = order.iter().map(|&token| weight(token)).collect();
        let total: f64 = weights.iter().sum();
        if self.top_p < 1.0 {
            let mut reached = 0.0;
            let enough = |weight: &f64| {
                reached += weight / total;
                reached >= self.top_p
            };
            let kept = weights.iter().position(enough).map_or(weights.len(), |last| last + 1);
            weights.truncate(kept);
        }
        let mut left = generator.uniform() * weights.iter().sum::<f64>();
        for (&token, weight) in order.iter().zip(&weights) {
            left -= weight;
            if left < 0.0 {
                return Ok(token as u32);
            }
        }
        // Rounding can leave a rest; the last token kept is the one whose share it is.
        Ok(order[weights.len() - 1] as u32)
    }
}

/// Continues what a decoder has seen, which gave `logits`, by up to `count` tokens. `see` gets each token as it
/// comes and stops the generation by returning false.
///
/// # Errors
///
/// As [`Sampling::draw`] and [`Decoder::extend`]; or what `see` returns.
pub fn generate(
    decoder: &mut Decoder<'_>,
    mut logits: Vec<f32>,
    count: usize,
    sampling: &Sampling,
    generator: &mut Generator,
    mut see: impl FnMut(u32) -> Result<bool>,
) -> Result<Vec<u32>> {
    let mut tokens = Vec::new();
    while tokens.len() < count {
        let token = sampling.draw(&logits, generator)?;
        tokens.push(token);
        if !see(token)? {
            break;
        }
        // Nobody asks what follows the last.
        if tokens.len() < count {
            logits = decoder.extend(&[token])?;
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 4] = [0.0, 2.0, 1.0, -1.0];

    fn shares(sampling: Sampling) -> Vec<f64> {
        let mut generator = Generator::new(0, "sampling");
        let mut counts = vec![0.0; LOGITS.len()];
        for _ in 0..20_000 {
            counts[sampling.draw(&LOGITS, &mut generator).unwrap() as usize] += 1.0 / 20_000.0;
        }
        counts
    }

    #[test]
    fn draws_follow_the_softmax_of_the_logits_that_are_kept() {
        let softmax = |kept: &[usize], temperature: f64| {
            let weight = |i: usize| (f64::from(LOGITS[i]) / temperature).exp();
            let total: f64 = kept.iter().map(|&i| weight(i)).sum();
            (0..4).map(|i| if kept.contains(&i) { weight(i) / total } else { 0.0 }).collect::<Vec<_>>()
        };
        let cases = [
            (Sampling::default(), softmax(&[0, 1, 2, 3], 1.0)),
            (Sampling { temperature: 0.5, ..Sampling::default() }, softmax(&[0, 1, 2, 3], 0.5)),
            (Sampling { top_k: 2, ..Sampling::default() }, softmax(&[1, 2], 1.0)),
            // The two most likely have 0.87 of the probability, the first 0.64.
            (Sampling { top_p: 0.7, ..Sampling::default() }, softmax(&[1, 2], 1.0)),
            (Sampling { top_p: 0.6, ..Sampling::default() }, softmax(&[1], 1.0)),
            (Sampling::GREEDY, softmax(&[1], 1.0)),
        ];
        for (sampling, expected) in cases {
            for (found, expected) in shares(sampling).iter().zip(&expected) {
                assert!((found - expected).abs() < 0.015, "{sampling:?}: {found} against {expected}");
            }
        }
    }

    #[test]
    fn fields_out_of_range_are_named() {
        let message = |sampling: Sampling| sampling.validate().unwrap_err().to_string();
        assert!(message(Sampling { temperature: -1.0, ..Sampling::default() }).contains("temperature"));
        assert!(message(Sampling { top_p: 0.0, ..Sampling::default() }).contains("top_p"));
        assert!(Sampling::GREEDY.draw(&[f32::NAN], &mut Generator::new(0, "")).is_err());
    }
}
