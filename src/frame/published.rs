//! Numbers that others have published, to be shown beside ours: never a result of this crate.

use crate::Result;
use polars::prelude::{CsvReadOptions, DataFrame, DataType, Schema, SerReader};
use std::io::Cursor;
use std::sync::Arc;

const TABLE: &str = include_str!("published.csv");

/// Published figures of *Adaptive Memory Decay for Log-Linear Attention* (arXiv 2605.06946), one row a
/// number.
///
/// | column | meaning |
/// |---|---|
/// | benchmark | `mqar`, `mqar-128`, `length-generalisation`, `selective-copying` or `wikitext-103` |
/// | kind | λ kind, as in frames of runs |
/// | seq_len, eval_seq_len | length in training and in evaluation; empty where a mean over lengths was published |
/// | pairs, d_model, steps, seed | the setting; empty where it doesn't apply or isn't given |
/// | value | accuracy as a share; of `wikitext-103` the perplexity (of the token after the next, as released) |
/// | std, n | population standard deviation over n runs, where given |
/// | source | `paper`: its text; `release`: a figure of the authors' released code |
/// | note | what the source says of the number |
///
/// Qualitative statements have no row: the paper says that MLP-λ (softmax) fails at k = 32, not by how much.
///
/// # Errors
///
/// If the embedded table can't be read, which a test rules out.
pub fn published() -> Result<DataFrame> {
    let (text, count, number) = (DataType::String, DataType::UInt32, DataType::Float64);
    let columns = [
        ("benchmark", &text),
        ("kind", &text),
        ("seq_len", &count),
        ("eval_seq_len", &count),
        ("pairs", &count),
        ("d_model", &count),
        ("steps", &count),
        ("seed", &count),
        ("value", &number),
        ("std", &number),
        ("n", &count),
        ("source", &text),
        ("note", &text),
    ];
    let schema = Schema::from_iter(columns.map(|(name, kind)| (name.into(), kind.clone())));
    let options = CsvReadOptions::default().with_has_header(true).with_schema(Some(Arc::new(schema)));
    Ok(options.into_reader_with_file_handle(Cursor::new(TABLE.as_bytes())).finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{numbers, texts};

    #[test]
    fn every_row_is_whole() {
        let frame = published().unwrap();
        assert_eq!(frame.height(), TABLE.lines().count() - 1);
        let header: Vec<&str> = TABLE.lines().next().unwrap().split(',').collect();
        assert!(frame.get_column_names().iter().eq(&header));
        let (benchmarks, kinds) = (texts(&frame, "benchmark").unwrap(), texts(&frame, "kind").unwrap());
        let (values, stds) = (numbers(&frame, "value").unwrap(), numbers(&frame, "std").unwrap());
        let sources = texts(&frame, "source").unwrap();
        for row in 0..frame.height() {
            assert!(["fixed", "mlp-softplus", "mlp-softmax"].contains(&kinds[row].as_str()), "row {row}");
            assert!(["paper", "release"].contains(&sources[row].as_str()), "row {row}");
            let perplexity = benchmarks[row] == "wikitext-103";
            assert_eq!(values[row] > 1.0, perplexity, "row {row}: accuracies are shares");
            assert!(values[row].is_finite() && (stds[row].is_nan() || stds[row] < 1.0), "row {row}");
        }
    }

    #[test]
    fn a_mean_over_lengths_has_no_length() {
        let frame = published().unwrap();
        let (benchmarks, lengths) =
            (texts(&frame, "benchmark").unwrap(), numbers(&frame, "seq_len").unwrap());
        for (benchmark, length) in benchmarks.iter().zip(lengths) {
            assert_eq!(benchmark == "mqar", length.is_nan(), "{benchmark}");
        }
    }
}
