//! MQAR: multi-query associative recall.

use super::{DrawnTask, Example, MOST_TOKENS, Region, Task};
use crate::random::Generator;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Where the queries stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// In the last 2k positions, every second one (the paper's release).
    #[default]
    Release,
    /// At gaps after the pairs drawn from the power law p(j) ∝ a·j^(a−1) (Arora et al. 2023).
    Zoology,
}

/// What stands between pairs and queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Filler {
    /// Any token from 1 up, keys and values of the sequence included (release).
    #[default]
    Any,
    /// Any token from 1 up that is neither a key nor a value of the sequence.
    Disjoint,
    /// Token 0.
    Zero,
}

/// Multi-query associative recall: k key/value pairs, later asked for by key.
///
/// Keys are 1 … vocab/2 − 1, values vocab/2 … vocab − 1, drawn without replacement within a
/// sequence. With k = 2 and T = 10, the release layout is
///
/// ```text
/// position  0    1    2    3    4  5  6    7  8    9
/// token     k1   v1   k2   v2   f  f  k2   f  k1   f
/// target    –    –    –    –    –  –  v2   –  v1   –
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MqarConfig {
    /// Positions per sequence.
    pub seq_len: usize,
    /// Number of key/value pairs, k.
    pub pairs: usize,
    /// Number of tokens.
    pub vocab: usize,
    /// Where the queries stand.
    pub layout: Layout,
    /// What stands between.
    pub filler: Filler,
    /// The power law's a (Zoology layout only).
    pub power: f64,
    /// Training sequences.
    pub train_examples: usize,
    /// Validation sequences.
    pub validation_examples: usize,
}

impl Default for MqarConfig {
    fn default() -> Self {
        Self {
            seq_len: 128,
            pairs: 8,
            vocab: 128,
            layout: Layout::default(),
            filler: Filler::default(),
            power: 0.01,
            train_examples: 10_000,
            validation_examples: 1_000,
        }
    }
}

impl Task for MqarConfig {
    fn validate(&self) -> Result<()> {
        let Self { seq_len, pairs, vocab, .. } = *self;
        super::check_seq_len(self.seq_len)?;
        if vocab > MOST_TOKENS {
            return Err(Error::value("task.vocab", format!("at most {MOST_TOKENS}"), vocab));
        }
        if vocab < 4 {
            return Err(Error::value("task.vocab", "at least 4 (one key, one value)", vocab));
        }
        if !vocab.is_multiple_of(2) {
            return Err(Error::value("task.vocab", "even (keys below vocab/2, values from vocab/2)", vocab));
        }
        if seq_len < 4 || !seq_len.is_multiple_of(2) {
            return Err(Error::value("task.seq_len", "even and at least 4", seq_len));
        }
        let limit = (seq_len / 4).min(vocab / 2 - 1);
        if pairs == 0 || pairs > limit {
            let expected = format!(
                "1 to {limit} at T = {seq_len} (4k ≤ T) and vocabulary {vocab} (k ≤ {} keys)",
                vocab / 2 - 1
            );
            return Err(Error::value("task.pairs", expected, pairs));
        }
        if !(self.power > 0.0 && self.power.is_finite()) {
            return Err(Error::value("task.power", "a positive number", self.power));
        }
        Ok(())
    }

    fn seq_len(&self) -> usize {
        self.seq_len
    }

    fn vocab(&self) -> usize {
        self.vocab
    }

    fn chance(&self) -> f64 {
        2.0 / self.vocab as f64
    }
}

impl DrawnTask for MqarConfig {
    fn example(&self, generator: &mut Generator) -> Example {
        let Self { seq_len, pairs, vocab, .. } = *self;
        let keys = generator.sample((1..vocab / 2).collect(), pairs);
        let values = generator.sample((vocab / 2..vocab).collect(), pairs);
        let mut example = Example::blank(seq_len, Region::Filler);
        self.fill(&mut example, &keys, &values, generator);
        for (pair, (&key, &value)) in keys.iter().zip(&values).enumerate() {
            example.put(2 * pair, key, Region::Key);
            example.put(2 * pair + 1, value, Region::Value);
        }
        for (pair, position) in self.queries(generator).into_iter().enumerate() {
            example.put(position, keys[pair], Region::Query);
            example.targets[position] = values[pair] as i32;
            example.regions[position + 1] = Region::Answer;
        }
        example
    }
}

impl MqarConfig {
    fn fill(&self, example: &mut Example, keys: &[usize], values: &[usize], generator: &mut Generator) {
        let allowed: Vec<usize> = match self.filler {
            Filler::Zero => return,
            Filler::Any => (1..self.vocab).collect(),
            Filler::Disjoint => {
                let used: HashSet<_> = keys.iter().chain(values).collect();
                (1..self.vocab).filter(|token| !used.contains(token)).collect()
            }
        };
        for token in &mut example.tokens {
            *token = allowed[generator.below(allowed.len())] as i32;
        }
    }

    /// Position of every pair's query.
    fn queries(&self, generator: &mut Generator) -> Vec<usize> {
        let Self { seq_len, pairs, power, .. } = *self;
        match self.layout {
            Layout::Release => {
                let mut order: Vec<usize> = (0..pairs).map(|i| seq_len - 2 * pairs + 2 * i).collect();
                generator.shuffle(&mut order);
                order
            }
            Layout::Zoology => {
                // Drawing without replacement by weight: the largest of ln w + Gumbel noise first.
                let gaps = (seq_len - 2 * pairs) / 2;
                let mut scored: Vec<(f64, usize)> = (0..gaps)
                    .map(|gap| {
                        let log_weight = (power - 1.0) * libm::log((gap + 1) as f64);
                        let gumbel = -libm::log(-libm::log(1.0 - generator.uniform()));
                        (log_weight + gumbel, gap)
                    })
                    .collect();
                scored.sort_by(|a, b| b.0.total_cmp(&a.0));
                scored.into_iter().take(pairs).map(|(_, gap)| 2 * pairs + 2 * gap).collect()
            }
        }
    }
}
