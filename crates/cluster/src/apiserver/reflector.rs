//! Keeps one kind in step with the apiserver: list, watch, and again after whatever happens.
//!
//! What was handed over stays in use through every failure. After a new list what is no longer there goes.

mod paging;
mod watching;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use prost::bytes::Bytes;

use super::Deliver;
use super::failure::Failure;
use super::link::Link;
use super::observer::Phase;
use super::outage::Outages;
use super::pace::{Backoff, random_share};
use super::resource::Resource;
use super::wire::Encoding;
use crate::{Change, ObjectKey, Update};

/// A watch that fails so often without having worked gets a new list: its version may be of another cluster.
const HOPELESS: u32 = 8;

/// Why a reflector ends: nobody listens any more.
pub(super) struct Stopped;

pub(super) struct Reflector {
    resource: Resource,
    link: Rc<Link>,
    deliver: Rc<Deliver>,
    outages: Rc<Outages>,
    backoff: Backoff,
    /// Watches in a row that the server answered and that did not work.
    failed_watches: u32,
    /// How far we have come; `None`: a list is needed.
    version: Option<String>,
    /// A list that is not older than anything we saw is needed: the last version was too old.
    from_quorum: bool,
    streams: Streams,
    synced: bool,
    /// It was said that we may not have this kind, and can do without.
    is_denied: bool,
    /// Something was handed over, so that a new list may miss something that has to go.
    delivered: bool,
    /// Another source delivered before: its objects go unless they are listed.
    replaces: bool,
}

/// Whether lists come as streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Streams {
    /// As far as we know.
    Offered,
    /// The last one failed; the next list goes in pages.
    NotNow,
    /// The server does not do that.
    Refused,
}

enum Step {
    Failed(Failure),
    Stopped,
}

impl From<Failure> for Step {
    fn from(failure: Failure) -> Step {
        Step::Failed(failure)
    }
}

impl From<Stopped> for Step {
    fn from(_: Stopped) -> Step {
        Step::Stopped
    }
}

/// The objects of a list under way; only kept where something may have to go afterwards.
struct Listing(Option<HashSet<Arc<str>>>);

impl Listing {
    fn note(&mut self, key: ObjectKey) {
        if let Some(keys) = &mut self.0 {
            keys.insert(key.path);
        }
    }

    fn strike(&mut self, key: &ObjectKey) {
        if let Some(keys) = &mut self.0 {
            keys.remove(&key.path);
        }
    }
}

impl Reflector {
    pub(super) fn new(
        resource: Resource,
        link: Rc<Link>,
        deliver: Rc<Deliver>,
        outages: Rc<Outages>,
        replaces: bool,
    ) -> Reflector {
        Reflector {
            resource,
            link,
            deliver,
            outages,
            backoff: Backoff::default(),
            failed_watches: 0,
            version: None,
            from_quorum: false,
            streams: Streams::Offered,
            synced: false,
            is_denied: false,
            delivered: false,
            replaces,
        }
    }

    /// Until nobody listens any more.
    pub(super) async fn run(mut self) {
        loop {
            let failure = match self.turn().await {
                Ok(()) => continue,
                Err(Step::Stopped) => return,
                Err(Step::Failed(failure)) => failure,
            };
            self.phase(Phase::Failed);
            let wait = match self.after(&failure) {
                Ok(wait) => wait,
                Err(Stopped) => return,
            };
            tokio::time::sleep(wait).await;
            // As late as possible: what was written during the wait counts.
            self.link.renew_after(&failure).await;
        }
    }

    /// What a failure changes, and how long to wait now.
    fn after(&mut self, failure: &Failure) -> Result<Duration, Stopped> {
        let streaming = self.version.is_none() && self.streams == Streams::Offered;
        if *failure == Failure::Gone {
            tracing::info!(
                kind = %self.resource.kind,
                "What we last saw is no longer in the apiserver's history; listing again, the rules stay as they are"
            );
            (self.version, self.from_quorum) = (None, true);
        }
        self.count_failed_watch(failure);
        if streaming && failure.is_of_stream() {
            tracing::debug!(kind = %self.resource.kind, error = %failure, "No streaming list; listing in pages");
            self.streams = Streams::NotNow;
            if failure.refuses_stream() {
                self.streams = Streams::Refused;
                return Ok(Duration::ZERO);
            }
        }
        // Only what was never there: a proxy in between also says 404, and then everything stays.
        if failure.is_not_found() && self.resource.is_optional() && !self.delivered {
            return self.without_kind();
        }
        // Roles of older releases do not name the kind, and rules can be written without it.
        if failure.is_forbidden() && self.resource.is_optional() {
            if !self.is_denied {
                tracing::warn!(kind = %self.resource.kind, "Going on without news of this kind: {failure}");
            }
            self.is_denied = true;
            self.phase(Phase::Absent);
            self.mark_synced()?;
        } else if *failure != Failure::Gone {
            self.outages.failed(self.resource.kind, failure);
        }
        let wait = self.backoff.failed(failure.trouble(), random_share());
        Ok(wait.max(failure.retry_after()))
    }

