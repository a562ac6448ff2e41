//! What is said about failures of the apiserver: each once, a reminder now and then, and the end of it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::failure::Failure;
use crate::Kind;

/// An outage that goes on is mentioned again after this time.
const REMINDER: Duration = Duration::from_secs(60);

/// Shared by the reflectors: all of them fail alike when the server is away, and one line is enough.
#[derive(Debug)]
pub(super) struct Outages {
    server: String,
    open: RefCell<HashMap<Kind, Open>>,
    said: RefCell<HashMap<String, Instant>>,
}

#[derive(Debug)]
struct Open {
    since: Instant,
}

impl Outages {
    pub(super) fn new(server: String) -> Outages {
        Outages { server, open: RefCell::default(), said: RefCell::default() }
    }

    pub(super) fn failed(&self, kind: Kind, failure: &Failure) {
        let now = Instant::now();
        self.open.borrow_mut().entry(kind).or_insert(Open { since: now });
        let text = failure.to_string();
        let mut said = self.said.borrow_mut();
        let known = said.get(&text).is_some_and(|said| now.saturating_duration_since(*said) < REMINDER);
        if known {
            tracing::debug!(%kind, server = %self.server, "Still no news from the apiserver: {text}");
            return;
        }
        said.insert(text.clone(), now);
        tracing::error!(
            %kind, server = %self.server,
            "No news from the apiserver, {text}; the rules stay as they are and it is tried again"
        );
    }

    pub(super) fn works(&self, kind: Kind) {
        let Some(open) = self.open.borrow_mut().remove(&kind) else { return };
        if self.open.borrow().is_empty() {
            self.said.borrow_mut().clear();
            tracing::info!(
                server = %self.server, seconds = open.since.elapsed().as_secs(),
                "The apiserver is followed again"
            );
        }
    }
}
