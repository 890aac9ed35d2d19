//! Claims with the rule that decides them, written down before the runs.

use super::point::value_text;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// Columns of a collected frame that a claim can be about.
const MEASURES: [&str; 13] = [
    "best_accuracy",
    "accuracy",
    "validation_loss",
    "perplexity",
    "train_loss",
    "gradient_norm",
    "steps",
    "best_step",
    "run_seconds",
    "lambda_level_variation",
    "lambda_content_share",
    "lambda_task_ratio",
    "lambda_deep_ratio",
];

/// Columns by which a claim can choose runs, besides the sweep's own axes.
const SETTINGS: [&str; 13] = [
    "kind",
    "task",
    "seq_len",
    "pairs",
    "eval_seq_len",
    "base_learning_rate",
    "max_seq_len",
    "activation",
    "hidden",
    "init",
    "target",
    "target_offset",
    "corpus",
];

/// Which number of a set of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Mean over seeds.
    #[default]
    Mean,
    /// Population deviation over seeds.
    Std,
}

/// A range, open where an end is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Range {
    /// Least value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Largest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

/// One claim. Its quantity is a statistic of the runs `of`, less that of the runs `minus` (paired by seed)
/// if there are any. The claim is *supported* if the 95 % bootstrap interval of the quantity lies in the
/// range `supported`, *contradicted* if it lies in the range `contradicted` (by default: outside
/// `supported`), else *not supported*; and *not tested* with fewer than `least_runs` runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Claim {
    /// Short name.
    pub id: String,
    /// The claim in a sentence.
    pub claim: String,
    /// What was published, in words and numbers.
    pub published: String,
    /// Column of a collected frame.
    pub measure: String,
    /// What is taken of its values.
    pub statistic: Statistic,
    /// Runs: columns and the values they must have.
    pub of: Table,
    /// Runs to compare with.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub minus: Table,
    /// Where the interval must lie for the claim to be supported.
    pub supported: Range,
    /// Where it must lie for the claim to be contradicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contradicted: Option<Range>,
    /// Fewest runs (pairs of runs, where there is a `minus`) that decide.
    pub least_runs: usize,
    /// Why no run can test the claim. The rule's fields are absent then, but for the range of a claim that
    /// is decided by counting.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub not_tested: String,
}

impl Claim {
    /// Checks that there is a rule, on a measure and settings that collected runs of a sweep with these axes have.
    ///
    /// # Errors
    ///
    /// Names the field that is missing or wrong.
    pub fn validate(&self, sweep: &str, axes: &[String]) -> Result<()> {
        let wrong = |field: &str, expected: &str| {
            let id = if self.id.is_empty() { "without an id" } else { &self.id };
            Err(Error::sweep(sweep, format!("claim {id}: {field}: expected {expected}")))
        };
        if self.id.is_empty() || self.claim.is_empty() {
            return wrong("id and claim", "both, found none");
        }
        if !self.not_tested.is_empty() {
            return Ok(());
        }
        if self.measure.is_empty() {
            return wrong("measure", "a column of numbers such as best_accuracy, found none");
        }
        if !MEASURES.contains(&self.measure.as_str()) {
            return wrong("measure", &format!("one of {}, found `{}`", MEASURES.join(", "), self.measure));
        }
        let settings = || SETTINGS.iter().copied().chain(axes.iter().map(String::as_str));
        let mut named = self.of.keys().chain(self.minus.keys());
        if let Some(name) = named.find(|name| settings().all(|known| known != name.as_str())) {
            let known = settings().collect::<Vec<_>>().join(", ");
            return wrong("of and minus", &format!("columns among {known}, found `{name}`"));
        }
        if self.of.is_empty() {
            return wrong("of", "columns with values such as { kind = \"fixed\" }, found none");
        }
        if self.of.values().chain(self.minus.values()).any(|value| value.is_table() || value.is_array()) {
            return wrong("of and minus", "one plain value a column");
        }
        let none = Range::default();
        if self.supported == none || self.contradicted == Some(none) {
            return wrong("supported and contradicted", "ranges such as { at_least = 0.1 }, found none");
        }
        for range in [Some(self.supported), self.contradicted].into_iter().flatten() {
            let (least, most) = (range.at_least.unwrap_or(f64::MIN), range.at_most.unwrap_or(f64::MAX));
            if !(least <= most && least.is_finite() && most.is_finite()) {
                return wrong(
                    "supported and contradicted",
                    &format!("numbers with at_least ≤ at_most, found {range}"),
                );
            }
        }
        if self.least_runs == 0 {
            return wrong("least_runs", "at least 1, found 0");
        }
        Ok(())
    }

    /// Whether an interval of the quantity contradicts the claim.
    pub fn is_contradicted(&self, low: f64, high: f64) -> bool {
        match self.contradicted {
            Some(range) => range.holds(low, high),
            None => {
                let below = self.supported.at_least.is_some_and(|least| high < least);
                below || self.supported.at_most.is_some_and(|most| low > most)
            }
        }
    }

    /// The rule in a sentence.
    pub fn rule(&self) -> String {
        if !self.not_tested.is_empty() {
            return self.not_tested.clone();
        }
        let select = |table: &Table| {
            let part = |(column, value): (&String, &Value)| format!("{column} = {}", value_text(value));
            table.iter().map(part).collect::<Vec<_>>().join(", ")
        };
        let statistic = match self.statistic {
            Statistic::Mean => "mean",
            Statistic::Std => "std",
        };
        let mut quantity = format!("{statistic} {} ({})", self.measure, select(&self.of));
        if !self.minus.is_empty() {
            quantity.push_str(&format!(" − ({})", select(&self.minus)));
        }
        format!(
            "95 % interval of {quantity}, over seeds and what is not named: supported if {}, contradicted if {}; n ≥ {}",
            self.supported,
            self.contradicted.map_or_else(|| "outside".to_owned(), |range| range.to_string()),
            self.least_runs
        )
    }
}

impl Range {
    /// Whether an interval lies in the range.
    pub fn holds(&self, low: f64, high: f64) -> bool {
        self.at_least.is_none_or(|least| low >= least) && self.at_most.is_none_or(|most| high <= most)
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) => write!(f, "in [{least}, {most}]"),
            (Some(least), None) => write!(f, "≥ {least}"),
            (None, Some(most)) => write!(f, "≤ {most}"),
            (None, None) => write!(f, "anything"),
        }
    }
}
