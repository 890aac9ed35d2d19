//! The run axis. Runs that differ in seed, data or learning rate train as one batched program:
//! every parameter is [runs, rows, columns], every activation [runs, tokens, features].

mod layers;
mod parameters;

pub(crate) use layers::integers;
pub use layers::{embedding, gelu, layer_norm, linear, linear_many, softmax, softplus};
pub(crate) use parameters::select_runs;
pub use parameters::{Init, Parameters, Spec};
