//! Embedding look-up on the CPU.

use super::linear::dims;
use super::{Contiguous, HostOp, HostTensor, Scalar, tensor, with_scalar};
use rayon::prelude::*;
use std::sync::Arc;

/// Rows of a table [R, vocab, D] by token: output [R, M, D].
#[derive(Clone, Debug)]
pub(crate) struct Embedding {
    /// Tokens [R, M], row-major; each below vocab.
    pub(crate) tokens: Arc<[usize]>,
}

impl HostOp<1> for Embedding {
    fn forward(&self, [table]: &[HostTensor; 1]) -> HostTensor {
        with_scalar!(table, forward(&self.tokens, table))
    }

    fn backward(&self, [table]: &[HostTensor; 1], grad: HostTensor, _: [bool; 1]) -> [Option<HostTensor>; 1] {
        [Some(with_scalar!(table, backward(&self.tokens, table, &grad)))]
    }
}

fn forward<S: Scalar>(tokens: &[usize], table: &HostTensor) -> HostTensor {
    let [runs, vocab, dim] = dims(table);
    let table = Contiguous::new(table);
    let table = table.slice::<S>();
    let rows = tokens.len() / runs.max(1);
    let mut out = vec![S::ZERO; tokens.len() * dim];
    out.par_chunks_mut((rows * dim).max(1)).zip(tokens.par_chunks(rows.max(1))).enumerate().for_each(
        |(r, (out, tokens))| {
            let table = &table[r * vocab * dim..][..vocab * dim];
            for (out, &token) in out.chunks_mut(dim).zip(tokens) {
                out.copy_from_slice(&table[token * dim..][..dim]);
            }
        },
    );
    tensor(out, [runs, rows, dim])
}

fn backward<S: Scalar>(tokens: &[usize], table: &HostTensor, grad: &HostTensor) -> HostTensor {
    let [runs, vocab, dim] = dims(table);
    let grad = Contiguous::new(grad);
    let grad = grad.slice::<S>();
    let rows = tokens.len() / runs.max(1);
    let mut out = vec![S::ZERO; runs * vocab * dim];
    out.par_chunks_mut((vocab * dim).max(1))
        .zip(tokens.par_chunks(rows.max(1)))
        .zip(grad.par_chunks((rows * dim).max(1)))
        .for_each(|((out, tokens), grad)| {
            for (grad, &token) in grad.chunks(dim).zip(tokens) {
                for (out, &grad) in out[token * dim..][..dim].iter_mut().zip(grad) {
                    *out += grad;
                }
            }
        });
    tensor(out, [runs, vocab, dim])
}
