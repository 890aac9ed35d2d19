use loglinear::fenwick::{buckets, level, level_table, merge_level, num_levels};

/// The recursive definition, on a tree over `[start, start + 2^height)`: if target and source lie
/// in one half, descend; else the source is in the left half, whose level is the height.
fn recursive(t: usize, s: usize, start: usize, height: usize) -> usize {
    if t == s {
        return 0;
    }
    let middle = start + (1 << (height - 1));
    match (t < middle, s < middle) {
        (true, true) => recursive(t, s, start, height - 1),
        (false, false) => recursive(t, s, middle, height - 1),
        _ => height,
    }
}

#[test]
fn level_equals_the_recursive_definition() {
    for t in 0..512 {
        for s in 0..=t {
            assert_eq!(level(t, s), recursive(t, s, 0, 9), "t = {t}, s = {s}");
        }
    }
    for (t, s) in [(4095, 0), (4095, 4094), (2048, 2047), (3000, 1234)] {
        assert_eq!(level(t, s), recursive(t, s, 0, 12));
    }
}

#[test]
fn buckets_partition_every_prefix() {
    for t in 0..4096 {
        let parts = buckets(t);
        let mut end = t + 1;
        for part in &parts {
            assert_eq!(part.range.end, end, "t = {t}");
            assert!(part.range.clone().all(|s| level(t, s) == part.level), "t = {t}");
            let expected = if part.level == 0 { 1 } else { 1 << (part.level - 1) };
            assert_eq!(part.range.len(), expected);
            end = part.range.start;
        }
        assert_eq!(end, 0, "t = {t}");
        assert!(parts.len() <= num_levels(t + 1), "t = {t}");
        assert!(parts.iter().all(|part| part.level < num_levels(t + 1)));
    }
}

#[test]
fn number_of_levels_is_the_ceiling_of_log2_plus_one() {
    let table = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (8, 4), (9, 5), (256, 9), (16_384, 15)];
    for (seq_len, levels) in table {
        assert_eq!(num_levels(seq_len), levels, "T = {seq_len}");
    }
    for seq_len in 1..5000_usize {
        assert_eq!(num_levels(seq_len), (seq_len as f64).log2().ceil() as usize + 1);
    }
}

#[test]
fn merging_to_merge_level_leads_from_one_partition_to_the_next() {
    assert_eq!(merge_level(0), None);
    for t in 1..4096 {
        let target = merge_level(t).unwrap();
        let mut before: Vec<_> = buckets(t - 1);
        let merged: usize = before.iter().filter(|b| b.level < target).map(|b| b.range.len()).sum();
        before.retain(|b| b.level > target);
        let after = buckets(t);
        assert_eq!(after[0].level, 0);
        assert_eq!((after[1].level, after[1].range.len()), (target, merged), "t = {t}");
        assert_eq!(after[2..], before[..], "t = {t}");
    }
}

#[test]
fn the_level_table_is_lower_triangular() {
    let table = level_table(5);
    for (i, entry) in table.iter().enumerate() {
        assert_eq!(entry.is_some(), i % 5 <= i / 5);
    }
    assert_eq!(table[4 * 5], Some(3));
}
