//! The tables as Markdown, each behind a line that names it.

use std::collections::{BTreeMap, BTreeSet};

use config::OF_A_PROXY;

use super::notes::State;
use super::ours::Ours;
use super::{Things, What, note};

const END: &str = "<!-- end -->\n";
/// Words that begin an entry, in the order of the totals.
const STATES: [&str; 6] = ["same", "better", "different", "no effect yet", "absent", "only here"];
/// What the summary says instead of listing.
const NO_DIFFERENCE: [&str; 2] = ["same", "only here"];

type Rows = BTreeSet<(String, String)>;

/// The document with its tables rewritten.
pub(super) fn fill(document: &str, theirs: &Things, ours: &Ours) -> String {
    let all: Vec<(What, Rows)> =
        What::ALL.iter().map(|(what, _)| (*what, rows(*what, theirs, ours))).collect();
    let text = replace(document, "totals", &totals(&all));
    let text = replace(&text, "differences", &differences(&all));
    What::ALL.iter().zip(&all).fold(text, |text, ((_, word), (_, rows))| replace(&text, word, &table(rows)))
}

fn replace(text: &str, word: &str, table: &str) -> String {
    let start = format!("<!-- table: {word} -->\n");
    let (before, behind) = text.split_once(&start).unwrap_or_else(|| panic!("no {start}"));
    let (_, after) = behind.split_once(END).unwrap_or_else(|| panic!("no end of {start}"));
    format!("{before}{start}{table}{END}{after}")
}

fn rows(what: What, theirs: &Things, ours: &Ours) -> Rows {
    let mut rows = Rows::new();
    for thing in theirs.union(&ours.things).filter(|thing| thing.0 == what) {
        if what == What::Gate && !OF_A_PROXY.iter().any(|gate| gate.name == thing.1) {
            continue;
        }
        // Things that share a note share a row.
        let name = note(thing).map_or(thing.1.as_str(), |note| note.name);
        rows.insert((shown(what, name), state(thing, theirs, ours)));
    }
    rows
}

fn table(rows: &Rows) -> String {
    let rows: String = rows.iter().map(|(name, state)| format!("| {name} | {state} |\n")).collect();
    format!("| name | here |\n| --- | --- |\n{rows}")
}

fn totals(all: &[(What, Rows)]) -> String {
    let mut text = format!("| | {} |\n| --- |{}\n", STATES.join(" | "), " ---: |".repeat(STATES.len()));
    for (what, rows) in all {
        let counts = STATES.map(|word| rows.iter().filter(|(_, state)| begins(state, word)).count());
        assert_eq!(counts.iter().sum::<usize>(), rows.len(), "an entry of {what:?} begins with another word");
        let cells = counts.map(|count| count.to_string()).join(" | ");
        text.push_str(&format!("| {} | {cells} |\n", plural(*what)));
    }
    text
}

/// One row per kind and entry; names with the same entry share it.
fn differences(all: &[(What, Rows)]) -> String {
    let mut text = "| | names | here |\n| --- | --- | --- |\n".to_owned();
    for (what, rows) in all {
        let mut names = BTreeMap::<&str, Vec<&str>>::new();
        for (name, state) in rows.iter().filter(|row| !NO_DIFFERENCE.iter().any(|word| begins(&row.1, word)))
        {
            names.entry(state).or_default().push(name);
        }
        for (state, names) in names {
            text.push_str(&format!("| {} | {} | {state} |\n", plural(*what), names.join(", ")));
        }
    }
    text
}

fn begins(state: &str, word: &str) -> bool {
    state.split(':').next() == Some(word)
}

fn plural(what: What) -> &'static str {
    match what {
        What::Flag => "flags",
        What::Field => "fields of the file",
        What::Gate => "feature gates",
        What::Metric => "metrics",
        What::Sli => "`/metrics/slis`",
        What::Page => "pages",
        What::Event => "events",
    }
}

fn shown(what: What, name: &str) -> String {
    match what {
        What::Flag => format!("`--{name}`"),
        What::Page => {
            let (server, path) = name.split_once(' ').unwrap();
            format!("{server} `{path}`")
        }
        _ => format!("`{name}`"),
    }
}

fn state(thing: &(What, String), theirs: &Things, ours: &Ours) -> String {
    let word = note(thing).map(|note| (note.state, note.word));
    match (word, ours.limits.get(thing)) {
        (Some((State::Better, word)), _) => format!("better: {word}"),
        (Some((State::Different, word)), _) => format!("different: {word}"),
        (Some((State::Absent, word)), _) => format!("absent: {word}"),
        (Some((State::More, word)), _) => format!("only here: {word}"),
        (None, Some(limit)) => limit.clone(),
        (None, None) if theirs.contains(thing) => "same".to_owned(),
        (None, None) => format!("only here: {}", ours.help(thing).unwrap_or_default().replace('|', "\\|")),
    }
}
