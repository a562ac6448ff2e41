//! Keeps one kind in step with the apiserver: list, watch, and again after whatever happens.
//!
//! What was handed over stays in use through every failure. After a new list what is no longer there goes.

mod judging;
mod lifecycle;
mod paging;
mod watching;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::Deliver;
use super::complaints::Complaints;
use super::events::WeakRecorder;
use super::failure::Failure;
use super::link::Link;
use super::observer::Phase;
use super::outage::Outages;
use super::pace::{Backoff, random_share};
use super::resource::Resource;
use crate::{ObjectChange, ObjectKey, Update};
use lifecycle::{Held, Position, Progress};

/// A watch that fails so often without having worked gets a new list: its version may be of another cluster.
const HOPELESS: u32 = 8;

/// Why a reflector ends: its receiver is gone.
pub(super) struct Stopped;

pub(super) struct Reflector {
    resource: Resource,
    link: Rc<Link>,
    deliver: Rc<Deliver>,
    outages: Rc<Outages>,
    backoff: Backoff,
    /// Watches in a row that the server answered and that did not work.
    failed_watches: u32,
    position: Position,
    streams: Streams,
    progress: Progress,
    held: Held,
    complaints: Complaints,
    recorder: WeakRecorder,
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
struct Listing {
    keys: Option<HashSet<Arc<str>>>,
    /// It is unknown which objects these are, so any that seems to be missing may be one of them.
    has_nameless: bool,
}

impl Listing {
    fn note(&mut self, key: Option<ObjectKey>) {
        let Some(key) = key else {
            self.has_nameless = true;
            return;
        };
        if let Some(keys) = &mut self.keys {
            keys.insert(key.path);
        }
    }

    fn strike(&mut self, key: &ObjectKey) {
        if let Some(keys) = &mut self.keys {
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
        recorder: WeakRecorder,
        replaces: bool,
    ) -> Reflector {
        Reflector {
            resource,
            link,
            deliver,
            outages,
            backoff: Backoff::default(),
            failed_watches: 0,
            position: Position::List,
            streams: Streams::Offered,
            progress: Progress::Starting,
            held: if replaces { Held::Inherited } else { Held::Nothing },
            complaints: Complaints::default(),
            recorder,
        }
    }

    /// Until the receiver is gone.
    pub(super) async fn run(mut self) {
        self.tell_unusable();
        loop {
            let is_only_list = self.position.is_list() && self.streams != Streams::Offered;
            match self.turn().await {
                Ok(()) => {}
                Err(Step::Stopped) => return,
                Err(Step::Failed(failure)) => {
                    let Ok(()) = self.recover(&failure).await else { return };
                }
            }
            // Not after a list without a watch: lists would follow each other without end.
            if !is_only_list {
                self.position.end_watch();
            }
        }
    }

    async fn recover(&mut self, failure: &Failure) -> Result<(), Stopped> {
        self.phase(Phase::Failed);
        let wait = self.after(failure)?;
        tokio::time::sleep(wait).await;
        // As late as possible: what was written during the wait counts.
        self.link.renew_after(failure).await;
        Ok(())
    }

    /// What a failure changes, and how long to wait now.
    fn after(&mut self, failure: &Failure) -> Result<Duration, Stopped> {
        let streaming = self.position.is_list() && self.streams == Streams::Offered;
        if *failure == Failure::Gone {
            tracing::info!(
                kind = %self.resource.kind,
                "Last seen resource version is too old; listing again, the rules stay unchanged"
            );
            self.position = Position::ListFromQuorum;
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
        if failure.is_not_found() && self.resource.is_optional() && self.held != Held::Delivered {
            return self.without_kind();
        }
        // Roles of older releases do not name the kind, and rules can be written without it.
        if failure.is_forbidden() && self.resource.is_optional() {
            if self.progress != Progress::Denied {
                tracing::warn!(kind = %self.resource.kind, "Continuing without watching this kind: {failure}");
            }
            self.phase(Phase::Absent);
            // It answered: an outage does not last for want of this kind.
            self.outages.works(self.resource.kind);
            self.mark_synced()?;
            self.progress = Progress::Denied;
        } else if *failure != Failure::Gone {
            self.outages.failed(self.resource.kind, failure);
        }
        let wait = self.backoff.failed(failure.trouble(), random_share());
        Ok(wait.max(failure.retry_after()))
    }

    fn count_failed_watch(&mut self, failure: &Failure) {
        if self.position.is_list() || !failure.is_about_content() {
            return;
        }
        self.failed_watches += 1;
        if self.failed_watches >= HOPELESS {
            tracing::info!(kind = %self.resource.kind, "Watch keeps failing; listing again, the rules stay unchanged");
            (self.position, self.failed_watches) = (Position::ListFromQuorum, 0);
        }
    }

    /// A server of an older release has no such kind: then there are none.
    fn without_kind(&mut self) -> Result<Duration, Stopped> {
        if self.progress == Progress::Starting {
            tracing::info!(kind = %self.resource.kind, "The apiserver does not have this kind; continuing without it");
        }
        self.position.drop_version();
        self.works();
        self.phase(Phase::Absent);
        if self.held == Held::Inherited {
            self.held = Held::Nothing;
            self.tell(Update::Retain(self.resource.kind, HashSet::new()))?;
        }
        self.mark_synced()?;
        Ok(self.link.timing.absent_kind)
    }

    /// One list or one watch.
    async fn turn(&mut self) -> Result<(), Step> {
        if let Some(version) = self.position.version().map(str::to_owned) {
            return self.watch(&version).await;
        }
        self.phase(Phase::Listing);
        match self.streams {
            Streams::Offered => self.stream().await,
            Streams::NotNow | Streams::Refused => self.list().await,
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

    fn new_listing(&self) -> Listing {
        let is_needed = self.held != Held::Nothing || !self.complaints.is_empty();
        Listing { keys: is_needed.then(HashSet::new), has_nameless: false }
    }

    /// The list of this version is whole: what is not in it goes.
    fn finish_list(&mut self, listing: Listing, version: String) -> Result<(), Stopped> {
        self.position = match listing.has_nameless {
            // A list with an unnamable object removes nothing. A later one may.
            true => Position::WatchThenList(version),
            false => Position::Watch(version),
        };
        if let Some(keys) = listing.keys.filter(|_| !listing.has_nameless) {
            self.complaints.retain(&keys);
            self.tell_unusable();
            self.tell(Update::Retain(self.resource.kind, keys))?;
        }
        if self.streams == Streams::NotNow {
            self.streams = Streams::Offered;
        }
        self.mark_synced()
    }

    fn mark_synced(&mut self) -> Result<(), Stopped> {
        if self.progress != Progress::Starting {
            return Ok(());
        }
        self.progress = Progress::Synced;
        self.tell(Update::Synced(self.resource.kind))
    }

    /// Lists alone do not count: a server that answers nothing else would be asked for them without end.
    fn works(&mut self) {
        self.backoff.succeeded();
        self.failed_watches = 0;
        if self.progress == Progress::Denied {
            self.progress = Progress::Synced;
        }
        self.outages.works(self.resource.kind);
    }

    fn hand_over(&mut self, changes: Vec<ObjectChange>) -> Result<(), Stopped> {
        if changes.is_empty() {
            return Ok(());
        }
        self.held = Held::Delivered;
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
fn known(version: Option<String>) -> Result<String, Failure> {
    version.ok_or_else(|| Failure::Malformed("a list without a version".into()))
}
