//! Changes of our rules by other processes, as a mode reports them.

use std::borrow::Cow;

use model::Family;

/// Another process changed our rules, or may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Whose rules; `None`: those of any family.
    pub family: Option<Family>,
    /// What happened, as the beginning of a sentence.
    pub why: Cow<'static, str>,
}

impl Drift {
    /// Among those that wait: once a family is known to be changed, further changes of it say nothing more.
    pub fn join(self, waiting: &mut Vec<Drift>) {
        if !waiting.iter().any(|known| known.family == self.family) {
            waiting.push(self);
        }
    }
}

/// Takes what a mode notices. Returns whether anybody still listens.
pub type TellDrift = Box<dyn Fn(Drift) -> bool + Send>;
