//! The Fenwick tree ("weak" hierarchy, base 2) over positions: integers only, no tensors.
//!
//! A target position `t` sees every source `s ≤ t` through exactly one *level*. Level 0 is the
//! target itself; level ℓ ≥ 1 is present at `t` when bit ℓ − 1 of `t` is set, and then covers the
//! 2^(ℓ−1) positions of one complete, aligned block.
//!
//! Source: Guo et al., *Log-Linear Attention* (arXiv 2506.04761), section 3.

use std::ops::Range;

/// Level through which target `t` sees source `s`.
///
/// `level(t, s) = 0` if `s = t`, else `bit_length(t XOR s)`: one more than the index of the highest
/// bit in which `t` and `s` differ. This closed form equals the recursive Fenwick-tree definition.
///
/// # Panics
///
/// If `s > t`: a causal model has no such pair.
pub fn level(t: usize, s: usize) -> usize {
    assert!(s <= t, "level(t, s) needs s ≤ t, found t = {t}, s = {s}");
    (usize::BITS - (t ^ s).leading_zeros()) as usize
}

/// Number of levels that a sequence of `seq_len` positions can use: `ceil(log2 T) + 1`.
///
/// A sequence of one position has one level; an empty one has none.
pub fn num_levels(seq_len: usize) -> usize {
    if seq_len == 0 { 0 } else { level(seq_len - 1, 0) + 1 }
}

/// One bucket of a prefix: the sources that a target sees through one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Level of the bucket.
    pub level: usize,
    /// Source positions, half open.
    pub range: Range<usize>,
}

/// Partition of the prefix `[0, t]` into buckets, from the target outwards (level 0 first).
///
/// ```
/// use loglinear::fenwick::buckets;
/// let parts: Vec<_> = buckets(6).into_iter().map(|b| (b.level, b.range)).collect();
/// assert_eq!(parts, [(0, 6..7), (2, 4..6), (3, 0..4)]);
/// ```
pub fn buckets(t: usize) -> Vec<Bucket> {
    let mut parts = vec![Bucket { level: 0, range: t..t + 1 }];
    let mut end = t;
    let mut bits = t;
    while bits != 0 {
        let bit = bits.trailing_zeros() as usize;
        let start = end - (1 << bit);
        parts.push(Bucket { level: bit + 1, range: start..end });
        end = start;
        bits &= bits - 1;
    }
    parts
}

/// Level into which every lower level merges when a decoder moves from position `t − 1` to `t`.
///
/// As in a binary counter: the lowest set bit of `t` names it. `None` at `t = 0`, where nothing has
/// been seen yet.
pub fn merge_level(t: usize) -> Option<usize> {
    (t > 0).then(|| t.trailing_zeros() as usize + 1)
}

/// Table `[seq_len × seq_len]`, row-major in (t, s): the level of each pair, `None` above the diagonal.
pub fn level_table(seq_len: usize) -> Vec<Option<usize>> {
    (0..seq_len).flat_map(|t| (0..seq_len).map(move |s| (s <= t).then(|| level(t, s)))).collect()
}
