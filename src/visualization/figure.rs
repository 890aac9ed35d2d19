//! A finished figure, and what it takes to draw one.

use super::theme::{Theme, load_fonts};
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::{BitMapBackend, DrawingArea, DrawingBackend, IntoDrawingArea, SVGBackend, WHITE};
use std::path::{Path, PathBuf};

/// Pixels of the PNG for one unit of the SVG.
const PNG_SCALE: u32 = 2;

/// A figure as SVG and as PNG, drawn by the same code.
#[derive(Clone, PartialEq, Eq)]
pub struct Figure {
    size: (u32, u32),
    svg: String,
    png: Vec<u8>,
}

impl std::fmt::Debug for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Figure {{ svg: {} bytes, png: {} bytes }}", self.svg.len(), self.png.len())
    }
}

impl Figure {
    /// Width and height in units of the SVG; the PNG has twice as many pixels.
    pub fn size(&self) -> (u32, u32) {
        self.size
    }

    /// The figure as SVG text.
    pub fn svg(&self) -> &str {
        &self.svg
    }

    /// The figure as a PNG file's bytes.
    pub fn png(&self) -> &[u8] {
        &self.png
    }

    /// Writes `path` as SVG or PNG by its ending, or both files if it has none. Missing folders are
    /// created. Returns the files written.
    ///
    /// # Errors
    ///
    /// If the path has another ending or no file name, or a file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
        let path = path.as_ref();
        let name = path.file_name().filter(|_| !path.as_os_str().to_string_lossy().ends_with('/'));
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        let formats: &[&str] = match (name, ending.as_deref()) {
            (Some(_), Some("svg")) => &["svg"],
            (Some(_), Some("png")) => &["png"],
            (Some(_), None) => &["svg", "png"],
            _ => {
                let expected = "a file name that ends in .svg or .png, or without an ending for both";
                return Err(Error::value("path of the figure", expected, path.display()));
            }
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
        }
        let write = |&format: &&str| {
            let file = if ending.is_some() { path.to_owned() } else { path.with_extension(format) };
            let content = if format == "svg" { self.svg.as_bytes() } else { &self.png };
            std::fs::write(&file, content).map_err(Error::io(&file))?;
            Ok(file)
        };
        formats.iter().map(write).collect()
    }
}

/// Something to draw, on any backend.
pub(super) trait Draw {
    /// Width and height in SVG units.
    fn size(&self) -> (u32, u32);

    /// Draws on a white area of that size times the theme's scale.
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, theme: Theme) -> Result<()>;
}

/// Draws a figure on both backends.
pub(super) fn render(drawing: &impl Draw) -> Result<Figure> {
    load_fonts();
    let size = drawing.size();
    let (width, height) = size;
    let mut svg = String::new();
    paint(drawing, SVGBackend::with_string(&mut svg, (width, height)), 1.0)?;
    let (width, height) = (width * PNG_SCALE, height * PNG_SCALE);
    let mut pixels = vec![0; (width * height * 3) as usize];
    paint(drawing, BitMapBackend::with_buffer(&mut pixels, (width, height)), f64::from(PNG_SCALE))?;
    Ok(Figure { size, svg, png: encode(&pixels, width, height)? })
}

fn paint<DB: DrawingBackend>(drawing: &impl Draw, backend: DB, scale: f64) -> Result<()> {
    let area = backend.into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    drawing.draw(&area, Theme { scale })?;
    area.present().map_err(failed)
}

fn encode(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    // Flat areas and text: unfiltered rows repeat, and a third of the bytes is enough.
    encoder.set_compression(png::Compression::Best);
    encoder.set_filter(png::FilterType::NoFilter);
    encoder.set_adaptive_filter(png::AdaptiveFilterType::NonAdaptive);
    encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels)).map_err(failed)?;
    Ok(file)
}

/// Several figures as one, row by row, `columns` side by side.
///
/// # Errors
///
/// If there is no figure, or `columns` is 0.
pub fn grid(figures: &[Figure], columns: usize) -> Result<Figure> {
    if figures.is_empty() || columns == 0 {
        let found = format!("{} figures, {columns} columns", figures.len());
        return Err(Error::value("grid", "at least one figure and one column", found));
    }
    let rows: Vec<&[Figure]> = figures.chunks(columns).collect();
    let row_height = |row: &[Figure]| row.iter().map(|figure| figure.size.1).max().unwrap_or(0);
    let column_width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|figure| figure.size.0).max().unwrap_or(0)
    };
    let widths: Vec<u32> = (0..columns.min(figures.len())).map(column_width).collect();
    let size = (widths.iter().sum(), rows.iter().map(|row| row_height(row)).sum());
    let (width, height) = size;
    let mut svg = format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#FFFFFF\"/>\n"
    );
    let stride = (width * PNG_SCALE * 3) as usize;
    let mut pixels = vec![255; stride * (height * PNG_SCALE) as usize];
    let mut top = 0;
    for row in rows {
        let mut left = 0;
        for (figure, column) in row.iter().zip(&widths) {
            svg.push_str(&figure.svg.replacen("<svg ", &format!("<svg x=\"{left}\" y=\"{top}\" "), 1));
            svg.push('\n');
            let (from, from_stride) = (decode(&figure.png)?, (figure.size.0 * PNG_SCALE * 3) as usize);
            let start = (top * PNG_SCALE) as usize * stride + (left * PNG_SCALE * 3) as usize;
            for (line, source) in from.chunks(from_stride).enumerate() {
                pixels[start + line * stride..][..from_stride].copy_from_slice(source);
            }
            left += column;
        }
        top += row_height(row);
    }
    svg.push_str("</svg>\n");
    Ok(Figure { size, svg, png: encode(&pixels, width * PNG_SCALE, height * PNG_SCALE)? })
}

/// Pixels of a PNG that [`encode`] made.
fn decode(file: &[u8]) -> Result<Vec<u8>> {
    let mut reader = png::Decoder::new(file).read_info().map_err(failed)?;
    let mut pixels = vec![0; reader.output_buffer_size()];
    reader.next_frame(&mut pixels).map_err(failed)?;
    Ok(pixels)
}

/// A backend's error as ours.
pub(super) fn failed(error: impl std::fmt::Display) -> Error {
    Error::Figure(error.to_string())
}
