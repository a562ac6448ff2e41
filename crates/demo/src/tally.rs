//! Who answered how often, and as whom it saw the caller.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::cast::Answer;
use super::screen::{Screen, Tone};

/// Columns for the bars of a row together.
const BARS: usize = 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    answers: BTreeMap<String, usize>,
    seen_as: BTreeSet<IpAddr>,
    failures: BTreeMap<String, usize>,
}

impl Tally {
    pub(super) fn note(&mut self, answer: Answer) {
        match answer {
            Answer::By { pod, seen_as } => {
                *self.answers.entry(pod).or_default() += 1;
                self.seen_as.insert(seen_as);
            }
            Answer::Refused => self.fail("refused"),
            Answer::Silence => self.fail("no answer"),
            Answer::Failed(why) => self.fail(&why),
        }
    }

    fn fail(&mut self, why: &str) {
        *self.failures.entry(why.to_owned()).or_default() += 1;
    }

    pub(super) fn failed(&self) -> usize {
        self.failures.values().sum()
    }

    pub(super) fn answered(&self) -> usize {
        self.answers.values().sum()
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &str> {
        self.answers.keys().map(String::as_str)
    }

    pub(super) fn seen_as(&self) -> &BTreeSet<IpAddr> {
        &self.seen_as
    }

    /// `pod-a ██████ 98   pod-b ███████ 103`, and what failed.
    pub(super) fn bars(&self, screen: &Screen) -> String {
        let total = self.answered().max(1);
        let cell = |(pod, count): (&String, &usize)| {
            let width = (count * BARS).div_ceil(total).max(1);
            let bar = screen.paint(Tone::Number, &"█".repeat(width));
            format!("{pod} {bar} {count:<4}")
        };
        let mut cells: Vec<String> = self.answers.iter().map(cell).collect();
        let fail = |(why, count): (&String, &usize)| screen.paint(Tone::Bad, &format!("{why}: {count}"));
        cells.extend(self.failures.iter().map(fail));
        cells.join("  ").trim_end().to_owned()
    }
}
