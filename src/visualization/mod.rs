//! Figures: functions from frames to [`Figure`]s, which are SVG and PNG at once.
//!
//! One theme, colours that colour-blind readers can tell apart, fonts of our own: a bare machine
//! draws the same picture.

mod arrangement;
mod axis;
mod band;
mod bars;
mod cells;
mod coordinates;
mod curves;
mod decoding;
mod each;
mod effects;
mod figure;
mod heatmap;
mod heatmap_grid;
mod histogram;
mod kinds;
mod language;
mod learning;
mod learning_grid;
mod legend;
mod panels;
mod partition;
mod pen;
mod perplexity;
mod perplexity_panels;
mod published;
mod scaling;
mod text_heatmap;
mod theme;
mod wrap;

pub use bars::{Bars, accuracy_bars};
pub use cells::Cells;
pub use curves::{accuracy_against_pairs, lambda_by_level};
pub use decoding::decoding_cost;
pub use effects::effects;
pub use figure::{Figure, grid};
pub use heatmap::lambda_heatmap;
pub use heatmap_grid::{HeatmapGrid, heatmap_grid};
pub use histogram::lambda_histogram;
pub use language::{loss_curves, perplexity_by_position};
pub use learning::{Quantity, learning_curves};
pub use learning_grid::learning_curves_grid;
pub use partition::fenwick_partition;
pub use perplexity::perplexity_by_kind;
pub use scaling::scaling;
pub use text_heatmap::{TextHeatmap, text_heatmap};
