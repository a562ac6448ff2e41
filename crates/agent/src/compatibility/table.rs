//! The tables as Markdown, each behind a line that names it.

use std::collections::BTreeSet;

use config::OF_A_PROXY;

use super::notes::State;
use super::ours::Ours;
use super::{Things, What, note};

const END: &str = "<!-- end -->\n";

/// The document with its tables written anew.
pub(super) fn fill(document: &str, theirs: &Things, ours: &Ours) -> String {
    What::ALL.iter().fold(document.to_owned(), |text, (what, word)| {
        let start = format!("<!-- table: {word} -->\n");
        let (before, behind) = text.split_once(&start).unwrap_or_else(|| panic!("no {start}"));
        let (_, after) = behind.split_once(END).unwrap_or_else(|| panic!("no end of {start}"));
        format!("{before}{start}{}{END}{after}", table(*what, theirs, ours))
    })
}

fn table(what: What, theirs: &Things, ours: &Ours) -> String {
    let mut rows = BTreeSet::new();
    for thing in theirs.union(&ours.things).filter(|thing| thing.0 == what) {
        if what == What::Gate && !OF_A_PROXY.iter().any(|gate| gate.name == thing.1) {
            continue;
        }
        // What shares a word shares a row.
        let name = note(thing).map_or(thing.1.as_str(), |note| note.name);
        rows.insert(format!("| {} | {} |\n", shown(what, name), state(thing, theirs, ours)));
    }
    let rows: String = rows.into_iter().collect();
    format!("| name | here |\n| --- | --- |\n{rows}")
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
        (Some((State::Otherwise, word)), _) => format!("otherwise: {word}"),
        (Some((State::Absent, word)), _) => format!("absent: {word}"),
        (Some((State::More, word)), _) => format!("only here: {word}"),
        (None, Some(limit)) => limit.clone(),
        (None, None) if theirs.contains(thing) => "same".to_owned(),
        (None, None) => format!("only here: {}", ours.help(thing).unwrap_or_default().replace('|', "\\|")),
    }
}
