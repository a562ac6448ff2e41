//! What is said about failures of the apiserver: each once, a reminder now and then, and the end of it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::failure::Failure;
use crate::Kind;

/// An outage that goes on is mentioned again after this time.
const REMINDER: Duration = Duration::from_secs(60);
/// Another trouble in the middle of an outage is told if it lasts: a server that comes up answers all sorts of
/// things before it is ready, such as 403 before it has read its roles.
const LASTING: Duration = Duration::from_secs(2);

/// Shared by the reflectors: all of them fail alike when the server is away, and one line is enough.
#[derive(Debug)]
pub(super) struct Outages {
    server: String,
    open: RefCell<HashMap<Kind, Open>>,
    troubles: RefCell<HashMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    seen: Instant,
    told: Option<Instant>,
}

impl Known {
    fn is_to_be_told(&self, begins: bool, now: Instant) -> bool {
        match self.told {
            Some(told) => now.saturating_duration_since(told) >= REMINDER,
            None => begins || now.saturating_duration_since(self.seen) >= LASTING,
        }
    }
}

#[derive(Debug)]
struct Open {
    since: Instant,
}

impl Outages {
    pub(super) fn new(server: String) -> Outages {
        Outages { server, open: RefCell::default(), troubles: RefCell::default() }
    }

    pub(super) fn failed(&self, kind: Kind, failure: &Failure) {
        let now = Instant::now();
        let begins = self.open.borrow().is_empty();
        self.open.borrow_mut().entry(kind).or_insert(Open { since: now });
        let text = failure.to_string();
        let mut troubles = self.troubles.borrow_mut();
        let known = troubles.entry(text.clone()).or_insert(Known { seen: now, told: None });
        if !known.is_to_be_told(begins, now) {
            tracing::debug!(%kind, server = %self.server, "Still no news from the apiserver: {text}");
            return;
        }
        known.told = Some(now);
        tracing::error!(
            %kind, server = %self.server,
            "No news from the apiserver, {text}; the rules stay as they are and it is tried again"
        );
    }

    pub(super) fn works(&self, kind: Kind) {
        let Some(open) = self.open.borrow_mut().remove(&kind) else { return };
        if self.open.borrow().is_empty() {
            self.troubles.borrow_mut().clear();
            tracing::info!(
                server = %self.server, seconds = open.since.elapsed().as_secs(),
                "The apiserver is followed again"
            );
        }
    }
}
