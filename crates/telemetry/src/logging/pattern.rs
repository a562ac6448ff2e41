//! Patterns of `vmodule`, as Go's `filepath.Match` reads them: `*`, `?`, `[a-z]`, `[^a-z]` and `\` before a character.

/// Whether the whole name fits. A pattern that is not well formed fits nothing.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    fits(&pattern, &name)
}

fn fits(pattern: &[char], name: &[char]) -> bool {
    match pattern {
        [] => name.is_empty(),
        ['*', rest @ ..] => {
            (0..=name.len()).any(|taken| name.get(taken..).is_some_and(|name| fits(rest, name)))
        }
        ['?', rest @ ..] => behind(name, |_| true).is_some_and(|name| fits(rest, name)),
        ['[', rest @ ..] => {
            let Some((class, rest)) = Class::read(rest) else { return false };
            behind(name, |c| class.holds(c)).is_some_and(|name| fits(rest, name))
        }
        ['\\', literal, rest @ ..] | [literal, rest @ ..] => {
            behind(name, |c| c == *literal).is_some_and(|name| fits(rest, name))
        }
    }
}

/// The name without its first character, if that one will do.
fn behind(name: &[char], will_do: impl Fn(char) -> bool) -> Option<&[char]> {
    name.split_first().filter(|(first, _)| will_do(**first)).map(|(_, rest)| rest)
}

struct Class {
    is_negated: bool,
    ranges: Vec<(char, char)>,
}

impl Class {
    /// What stands behind `[`, and what comes after `]`.
    fn read(text: &[char]) -> Option<(Class, &[char])> {
        let (is_negated, mut text) = match text {
            ['^', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let mut ranges = Vec::new();
        loop {
            match text {
                [']', rest @ ..] if !ranges.is_empty() => return Some((Class { is_negated, ranges }, rest)),
                [low, '-', high, rest @ ..] if *high != ']' => {
                    ranges.push((*low, *high));
                    text = rest;
                }
                ['\\', literal, rest @ ..] | [literal, rest @ ..] => {
                    ranges.push((*literal, *literal));
                    text = rest;
                }
                [] => return None,
            }
        }
    }

    fn holds(&self, c: char) -> bool {
        self.ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != self.is_negated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_go_reads_them() {
        for (pattern, name) in [
            ("sync", "sync"),
            ("*", "sync"),
            ("*", ""),
            ("s*c", "sync"),
            ("s*", "s"),
            ("**c", "sync"),
            ("s?n?", "sync"),
            ("[a-s]ync", "sync"),
            ("[^a-r]ync", "sync"),
            ("[xs]*", "sync"),
            ("a\\*b", "a*b"),
            ("[\\]]", "]"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("syn", "sync"),
            ("sync", "syn"),
            ("?", ""),
            ("[a-r]ync", "sync"),
            ("[^a-s]ync", "sync"),
            ("[", "["),
            ("[]", "]"),
            ("[a", "a"),
            ("a\\*b", "axb"),
            ("*x", "sync"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
