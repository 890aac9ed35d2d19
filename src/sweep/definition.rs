//! What a sweep is: one TOML file, or the same from a builder.

use super::Claim;
use crate::train::RunConfig;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use toml::{Table, Value};

/// Many runs: a base configuration and axes along which it changes, and the claims that they test.
///
/// ```toml
/// name = "pairs"
/// description = "Recall against the number of pairs"
/// lambda_sequences = 2            # record λ on so many validation sequences (0: none)
///
/// [base]                          # fields of a run's config.toml; what is absent has its default
/// task.name = "mqar"
/// train.steps = 5000
///
/// [axes]                          # a list in place of a value: one run for every combination
/// seed = [0, 1, 2]
/// task.pairs = [4, 8]
/// model.lambda.kind = ["fixed", "mlp-softplus"]
/// evaluation.seq_len = [128, 256] # not more runs: each is evaluated at these lengths
/// protocol = [                    # an axis of several fields: tables with a name
///     { name = "text" },
///     { name = "release", model.lambda.activation = "gelu", model.lambda.hidden = 64 },
/// ]
///
/// [[exclude]]                     # combinations to leave out
/// model.lambda.kind = "fixed"
/// protocol = "release"
///
/// [[include]]                     # further runs: these fields in place of the base's
/// model.mixer = "linear"
/// seed = [0, 1, 2]
/// ```
///
/// `model.max_seq_len` is the longest length that occurs (trained or evaluated) where it isn't given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sweep {
    /// Name; of a preset, the name it is called by.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Validation sequences on which λ of every run is recorded when it ends; 0 for none.
    pub lambda_sequences: usize,
    /// Fields of every run.
    pub base: Table,
    /// Fields that vary, each with its values.
    pub axes: Table,
    /// Further runs.
    pub include: Vec<Table>,
    /// Combinations of the axes to leave out.
    pub exclude: Vec<Table>,
    /// What is to be decided, by rules written before the runs.
    pub claims: Vec<Claim>,
}

impl Sweep {
    /// A sweep of one run with the default configuration, to be changed by the methods below.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Fields of every run. A `max_seq_len` that is the task's length or the default counts as not given.
    #[must_use]
    pub fn base(mut self, config: &RunConfig) -> Self {
        self.base = config.to_table();
        let derived = [config.task.task().seq_len(), RunConfig::default().model.max_seq_len];
        if derived.contains(&config.model.max_seq_len)
            && let Some(Value::Table(model)) = self.base.get_mut("model")
        {
            model.remove("max_seq_len");
        }
        self
    }

    /// One run for each value of a field, in every combination with the other axes.
    ///
    /// The field is named as in `config.toml`, with dots: `task.pairs`, `model.lambda.kind`, `seed`; or it
    /// is `evaluation.seq_len`.
    #[must_use]
    pub fn axis<V: Into<Value>>(
        mut self,
        field: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        self.axes.insert(field.into(), Value::Array(values));
        self
    }

    /// Leaves out the runs that have all these values.
    #[must_use]
    pub fn exclude<V: Into<Value>>(mut self, fields: impl IntoIterator<Item = (&'static str, V)>) -> Self {
        self.exclude.push(table(fields));
        self
    }

    /// Adds a run with these fields in place of the base's, or one for each value of a list.
    #[must_use]
    pub fn include<V: Into<Value>>(mut self, fields: impl IntoIterator<Item = (&'static str, V)>) -> Self {
        self.include.push(table(fields));
        self
    }

    /// Reads a TOML file and checks that it says which runs to make.
    ///
    /// # Errors
    ///
    /// If the file can't be read, has an unknown key, or a run is impossible.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        Self::parse(&text).map_err(|error| Error::format(path, error))
    }

    /// A sweep from TOML text, checked.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn parse(text: &str) -> Result<Self> {
        let sweep: Self =
            toml::from_str(text).map_err(|error| Error::sweep("file", error.to_string().trim_end()))?;
        // It becomes a path below runs/.
        let part = |part: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !part.is_empty() && !part.starts_with('.') && part.chars().all(plain)
        };
        if !sweep.name.split('/').all(part) {
            let expected = "expected as `name` letters, digits, -, _ and . in parts with / between, found";
            return Err(Error::sweep(&sweep.name, format!("{expected} `{}`", sweep.name)));
        }
        let mut axes: Vec<String> =
            sweep.runs()?.into_iter().flat_map(|run| run.settings).map(|(axis, _)| axis).collect();
        axes.sort();
        axes.dedup();
        for (index, claim) in sweep.claims.iter().enumerate() {
            claim.validate(&sweep.name, &axes)?;
            if sweep.claims[..index].iter().any(|other| other.id == claim.id) {
                let message = format!("expected claims with different ids, found `{}` twice", claim.id);
                return Err(Error::sweep(&sweep.name, message));
            }
        }
        Ok(sweep)
    }

    /// The sweep as TOML.
    ///
    /// # Panics
    ///
    /// Never: every field has a TOML form.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a sweep is a table of plain values")
    }
}

fn table<V: Into<Value>>(fields: impl IntoIterator<Item = (&'static str, V)>) -> Table {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}