    fn count_failed_watch(&mut self, failure: &Failure) {
        if self.version.is_none() || !failure.is_about_content() {
            return;
        }
        self.failed_watches += 1;
        if self.failed_watches >= HOPELESS {
            tracing::info!(kind = %self.resource.kind, "The watch does not work; listing again, the rules stay as they are");
            (self.version, self.from_quorum, self.failed_watches) = (None, true, 0);
        }
    }

    /// A server of an older release has no such kind: then there are none.
    fn without_kind(&mut self) -> Result<Duration, Stopped> {
        if !self.synced {
            tracing::info!(kind = %self.resource.kind, "The apiserver does not have this kind; going on without");
        }
        self.version = None;
        self.works();
        self.phase(Phase::Absent);
        if std::mem::take(&mut self.replaces) {
            self.tell(Update::Retain(self.resource.kind, HashSet::new()))?;
        }
        self.mark_synced()?;
        Ok(self.link.timing.absent_kind)
    }

    /// One list or one watch.
    async fn turn(&mut self) -> Result<(), Step> {
        if self.version.is_none() {
            self.phase(Phase::Listing);
        }
        match self.version.clone() {
            Some(version) => self.watch(&version).await,
            None if self.streams == Streams::Offered => self.stream().await,
            None => self.list().await,
        }
    }

    fn phase(&self, phase: Phase) {
        self.link.observer.phase(self.resource.kind, phase);
    }

    fn path(&self, query: &str) -> String {
        let Resource { path, selector, .. } = &self.resource;
        let join = if selector.is_empty() { "" } else { "&" };
        format!("{path}?{selector}{join}{query}")
    }

    /// An object that cannot be used is reported, and its last version stays in use.
    fn take_object(
        &self,
        object: Bytes,
        encoding: Encoding,
        changes: &mut Vec<Change>,
    ) -> Result<(ObjectKey, String), Failure> {
        let decoded = self.resource.decode(object, encoding).map_err(Failure::Malformed)?;
        match decoded.outcome {
            Ok(outcome) => changes.push(outcome.into_change()),
            Err(why) => tracing::error!(
                object = %decoded.key, version = %decoded.version,
                "Cannot use an object of the apiserver: {why}; its last usable version stays in force"
            ),
        }
        Ok((decoded.key, decoded.version))
    }

    fn new_listing(&self) -> Listing {
        Listing((self.delivered || self.replaces).then(HashSet::new))
    }

    /// The list is whole: what is not in it goes.
    fn finish_list(&mut self, listing: Listing) -> Result<(), Stopped> {
        if let Some(keys) = listing.0 {
            self.tell(Update::Retain(self.resource.kind, keys))?;
        }
        self.from_quorum = false;
        if self.streams == Streams::NotNow {
            self.streams = Streams::Offered;
        }
        self.mark_synced()
    }

    fn mark_synced(&mut self) -> Result<(), Stopped> {
        if self.synced {
            return Ok(());
        }
        self.synced = true;
        self.tell(Update::Synced(self.resource.kind))
    }

    /// Lists alone do not count: a server that answers nothing else would be asked for them without end.
    fn works(&mut self) {
        self.backoff.succeeded();
        (self.failed_watches, self.is_denied) = (0, false);
        self.outages.works(self.resource.kind);
    }

    fn hand_over(&mut self, changes: Vec<Change>) -> Result<(), Stopped> {
        if changes.is_empty() {
            return Ok(());
        }
        self.delivered = true;
        self.tell(Update::Changes(changes))
    }

    fn tell(&self, update: Update) -> Result<(), Stopped> {
        match (self.deliver)(update) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stopped),
        }
    }
}

/// A list without a version is none of an apiserver, and what it lacks must not go.
fn known(version: String) -> Result<String, Failure> {
    match version.is_empty() {
        true => Err(Failure::Malformed("a list without a version".into())),
        false => Ok(version),
    }
}
