//! Statistics of few runs: summaries, bootstrap intervals, paired comparisons.

use crate::random::Generator;
use crate::{Error, Result};

/// Resamples of a bootstrap that isn't enumerated.
const RESAMPLES: usize = 10_000;

/// Most values whose resamples are enumerated: 5⁵ = 3125 of them.
const ENUMERATED: usize = 5;

/// What is told of a set of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Mean.
    pub mean: f64,
    /// Population deviation (divided by n, as the paper reports it).
    pub std_population: f64,
    /// Sample deviation (divided by n − 1); none for a single value.
    pub std_sample: Option<f64>,
    /// Median; of an even number of values the mean of the middle two.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl Summary {
    /// Summary of at least one value.
    ///
    /// # Errors
    ///
    /// If there is no value, or one isn't finite.
    pub fn of(values: &[f64]) -> Result<Self> {
        let sorted = sorted(values)?;
        let n = sorted.len();
        let mean = mean(&sorted);
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        Ok(Self {
            n,
            mean,
            std_population: (squares / n as f64).sqrt(),
            std_sample: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
            median: f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
            min: sorted[0],
            max: sorted[n - 1],
        })
    }
}

/// An interval of a mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Percentile bootstrap interval of the mean at a confidence level such as 0.95.
///
/// Up to 5 values all resamples are enumerated, so that nothing is random; above, 10 000 are drawn under
/// the seed. With very few values such an interval is too narrow: of 3 it never leaves their range.
///
/// # Errors
///
/// If there is no value, one isn't finite, or the level isn't between 0 and 1.
pub fn bootstrap_interval(values: &[f64], confidence: f64, seed: u64) -> Result<Interval> {
    let values = sorted(values)?;
    let mean = |drawn: &[usize]| drawn.iter().map(|&index| values[index]).sum::<f64>() / drawn.len() as f64;
    bootstrap(values.len(), confidence, seed, mean)
}

/// Percentile bootstrap interval of any statistic of `n` runs, which is given the indices of a resample; as
/// [`bootstrap_interval`].
///
/// # Errors
///
/// If there is no run, the statistic isn't finite, or the level isn't between 0 and 1.
pub fn bootstrap(
    n: usize,
    confidence: f64,
    seed: u64,
    statistic: impl Fn(&[usize]) -> f64,
) -> Result<Interval> {
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(Error::value("confidence", "between 0 and 1", confidence));
    }
    let found: Vec<f64> = if n <= ENUMERATED {
        let resample = |mut index: usize| {
            let digit = |_| {
                let digit = index % n;
                index /= n;
                digit
            };
            statistic(&(0..n).map(digit).collect::<Vec<_>>())
        };
        (0..n.pow(n as u32)).map(resample).collect()
    } else {
        let mut draws = Generator::new(seed, "bootstrap");
        (0..RESAMPLES).map(|_| statistic(&(0..n).map(|_| draws.below(n)).collect::<Vec<_>>())).collect()
    };
    let found = sorted(&found)?;
    // The smallest value at which the distribution reaches the share (its inverse).
    let at = |share: f64| found[((share * found.len() as f64).ceil() as usize).clamp(1, found.len()) - 1];
    Ok(Interval { low: at((1.0 - confidence) / 2.0), high: at((1.0 + confidence) / 2.0) })
}

/// Two-sided p-value of the exact sign test: how likely so uneven a split is if both signs are as likely.
/// Ties are left out beforehand.
pub fn sign_test(positive: usize, negative: usize) -> f64 {
    let n = positive + negative;
    let log_choose = |k: usize| {
        let log_factorial = |x: usize| libm::lgamma(x as f64 + 1.0);
        log_factorial(n) - log_factorial(k) - log_factorial(n - k)
    };
    let tail =
        (0..=positive.min(negative)).map(|k| (log_choose(k) - n as f64 * std::f64::consts::LN_2).exp());
    (2.0 * tail.sum::<f64>()).min(1.0)
}

/// Values of two treatments over the same seeds, compared seed by seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// The differences first − second.
    pub difference: Summary,
    /// Bootstrap interval of their mean.
    pub interval: Interval,
    /// Number of seeds on which the first is larger.
    pub wins: usize,
    /// Number of seeds on which the second is larger.
    pub losses: usize,
    /// Two-sided p-value of the exact sign test.
    pub p_value: f64,
}

/// Compares `first[i]` with `second[i]`, the values of one seed.
///
/// # Errors
///
/// If the two differ in length, are empty, or a value isn't finite.
pub fn paired(first: &[f64], second: &[f64], confidence: f64, seed: u64) -> Result<Paired> {
    if first.len() != second.len() {
        let expected = format!("of the same seeds ({} values)", first.len());
        return Err(Error::value("second treatment", expected, format!("{} values", second.len())));
    }
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
    let count = |sign: fn(f64) -> bool| differences.iter().filter(|&&value| sign(value)).count();
    let (wins, losses) = (count(|value| value > 0.0), count(|value| value < 0.0));
    Ok(Paired {
        difference: Summary::of(&differences)?,
        interval: bootstrap_interval(&differences, confidence, seed)?,
        wins,
        losses,
        p_value: sign_test(wins, losses),
    })
}

