//! Keeps one kind in step with the apiserver: list, watch, and again after whatever happens.
//!
//! What was handed over stays in use through every failure. After a new list what is no longer there goes.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Response;
use kube::client::Body;
use prost::bytes::Bytes;

use super::Deliver;
use super::answer::{Arrived, encoding, error_event, next_chunk};
use super::failure::Failure;
use super::link::Link;
use super::list::ListDecoder;
use super::outage::Outages;
use super::pace::{Backoff, random_share};
use super::resource::{Resource, bookmark};
use super::wire::{Encoding, ListMeta, RawEvent, WatchDecoder};
use crate::{Change, ObjectKey, Update};

/// Objects a page, where lists are not streamed.
const PAGE: u32 = 500;
/// A watch is renewed after 5 to 10 minutes, spread so that the server does not get all at once.
const WATCH_SECONDS: (f64, f64) = (300.0, 600.0);
/// Servers may ask for more patience, but not for more than this.
const LONGEST_WISH: Duration = Duration::from_secs(60);

/// Why a reflector ends: nobody listens any more.
pub(super) struct Stopped;

pub(super) struct Reflector {
    resource: Resource,
    link: Rc<Link>,
    deliver: Rc<Deliver>,
    outages: Rc<Outages>,
    backoff: Backoff,
    /// How far we have come; `None`: a list is needed.
    version: Option<String>,
    /// A list that is not older than anything we saw is needed: the last version was too old.
    from_quorum: bool,
    streams: Streams,
    synced: bool,
    /// Something was handed over, so that a new list may miss something that has to go.
    delivered: bool,
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
    ) -> Reflector {
        Reflector {
            resource,
            link,
            deliver,
            outages,
            backoff: Backoff::default(),
            version: None,
            from_quorum: false,
            streams: Streams::Offered,
            synced: false,
            delivered: false,
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
            tracing::info!(kind = %self.resource.kind, "The watch fell behind the apiserver's history; listing again");
            (self.version, self.from_quorum) = (None, true);
        }
        if streaming && failure.is_of_stream() {
            tracing::debug!(kind = %self.resource.kind, %failure, "No streaming list; listing in pages");
            self.streams = if failure.refuses_stream() { Streams::Refused } else { Streams::NotNow };
            return Ok(Duration::ZERO);
        }
        // Only what was never there: a proxy in between also says 404, and then everything stays.
        if failure.is_not_found() && self.resource.is_optional() && !self.delivered {
            return self.without_kind();
        }
        if *failure != Failure::Gone {
            self.outages.failed(self.resource.kind, failure);
        }
        // Roles of older releases do not name the kind, and rules can be written without it.
        if failure.is_forbidden() && self.resource.is_optional() {
            self.mark_synced()?;
        }
        let wait = self.backoff.failed(failure.trouble(), random_share());
        Ok(wait.max(failure.retry_after().unwrap_or_default().min(LONGEST_WISH)))
    }

    /// A server of an older release has no such kind: then there are none.
    fn without_kind(&mut self) -> Result<Duration, Stopped> {
        if !self.synced {
            tracing::info!(kind = %self.resource.kind, "The apiserver does not have this kind; going on without");
        }
        self.version = None;
        self.works();
        self.mark_synced()?;
        Ok(self.link.timing.absent_kind)
    }

    /// One list or one watch.
    async fn turn(&mut self) -> Result<(), Step> {
        match self.version.clone() {
            Some(version) => self.watch(&version).await,
            None if self.streams == Streams::Offered => self.stream().await,
            None => self.list().await,
        }
    }

    fn path(&self, query: &str) -> String {
        let Resource { path, selector, .. } = &self.resource;
        let join = if selector.is_empty() { "" } else { "&" };
        format!("{path}?{selector}{join}{query}")
    }

    fn watch_query(&self) -> String {
        let (least, most) = WATCH_SECONDS;
        let seconds = least + (most - least) * random_share();
        format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds:.0}")
    }

    /// A list that becomes a watch: the server sends what there is, then a mark, then what changes.
    async fn stream(&mut self) -> Result<(), Step> {
        let query = format!(
            "{}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=",
            self.watch_query()
        );
        let response = self.link.get(&self.path(&query)).await?;
        self.follow(response, Some(self.new_listing())).await
    }

    async fn watch(&mut self, version: &str) -> Result<(), Step> {
        let query = format!("{}&resourceVersion={version}", self.watch_query());
        let response = self.link.get(&self.path(&query)).await?;
        self.follow(response, None).await
    }

    /// Read events until the server ends the watch.
    async fn follow(&mut self, response: Response<Body>, mut listing: Option<Listing>) -> Result<(), Step> {
        let timing = self.link.timing;
        let encoding = encoding(&response)?;
        let mut decoder = WatchDecoder::new(encoding);
        let mut body = response.into_body();
        let started = Instant::now();
        // A list goes on as long as objects come; marks and changes are no part of it.
        let (mut proven, mut last_item) = (false, started);
        loop {
            if !proven && listing.is_none() && started.elapsed() >= timing.shortest_watch {
                proven = true;
                self.works();
            }
            let patience = match listing {
                Some(_) => timing.list_silence.saturating_sub(last_item.elapsed()),
                None if proven => timing.watch_silence,
                None => timing.shortest_watch.saturating_sub(started.elapsed()),
            };
            match next_chunk(&mut body, patience).await? {
                Arrived::End => break,
                Arrived::Nothing if listing.is_some() => {
                    return Err(Failure::Stalled(timing.list_silence).into());
                }
                Arrived::Nothing if proven => {
                    tracing::debug!(kind = %self.resource.kind, "A silent watch is begun anew");
                    return Ok(());
                }
                Arrived::Nothing => {}
                Arrived::Data(chunk) => {
                    decoder.feed(&chunk);
                    if self.take_events(&mut decoder, encoding, &mut listing)? {
                        last_item = Instant::now();
                    }
                }
            }
        }
        if listing.is_some() || !decoder.is_between_events() {
            return Err(Failure::Cut("the stream ended in the middle".into()).into());
        }
        if started.elapsed() < timing.shortest_watch {
            return Err(Failure::Ended.into());
        }
        Ok(())
    }

    /// Take in the events that are whole, and hand over what they change even if one of them is an error. Says
    /// whether there was a new object among them.
    fn take_events(
        &mut self,
        decoder: &mut WatchDecoder,
        encoding: Encoding,
        listing: &mut Option<Listing>,
    ) -> Result<bool, Step> {
        let (mut changes, mut added) = (Vec::new(), false);
        let end = loop {
            let event = match decoder.next() {
                Ok(Some(event)) => event,
                Ok(None) => break Ok(added),
                Err(malformed) => break Err(Failure::from(malformed)),
            };
            added |= event.kind == "ADDED";
            match self.take_event(event, encoding, listing, &mut changes) {
                Ok(Taken::Event) => {}
                Ok(Taken::ListEnd) => {
                    self.hand_over(std::mem::take(&mut changes))?;
                    if let Some(listing) = listing.take() {
                        self.finish_list(listing)?;
                    }
                }
                Err(failure) => break Err(failure),
            }
        };
        self.hand_over(changes)?;
        Ok(end?)
    }

    fn take_event(
        &mut self,
        event: RawEvent,
        encoding: Encoding,
        listing: &mut Option<Listing>,
        changes: &mut Vec<Change>,
    ) -> Result<Taken, Failure> {
        match &*event.kind {
            "ADDED" | "MODIFIED" => {
                let (key, version) = self.take_object(event.object, encoding, changes)?;
                match listing {
                    Some(listing) => listing.note(key),
                    None => self.advance(version),
                }
            }
            "DELETED" => {
                let (key, version) =
                    self.resource.identify(event.object, encoding).map_err(Failure::Malformed)?;
                match listing {
                    Some(listing) => listing.strike(&key),
                    None => self.advance(version),
                }
                changes.push(Change::Delete(key));
            }
            "BOOKMARK" => {
                let mark = bookmark(event.object, encoding).map_err(Failure::Malformed)?;
                if listing.is_none() {
                    self.advance(mark.version);
                } else if mark.ends_initial {
                    self.version = Some(known(mark.version)?);
                    return Ok(Taken::ListEnd);
                }
            }
            "ERROR" => return Err(error_event(event, encoding)),
            // Ending the watch would only bring it again.
            other => {
                tracing::debug!(kind = %self.resource.kind, "Passing over an event of the type {other:?}");
            }
        }
        Ok(Taken::Event)
    }

    /// The watch has come so far. Without a version it would begin anywhere, and miss what went.
    fn advance(&mut self, version: String) {
        if !version.is_empty() {
            self.version = Some(version);
        }
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

    /// Lists in pages, or in one piece where the server answers from its cache.
    async fn list(&mut self) -> Result<(), Step> {
        let mut listing = self.new_listing();
        let mut rest = String::new();
        loop {
            let query = match (&*rest, self.from_quorum || self.link.encoding() == Encoding::Json) {
                ("", false) => format!("limit={PAGE}&resourceVersion=0"),
                ("", true) => format!("limit={PAGE}"),
                (rest, _) => format!("limit={PAGE}&continue={}", super::resource::escape(rest)),
            };
            let response = self.link.get(&self.path(&query)).await?;
            let meta = self.take_page(response, &mut listing).await?;
            if meta.rest.is_empty() {
                self.version = Some(known(meta.resource_version)?);
                return Ok(self.finish_list(listing)?);
            }
            rest = meta.rest;
        }
    }

    async fn take_page(&mut self, response: Response<Body>, listing: &mut Listing) -> Result<ListMeta, Step> {
        let encoding = encoding(&response)?;
        let mut decoder = ListDecoder::new(encoding);
        let mut body = response.into_body();
        let silence = self.link.timing.list_silence;
        loop {
            let chunk = match next_chunk(&mut body, silence).await? {
                Arrived::Data(chunk) => chunk,
                Arrived::End => break,
                Arrived::Nothing => return Err(Failure::Stalled(silence).into()),
            };
            let mut items = Vec::new();
            decoder.feed(&chunk, &mut |item| items.push(item)).map_err(Failure::from)?;
            self.take_items(items, encoding, listing)?;
        }
        let mut items = Vec::new();
        let meta = decoder.finish(&mut |item| items.push(item)).map_err(Failure::from)?;
        self.take_items(items, encoding, listing)?;
        Ok(meta)
    }

    fn take_items(
        &mut self,
        items: Vec<Bytes>,
        encoding: Encoding,
        listing: &mut Listing,
    ) -> Result<(), Step> {
        let mut changes = Vec::with_capacity(items.len());
        for item in items {
            let (key, _) = self.take_object(item, encoding, &mut changes)?;
            listing.note(key);
        }
        Ok(self.hand_over(changes)?)
    }

    fn new_listing(&self) -> Listing {
        Listing(self.delivered.then(HashSet::new))
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

enum Taken {
    Event,
    ListEnd,
}

/// A list without a version is none of an apiserver, and what it lacks must not go.
fn known(version: String) -> Result<String, Failure> {
    match version.is_empty() {
        true => Err(Failure::Malformed("a list without a version".into())),
        false => Ok(version),
    }
}
