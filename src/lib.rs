//! Train, probe and picture **log-linear attention with adaptive memory decay**.
//!
//! A model of this family remembers its past through a Fenwick tree: position t sees each earlier
//! position through one of about log2(T) *levels*, and weighs each level with a learned λ. This
//! crate has the operator in all its forms ([`attention`]), the maps that compute λ ([`lambda`]),
//! models ([`model`]), tasks ([`task`]), one training loop for many runs at once ([`train`]), and
//! what it takes to look inside: λ as polars frames ([`frame`]) and figures ([`visualization`]).
//!
//! Source: *Adaptive Memory Decay for Log-Linear Attention* (arXiv 2605.06946), which changes how λ
//! is computed in *Log-Linear Attention* (arXiv 2506.04761).

pub mod attention;
pub mod cohort;
pub mod device;
mod error;
pub mod fenwick;
mod file;
pub mod frame;
#[cfg(feature = "cuda")]
mod gpu;
mod host;
pub mod kernel_cache;
pub mod lambda;
pub mod metric;
pub mod model;
pub mod notebook;
pub mod paper;
pub mod random;
pub mod sweep;
pub mod task;
pub mod train;
pub mod visualization;

pub use burn;
pub use error::{Error, Result};
pub use plotters;
pub use polars;

/// The README's program, compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
