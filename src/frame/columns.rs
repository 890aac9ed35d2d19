//! Columns as plain vectors, for code that draws or computes.

use crate::Result;
use polars::prelude::{DataFrame, DataType};

/// A numeric column as f64; a missing value is NaN.
pub(crate) fn numbers(frame: &DataFrame, name: &str) -> Result<Vec<f64>> {
    let column = frame.column(name)?.cast(&DataType::Float64)?;
    Ok(column.f64()?.iter().map(|value| value.unwrap_or(f64::NAN)).collect())
}

/// A text column; a missing value is empty.
pub(crate) fn texts(frame: &DataFrame, name: &str) -> Result<Vec<String>> {
    let column = frame.column(name)?;
    Ok(column.str()?.iter().map(|value| value.unwrap_or_default().to_owned()).collect())
}
