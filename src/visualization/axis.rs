//! Axes: what can be drawn, where ticks lie, how numbers are written.

use crate::{Error, Result};

/// Checks that an axis can be drawn: plotters doesn't return from a range that it can't divide.
pub(super) fn drawable(what: &str, low: f64, high: f64) -> Result<()> {
    if low.is_finite() && high.is_finite() && high - low < 1e12 {
        return Ok(());
    }
    Err(Error::Figure(format!(
        "{what} can't be drawn from {low:e} to {high:e}: at most 1e12 apart (did a run diverge?)"
    )))
}

/// A number rounded to two significant digits.
pub(super) fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powf(value.abs().log10().floor() - 1.0);
    (value / unit).round() * unit
}

/// A number with at most four significant digits and no trailing zeros.
pub(super) fn format_number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e5).contains(&value.abs()) {
        return format!("{value:.1e}").replace(".0e", "e").replace('-', "−");
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.replace('-', "−")
}

/// Round numbers within a range, at most `most` of them, a step of 1, 2 or 5 times a power of ten apart.
pub(super) fn ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let count = |step: f64| ((high / step).floor() - (low / step).ceil() + 1.0).max(0.0);
    let decade = 10_f64.powf(((high - low) / most as f64).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0].map(|times| times * decade);
    let step = steps.into_iter().find(|&step| count(step) <= most as f64).unwrap_or(steps[5]);
    let first = (low / step).ceil();
    (0..count(step) as usize).map(|i| (first + i as f64) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 100.0, 0.25, -1.5, 12_345.6, 0.001_234_6, 2.5e9].map(format_number);
        assert_eq!(texts, ["0", "100", "0.25", "−1.5", "12346", "0.001235", "2.5e9"]);
    }

    #[test]
    fn ticks_are_few_and_round() {
        assert_eq!(ticks(0.0, 1.0, 6), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(-7.0, 61.0, 8), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(ticks(-1.0, 1.0, 5), [-1.0, -0.5, 0.0, 0.5, 1.0]);
    }
}
