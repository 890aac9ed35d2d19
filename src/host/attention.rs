//! Log-linear attention on the CPU: chunkwise forward, one (sequence, head) pair a task.
//!
//! With chunk size C a power of two and c = t / C, a source in another chunk c' < c has level
//! log2(C) + bit_length(c XOR c'). So inside a chunk the operator is a masked product, and between
//! chunks each target reads one state [K, V] for every set bit j of c: that of the sibling block at
//! height j. Block states form a binary tree, merged pairwise from the chunks up.
//!
//! Cumulative log-decay is kept in f64 and only differences ≤ 0 are exponentiated, so strong decay
//! underflows to 0 and single precision loses nothing to cancellation.

use super::attention_backward::HeadGrads;
use super::{HostOp, HostTensor, MatMut, MatRef, Scalar, only_needed, product, vectorised, with_scalar};
use crate::fenwick::{Bucket, buckets};
use rayon::prelude::*;

/// The operator with inputs q, k [N, T, H, K], v [N, T, H, V], log_decay [N, T, H, 1] and
/// λ [N, T, H, L], in that order; output [N, T, H, V].
#[derive(Clone, Debug)]
pub(crate) struct Attention {
    /// Chunk size, a power of two.
    pub(crate) chunk: usize,
}

impl HostOp<5> for Attention {
    fn forward(&self, inputs: &[HostTensor; 5]) -> HostTensor {
        with_scalar!(inputs[0], forward(self.chunk, inputs))
    }

    fn backward(
        &self,
        inputs: &[HostTensor; 5],
        grad: HostTensor,
        needed: [bool; 5],
    ) -> [Option<HostTensor>; 5] {
        let grads = with_scalar!(inputs[0], backward(self.chunk, inputs, &grad));
        only_needed(grads, needed)
    }
}

/// A tensor [N, T, H, C] whose rows of C values are contiguous.
pub(super) struct Heads<S> {
    tensor: HostTensor,
    dims: [usize; 4],
    strides: [usize; 3],
    scalar: std::marker::PhantomData<S>,
}

impl<S: Scalar> Heads<S> {
    pub(super) fn new(tensor: &HostTensor) -> Self {
        let readable = |tensor: &HostTensor| {
            let (shape, strides) = (tensor.layout().shape(), tensor.layout().strides());
            let rows_apart = strides[1] >= shape[3] as isize;
            (strides[3] == 1 && rows_apart && strides.iter().all(|&s| s >= 0))
                .then(|| [strides[0] as usize, strides[1] as usize, strides[2] as usize])
        };
        let (tensor, strides) = match readable(tensor) {
            Some(strides) => (tensor.clone(), strides),
            None => {
                let tensor = tensor.to_contiguous();
                let shape = tensor.layout().shape();
                let strides = [shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3]];
                (tensor, strides)
            }
        };
        let dims = tensor.layout().shape().dims();
        Self { tensor, dims, strides, scalar: std::marker::PhantomData }
    }

    fn rows(&self, n: usize, h: usize) -> Rows<'_, S> {
        let start = self.tensor.layout().start_offset() + n * self.strides[0] + h * self.strides[2];
        Rows { data: &self.tensor.storage::<S>()[start..], stride: self.strides[1], cols: self.dims[3] }
    }
}

/// Rows over time of one head.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, S> {
    data: &'a [S],
    stride: usize,
    pub(super) cols: usize,
}

impl<'a, S: Scalar> Rows<'a, S> {
    #[inline(always)]
    pub(super) fn row(&self, t: usize) -> &'a [S] {
        &self.data[t * self.stride..][..self.cols]
    }

    pub(super) fn matrix(&self, start: usize, end: usize) -> MatRef<'a, S> {
        MatRef::new(&self.data[start * self.stride..], end - start, self.cols, self.stride)
    }
}

/// One head's inputs, with what both passes derive from them.
pub(super) struct Head<'a, S> {
    pub(super) q: Rows<'a, S>,
    pub(super) k: Rows<'a, S>,
    pub(super) v: Rows<'a, S>,
    pub(super) lambda: Rows<'a, S>,
    /// Cumulative log-decay: the sum of log_decay over positions 0 … t.
    pub(super) decay: Vec<f64>,
    pub(super) seq_len: usize,
    pub(super) chunk: usize,
    /// Buckets of each position inside a chunk.
    pub(super) local: &'a [Vec<Bucket>],
}

/// A read of an earlier block by a chunk.
pub(super) struct Read {
    pub(super) height: usize,
    pub(super) block: usize,
    pub(super) level: usize,
    /// Last position of the block.
    pub(super) last: usize,
}

