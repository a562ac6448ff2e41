//! Which known word a misspelt one was meant to be.

/// The candidate that is fewest slips away from `word`, if that is few enough to have been meant.
pub(crate) fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let length = word.chars().count();
    let bearable = 1 + length / 5;
    let near = candidates.filter(|candidate| is_worth_measuring(length, candidate, bearable));
    // Letters are swapped more often than lost.
    let measured = near.map(|candidate| {
        (slips(&word, &candidate.to_lowercase()), candidate.chars().count().abs_diff(length), candidate)
    });
    measured.filter(|(slips, ..)| *slips <= bearable).min().map(|(.., candidate)| candidate)
}

/// A difference in length is bridged by as many slips. Only words of a name's length are measured: that takes time in
/// proportion to both.
fn is_worth_measuring(length: usize, candidate: &str, bearable: usize) -> bool {
    candidate.chars().count().abs_diff(length) <= bearable
}

/// `; did you mean …?`, or nothing.
pub fn did_you_mean<'a>(lead: &str, word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    closest(word, candidates).map(|found| format!("; did you mean {lead}{found}?")).unwrap_or_default()
}

/// Characters to add, drop, change or swap with their neighbour to get from one word to the other.
fn slips(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, a) in from.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, b) in to.iter().enumerate() {
            let at = |line: &[usize], column: usize| line.get(column).copied().unwrap_or(usize::MAX - 1);
            let changed = at(&last, column) + usize::from(a != b);
            let added_or_dropped = at(&last, column + 1).min(at(&next, column)) + 1;
            let is_swap =
                row > 0 && column > 0 && from.get(row - 1) == Some(b) && to.get(column - 1) == Some(a);
            let swapped = if is_swap { at(&before, column - 1) + 1 } else { usize::MAX };
            next.push(changed.min(added_or_dropped).min(swapped));
        }
        before = std::mem::replace(&mut last, next);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (from, to, wanted) in [
            ("", "", 0),
            ("abc", "", 3),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("mod", "mode", 1),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
        ] {
            assert_eq!(slips(from, to), wanted, "{from} {to}");
        }
    }

    #[test]
    fn only_what_is_near() {
        let names = ["proxy-mode", "masquerade-all", "v"];
        let closest = |word| closest(word, names.into_iter());
        assert_eq!(closest("proxy-mod"), Some("proxy-mode"));
        assert_eq!(closest("poxy-mdoe"), Some("proxy-mode"));
        assert_eq!(closest("Masquerade-All"), Some("masquerade-all"));
        assert_eq!(closest("nonsense"), None);
    }

    #[test]
    fn only_words_of_about_the_same_length_are_measured() {
        for (length, candidate, expected) in [
            (14, "masquerade-all", true),
            (16, "masquerade-all", true),
            (17, "masquerade-all", false),
            (1 << 20, "v", false),
        ] {
            assert_eq!(is_worth_measuring(length, candidate, 2), expected, "{length} {candidate}");
        }
        // More of a word may be wrong the longer it is, but never so much that all names are near.
        let word = "masquerade-all".repeat(100_000);
        assert!(!is_worth_measuring(word.len(), "masquerade-all", 1 + word.len() / 5));
        assert_eq!(closest(&word, ["masquerade-all"].into_iter()), None);
    }
}
