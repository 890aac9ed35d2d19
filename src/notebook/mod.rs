//! What a notebook adds: frames and figures as rich output, training from a cell.
//!
//! Nothing else in the crate knows about notebooks. In the evcxr kernel the last expression of a cell
//! is shown by [`Show`]; in a terminal the same call prints text.
//!
//! Three things of evcxr are worth knowing. A variable that lives on after its cell can be neither a
//! closure (write a `fn`) nor a borrow (clone it, or put braces around). A last expression that uses up a
//! variable of its own cell is shown as text: name it first (`let table = df!(…)?; table`). Where the kernel
//! can't tell a type, write it: `let values: Vec<f64> = …`.

mod display;
mod experiment;
mod own_map;
mod swept;
mod table;
mod trained;

pub use display::{Rich, Show};
pub use experiment::Experiment;
pub use swept::Swept;
pub use table::Table;
pub use trained::Trained;

use crate::{Error, Result};
use polars::df;
use polars::prelude::DataFrame;

/// What a notebook's first cell imports: `use loglinear::notebook::prelude::*;`.
pub mod prelude {
    pub use super::{Experiment, Show, Swept, Table, Trained};
    pub use crate::cohort::{Init, Spec};
    pub use crate::lambda::{LambdaConfig, LambdaInput, LambdaKind, LambdaMap, Scope};
    pub use crate::model::{LanguageConfig, Mixer, Model, ModelConfig, Sampling};
    pub use crate::sweep::{Claim, Sweep, preset};
    pub use crate::task::{MqarConfig, TaskConfig, TextConfig, Tokenizer};
    pub use crate::train::{RunConfig, RunFolder};
    pub use crate::visualization::{Bars, Cells, Figure, HeatmapGrid, Quantity, TextHeatmap};
    pub use crate::{
        attention, cohort, device, fenwick, frame, lambda, model, sweep, task, train, visualization,
    };
    pub use burn::tensor::{DType, Device, Int, Tensor, TensorData};
    pub use polars::prelude::{
        ChunkAgg, Column, DataFrame, DataType, Expr, IntoLazy, LazyFrame, NamedFrom, Series,
        SortMultipleOptions, col, df, lit, when,
    };
}

/// Called once by the kernel's start-up file: a panic in a cell becomes one sentence. Returns what the
/// kernel runs on, which cells find as `loglinear_kernel`.
///
/// # Errors
///
/// If this process isn't the evcxr kernel: a program's panics are its own affair.
pub fn start() -> Result<DataFrame> {
    if !in_kernel() {
        return Err(Error::value("notebook::start", "called in the evcxr kernel", "another process"));
    }
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map_or_else(String::new, |place| match origin(place.file()) {
            Some(file) => format!(" ({file}, line {})", place.line()),
            None => String::new(),
        });
        eprintln!("panic: {message}{place}");
    }));
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| "not set".to_owned());
    Ok(df!(
        "what" => ["loglinear", "device for training", "program that trains"],
        "value" => [env!("CARGO_PKG_VERSION").to_owned(), variable("LOGLINEAR_DEVICE"), variable("LOGLINEAR_PROGRAM")],
    )?)
}

/// Whether this process is the one in which evcxr runs cells.
pub(crate) fn in_kernel() -> bool {
    std::env::var_os("EVCXR_IS_RUNTIME").is_some()
}

/// Whether nobody watches: a notebook that is run from top to bottom.
pub(crate) fn headless() -> bool {
    std::env::var_os("LOGLINEAR_HEADLESS").is_some()
}

/// Number that a notebook uses, or a smaller one from the environment: `LOGLINEAR_STEPS=200` for
/// `setting("steps", 2000)`, so that the same notebook also runs as a quick check.
///
/// # Errors
///
/// If the variable is set but not a whole number above 0.
pub fn setting(name: &str, value: usize) -> Result<usize> {
    let variable = format!("LOGLINEAR_{}", name.to_uppercase());
    let Some(text) = std::env::var_os(&variable) else { return Ok(value) };
    let text = text.to_string_lossy();
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(Error::value(variable, "a whole number above 0", text)),
    }
}

/// File of a panic as a reader knows it: crate and path. None for a cell, whose lines are not the reader's.
fn origin(file: &str) -> Option<&str> {
    match file.split_once("/registry/src/") {
        Some((_, rest)) => rest.split_once('/').map(|(_, rest)| rest),
        None if file == "src/lib.rs" => None,
        None => Some(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_names_the_crate_and_not_this_machine() {
        let file = "somewhere/registry/src/index-1/burn-tensor-0.22.1/src/tensor/api/float.rs";
        assert_eq!(origin(file), Some("burn-tensor-0.22.1/src/tensor/api/float.rs"));
        assert_eq!(origin("src/lib.rs"), None);
        assert_eq!(origin("src/fenwick.rs"), Some("src/fenwick.rs"));
    }

    #[test]
    fn start_is_for_the_kernel() {
        assert!(start().unwrap_err().to_string().contains("evcxr"));
    }
}
