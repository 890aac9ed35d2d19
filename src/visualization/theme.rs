//! Fonts, colours and names that every figure shares.

use plotters::style::{FontStyle, RGBColor, TextStyle, register_font};
use std::sync::Once;

/// CSS families: the first is the one we ship and measure with.
pub(super) const FAMILY: &str = "DejaVu Sans, Verdana, Arial, sans-serif";

pub(super) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub(super) const GREY: RGBColor = RGBColor(0x6e, 0x6e, 0x6e);
pub(super) const GRID: RGBColor = RGBColor(0xe6, 0xe6, 0xe6);

/// Okabe & Ito's palette (2008), safe for the common colour deficiencies.
const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const VERMILION: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
const GREEN: RGBColor = RGBColor(0x00, 0x9e, 0x73);
const PURPLE: RGBColor = RGBColor(0xcc, 0x79, 0xa7);
const SKY: RGBColor = RGBColor(0x56, 0xb4, 0xe9);
const ORANGE: RGBColor = RGBColor(0xe6, 0x9f, 0x00);
const YELLOW: RGBColor = RGBColor(0xf0, 0xe4, 0x42);

/// Colours for series without a fixed one, and for levels.
pub(super) const PALETTE: [RGBColor; 7] = [BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE, YELLOW];

static FONTS: Once = Once::new();

/// Makes our fonts known to plotters, once per process.
pub(super) fn load_fonts() {
    FONTS.call_once(|| {
        let regular: &[u8] = include_bytes!("fonts/DejaVuSans.ttf");
        let bold: &[u8] = include_bytes!("fonts/DejaVuSans-Bold.ttf");
        for (style, bytes) in [(FontStyle::Normal, regular), (FontStyle::Bold, bold)] {
            assert!(register_font(FAMILY, style, bytes).is_ok(), "the bundled font is whole");
        }
    });
}

/// Sizes for one output: SVG at scale 1, PNG larger.
#[derive(Clone, Copy)]
pub(super) struct Theme {
    pub(super) scale: f64,
}

impl Theme {
    /// Pixels of a length in points of the SVG.
    pub(super) fn px(self, length: f64) -> i32 {
        (length * self.scale).round() as i32
    }

    /// The same for lengths that plotters wants unsigned.
    pub(super) fn upx(self, length: f64) -> u32 {
        self.px(length).unsigned_abs()
    }

    pub(super) fn text(self, size: f64) -> TextStyle<'static> {
        TextStyle::from((FAMILY, size * self.scale)).color(&INK)
    }

    pub(super) fn bold(self, size: f64) -> TextStyle<'static> {
        TextStyle::from((FAMILY, size * self.scale, FontStyle::Bold)).color(&INK)
    }

    pub(super) fn small(self) -> TextStyle<'static> {
        TextStyle::from((FAMILY, 11.0 * self.scale)).color(&GREY)
    }
}

/// Width that a figure's title takes at most, in SVG units.
pub(super) fn title_width(title: &str) -> f64 {
    8.2 * title.chars().count() as f64
}

/// Name of a kind in figures: the paper's.
pub(super) fn kind_label(kind: &str) -> String {
    match kind {
        "fixed" => "Fixed λ (baseline)".to_owned(),
        "mlp-softplus" => "MLP-λ (softplus)".to_owned(),
        "mlp-softmax" => "MLP-λ (softmax)".to_owned(),
        "linear-attention" => "Linear attention (λ ≡ 1)".to_owned(),
        "softmax-attention" => "Softmax attention".to_owned(),
        other => other.to_owned(),
    }
}

/// The different kinds among some, in the order of legends: the paper's, then others by name.
pub(super) fn kinds_among<'a>(kinds: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    const ORDER: [&str; 5] =
        ["fixed", "mlp-softplus", "mlp-softmax", "linear-attention", "softmax-attention"];
    let place = |kind: &str| ORDER.iter().position(|&known| known == kind).unwrap_or(ORDER.len());
    let mut names: Vec<&str> = kinds.into_iter().map(String::as_str).collect();
    names.sort_by_key(|&kind| (place(kind), kind));
    names.dedup();
    names
}

/// Colour of a kind; kinds of a reader's own take the remaining colours in order.
pub(super) fn kind_color(kind: &str, index: usize) -> RGBColor {
    match kind {
        "fixed" => BLUE,
        "mlp-softplus" => VERMILION,
        "mlp-softmax" => GREEN,
        "linear-attention" => GREY,
        "softmax-attention" => PURPLE,
        _ => [SKY, ORANGE, YELLOW][index % 3],
    }
}

/// Colour of a region.
pub(super) fn region_color(region: &str) -> RGBColor {
    match region {
        "key" => BLUE,
        "value" => SKY,
        "query" => VERMILION,
        "answer" => ORANGE,
        "separator" => INK,
        "blank" => PURPLE,
        _ => RGBColor(0xb4, 0xb4, 0xb4),
    }
}
