//! Command lines written for upstream are understood.

use std::collections::BTreeSet;

use crate::differences::{Topic, review};
use crate::pair::Pair;

pub(crate) fn compared(pair: &Pair) {
    let [ours, theirs] = pair.outputs(&["--help".to_owned()]).map(|text| names(&text));
    assert!(theirs.len() >= 50, "{theirs:?}");
    let missing = theirs.difference(&ours).map(|flag| format!("no --{flag}"));
    let added = ours.difference(&theirs).map(|flag| format!("more: --{flag}"));
    review(Topic::Flags, missing.chain(added));
}

/// The flags that a help text explains: `--name` first thing on a line, or behind a short form.
pub(crate) fn names(help: &str) -> BTreeSet<String> {
    let explained = help.lines().filter_map(|line| {
        // Ours marks what has no effect.
        let line = line.trim_start_matches([' ', '*']);
        let long = match line.split_once(", --") {
            Some((short, long)) if short.len() == 2 && short.starts_with('-') => long,
            _ => line.strip_prefix("--")?,
        };
        long.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next()
    });
    explained.map(str::to_owned).collect()
}
