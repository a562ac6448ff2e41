//! An explanation in words for people and as JSON for programs. Nothing is decided here.

mod advice;
mod document;
mod words;

use dataplane::{Inspection, InspectionError, Look};
use model::Fate;

use crate::questions::{Explanation, Explanations};

pub(crate) use document::document;
pub(crate) use words::refusal as refusal_words;

/// What was read back from the kernel for one explanation; `None` if all rules are about to be rewritten.
pub(crate) type Read = Option<Result<Inspection, InspectionError>>;

/// Take what waits to be read, one for each explanation. Reading may take a while.
pub(crate) fn take_looks(explanations: &mut Explanations) -> Vec<Option<Look>> {
    explanations.each.iter_mut().map(|one| one.explained.look.take()).collect()
}

/// What all answers together say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Forwards,
    Rejects,
    Drops,
    NotOurs,
}

impl Verdict {
    pub(crate) fn of(fate: Fate) -> Verdict {
        match fate {
            Fate::Forward { .. } => Verdict::Forwards,
            Fate::Reject(_) => Verdict::Rejects,
            Fate::Drop(_) => Verdict::Drops,
            Fate::NotOurs => Verdict::NotOurs,
        }
    }

    /// In answers to programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Forwards => "forward",
            Verdict::Rejects => "reject",
            Verdict::Drops => "drop",
            Verdict::NotOurs => "notOurs",
        }
    }
}

/// The first answer that is not forwarded, or that all are.
fn overall(explanations: &[Explanation]) -> Verdict {
    let fates = explanations.iter().flat_map(|one| one.explained.answers.iter().map(|answer| answer.fate));
    let mut verdicts = fates.map(Verdict::of);
    verdicts.find(|verdict| *verdict != Verdict::Forwards).unwrap_or(Verdict::Forwards)
}
