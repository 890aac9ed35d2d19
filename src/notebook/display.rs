//! Rich output in the kernel, text in a terminal.

use super::{Table, in_kernel};
use crate::train::{RunFolder, RunResult};
use crate::visualization::{Figure, grid};
use burn::tensor::Tensor;
use burn::tensor::kind::Basic;
use polars::prelude::{Column, DataFrame, IntoColumn, LazyFrame, Series};
use std::fmt::Write as _;
use std::io::Write as _;

/// One thing to show, in every form that a front end may understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rich {
    text: String,
    blocks: Vec<(&'static str, String)>,
}

impl Rich {
    /// Something that can be shown as text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), blocks: Vec::new() }
    }

    /// Adds a form of the same thing; a MIME type occurs once.
    pub fn with(mut self, mime: &'static str, content: impl Into<String>) -> Self {
        self.blocks.push((mime, content.into()));
        self
    }

    /// The text form.
    pub fn as_text(&self) -> &str {
        &self.text
    }

    /// The form of a MIME type, if there is one.
    pub fn content(&self, mime: &str) -> Option<&str> {
        self.blocks.iter().find(|(known, _)| *known == mime).map(|(_, content)| content.as_str())
    }

    /// What the kernel reads from standard output, or the text alone.
    fn message(&self, in_kernel: bool) -> String {
        if !in_kernel {
            return format!("{}\n", self.text);
        }
        let mut message = String::new();
        for (mime, content) in std::iter::once(&("text/plain", self.text.clone())).chain(&self.blocks) {
            // Data that holds the kernel's own end mark must not end the block.
            let content = content.replace("EVCXR_END_CONTENT", "EVCXR\u{2011}END_CONTENT");
            let _ = writeln!(message, "EVCXR_BEGIN_CONTENT {mime}\n{content}\nEVCXR_END_CONTENT");
        }
        message
    }
}

/// Something that a cell can end with. The kernel keeps one output of a cell for each MIME type, so
/// of two shown things the last wins: put figures into one with [`crate::visualization::grid`].
pub trait Show {
    /// Its forms.
    fn rich(&self) -> Rich;

    /// Shows it now.
    fn show(&self) {
        let message = self.rich().message(in_kernel());
        // A reader that has gone away doesn't stop a program.
        let _ = std::io::stdout().write_all(message.as_bytes());
    }

    /// What evcxr calls on the last expression of a cell.
    fn evcxr_display(&self) {
        self.show();
    }
}

impl Show for DataFrame {
    fn rich(&self) -> Rich {
        Table::new(self).rich()
    }
}

impl Show for Column {
    fn rich(&self) -> Rich {
        match DataFrame::new(self.len(), vec![self.clone()]) {
            Ok(frame) => frame.rich(),
            Err(error) => sentence(&error),
        }
    }
}

impl Show for Series {
    fn rich(&self) -> Rich {
        self.clone().into_column().rich()
    }
}

impl Show for LazyFrame {
    fn rich(&self) -> Rich {
        match self.describe_plan() {
            Ok(plan) => Rich::text(format!("lazy frame (.collect()? computes it)\n{plan}")),
            Err(error) => sentence(&error),
        }
    }
}

impl Show for Figure {
    fn rich(&self) -> Rich {
        let (width, height) = self.size();
        Rich::text(format!("figure of {width} × {height}; .save(path)? writes SVG and PNG"))
            // Wider than the page it would be cut off.
            .with(
                "image/svg+xml",
                self.svg().replacen("<svg ", "<svg style=\"max-width:100%;height:auto\" ", 1),
            )
            .with("image/png", base64(self.png()))
    }
}

/// Several figures are one grid, two side by side.
impl Show for Vec<Figure> {
    fn rich(&self) -> Rich {
        grid(self, 2).rich()
    }
}

/// Shape and values.
impl<const D: usize, K> Show for Tensor<D, K>
where
    K: Basic,
{
    fn rich(&self) -> Rich {
        Rich::text(self.to_string())
    }
}

impl<T: Show> Show for Option<T> {
    fn rich(&self) -> Rich {
        self.as_ref().map_or_else(|| Rich::text("none"), Show::rich)
    }
}

