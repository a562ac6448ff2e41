//! The tables of `docs/compatibility.md`: what upstream has (`upstream.txt`, which conformance holds to the real
//! binary) beside what the code has, with a note on each. `UPDATE_GOLDEN=1` writes them; the tests fail on anything
//! that neither is as upstream nor has a note.

mod notes;
mod ours;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use ours::Ours;

const UPSTREAM: &str = include_str!("upstream.txt");
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Flag,
    Field,
    Gate,
    Metric,
    Sli,
    Page,
    Event,
}

impl What {
    const ALL: [(What, &'static str); 7] = [
        (What::Flag, "flag"),
        (What::Field, "field"),
        (What::Gate, "gate"),
        (What::Metric, "metric"),
        (What::Sli, "sli"),
        (What::Page, "page"),
        (What::Event, "event"),
    ];
}

type Things = BTreeSet<(What, String)>;

/// Names, and of metrics type and labels.
fn upstream() -> (Things, BTreeMap<String, String>) {
    let (mut things, mut shapes) = (Things::new(), BTreeMap::new());
    for line in UPSTREAM.lines().filter(|line| !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').unwrap();
        let what = What::ALL.iter().find(|(_, name)| *name == word).unwrap().0;
        let name = match (what, rest.split_once(' ')) {
            (What::Metric | What::Sli, Some((name, shape))) => {
                shapes.insert(name.to_owned(), shape.to_owned());
                name
            }
            _ => rest,
        };
        things.insert((what, name.to_owned()));
    }
    (things, shapes)
}

/// Whether a word is about this thing; a star at its end stands for anything.
fn is_about(note: &notes::Note, (what, name): &(What, String)) -> bool {
    note.what == *what
        && match note.name.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == note.name,
        }
}

fn note(thing: &(What, String)) -> Option<&'static notes::Note> {
    notes::ALL.iter().find(|note| is_about(note, thing))
}

#[test]
fn everything_is_as_upstream_or_has_its_word() {
    let (theirs, ours) = (upstream().0, Ours::find());
    let without = |things: Vec<&(What, String)>| -> Vec<String> {
        things.into_iter().filter(|thing| note(thing).is_none()).map(|thing| format!("{thing:?}")).collect()
    };
    let missing = without(theirs.difference(&ours.things).collect());
    assert!(
        missing.is_empty(),
        "upstream has these, and notes.rs does not say why we have not:\n{missing:#?}"
    );
    let unexplained = |thing: &&(What, String)| ours.help(thing).is_none();
    let added = without(ours.things.difference(&theirs).filter(unexplained).collect());
    assert!(added.is_empty(), "only we have these, and nothing says what for:\n{added:#?}");
}

#[test]
fn every_word_is_about_something() {
    let (theirs, ours) = (upstream().0, Ours::find());
    for note in notes::ALL {
        let about = |things: &Things| things.iter().any(|thing| is_about(note, thing));
        let there = (about(&theirs), about(&ours.things));
        let wanted = match note.state {
            notes::State::Better | notes::State::Different => (true, true),
            notes::State::Absent => (true, false),
            notes::State::More => (false, true),
        };
        assert_eq!(there, wanted, "{note:?}: there (upstream, here)");
    }
}

#[test]
fn metrics_have_the_types_and_labels_of_upstream() {
    let (_, theirs) = upstream();
    let ours = Ours::find();
    let both: Vec<_> = theirs.iter().filter(|(name, _)| ours.shapes.contains_key(*name)).collect();
    assert!(both.len() >= 40, "{both:?}");
    for (name, shape) in both {
        assert_eq!(&ours.shapes[name], shape, "{name}");
    }
}

#[test]
fn the_document_holds_the_tables() {
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let wanted = table::fill(&text, &upstream().0, &Ours::find());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(DOCUMENT, wanted).unwrap();
    } else {
        assert!(
            text == wanted,
            "docs/compatibility.md is stale; run with UPDATE_GOLDEN=1 and read the difference"
        );
    }
}