impl<S: Scalar> Head<'_, S> {
    pub(super) fn num_chunks(&self) -> usize {
        self.seq_len.div_ceil(self.chunk)
    }

    /// First position of chunk `c` and the one after its last.
    pub(super) fn span(&self, c: usize) -> (usize, usize) {
        (c * self.chunk, ((c + 1) * self.chunk).min(self.seq_len))
    }

    pub(super) fn state_len(&self) -> usize {
        self.k.cols * self.v.cols
    }

    /// Last position of block `block` at `height`.
    pub(super) fn last(&self, height: usize, block: usize) -> usize {
        ((block + 1) << height) * self.chunk - 1
    }

    /// Blocks that chunk `c` reads, one for each set bit of `c`.
    pub(super) fn reads(&self, c: usize) -> impl Iterator<Item = Read> + use<'_, S> {
        let base = self.chunk.trailing_zeros() as usize + 1;
        (0..usize::BITS as usize).take_while(move |j| c >> j != 0).filter(move |j| c >> j & 1 == 1).map(
            move |height| {
                let block = (c >> height) - 1;
                Read { height, block, level: base + height, last: self.last(height, block) }
            },
        )
    }

    /// exp of the decay from position `from` to `to`.
    #[inline(always)]
    pub(super) fn factor(&self, from: usize, to: usize) -> S {
        S::of(self.decay[to] - self.decay[from]).exp_fast()
    }

    /// Decay from each position of the chunk up to `t`, for the positions `start ..= t`.
    #[inline(always)]
    pub(super) fn decay_row(&self, start: usize, t: usize, out: &mut [S]) {
        let total = self.decay[t];
        for (out, &decay) in out.iter_mut().zip(&self.decay[start..=t]) {
            *out = S::of(total - decay).exp_fast();
        }
    }

    /// States of every complete block: `tree[j]` holds the blocks at height j, K × V each.
    pub(super) fn tree(&self) -> Vec<Vec<S>> {
        let (size, sources) = (self.state_len(), self.num_chunks() - 1);
        let mut leaves = vec![S::ZERO; sources * size];
        let mut scaled = vec![S::ZERO; self.chunk * self.k.cols];
        for (c, state) in leaves.chunks_mut(size).enumerate() {
            let (start, end) = self.span(c);
            vectorised(|| {
                for (t, out) in (start..end).zip(scaled.chunks_mut(self.k.cols)) {
                    scale(out, self.factor(t, end - 1), self.k.row(t));
                }
            });
            let keys = MatRef::new(&scaled, end - start, self.k.cols, self.k.cols);
            let out = MatMut::new(state, self.k.cols, self.v.cols, self.v.cols);
            product(out, false, keys.t(), self.v.matrix(start, end));
        }
        let mut tree = vec![leaves];
        while tree[tree.len() - 1].len() > size {
            let height = tree.len() - 1;
            let below = &tree[height];
            let mut level = vec![S::ZERO; below.len() / size / 2 * size];
            for (b, out) in level.chunks_mut(size).enumerate() {
                let (left, right) = below[2 * b * size..][..2 * size].split_at(size);
                let factor = self.factor(self.last(height, 2 * b), self.last(height, 2 * b + 1));
                vectorised(|| {
                    for ((out, &left), &right) in out.iter_mut().zip(left).zip(right) {
                        *out = factor * left + right;
                    }
                });
            }
            tree.push(level);
        }
        tree
    }

    fn forward(&self, out: &mut [S], scratch: &mut Vec<S>) {
        let (keys, values) = (self.k.cols, self.v.cols);
        let tree = self.tree();
        scratch.resize(self.chunk * (self.chunk + 1 + keys), S::ZERO);
        let (scores, rest) = scratch.split_at_mut(self.chunk * self.chunk);
        let (decays, scaled) = rest.split_at_mut(self.chunk);
        for c in 0..self.num_chunks() {
            let (start, end) = self.span(c);
            let rows = end - start;
            let mat = MatMut::new(scores, rows, rows, self.chunk);
            product(mat, false, self.q.matrix(start, end), self.k.matrix(start, end).t());
            vectorised(|| {
                for i in 0..rows {
                    let row = &mut scores[i * self.chunk..][..rows];
                    self.decay_row(start, start + i, decays);
                    let lambda = self.lambda.row(start + i);
                    for bucket in &self.local[i] {
                        let weight = lambda[bucket.level];
                        let range = bucket.range.clone();
                        for (score, &decay) in row[range.clone()].iter_mut().zip(&decays[range]) {
                            *score *= weight * decay;
                        }
                    }
                    row[i + 1..].fill(S::ZERO);
                }
            });
            let out = &mut out[start * values..end * values];
            let weights = MatRef::new(scores, rows, rows, self.chunk);
            product(MatMut::new(out, rows, values, values), false, weights, self.v.matrix(start, end));
            for read in self.reads(c) {
                vectorised(|| {
                    for (t, scaled) in (start..end).zip(scaled.chunks_mut(keys)) {
                        let weight = self.lambda.row(t)[read.level] * self.factor(read.last, t);
                        scale(scaled, weight, self.q.row(t));
                    }
                });
                let state = &tree[read.height][read.block * self.state_len()..][..self.state_len()];
                product(
                    MatMut::new(out, rows, values, values),
                    true,
                    MatRef::new(scaled, rows, keys, keys),
                    MatRef::new(state, keys, values, values),
                );
            }
        }
    }
}