/// Share of runs that collapsed: whose accuracy is below twice that of chance.
///
/// # Errors
///
/// If there is no run, or an accuracy isn't finite.
pub fn collapse_rate(accuracies: &[f64], chance: f64) -> Result<f64> {
    let sorted = sorted(accuracies)?;
    Ok(sorted.iter().filter(|&&accuracy| accuracy < 2.0 * chance).count() as f64 / sorted.len() as f64)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The values in order, once it is sure that there are some and all are numbers.
fn sorted(values: &[f64]) -> Result<Vec<f64>> {
    if values.is_empty() {
        return Err(Error::value("values", "at least one", "none"));
    }
    if let Some(value) = values.iter().find(|value| !value.is_finite()) {
        return Err(Error::value("values", "finite", value));
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Ok(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Made with NumPy (all resamples enumerated) and SciPy (binomtest).
    fn fixture() -> Value {
        serde_json::from_str(include_str!("../../tests/fixtures/statistics.json")).unwrap()
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn summaries_and_enumerated_intervals_equal_numpy() {
        let fixture = fixture();
        for case in fixture["summaries"].as_array().unwrap() {
            let values: Vec<f64> = serde_json::from_value(case["values"].clone()).unwrap();
            let number = |name: &str| case[name].as_f64().unwrap();
            let found = Summary::of(&values).unwrap();
            assert_eq!(found.n, values.len());
            close(found.mean, number("mean"));
            close(found.std_population, number("std_population"));
            assert_eq!(found.std_sample.is_none(), case["std_sample"].is_null());
            close(found.std_sample.unwrap_or(0.0), case["std_sample"].as_f64().unwrap_or(0.0));
            close(found.median, number("median"));
            assert_eq!((found.min, found.max), (number("min"), number("max")));
            let interval = bootstrap_interval(&values, 0.95, 0).unwrap();
            close(interval.low, number("low"));
            close(interval.high, number("high"));
        }
    }

    #[test]
    fn sign_tests_equal_scipy() {
        for case in fixture()["sign_tests"].as_array().unwrap() {
            let count = |name: &str| case[name].as_u64().unwrap() as usize;
            close(sign_test(count("positive"), count("negative")), case["p"].as_f64().unwrap());
        }
        assert_eq!(sign_test(0, 0), 1.0);
    }

    #[test]
    fn differences_of_deviations_equal_numpy_and_drawn_intervals_scipy() {
        let fixture = fixture();
        let numbers =
            |case: &Value, name: &str| -> Vec<f64> { serde_json::from_value(case[name].clone()).unwrap() };
        for case in fixture["std_differences"].as_array().unwrap() {
            let (first, second) = (numbers(case, "first"), numbers(case, "second"));
            let std = |values: &[f64], drawn: &[usize]| {
                let drawn: Vec<f64> = drawn.iter().map(|&index| values[index]).collect();
                Summary::of(&drawn).unwrap().std_population
            };
            let quantity = |drawn: &[usize]| std(&first, drawn) - std(&second, drawn);
            let all: Vec<usize> = (0..first.len()).collect();
            close(quantity(&all), case["value"].as_f64().unwrap());
            let interval = bootstrap(first.len(), 0.95, 0, quantity).unwrap();
            close(interval.low, case["low"].as_f64().unwrap());
            close(interval.high, case["high"].as_f64().unwrap());
        }
        // SciPy's own resamples: equal within the noise of both.
        let case = &fixture["drawn"];
        let found = paired(&numbers(case, "first"), &numbers(case, "second"), 0.95, 0).unwrap().interval;
        let ends = [(found.low, "low"), (found.high, "high")];
        assert!(
            ends.iter().all(|(end, name)| (end - case[*name].as_f64().unwrap()).abs() < 2e-3),
            "{found:?}"
        );
    }

    #[test]
    fn a_drawn_interval_is_seeded_and_near_the_normal_one() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let interval = bootstrap_interval(&values, 0.95, 7).unwrap();
        assert_eq!(interval, bootstrap_interval(&values, 0.95, 7).unwrap());
        assert_ne!(interval, bootstrap_interval(&values, 0.95, 8).unwrap());
        // Mean 49.5, standard error 28.87 / 10: ± 1.96 of it, within the noise of 10 000 draws.
        assert!((interval.low - 43.84).abs() < 0.3 && (interval.high - 55.16).abs() < 0.3, "{interval:?}");
    }

    #[test]
    fn pairs_are_compared_seed_by_seed() {
        let found = paired(&[0.9, 0.8, 0.7, 0.6], &[0.5, 0.9, 0.7, 0.1], 0.95, 0).unwrap();
        assert_eq!((found.wins, found.losses, found.difference.n), (2, 1, 4));
        close(found.difference.mean, 0.2);
        close(found.p_value, 1.0);
        assert!(found.interval.low < 0.2 && found.interval.high > 0.2);
        let message = paired(&[0.1], &[0.1, 0.2], 0.95, 0).unwrap_err().to_string();
        assert!(message.contains("1 values") && message.contains("2 values"), "{message}");
    }

    #[test]
    fn collapse_and_bad_values() {
        assert_eq!(collapse_rate(&[0.02, 0.9, 0.06, 0.05], 1.0 / 32.0).unwrap(), 0.75);
        assert!(Summary::of(&[]).is_err() && Summary::of(&[1.0, f64::NAN]).is_err());
        assert!(bootstrap_interval(&[1.0], 1.0, 0).is_err());
    }
}
