//! What the axes of line charts are: where their ticks lie, and what stands beside these.

use super::axis::{format_number, ticks, two_digits};
use plotters::coord::ranged1d::{BoldPoints, DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use std::ops::Range;

/// What x is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Horizontal {
    /// Many integers.
    Steps,
    /// Few integers, each marked on the lines.
    Few,
    /// Base-2 logarithms of few numbers, labelled with the numbers themselves.
    Doublings,
    /// Positions in bins that double: −1 is where position 0 begins, k where position 2^k does.
    Bins,
}

/// What y is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vertical {
    /// A share, from 0 to 100 %.
    Share,
    /// A quantity that can't be negative, whatever mean − std says.
    Amount,
    /// A quantity of either sign.
    Difference,
    /// An amount on an axis that starts at 0, so that heights compare.
    FromZero,
    /// Base-10 logarithms, labelled with the numbers themselves.
    Decades,
    /// The same for ranges of few decades: round numbers are labelled.
    Logarithm,
    /// Base-10 logarithms of bytes, labelled in powers of two.
    Bytes,
}

/// A range with ticks of our choice.
pub(super) struct Axis {
    range: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Axis {
    pub(super) fn new((low, high): (f64, f64), ticks: Vec<f64>) -> Self {
        Self { range: RangedCoordf64::from(low..high), ticks }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.range.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.range()
    }
}

/// Ticks as the chart library chooses them.
fn chosen((low, high): (f64, f64), most: usize) -> Vec<f64> {
    RangedCoordf64::from(low..high).key_points(BoldPoints(most))
}

impl Horizontal {
    /// Places of at most about `most` ticks.
    pub(super) fn ticks(self, range: (f64, f64), most: usize) -> Vec<f64> {
        match self {
            // No ticks between the numbers that have a label.
            Self::Doublings => chosen(range, most.min((range.1.floor() - range.0.ceil()) as usize + 1)),
            Self::Few | Self::Steps => chosen(range, most),
            Self::Bins => {
                let count = (range.1.floor() - range.0.ceil()) as usize + 1;
                (0..count).step_by(count.div_ceil(most)).map(|tick| range.0.ceil() + tick as f64).collect()
            }
        }
    }

    /// Share of the range that is left free at both ends.
    pub(super) fn room(self) -> f64 {
        match self {
            Self::Steps | Self::Bins => 0.0,
            Self::Few | Self::Doublings => 0.04,
        }
    }

    pub(super) fn label(self, value: f64) -> String {
        match (value - value.round()).abs() < 1e-9 {
            // Steps, levels and numbers of pairs have no fractions.
            false => String::new(),
            true if self == Self::Bins && value < 0.0 => "0".to_owned(),
            // A length is known by its digits, however many.
            true if self == Self::Bins || (self == Self::Doublings && value > 16.0) => {
                format!("{}", value.exp2())
            }
            true if self == Self::Doublings => format_number(value.exp2()),
            true => format!("{}", value.round()),
        }
    }
}

impl Vertical {
    /// The least y of a range of some height that starts at `low`.
    pub(super) fn start(self, low: f64) -> f64 {
        match self {
            Self::Share | Self::FromZero => 0.0,
            Self::Amount => low.max(0.0),
            Self::Difference | Self::Decades | Self::Logarithm | Self::Bytes => low,
        }
    }

    /// Places of at most about `most` ticks.
    pub(super) fn ticks(self, range: (f64, f64), most: usize) -> Vec<f64> {
        match self {
            Self::Share | Self::Amount | Self::Difference | Self::FromZero | Self::Decades => {
                chosen(range, most)
            }
            Self::Logarithm => round_numbers(range, most),
            Self::Bytes => {
                let two = 2_f64.log10();
                let powers = |step: usize| {
                    let step = step as f64;
                    let first = (range.0 / two / step).ceil() as i64;
                    let last = (range.1 / two / step).floor() as i64;
                    (first..=last).map(move |power| power as f64 * step * two)
                };
                let step = [1, 2, 4, 5, 10, 20].into_iter().find(|&step| powers(step).count() <= most);
                powers(step.unwrap_or(40)).collect()
            }
        }
    }