#[inline(always)]
pub(super) fn scale<S: Scalar>(out: &mut [S], factor: S, values: &[S]) {
    for (out, &value) in out.iter_mut().zip(values) {
        *out = factor * value;
    }
}

/// The five inputs as rows, and how to view one head of them.
struct Inputs<S> {
    views: [Heads<S>; 5],
    local: Vec<Vec<Bucket>>,
    chunk: usize,
}

impl<S: Scalar> Inputs<S> {
    fn new(chunk: usize, inputs: &[HostTensor; 5]) -> Self {
        let views = inputs.each_ref().map(Heads::new);
        Self { views, local: (0..chunk).map(buckets).collect(), chunk }
    }

    /// N, T, H.
    fn dims(&self) -> [usize; 3] {
        let [n, t, h, _] = self.views[2].dims;
        [n, t, h]
    }

    /// Number of columns of input `i`: K, K, V, 1, L.
    fn cols(&self, i: usize) -> usize {
        self.views[i].dims[3]
    }

    fn head(&self, index: usize) -> Head<'_, S> {
        let [_, seq_len, heads] = self.dims();
        let [q, k, v, log_decay, lambda] =
            self.views.each_ref().map(|view| view.rows(index / heads, index % heads));
        let mut total = 0.0;
        let decay = (0..seq_len)
            .map(|t| {
                total += log_decay.row(t)[0].wide();
                total
            })
            .collect();
        Head { q, k, v, lambda, decay, seq_len, chunk: self.chunk, local: &self.local }
    }

    /// Head-major values [N, H, T, C] as a tensor [N, T, H, C].
    fn by_time(&self, values: Vec<S>, cols: usize) -> HostTensor {
        let [n, t, h] = self.dims();
        super::tensor(values, [n, h, t, cols]).permute(&[0, 2, 1, 3])
    }
}

fn forward<S: Scalar>(chunk: usize, inputs: &[HostTensor; 5]) -> HostTensor {
    let inputs = Inputs::<S>::new(chunk, inputs);
    let [n, t, h] = inputs.dims();
    let values = inputs.cols(2);
    let mut out = vec![S::ZERO; n * h * t * values];
    out.par_chunks_mut((t * values).max(1))
        .enumerate()
        .for_each_init(Vec::new, |scratch, (i, out)| inputs.head(i).forward(out, scratch));
    inputs.by_time(out, values)
}

fn backward<S: Scalar>(chunk: usize, inputs: &[HostTensor; 5], grad: &HostTensor) -> [HostTensor; 5] {
    let inputs = Inputs::<S>::new(chunk, inputs);
    let [n, t, h] = inputs.dims();
    let grad = Heads::<S>::new(grad);
    let mut grads: [Vec<S>; 5] = std::array::from_fn(|i| vec![S::ZERO; n * h * t * inputs.cols(i)]);
    let [q, k, v, log_decay, lambda] = &mut grads;
    let size = |i| (t * inputs.cols(i)).max(1);
    (q.par_chunks_mut(size(0)), k.par_chunks_mut(size(1)), v.par_chunks_mut(size(2)))
        .into_par_iter()
        .zip((log_decay.par_chunks_mut(size(3)), lambda.par_chunks_mut(size(4))))
        .enumerate()
        .for_each_init(Vec::new, |scratch, (i, ((q, k, v), (log_decay, lambda)))| {
            let mut out = HeadGrads { q, k, v, log_decay, lambda };
            inputs.head(i).backward(grad.rows(i / h, i % h), &mut out, scratch);
        });
    let mut cols = 0..5;
    grads.map(|grad| inputs.by_time(grad, inputs.cols(cols.next().unwrap_or(0))))
}
