//! Dashboards and alerts written for upstream find what they ask for.

use crate::ask::PAGES;
use crate::differences::{Topic, review};
use crate::exposition::{Families, parse};
use crate::pair::Pair;

pub(crate) fn compared(pair: &Pair) {
    compare(pair, "/metrics", Topic::Metrics);
}

pub(crate) fn slis(pair: &Pair) {
    compare(pair, "/metrics/slis", Topic::Slis);
}

fn compare(pair: &Pair, path: &str, topic: Topic) {
    let [ours, theirs] = [&pair.ours, &pair.theirs].map(|side| parse(&side.get(PAGES, path).body));
    assert!(theirs.len() >= 2, "{theirs:?}");
    review(topic, differences(&ours, &theirs));
}

fn differences(ours: &Families, theirs: &Families) -> Vec<String> {
    let mut found = Vec::new();
    for (name, wanted) in theirs {
        let Some(family) = ours.get(name) else {
            found.push(format!("no {name}"));
            continue;
        };
        if family.kind != wanted.kind {
            found.push(format!("type of {name}: {} upstream, {} here", wanted.kind, family.kind));
        }
        if family.labels != wanted.labels {
            found.push(format!("labels of {name}: {:?} upstream, {:?} here", wanted.labels, family.labels));
        }
        if family.bounds != wanted.bounds {
            found.push(format!("buckets of {name}: {:?} upstream, {:?} here", wanted.bounds, family.bounds));
        }
    }
    found
}
