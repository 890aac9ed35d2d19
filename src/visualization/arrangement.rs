//! Where runs stand in a grid, as far as their names say: configurations below, seeds beside each other.

use super::theme::kinds_among;

/// Runs by row and column.
#[derive(Debug, PartialEq)]
pub(super) struct Arrangement {
    /// Kind, and what else tells the row's runs from others of the kind: empty if nothing does.
    pub(super) rows: Vec<(String, String)>,
    pub(super) columns: Vec<String>,
    /// Row and column of each run, in the order given.
    pub(super) places: Vec<(usize, usize)>,
}

/// Arranges runs, given as (name, kind). A name such as `mqar/fixed-pairs8-seed0` says configuration and
/// seed; a run without a seed in its name has a column of its own.
pub(super) fn arrange(runs: &[(String, String)]) -> Arrangement {
    let parsed: Vec<(&str, Option<u64>)> = runs.iter().map(|(name, _)| configuration(name)).collect();
    let all: Vec<&String> = runs.iter().map(|(_, kind)| kind).collect();
    let kinds = kinds_among(all);
    let mut rows: Vec<(usize, &str)> = Vec::new();
    let row_of = |run: usize| {
        let kind = kinds.iter().position(|&kind| kind == runs[run].1).unwrap_or(kinds.len());
        // Names without a seed are columns already.
        (kind, if parsed[run].1.is_some() { parsed[run].0 } else { "" })
    };
    rows.extend((0..runs.len()).map(row_of));
    rows.sort_by_key(|&(kind, configuration)| (kind, natural(configuration)));
    rows.dedup();
    // Seeds in numeric order, then names.
    let column_of = |run: usize| match parsed[run].1 {
        Some(seed) => (seed, ""),
        None => (u64::MAX, runs[run].0.as_str()),
    };
    let mut columns: Vec<(u64, &str)> = (0..runs.len()).map(column_of).collect();
    columns.sort_unstable();
    columns.dedup();
    let place = |run: usize| {
        let row = rows.iter().position(|&row| row == row_of(run)).unwrap_or(0);
        (row, columns.iter().position(|&column| column == column_of(run)).unwrap_or(0))
    };
    let folders: Vec<&str> = parsed.iter().map(|(name, _)| folder(name).0).collect();
    let one_folder = folders.windows(2).all(|pair| pair[0] == pair[1]);
    let label = |&(kind, name): &(usize, &str)| {
        let others = rows.iter().filter(|row| row.0 == kind).count() > 1;
        let name = if one_folder { folder(name).1 } else { name };
        let rest = name.strip_prefix(kinds[kind]).unwrap_or(name);
        let rest = rest.trim_matches(|c: char| "-_. ".contains(c));
        (kinds[kind].to_owned(), if others { rest.to_owned() } else { String::new() })
    };
    Arrangement {
        rows: rows.iter().map(label).collect(),
        columns: columns.iter().map(|&(seed, name)| header(seed, name)).collect(),
        places: (0..runs.len()).map(place).collect(),
    }
}

fn header(seed: u64, name: &str) -> String {
    match name {
        "" => format!("seed {seed}"),
        name => folder(name).1.to_owned(),
    }
}

/// Configuration and seed of a run's name: what stands before `seed`, and the digits that end it.
fn configuration(name: &str) -> (&str, Option<u64>) {
    let before = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match (before.strip_suffix("seed"), name[before.len()..].parse()) {
        (Some(configuration), Ok(seed)) => (configuration, Some(seed)),
        _ => (name, None),
    }
}

/// Folder and last part of a name.
fn folder(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

/// A key by which `pairs8` comes before `pairs16`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (words, numbers) = rest.split_at(digits);
        let end = numbers.find(|c: char| !c.is_ascii_digit()).unwrap_or(numbers.len());
        key.push((words.to_owned(), numbers[..end].parse().unwrap_or(0)));
        rest = &numbers[end..];
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(runs: &[(&str, &str)]) -> Arrangement {
        arrange(&runs.iter().map(|&(name, kind)| (name.to_owned(), kind.to_owned())).collect::<Vec<_>>())
    }

    fn rows(arrangement: &Arrangement) -> Vec<(&str, &str)> {
        arrangement.rows.iter().map(|(kind, rest)| (kind.as_str(), rest.as_str())).collect()
    }

    #[test]
    fn kinds_are_rows_and_seeds_columns() {
        let arranged = of(&[
            ("quickstart/mlp-softplus-seed10", "mlp-softplus"),
            ("quickstart/fixed-seed10", "fixed"),
            ("quickstart/mlp-softplus-seed2", "mlp-softplus"),
        ]);
        assert_eq!(rows(&arranged), [("fixed", ""), ("mlp-softplus", "")]);
        assert_eq!(arranged.columns, ["seed 2", "seed 10"]);
        assert_eq!(arranged.places, [(1, 1), (0, 1), (1, 0)]);
    }

    #[test]
    fn configurations_of_a_kind_are_rows_in_numeric_order() {
        let arranged = of(&[
            ("mqar/fixed-pairs16-seed0", "fixed"),
            ("mqar/fixed-pairs8-seed0", "fixed"),
            ("mqar/mlp-softmax-pairs8-seed0", "mlp-softmax"),
        ]);
        assert_eq!(rows(&arranged), [("fixed", "pairs8"), ("fixed", "pairs16"), ("mlp-softmax", "")]);
        assert_eq!(arranged.places, [(1, 0), (0, 0), (2, 0)]);
        let folders = of(&[("a/fixed-seed0", "fixed"), ("b/fixed-seed0", "fixed")]);
        assert_eq!(rows(&folders), [("fixed", "a/fixed"), ("fixed", "b/fixed")]);
    }

    #[test]
    fn runs_without_a_seed_are_columns_of_their_own() {
        let arranged = of(&[("a/second", "fixed"), ("a/fixed-seed1", "fixed"), ("a/first", "fixed")]);
        assert_eq!(arranged.columns, ["seed 1", "first", "second"]);
        assert_eq!(arranged.places.iter().map(|place| place.1).collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!(configuration("v2"), ("v2", None));
        assert_eq!(configuration("seed3"), ("", Some(3)));
    }
}
