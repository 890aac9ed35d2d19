//! Elementary functions of f32 in kernels.

use cubecl::prelude::*;

/// ln(1 + u) for u in [0, 1], to full precision near 0 too: 2 artanh(u / (2 + u)), of an argument up to 1/3.
#[cube]
fn ln_1p_unit(u: f32) -> f32 {
    let s = u / (2.0f32 + u);
    let z = s * s;
    let high = 0.111_111_11f32 + z * (0.090_909_09f32 + z * (0.076_923_08f32 + z * 0.066_666_67f32));
    let tail = z * (0.333_333_33f32 + z * (0.2f32 + z * (0.142_857_14f32 + z * high)));
    2.0f32 * (s + s * tail)
}

/// ln(1 + e^x), without overflow.
#[cube]
pub(crate) fn softplus(x: f32) -> f32 {
    max(x, 0.0f32) + ln_1p_unit((-x.abs()).exp())
}

/// 1 / (1 + e^−x), without overflow.
#[cube]
pub(crate) fn sigmoid(x: f32) -> f32 {
    let e = (-x.abs()).exp();
    let mut value = 1.0f32 / (1.0f32 + e);
    if x < 0.0f32 {
        value *= e;
    }
    value
}

/// 1 − e^−x for x ≥ 0, to full precision near 0 too.
#[cube]
pub(crate) fn one_less_exp(x: f32) -> f32 {
    let mut value = 1.0f32 - (-x).exp();
    if x < 0.25f32 {
        let high = 1.0f32 - x * 0.25f32 * (1.0f32 - x * 0.2f32 * (1.0f32 - x * 0.166_666_67f32));
        value = x * (1.0f32 - x * 0.5f32 * (1.0f32 - x * 0.333_333_33f32 * high));
    }
    value
}

/// Φ(x) and φ(x): distribution and density of the standard normal. The error of Φ is that of Abramowitz & Stegun
/// 7.1.26, half of 1.5e−7.
#[cube]
pub(crate) fn normal(x: f32) -> (f32, f32) {
    let scaled = x.abs() * comptime!(std::f32::consts::FRAC_1_SQRT_2);
    let t = 1.0f32 / (1.0f32 + 0.327_591_1f32 * scaled);
    let gauss = (-scaled * scaled).exp();
    let low = 1.421_413_8f32 + t * (-1.453_152_1f32 + t * 1.061_405_4f32);
    let half_tail = 0.5f32 * gauss * t * (0.254_829_6f32 + t * (-0.284_496_72f32 + t * low));
    let mut distribution = 1.0f32 - half_tail;
    if x < 0.0f32 {
        distribution = half_tail;
    }
    (distribution, gauss * 0.398_942_3f32)
}

/// Neither infinite nor NaN. By its bits, so that no compiler's idea of fast arithmetic has a say.
#[cube]
pub(crate) fn is_finite(x: f32) -> bool {
    u32::reinterpret(x) & 0x7f80_0000u32 != 0x7f80_0000u32
}
