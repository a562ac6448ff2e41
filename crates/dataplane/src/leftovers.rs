//! Rules that a kube-proxy left, ours or another one, in whatever mode: loops over the modes.
//!
//! `--cleanup` removes everything; an agent that starts removes what would go on steering traffic beside its own rules.
//! Connections that are open keep their translation.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use model::Family;

use crate::MODES;
use crate::mode::Mode;

/// An agent that runs would have noticed by then, in a mode with notifications.
pub(crate) const AGENTS_TURN: Duration = Duration::from_millis(300);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Where to look for what is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Wherever something may be, even if a program has to be run to find it.
    Everywhere,
    /// Where a look of little cost shows something.
    WhereSeen,
}

/// What came of removing the rules of a mode.
#[derive(Debug, Default)]
pub struct Removal {
    /// There were some that are gone.
    pub had_some: bool,
    pub left: Vec<Leftover>,
}

/// Something of a mode that is still there, and why.
#[derive(Debug)]
pub struct Leftover {
    mode: &'static str,
    family: Option<Family>,
    what: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    steers: bool,
}

impl Leftover {
    /// What could not be done or is still there, in words that name the mode.
    pub fn new(mode: &'static str, what: impl Into<String>) -> Leftover {
        Leftover { mode, family: None, what: what.into(), source: None, steers: true }
    }

    pub fn of_family(self, family: Family) -> Leftover {
        Leftover { family: Some(family), ..self }
    }

    pub fn because(self, source: impl Error + Send + Sync + 'static) -> Leftover {
        Leftover { source: Some(Box::new(source)), ..self }
    }

    /// No packet finds it any more.
    pub fn idle(self) -> Leftover {
        Leftover { steers: false, ..self }
    }

    pub fn mode(&self) -> &'static str {
        self.mode
    }

    /// Of one family alone.
    pub fn family(&self) -> Option<Family> {
        self.family
    }

    /// Whether it may go on steering traffic.
    pub fn steers(&self) -> bool {
        self.steers
    }
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.what),
            None => write!(f, "{}", self.what),
        }
    }
}

impl Error for Leftover {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Why `--cleanup` failed.
#[derive(Debug)]
pub enum CleanupError {
    Left(Leftover),
    /// They were gone, and came back.
    WrittenAgain,
}

impl fmt::Display for CleanupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CleanupError::Left(left) => write!(f, "{left}"),
            CleanupError::WrittenAgain => write!(
                f,
                "the rules were removed, but another process wrote them again at once; stop the kube-proxy of this \
                 node first"
            ),
        }
    }
}

impl Error for CleanupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            CleanupError::Left(left) => Some(left),
            CleanupError::WrittenAgain => None,
        }
    }
}

/// `--cleanup`: the node as if neither this program nor Kubernetes' own kube-proxy had ever run, in whatever mode. What
/// cannot be removed does not keep the rest; every failure is named.
pub fn cleanup() -> Result<(), Vec<CleanupError>> {
    let mut failures = Vec::new();
    let (mut gone, mut turn) = (Vec::new(), AGENTS_TURN);
    for mode in MODES {
        let Removal { had_some, left } = mode.remove(Search::Everywhere);
        if had_some {
            turn = turn.max(mode.rewritten_within());
        }
        // What could not be removed was not written again.
        if left.is_empty() {
            gone.push(mode);
        }
        failures.extend(left.into_iter().map(CleanupError::Left));
    }
    if are_written_again(&gone, turn) {
        failures.push(CleanupError::WrittenAgain);
    }
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

/// A running agent repairs within moments what we call removed.
fn are_written_again(gone: &[&dyn Mode], turn: Duration) -> bool {
    let deadline = Instant::now() + turn;
    loop {
        std::thread::sleep(BETWEEN_LOOKS);
        if gone.iter().any(|mode| mode.is_there()) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
    }
}

/// What others may have left beside the rules of the mode that runs.
pub struct Leftovers {
    /// Modes whose rules are in use.
    running: Vec<&'static str>,
    strays: Strays,
    last: Option<Strays>,
}

type Strays = Box<dyn FnOnce() -> Vec<Leftover> + Send>;

impl Leftovers {
    /// `strays` removes rules of the mode that runs which are not those it writes, and says what is left of them.
    pub fn new(running: &'static str, strays: impl FnOnce() -> Vec<Leftover> + Send + 'static) -> Leftovers {
        Leftovers { running: vec![running], strays: Box::new(strays), last: None }
    }

    /// The mode that runs uses rules of this mode, too.
    pub fn beside(mut self, mode: &'static str) -> Leftovers {
        self.running.push(mode);
        self
    }

    /// What can go only when the rules of other modes have gone.
    pub fn finally(mut self, last: impl FnOnce() -> Vec<Leftover> + Send + 'static) -> Leftovers {
        self.last = Some(Box::new(last));
        self
    }

    /// Call it once the rules of the mode are in place. Returns what could not be removed.
    pub fn remove(self) -> Vec<Leftover> {
        let mut left = (self.strays)();
        for mode in MODES.into_iter().filter(|mode| !self.running.contains(&mode.name())) {
            left.extend(mode.remove(Search::WhereSeen).left);
        }
        left.extend(self.last.map(|last| last()).unwrap_or_default());
        left
    }
}
