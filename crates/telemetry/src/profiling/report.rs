//! A profile as a table for people without pprof: `?debug=1`. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::collect::Recording;
use super::symbols::Symbols;

/// Functions that are listed.
const LISTED: usize = 60;

#[derive(Clone, Copy, Default)]
struct Share {
    /// In the function itself.
    own: i64,
    /// In the function and what it called.
    whole: i64,
}

/// Functions by what they took themselves, and what they took with everything they called.
pub fn table(recording: &Recording, symbols: &Symbols) -> String {
    let (name, unit) = recording.kinds.get(recording.first).copied().unwrap_or_default();
    let value = |values: &[i64]| values.get(recording.first).copied().unwrap_or_default();
    let mut shares: BTreeMap<&str, Share> = BTreeMap::new();
    let mut total = 0;
    for stack in &recording.stacks {
        let value = value(&stack.values);
        total += value;
        let names: Vec<&str> = stack.frames.iter().map(|frame| symbols.name(*frame)).collect();
        if let Some(innermost) = names.first() {
            shares.entry(innermost).or_default().own += value;
        }
        // Once for each, also where a function calls itself.
        for name in names.into_iter().collect::<BTreeSet<_>>() {
            shares.entry(name).or_default().whole += value;
        }
    }
    let mut sorted: Vec<(&str, Share)> = shares.into_iter().collect();
    sorted.sort_by_key(|(_, share)| std::cmp::Reverse((share.own, share.whole)));
    let mut text = format!("{name}: {} in total\n", amount(total, unit));
    recording.comments.iter().for_each(|comment| text.extend([comment, "\n"]));
    text.push_str("\n      itself          with callees      function\n");
    let percent = |part: i64| 100.0 * part as f64 / total.max(1) as f64;
    for (name, share) in sorted.iter().filter(|(_, share)| share.whole > 0).take(LISTED) {
        let (own, whole) = (amount(share.own, unit), amount(share.whole, unit));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{own:>10} {:>5.1} %   {whole:>10} {:>5.1} %   {name}",
            percent(share.own),
            percent(share.whole)
        );
    }
    text
}

fn amount(value: i64, unit: &str) -> String {
    match unit {
        "nanoseconds" => format!("{} ms", value / 1_000_000),
        "bytes" => format!("{} KiB", value / 1024),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::collect::Stack;
    use super::*;
    use std::time::{Duration, SystemTime};

    #[inline(never)]
    fn here() -> usize {
        std::hint::black_box(1)
    }

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        here();
        let frame = here as *const () as usize;
        let stack =
            |frames: &[usize], value| Stack { frames: frames.to_vec(), values: vec![value], thread: None };
        let recording = Recording {
            is_memory: true,
            kinds: &[("inuse_space", "bytes")],
            first: 0,
            period: ("space", "bytes", 1),
            begun: SystemTime::now(),
            lasted: Duration::ZERO,
            stacks: vec![stack(&[frame, frame], 3072), stack(&[], 1024)],
            comments: vec!["said".to_owned()],
        };
        let symbols = Symbols::find(kernel::profile::loaded_objects(), &[frame].into());
        let text = table(&recording, &symbols);
        assert!(text.starts_with("inuse_space: 4 KiB in total\nsaid\n"), "{text}");
        let line = text.lines().last().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let here = "telemetry::profiling::report::tests::here";
        assert_eq!(words, ["3", "KiB", "75.0", "%", "3", "KiB", "75.0", "%", here]);
    }
}
