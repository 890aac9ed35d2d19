//! Labels broken into lines.

/// Lines of at most `most` characters, broken after a space, `-`, `/` or `_` where there is one. A label that
/// needs more than `lines` of them ends in an ellipsis.
pub(super) fn wrap(label: &str, most: usize, lines: usize) -> Vec<String> {
    let mut rest: Vec<char> = label.trim().chars().collect();
    let mut broken: Vec<String> = Vec::new();
    while rest.len() > most && broken.len() + 1 < lines {
        let breaks = |at: &usize| [' ', '-', '/', '_'].contains(&rest[*at]);
        let end = (1..most).rev().find(breaks).map_or(most, |at| at + 1);
        let after = rest.split_off(end);
        broken.push(rest.iter().collect::<String>().trim_end().to_owned());
        rest = after;
    }
    if rest.len() > most {
        rest.truncate(most - 1);
        rest.push('…');
    }
    broken.push(rest.iter().collect());
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_break_between_words() {
        assert_eq!(wrap("MLP-λ (softplus)", 20, 3), ["MLP-λ (softplus)"]);
        assert_eq!(wrap("Linear attention (λ ≡ 1)", 20, 3), ["Linear attention (λ", "≡ 1)"]);
        assert_eq!(wrap("aaaaaaaaaa", 4, 3), ["aaaa", "aaaa", "aa"]);
        assert_eq!(wrap("hidden-16-pairs-32-lr", 10, 2), ["hidden-16-", "pairs-32-…"]);
    }
}
