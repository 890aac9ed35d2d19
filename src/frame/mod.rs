//! Run folders and λ as polars data frames.

mod anatomy;
mod columns;
mod lambda;
mod parquet;
mod runs;

pub use anatomy::{content_dependence, lambda_by_region};
pub use lambda::{capture_lambda, first_run, recorded_lambda, run_lambda, stack_lambda};
pub use parquet::{read_parquet, write_parquet};
pub use runs::{evaluations, runs};

pub(crate) use columns::{numbers, texts};
pub(crate) use runs::run_name;
