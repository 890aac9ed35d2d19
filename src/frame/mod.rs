//! Run folders and λ as polars data frames.

mod anatomy;
mod collect;
mod columns;
mod lambda;
mod parquet;
mod published;
mod runs;
mod settings;
mod statistics;
mod text;

pub use anatomy::{content_dependence, lambda_by_region, lambda_reading};
pub use collect::{RunRecord, collect, ended_runs};
pub use lambda::{
    capture_lambda, first_run, recorded_lambda, run_lambda, stack_lambda, text_lambda, with_text,
};
pub use parquet::{read_parquet, write_parquet};
pub use published::published;
pub use runs::{evaluations, runs};
pub(crate) use settings::{Cell, Ended, Settings};
pub(crate) use statistics::BOOTSTRAP_SEED;
pub use statistics::{CONFIDENCE, Described, axis_effects, best_less_last, kind_differences, summaries};
pub(crate) use text::losses_by_position;
pub use text::{decoding_cost, position_losses, recorded_positions, stack_positions};

pub(crate) use columns::{numbers, texts};
pub(crate) use runs::{own_name, run_name};