/// A statement at the end of a cell shows nothing.
impl Show for () {
    fn rich(&self) -> Rich {
        Rich::text("")
    }

    fn show(&self) {}
}

/// What a run reached: accuracies, or on a text the perplexity and of what it is.
fn outcome(result: &RunResult) -> Vec<(&'static str, String)> {
    match (result.target_offset, result.perplexity()) {
        (Some(offset), perplexity) => vec![
            ("predicts", format!("token t+{offset}")),
            ("perplexity", perplexity.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))),
        ],
        _ => vec![("accuracy", percent(result.accuracy)), ("best accuracy", percent(result.best_accuracy))],
    }
}

impl Show for RunResult {
    fn rich(&self) -> Rich {
        let mut rows = vec![
            ("λ", self.kind.clone()),
            ("seed", self.seed.to_string()),
            ("ended", self.status.name().to_owned()),
            ("steps", self.steps.to_string()),
        ];
        rows.extend(outcome(self));
        fields(&rows)
    }
}

impl Show for RunFolder {
    fn rich(&self) -> Rich {
        let read = || {
            let config = self.config()?;
            let result = self.result()?;
            let mut rows = vec![
                ("folder", self.path().display().to_string()),
                ("task", format!("{}, T = {}", config.task.name(), config.task.task().seq_len())),
                ("λ", config.model.kind().to_owned()),
                ("seed", config.seed.to_string()),
            ];
            match result {
                Some(result) => {
                    rows.push(("ended", format!("{} at step {}", result.status.name(), result.steps)));
                    rows.extend(outcome(&result));
                }
                None => rows.push(("ended", "not yet".to_owned())),
            }
            Ok(fields(&rows))
        };
        read().unwrap_or_else(|error: crate::Error| sentence(&error))
    }
}

/// A result shows what it holds, or its error as a sentence.
impl<T: Show, E: std::fmt::Display> Show for Result<T, E> {
    fn rich(&self) -> Rich {
        match self {
            Ok(value) => value.rich(),
            Err(error) => sentence(error),
        }
    }
}

impl<T: Show + ?Sized> Show for &T {
    fn rich(&self) -> Rich {
        (**self).rich()
    }
}

/// An error as a sentence.
fn sentence(error: &dyn std::fmt::Display) -> Rich {
    let text = format!("error: {error}");
    let html = format!("<p style=\"color:#b00020\">{}</p>", escape(&text));
    Rich::text(text).with("text/html", html)
}

/// A share as a percentage with one decimal, or a dash.
fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// Names and values, a row each.
pub(super) fn fields(rows: &[(&str, String)]) -> Rich {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let text: Vec<String> = rows.iter().map(|(name, value)| format!("{name:<width$}  {value}")).collect();
    let row = |(name, value): &(&str, String)| {
        let (name, value) = (escape(name), escape(value));
        format!(
            "<tr><th style=\"text-align:left\">{name}</th><td style=\"text-align:left\">{value}</td></tr>"
        )
    };
    let html = format!("<table>{}</table>", rows.iter().map(row).collect::<String>());
    Rich::text(text.join("\n")).with("text/html", html)
}

/// Text as HTML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Bytes in base 64 (RFC 4648), as front ends want images.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_agrees_with_the_rfc() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in pairs {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn the_kernel_gets_every_form_and_a_terminal_the_text() {
        let rich = Rich::text("plain").with("text/html", "<b>rich</b>");
        assert_eq!(rich.message(false), "plain\n");
        let message = rich.message(true);
        let blocks: Vec<&str> = message.lines().filter(|line| line.starts_with("EVCXR_BEGIN")).collect();
        assert_eq!(blocks, ["EVCXR_BEGIN_CONTENT text/plain", "EVCXR_BEGIN_CONTENT text/html"]);
    }

    #[test]
    fn an_error_is_a_sentence() {
        let failed: crate::Result<DataFrame> = Err(crate::Error::value("k", "above <0>", 0));
        let rich = failed.rich();
        assert_eq!(rich.as_text(), "error: k must be above <0>, found 0");
        assert!(rich.content("text/html").unwrap().contains("above &lt;0&gt;"));
    }
}
