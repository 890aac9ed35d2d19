//! A data frame as an HTML table: types, shape, numbers that can be read, long and wide frames cut.

use super::display::{Rich, Show, escape};
use polars::prelude::{AnyValue, Column, DataFrame, DataType};
use std::fmt::Write;

/// Rows shown unless more are asked for.
const ROWS: usize = 12;
/// Columns shown unless more are asked for.
const COLUMNS: usize = 14;
/// Characters of a text shown.
const CHARACTERS: usize = 60;

/// A frame to show, with the numbers of rows and columns to show of it.
#[derive(Clone, Debug)]
pub struct Table {
    frame: DataFrame,
    rows: usize,
    columns: usize,
}

impl Table {
    /// A table of a frame: 12 rows and 14 columns of it at most.
    pub fn new(frame: &DataFrame) -> Self {
        Self { frame: frame.clone(), rows: ROWS, columns: COLUMNS }
    }

    /// Shows at most this many rows.
    #[must_use]
    pub fn rows(mut self, rows: usize) -> Self {
        self.rows = rows.max(1);
        self
    }

    /// Shows at most this many columns.
    #[must_use]
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns.max(1);
        self
    }

    fn html(&self) -> String {
        let (height, width) = self.frame.shape();
        let (rows, columns) = (Cut::new(height, self.rows), Cut::new(width, self.columns));
        let all = self.frame.columns();
        let shown: Vec<&Column> = columns.kept().map(|i| &all[i]).collect();
        // Styles stand in the elements: front ends drop style sheets from notebooks they don't trust.
        let mut html = String::from("<div>\n");
        let _ = writeln!(html, "<small>shape: {} × {}</small>", grouped(height), grouped(width));
        html.push_str("<table>\n<thead><tr>");
        let gap = |html: &mut String, place: usize, cell: &str| {
            if columns.gap_before(place) {
                html.push_str(cell);
            }
        };
        for (place, column) in shown.iter().enumerate() {
            gap(&mut html, place, "<th>…</th>");
            let (name, kind) = (escape(column.name()), escape(&column.dtype().to_string()));
            let align = align(column.dtype());
            let _ = write!(
                html,
                "<th{align}><span class=\"name\">{name}</span><br>\
                 <span style=\"font-weight:normal;color:{GREY}\">{kind}</span></th>"
            );
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for (place, row) in rows.kept().enumerate() {
            if rows.gap_before(place) {
                let span = shown.len() + usize::from(columns.hidden > 0);
                let hidden = grouped(rows.hidden);
                let style = format!("text-align:center;color:{GREY}");
                let _ = writeln!(
                    html,
                    "<tr><td style=\"{style}\" colspan=\"{span}\">… {hidden} rows …</td></tr>"
                );
            }
            html.push_str("<tr>");
            for (place, column) in shown.iter().enumerate() {
                gap(&mut html, place, "<td>…</td>");
                let align = align(column.dtype());
                let _ = write!(html, "<td{align}>{}</td>", cell(column, row));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table>\n");
        if columns.hidden > 0 {
            let _ = writeln!(html, "<small>{} of {} columns not shown</small>", columns.hidden, width);
        }
        html.push_str("</div>");
        html
    }
}

impl Show for Table {
    fn rich(&self) -> Rich {
        Rich::text(self.frame.to_string()).with("text/html", self.html())
    }
}

/// Of what is not data.
const GREY: &str = "#777777";

/// Which of `total` things are shown: all, or the first and the last with a gap.
struct Cut {
    total: usize,
    head: usize,
    tail: usize,
    hidden: usize,
}

impl Cut {
    fn new(total: usize, most: usize) -> Self {
        // A gap that hides one thing takes the room of that thing.
        if total <= most + 1 {
            return Self { total, head: total, tail: 0, hidden: 0 };
        }
        let tail = most / 3;
        Self { total, head: most - tail, tail, hidden: total - most }
    }

    fn kept(&self) -> impl Iterator<Item = usize> {
        (0..self.head).chain(self.total - self.tail..self.total)
    }

    /// Whether the thing shown at `place` follows the gap.
    fn gap_before(&self, place: usize) -> bool {
        self.hidden > 0 && place == self.head
    }
}

fn align(kind: &DataType) -> &'static str {
    if kind.is_primitive_numeric() { " style=\"text-align:right\"" } else { " style=\"text-align:left\"" }
}

fn cell(column: &Column, row: usize) -> String {
    match column.get(row) {
        Ok(AnyValue::Null) | Err(_) => format!("<span style=\"color:{GREY}\">null</span>"),
        Ok(AnyValue::Float64(value)) => number(value),
        Ok(AnyValue::Float32(value)) => number(f64::from(value)),
        // Texts and categories without the quotes that they have as values of a list.
        Ok(value) => match value.get_str() {
            Some(text) => escape(&shortened(text)),
            None => escape(&shortened(&value.to_string())),
        },
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= CHARACTERS {
        return text.to_owned();
    }
    text.chars().take(CHARACTERS - 1).chain(['…']).collect()
}

/// A number with five significant digits; whole ones and large ones as they are.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e7).contains(&size) {
        return format!("{value:.4e}");
    }
    let digits = if size == 0.0 { 0 } else { (4 - size.log10().floor() as i32).clamp(0, 8) as usize };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A count with its thousands apart.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::df;

    #[test]
    fn numbers_keep_five_digits() {
        let texts = [0.0, 1.0, 0.123_456, -12.5, 99_999.4, 1e-9, 123_456.0, f64::NAN].map(number);
        assert_eq!(texts, ["0", "1", "0.12346", "-12.5", "99999", "1.0000e-9", "123456", "NaN"]);
        assert_eq!([7, 1234, 1_234_567].map(grouped), ["7", "1\u{202f}234", "1\u{202f}234\u{202f}567"]);
    }

    #[test]
    fn html_is_escaped_and_names_types_and_shape() {
        let frame = df!("a<b" => ["x & y", "<script>"], "value" => [Some(1.5), None]).unwrap();
        let html = Table::new(&frame).html();
        assert!(html.contains("a&lt;b") && html.contains("x &amp; y") && html.contains("&lt;script&gt;"));
        assert!(!html.contains("<script>") && html.contains(">str<") && html.contains(">f64<"));
        assert!(html.contains("shape: 2 × 2") && html.contains(">null<"));
    }

    #[test]
    fn long_and_wide_frames_are_cut_with_a_count() {
        let column = |i: usize| Column::new(format!("c{i}").into(), (0..100_i32).collect::<Vec<_>>());
        let frame = DataFrame::new(100, (0..30).map(column).collect()).unwrap();
        let html = Table::new(&frame).html();
        assert!(html.contains("… 88 rows …") && html.contains("16 of 30 columns not shown"), "{html}");
        assert_eq!(html.matches("<tr><td style=\"text-align:right\">").count(), 12);
        assert!(html.contains(">c0<") && html.contains(">c29<") && !html.contains(">c15<"));
        let all = Table::new(&frame).rows(100).columns(30).html();
        assert!(!all.contains('…'));
        // One row more than fits is shown rather than cut.
        assert!(!Table::new(&frame.head(Some(13))).columns(30).html().contains('…'));
    }

    #[test]
    fn a_frame_without_rows_has_a_header() {
        let html = Table::new(&df!("a" => Vec::<f64>::new()).unwrap()).html();
        assert!(html.contains(">a<") && html.contains("shape: 0 × 1"));
    }
}
