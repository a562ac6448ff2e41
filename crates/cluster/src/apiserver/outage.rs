//! What is said about failures of the apiserver: each once, a reminder now and then, and the end of it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::failure::Failure;
use crate::Kind;

/// An outage that goes on is mentioned again after this time.
const REMINDER: Duration = Duration::from_secs(60);
/// Another trouble in the middle of an outage is logged if it lasts: a server that comes up answers all sorts of
/// things before it is ready, such as 403 before it has read its roles.
const LASTING: Duration = Duration::from_secs(2);

/// Different troubles of one outage that are logged; a server may put a new number into each of its answers.
const MOST_TROUBLES: usize = 8;

/// Shared by the reflectors: all of them fail alike when the server is away, and one line is enough.
#[derive(Debug)]
pub(super) struct Outages {
    server: String,
    failing: RefCell<HashMap<Kind, Instant>>,
    current: RefCell<Outage>,
}

#[derive(Debug, Default)]
struct Outage {
    /// When something was logged last.
    told: Option<Instant>,
    troubles: HashMap<String, Trouble>,
}

#[derive(Debug)]
struct Trouble {
    seen: Instant,
    is_told: bool,
}

impl Outage {
    /// The first trouble is logged at once, another one when it lasts, and now and then any.
    fn is_to_be_told(&mut self, text: &str, now: Instant) -> bool {
        if self.troubles.len() < MOST_TROUBLES && !self.troubles.contains_key(text) {
            self.troubles.insert(text.to_owned(), Trouble { seen: now, is_told: false });
        }
        let lasts =
            |trouble: &Trouble| !trouble.is_told && now.saturating_duration_since(trouble.seen) >= LASTING;
        let due = self.told.is_none_or(|told| now.saturating_duration_since(told) >= REMINDER);
        let tell = due || self.troubles.get(text).is_some_and(lasts);
        if tell {
            self.told = Some(now);
            self.troubles.get_mut(text).into_iter().for_each(|trouble| trouble.is_told = true);
        }
        tell
    }
}

impl Outages {
    pub(super) fn new(server: String) -> Outages {
        Outages { server, failing: RefCell::default(), current: RefCell::default() }
    }

    pub(super) fn failed(&self, kind: Kind, failure: &Failure) {
        let now = Instant::now();
        self.failing.borrow_mut().entry(kind).or_insert(now);
        let text = failure.to_string();
        if !self.current.borrow_mut().is_to_be_told(&text, now) {
            tracing::debug!(%kind, server = %self.server, "Still failing to list or watch the apiserver: {text}");
            return;
        }
        tracing::error!(
            %kind, server = %self.server,
            "Failed to list or watch the apiserver: {text}; keeping the current rules and retrying"
        );
    }

    pub(super) fn works(&self, kind: Kind) {
        let Some(since) = self.failing.borrow_mut().remove(&kind) else { return };
        if self.failing.borrow().is_empty() {
            *self.current.borrow_mut() = Outage::default();
            tracing::info!(
                server = %self.server, seconds = since.elapsed().as_secs(),
                "Watching the apiserver again"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_is_told_once_and_any_now_and_then() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut outage = Outage::default();
        assert!(outage.is_to_be_told("refused", start));
        assert!(!outage.is_to_be_told("refused", after(1)));
        assert!(!outage.is_to_be_told("403", after(1)), "it may pass");
        assert!(outage.is_to_be_told("403", after(3)));
        assert!(!outage.is_to_be_told("refused", after(4)) && !outage.is_to_be_told("403", after(4)));
        assert!(outage.is_to_be_told("refused", after(63)), "a reminder");
        for number in 0..1000 {
            let told = outage.is_to_be_told(&format!("request {number}"), after(64));
            assert!(!told && outage.troubles.len() <= MOST_TROUBLES);
        }
        assert!(outage.is_to_be_told("request 1000", after(123)), "whatever it is, a minute is over");
    }
}
