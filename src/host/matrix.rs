//! Strided matrix views over slices, and their product through the `gemm` crate.

use super::Scalar;

/// A read-only matrix inside a slice.
#[derive(Clone, Copy)]
pub(crate) struct MatRef<'a, S> {
    data: &'a [S],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

/// A mutable row-major matrix inside a slice.
pub(crate) struct MatMut<'a, S> {
    data: &'a mut [S],
    rows: usize,
    cols: usize,
    row_stride: usize,
}

impl<'a, S> MatRef<'a, S> {
    /// Matrix of `rows` rows that lie `row_stride` apart from the start of `data`.
    pub(crate) fn new(data: &'a [S], rows: usize, cols: usize, row_stride: usize) -> Self {
        check(data.len(), rows, cols, row_stride);
        Self { data, rows, cols, row_stride, col_stride: 1 }
    }

    /// The transposed view.
    pub(crate) fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }
}

impl<'a, S> MatMut<'a, S> {
    /// Matrix of `rows` rows that lie `row_stride` apart from the start of `data`.
    pub(crate) fn new(data: &'a mut [S], rows: usize, cols: usize, row_stride: usize) -> Self {
        check(data.len(), rows, cols, row_stride);
        Self { data, rows, cols, row_stride }
    }
}

fn check(len: usize, rows: usize, cols: usize, row_stride: usize) {
    assert!(row_stride >= cols, "rows of {cols} overlap at stride {row_stride}");
    let needed = if rows == 0 || cols == 0 { 0 } else { (rows - 1) * row_stride + cols };
    assert!(len >= needed, "a {rows}×{cols} matrix needs {needed} elements, found {len}");
}

/// `out = a · b`, or `out += a · b` if `accumulate`. On the calling thread only: callers are
/// parallel over independent products.
#[allow(unsafe_code)]
pub(crate) fn product<S: Scalar>(out: MatMut<S>, accumulate: bool, a: MatRef<S>, b: MatRef<S>) {
    assert!(
        out.rows == a.rows && out.cols == b.cols && a.cols == b.rows,
        "product of {}×{} and {}×{} into {}×{}",
        a.rows,
        a.cols,
        b.rows,
        b.cols,
        out.rows,
        out.cols
    );
    // SAFETY: `check` holds for each view, so every element that the strides reach lies inside its
    // slice; the sizes agree by the assertion above; `out` is borrowed mutably and so does not
    // alias `a` or `b`.
    unsafe {
        gemm::gemm(
            out.rows,
            out.cols,
            a.cols,
            out.data.as_mut_ptr(),
            1,
            out.row_stride as isize,
            accumulate,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            S::ONE,
            S::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