    pub(super) fn label(self, value: f64, range: (f64, f64)) -> String {
        match self {
            Self::Share => format!("{} %", format_number(value * 100.0)),
            Self::Amount | Self::Difference | Self::FromZero => format_number(value),
            // Less than two decades have too few whole ones to read a number from.
            Self::Decades if (value - value.round()).abs() < 1e-9 || range.1 - range.0 < 2.0 => {
                format_number(two_digits(10_f64.powf(value)))
            }
            Self::Decades => String::new(),
            Self::Logarithm => format_number(10_f64.powf(value)),
            Self::Bytes => format_bytes(10_f64.powf(value)),
        }
    }
}

/// Logarithms of round numbers in a range of logarithms: 1, 2 and 5 of each decade, more where those are
/// few, the decades alone where they are too many, even steps where the range is narrow.
fn round_numbers((low, high): (f64, f64), most: usize) -> Vec<f64> {
    let of = |digits: &[f64]| -> Vec<f64> {
        let decades = low.floor() as i32..=high.ceil() as i32;
        let all =
            decades.flat_map(|decade| digits.iter().map(move |digit| digit.log10() + f64::from(decade)));
        all.filter(|tick| (low..=high).contains(tick)).collect()
    };
    let sets: [(&[f64], usize); 4] = [
        (&[1.0, 2.0, 5.0], 4),
        (&[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0], 4),
        (&[1.0, 2.0, 5.0], 3),
        (&[1.0], 3),
    ];
    let fits = |(digits, least): (&[f64], usize)| {
        let found = of(digits);
        (least..=most).contains(&found.len()).then_some(found)
    };
    sets.into_iter().find_map(fits).unwrap_or_else(|| match high - low > 2.0 {
        true => of(&[1.0]),
        false => {
            let even = ticks(10_f64.powf(low), 10_f64.powf(high), most);
            even.into_iter().map(f64::log10).filter(|tick| tick.is_finite()).collect()
        }
    })
}

/// A number of bytes in the largest binary unit that it reaches.
pub(super) fn format_bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    // What is a whole power but for rounding is that power.
    let unit = ((bytes.log2() / 10.0 + 1e-9).floor().max(0.0) as usize).min(units.len() - 1);
    format!("{} {}", format_number(bytes / 1024_f64.powi(unit as i32)), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_ticks_are_round_numbers() {
        let labels = |low: f64, high: f64| -> Vec<String> {
            let range = (low.log10(), high.log10());
            let ticks = Vertical::Logarithm.ticks(range, 6);
            ticks.into_iter().map(|tick| Vertical::Logarithm.label(tick, range)).collect()
        };
        assert_eq!(labels(90.0, 1500.0), ["100", "200", "500", "1000"]);
        assert_eq!(labels(131.0, 620.0), ["150", "200", "300", "400", "600"]);
        assert_eq!(labels(120.0, 1900.0), ["200", "500", "1000"]);
        assert_eq!(labels(141.0, 189.0), ["150", "160", "170", "180"]);
        assert_eq!(labels(3.0, 30_000.0), ["10", "100", "1000", "10000"]);
    }

    #[test]
    fn bytes_have_binary_units() {
        let texts = [1.0, 1024.0, 1536.0, 32_768.0, 1_048_576.0, 3.0 * 1_073_741_824.0].map(format_bytes);
        assert_eq!(texts, ["1 B", "1 KiB", "1.5 KiB", "32 KiB", "1 MiB", "3 GiB"]);
        let range = (20_000_f64.log10(), 40e6_f64.log10());
        let labels: Vec<String> =
            Vertical::Bytes.ticks(range, 6).iter().map(|&tick| Vertical::Bytes.label(tick, range)).collect();
        assert_eq!(labels, ["64 KiB", "256 KiB", "1 MiB", "4 MiB", "16 MiB"]);
    }

    #[test]
    fn bins_begin_at_zero_and_at_powers_of_two() {
        let labels = |last: f64, most: usize| -> Vec<String> {
            let ticks = Horizontal::Bins.ticks((-1.0, last), most);
            ticks.into_iter().map(|tick| Horizontal::Bins.label(tick)).collect()
        };
        assert_eq!(labels(3.0, 8), ["0", "1", "2", "4", "8"]);
        assert_eq!(labels(13.0, 8), ["0", "2", "8", "32", "128", "512", "2048", "8192"]);
        assert_eq!(Horizontal::Doublings.label(17.0), "131072");
    }
}
