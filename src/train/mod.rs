//! One training loop for everything: many runs that differ in seed, data or learning rate as one
//! batched program, each with a run folder of its own.

mod batched;
mod checkpoint;
mod config;
mod evaluate;
mod folder;
mod interrupt;
mod learn;
mod leave;
mod optimizer;
mod progress;
mod record;
#[cfg(feature = "cuda")]
mod recorded;
mod unread;
mod writer;

pub use checkpoint::{Checkpoint, Progress};
pub use config::{OptimizerKind, RunConfig, Schedule, TrainConfig};
pub use evaluate::{Evaluation, PositionLoss, evaluate, evaluate_positions};
pub use folder::RunFolder;
pub use interrupt::Interrupt;
pub(crate) use learn::train_each;
pub use learn::{Job, Options, train};
pub use optimizer::{Adam, StepOutcome};
pub use progress::ProgressMode;
pub(crate) use progress::{Overall, duration};
pub use record::{LengthEvaluation, MetricsRow, RunResult, Status};
