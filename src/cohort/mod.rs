//! The run axis. Runs that differ in seed, data or learning rate train as one batched program:
//! every parameter is [runs, rows, columns], every activation [runs, tokens, features].

mod layers;
mod mixing;
mod parameters;

pub use layers::{
    Products, add_row, embedding, gelu, layer_norm, linear, linear_many, scale_rows, softmax, softplus,
};
pub(crate) use layers::{embedding_gradient, integers, linear_as, linear_many_as, log_decay, numbers};
pub use mixing::{causal_conv, rms_norm, rotate, silu};
pub use parameters::{Init, Parameters, Spec};
pub(crate) use parameters::{plain, select_runs};
