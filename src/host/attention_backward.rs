//! Backward pass of log-linear attention on the CPU, derived by hand.
//!
//! With w_ts = λ_t[level(t,s)] · exp(G_t − G_s) and y_t = Σ_s w_ts (q_t·k_s) v_s, let
//! e_ts = (∂y_t·v_s)(q_t·k_s) exp(G_t − G_s). Then ∂λ_t[ℓ] = Σ_{s at ℓ} e_ts, and with
//! f_ts = λ e_ts, ∂G_t = Σ_s f_ts − Σ_u f_ut, and ∂log_decay is the reverse cumulative sum of ∂G.
//! Scores and states are recomputed, so memory stays linear in T.

use super::attention::{Head, Rows, scale};
use super::{MatMut, MatRef, Scalar, dot, product, sum, vectorised};

/// Gradients of one head, row-major over time.
pub(super) struct HeadGrads<'a, S> {
    pub(super) q: &'a mut [S],
    pub(super) k: &'a mut [S],
    pub(super) v: &'a mut [S],
    pub(super) log_decay: &'a mut [S],
    pub(super) lambda: &'a mut [S],
}

impl<S: Scalar> Head<'_, S> {
    /// Adds nothing: `out` is overwritten where the operator depends on the input, and must be zero.
    pub(super) fn backward(&self, grad: Rows<S>, out: &mut HeadGrads<S>, scratch: &mut Vec<S>) {
        let tree = self.tree();
        let mut tree_grads: Vec<Vec<S>> = tree.iter().map(|level| vec![S::ZERO; level.len()]).collect();
        // Gradient of the cumulative log-decay.
        let mut cumulative = vec![0.0; self.seq_len];
        for c in 0..self.num_chunks() {
            self.intra(c, grad, out, &mut cumulative, scratch);
            self.inter(c, grad, &tree, &mut tree_grads, out, &mut cumulative, scratch);
        }
        self.tree_backward(&tree, &mut tree_grads, &mut cumulative);
        self.leaves(&tree_grads[0], out, &mut cumulative, scratch);
        let mut total = 0.0;
        for (out, grad) in out.log_decay.iter_mut().zip(&cumulative).rev() {
            total += grad;
            *out = S::of(total);
        }
    }

    /// Pairs inside chunk `c`.
    fn intra(
        &self,
        c: usize,
        grad: Rows<S>,
        out: &mut HeadGrads<S>,
        cumulative: &mut [f64],
        scratch: &mut Vec<S>,
    ) {
        let (keys, values, chunk) = (self.k.cols, self.v.cols, self.chunk);
        let (start, end) = self.span(c);
        let rows = end - start;
        scratch.resize((2 * chunk + 2) * chunk, S::ZERO);
        let (scores, rest) = scratch.split_at_mut(chunk * chunk);
        let (slopes, rest) = rest.split_at_mut(chunk * chunk);
        let (decays, column_sums) = rest.split_at_mut(chunk);
        let (q, k, v) = (self.q.matrix(start, end), self.k.matrix(start, end), self.v.matrix(start, end));
        let grad = grad.matrix(start, end);
        product(MatMut::new(scores, rows, rows, chunk), false, q, k.t());
        product(MatMut::new(slopes, rows, rows, chunk), false, grad, v.t());
        column_sums.fill(S::ZERO);
        let levels = self.lambda.cols;
        vectorised(|| {
            for i in 0..rows {
                let t = start + i;
                let scores = &mut scores[i * chunk..][..rows];
                let slopes = &mut slopes[i * chunk..][..rows];
                self.decay_row(start, t, decays);
                let lambda = self.lambda.row(t);
                let mut row_sum = S::ZERO;
                for bucket in &self.local[i] {
                    let weight = lambda[bucket.level];
                    let range = bucket.range.clone();
                    let sources = scores[range.clone()]
                        .iter_mut()
                        .zip(&mut slopes[range.clone()])
                        .zip(&mut decays[range.clone()])
                        .zip(&mut column_sums[range.clone()]);
                    for (((score, slope), decay), column_sum) in sources {
                        let e = *slope * *score * *decay;
                        *column_sum += weight * e;
                        *score *= weight * *decay;
                        *slope *= weight * *decay;
                        *decay = e;
                    }
                    let sum = sum(&decays[range]);
                    out.lambda[t * levels + bucket.level] += sum;
                    row_sum += weight * sum;
                }
                scores[i + 1..].fill(S::ZERO);
                slopes[i + 1..].fill(S::ZERO);
                cumulative[t] += row_sum.wide();
            }
            for (total, &sum) in cumulative[start..end].iter_mut().zip(&*column_sums) {
                *total -= sum.wide();
            }
        });
        let weights = MatRef::new(scores, rows, rows, chunk);
        let slopes = MatRef::new(slopes, rows, rows, chunk);
        let out_v = MatMut::new(&mut out.v[start * values..], rows, values, values);
        product(out_v, true, weights.t(), grad);
        product(MatMut::new(&mut out.q[start * keys..], rows, keys, keys), true, slopes, k);
        product(MatMut::new(&mut out.k[start * keys..], rows, keys, keys), true, slopes.t(), q);
    }

    /// Reads of earlier blocks by chunk `c`.
    #[allow(clippy::too_many_arguments)]
    fn inter(
        &self,
        c: usize,
        grad: Rows<S>,
        tree: &[Vec<S>],
        tree_grads: &mut [Vec<S>],
        out: &mut HeadGrads<S>,
        cumulative: &mut [f64],
        scratch: &mut Vec<S>,
    ) {
        let (keys, values, size) = (self.k.cols, self.v.cols, self.state_len());
        let (start, end) = self.span(c);
        let rows = end - start;
        let levels = self.lambda.cols;
        scratch.resize((2 * keys * self.chunk).max(scratch.len()), S::ZERO);
        let (reads, scaled) = scratch.split_at_mut(keys * self.chunk);
        for read in self.reads(c) {
            let state = &tree[read.height][read.block * size..][..size];
            let state_grad = &mut tree_grads[read.height][read.block * size..][..size];
            // Row t: S ∂y_t, the gradient of q_t before its weight.
            product(
                MatMut::new(reads, rows, keys, keys),
                false,
                grad.matrix(start, end),
                MatRef::new(state, keys, values, values).t(),
            );
            vectorised(|| {
                for (i, t) in (start..end).enumerate() {
                    let decay = self.factor(read.last, t);
                    let weight = self.lambda.row(t)[read.level] * decay;
                    let (q, read_row) = (self.q.row(t), &reads[i * keys..][..keys]);
                    let dot = dot(q, read_row);
                    out.lambda[t * levels + read.level] += dot * decay;
                    let flow = (weight * dot).wide();
                    cumulative[t] += flow;
                    cumulative[read.last] -= flow;
                    for (out, &r) in out.q[t * keys..][..keys].iter_mut().zip(read_row) {
                        *out += weight * r;
                    }
                    scale(&mut scaled[i * keys..][..keys], weight, q);
                }
            });
            product(
                MatMut::new(state_grad, keys, values, values),
                true,
                MatRef::new(scaled, rows, keys, keys).t(),
                grad.matrix(start, end),
            );
        }
    }

    /// From parents to children: parent = exp(decay over the right child) · left + right.
    fn tree_backward(&self, tree: &[Vec<S>], tree_grads: &mut [Vec<S>], cumulative: &mut [f64]) {
        let size = self.state_len();
        for height in (1..tree.len()).rev() {
            let (below, above) = tree_grads.split_at_mut(height);
            let children = below[height - 1].chunks_mut(2 * size).zip(tree[height - 1].chunks(2 * size));
            for (b, (parent, (child_grads, child_states))) in above[0].chunks(size).zip(children).enumerate()
            {
                let (left, right) = (self.last(height - 1, 2 * b), self.last(height - 1, 2 * b + 1));
                let factor = self.factor(left, right);
                let (left_grad, right_grad) = child_grads.split_at_mut(size);
                let flow = vectorised(|| {
                    for ((left_grad, right_grad), &parent) in left_grad.iter_mut().zip(right_grad).zip(parent)
                    {
                        *left_grad += factor * parent;
                        *right_grad += parent;
                    }
                    (factor * dot(parent, &child_states[..size])).wide()
                });
                cumulative[right] += flow;
                cumulative[left] -= flow;
            }
        }
    }

    /// From chunk states to keys and values: state = Σ_s exp(G_end − G_s) k_s v_sᵀ.
    fn leaves(&self, grads: &[S], out: &mut HeadGrads<S>, cumulative: &mut [f64], scratch: &mut Vec<S>) {
        let (keys, values) = (self.k.cols, self.v.cols);
        scratch.resize((2 * keys * self.chunk).max(scratch.len()), S::ZERO);
        let (reads, scaled) = scratch.split_at_mut(keys * self.chunk);
        for (c, state_grad) in grads.chunks(self.state_len()).enumerate() {
            let (start, end) = self.span(c);
            let rows = end - start;
            let state_grad = MatRef::new(state_grad, keys, values, values);
            let reads_out = MatMut::new(reads, rows, keys, keys);
            product(reads_out, false, self.v.matrix(start, end), state_grad.t());
            vectorised(|| {
                for (i, t) in (start..end).enumerate() {
                    let factor = self.factor(t, end - 1);
                    let (k, read_row) = (self.k.row(t), &reads[i * keys..][..keys]);
                    for (out, &r) in out.k[t * keys..][..keys].iter_mut().zip(read_row) {
                        *out += factor * r;
                    }
                    let flow = (factor * dot(k, read_row)).wide();
                    cumulative[end - 1] += flow;
                    cumulative[t] -= flow;
                    scale(&mut scaled[i * keys..][..keys], factor, k);
                }
            });
            product(
                MatMut::new(&mut out.v[start * values..], rows, values, values),
                true,
                MatRef::new(scaled, rows, keys, keys),
                state_grad,
            );
        }
    }
}
