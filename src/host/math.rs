//! Scalars and elementary functions that the compiler can vectorise.

use burn::tensor::Element;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub};

/// Runs a loop compiled for the widest vector instructions that this processor has.
#[inline(always)]
pub(crate) fn vectorised<R>(body: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(body)
}

/// Partial sums that a reduction keeps, so that it vectorises without reordering at run time.
const LANES: usize = 16;

/// Σ f(i) over `0..len` in a fixed order of [`LANES`] interleaved partial sums.
#[inline(always)]
fn reduce<S: Scalar>(len: usize, f: impl Fn(usize) -> S) -> S {
    let mut lanes = [S::ZERO; LANES];
    let whole = len / LANES * LANES;
    let mut start = 0;
    while start < whole {
        for (lane, partial) in lanes.iter_mut().enumerate() {
            *partial += f(start + lane);
        }
        start += LANES;
    }
    let mut total = S::ZERO;
    for i in whole..len {
        total += f(i);
    }
    lanes.into_iter().fold(total, |total, partial| total + partial)
}

/// Sum of a slice.
#[inline(always)]
pub(crate) fn sum<S: Scalar>(values: &[S]) -> S {
    reduce(values.len(), |i| values[i])
}

/// Inner product of two slices of one length.
#[inline(always)]
pub(crate) fn dot<S: Scalar>(a: &[S], b: &[S]) -> S {
    let b = &b[..a.len()];
    reduce(a.len(), |i| a[i] * b[i])
}

/// f32 or f64, with the functions that our kernels need. f32 functions are branch-free polynomials,
/// so that loops over them vectorise; f64 functions are the exact ones of the standard library.
pub(crate) trait Scalar:
    Element
    + bytemuck::Pod
    + Copy
    + Default
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + MulAssign
{
    const ZERO: Self;
    const ONE: Self;
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
    /// e^x; exactly 0 below the smallest normal number.
    fn exp_fast(self) -> Self;
    /// ln(1 + u) for u in [0, 1].
    fn ln_1p_unit(self) -> Self;
    /// Φ(x) and φ(x): distribution and density of the standard normal.
    fn normal(self) -> (Self, Self);
    fn sqrt_fast(self) -> Self;

    #[inline(always)]
    fn max_of(self, other: Self) -> Self {
        if self > other { self } else { other }
    }

    /// ln(1 + e^x), without overflow.
    #[inline(always)]
    fn softplus(self) -> Self {
        let magnitude = self.max_of(-self);
        self.max_of(Self::ZERO) + (-magnitude).exp_fast().ln_1p_unit()
    }

    /// 1 / (1 + e^−x), without overflow.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        let e = (-self.max_of(-self)).exp_fast();
        let small = e / (Self::ONE + e);
        if self < Self::ZERO { small } else { Self::ONE - small }
    }
}

impl Scalar for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value as Self
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn exp_fast(self) -> Self {
        // 1.5 · 2^23: adding it rounds to an integer that sits in the low mantissa bits.
        const ROUND: f32 = 12_582_912.0;
        const LN2_HIGH: f32 = 0.693_359_4;
        const LN2_LOW: f32 = -2.121_944_4e-4;
        let x = if self > 88.0 { 88.0 } else { self };
        let clamped = if x < -87.0 { -87.0 } else { x };
        let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
        let n = shifted - ROUND;
        let r = (clamped - n * LN2_HIGH) - n * LN2_LOW;
        let tail = 1.0 / 2.0
            + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0)))));
        let mantissa = 1.0 + (r + r * r * tail);
        let power = Self::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
        let value = mantissa * power;
        // NaN compares false and passes through the polynomial, so it stays NaN.
        if x < -87.0 { 0.0 } else { value }
    }

    #[inline(always)]
    fn ln_1p_unit(self) -> Self {
        // ln(1 + u) = 2 artanh(u / (2 + u)); the argument is at most 1/3.
        let s = self / (2.0 + self);
        let z = s * s;
        let tail = z
            * (1.0 / 3.0
                + z * (1.0 / 5.0
                    + z * (1.0 / 7.0
                        + z * (1.0 / 9.0 + z * (1.0 / 11.0 + z * (1.0 / 13.0 + z * (1.0 / 15.0)))))));
        2.0 * (s + s * tail)
    }

    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        // Abramowitz & Stegun 7.1.26: |error of erf| ≤ 1.5e−7, the size of f32 rounding.
        let x = self.max_of(-self) * std::f32::consts::FRAC_1_SQRT_2;
        let t = 1.0 / (1.0 + 0.327_591_1 * x);
        let gauss = (-x * x).exp_fast();
        let poly = t
            * (0.254_829_6 + t * (-0.284_496_72 + t * (1.421_413_8 + t * (-1.453_152_1 + t * 1.061_405_4))));
        let half_tail = 0.5 * poly * gauss;
        let distribution = if self < 0.0 { half_tail } else { 1.0 - half_tail };
        (distribution, gauss * 0.398_942_3)
    }

    #[inline(always)]
    fn sqrt_fast(self) -> Self {
        self.sqrt()
    }
}

impl Scalar for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }

    #[inline(always)]
    fn exp_fast(self) -> Self {
        self.exp()
    }

    #[inline(always)]
    fn ln_1p_unit(self) -> Self {
        self.ln_1p()
    }

    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        let distribution = 0.5 * libm::erfc(-self * std::f64::consts::FRAC_1_SQRT_2);
        (distribution, (-0.5 * self * self).exp() * 0.398_942_280_401_432_7)
    }

    #[inline(always)]
    fn sqrt_fast(self) -> Self {
        self.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_precision_functions_agree_with_double() {
        for i in -1000..=1000 {
            let x = i as f32 * 0.0869;
            let exact = f64::from(x);
            let exp = f64::from(x.exp_fast());
            assert!((exp - exact.exp()).abs() <= 3e-7 * exact.exp() + 1e-37, "exp({x}) = {exp}");
            let softplus = exact.max(0.0) + (-exact.abs()).exp().ln_1p();
            assert!((f64::from(x.softplus()) - softplus).abs() <= 4e-7 * softplus + 1e-37, "softplus({x})");
            let (distribution, density) = x.normal();
            let (d64, p64) = exact.normal();
            assert!((f64::from(distribution) - d64).abs() < 3e-7, "Φ({x})");
            assert!((f64::from(density) - p64).abs() < 2e-7, "φ({x})");
            let sigmoid = 1.0 / (1.0 + (-exact).exp());
            assert!((f64::from(x.sigmoid()) - sigmoid).abs() < 2e-7, "σ({x})");
        }
        assert_eq!((-200.0f32).exp_fast(), 0.0);
        assert_eq!(f32::NEG_INFINITY.exp_fast(), 0.0);
        assert!(f32::NAN.exp_fast().is_nan());
    }
}
