//! The one error type: each message says what was expected, what was found, and where.

use std::path::{Path, PathBuf};

/// Result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong, in sentences meant for the person who called.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument has the wrong shape.
    #[error("{argument} must have shape {expected}, found {found:?}")]
    Shape {
        /// Name of the argument.
        argument: &'static str,
        /// Shape in words or numbers.
        expected: String,
        /// Shape that was given.
        found: Vec<usize>,
    },
    /// An argument holds values outside its domain.
    #[error("{argument} must be {expected}, found {found}")]
    Value {
        /// Name of the argument or configuration field.
        argument: String,
        /// Allowed values.
        expected: String,
        /// Offending value.
        found: String,
    },
    /// A parameter is absent from a set of parameters or a checkpoint.
    #[error("parameter `{name}` is missing; present: {present}")]
    MissingParameter {
        /// Name that was asked for.
        name: String,
        /// Names that exist.
        present: String,
    },
    /// A device name can't be understood or isn't compiled in.
    #[error("{0}")]
    Device(String),
    /// A file or folder can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file was read but its content is not what was expected.
    #[error("{}: {message}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Expected and found.
        message: String,
    },
    /// A run folder is in the way: finished, different, or in use.
    #[error("{}: {message}", path.display())]
    Run {
        /// The run folder.
        path: PathBuf,
        /// What is wrong and what to do.
        message: String,
    },
    /// A sweep doesn't say which runs to make.
    #[error("sweep `{name}`: {message}")]
    Sweep {
        /// Name of the sweep.
        name: String,
        /// Which part is wrong, what was expected and found.
        message: String,
    },
    /// Another program that was called failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The program and its arguments.
        command: String,
        /// What it said, or how it ended.
        message: String,
    },
    /// A data frame operation failed.
    #[error("data frame: {0}")]
    Frame(#[from] polars::error::PolarsError),
    /// A figure can't be drawn.
    #[error("figure: {0}")]
    Figure(String),
}

impl Error {
    /// A value outside its domain.
    pub fn value(
        argument: impl Into<String>,
        expected: impl Into<String>,
        found: impl std::fmt::Display,
    ) -> Self {
        Self::Value { argument: argument.into(), expected: expected.into(), found: found.to_string() }
    }

    /// Checks that a size lies in a range.
    pub(crate) fn check_range(
        argument: &str,
        value: usize,
        range: std::ops::RangeInclusive<usize>,
    ) -> Result<()> {
        if range.contains(&value) {
            return Ok(());
        }
        Err(Self::value(argument, format!("{} to {}", range.start(), range.end()), value))
    }

    /// An input/output error with the path it happened at.
    pub fn io(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { path, source }
    }

    /// A file whose content is not what was expected.
    pub fn format(path: impl AsRef<Path>, message: impl std::fmt::Display) -> Self {
        Self::Format { path: path.as_ref().to_owned(), message: message.to_string() }
    }

    /// A sweep that doesn't say which runs to make.
    pub fn sweep(name: &str, message: impl std::fmt::Display) -> Self {
        Self::Sweep { name: name.to_owned(), message: message.to_string() }
    }

    /// Whether there is no room left to write: nothing else could be written either.
    pub(crate) fn is_full_disk(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// A run folder that can't be used as asked.
    pub fn run(path: impl AsRef<Path>, message: impl std::fmt::Display) -> Self {
        Self::Run { path: path.as_ref().to_owned(), message: message.to_string() }
    }
}
