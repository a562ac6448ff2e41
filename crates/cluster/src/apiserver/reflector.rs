//! Keeps one kind in step with the apiserver: list, watch, and again after whatever happens.
//!
//! What was handed over stays in use through every failure. After a new list what is no longer there goes.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::Response;
use hyper::header::CONTENT_TYPE;
use kube::client::Body;
use prost::bytes::Bytes;

use super::Deliver;
use super::failure::Failure;
use super::link::Link;
use super::list::ListDecoder;
use super::outage::Outages;
use super::pace::{Backoff, random_share};
use super::resource::{Resource, bookmark};
use super::wire::{Encoding, RawEvent, Status, WatchDecoder};
use crate::{Change, ObjectKey, Update};

/// Objects a page, where lists are not streamed.
const PAGE: u32 = 500;
/// A watch is renewed after 5 to 10 minutes, spread so that the server does not get all at once.
const WATCH_SECONDS: (f64, f64) = (300.0, 600.0);
/// Servers send a bookmark about every minute: one that is silent for longer than this hangs.
const WATCH_SILENCE: Duration = Duration::from_secs(100);
/// In the middle of a list silence is shorter.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// A watch that ends sooner did not work, whatever the server says.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// A kind that the server does not have may come with its next version.
const ABSENT_KIND: Duration = Duration::from_secs(60);

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
    /// Lists come as streams, as far as we know.
    streams: bool,
    synced: bool,
    /// Something was handed over, so that a new list may miss something that has to go.
    delivered: bool,
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

/// The objects of a list under way.
#[derive(Default)]
struct Listing {
    /// Only kept where something may have to go afterwards.
    keys: HashSet<Arc<str>>,
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
            streams: true,
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
            if failure.may_be_credentials() {
                self.link.renew().await;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// What a failure changes, and how long to wait now.
    fn after(&mut self, failure: &Failure) -> Result<Duration, Stopped> {
        if *failure == Failure::Gone {
            tracing::info!(kind = %self.resource.kind, "The watch fell behind the apiserver's history; listing again");
            self.version = None;
            self.from_quorum = true;
        }
        if self.version.is_none() && self.streams && failure.refuses_stream() {
            tracing::debug!(kind = %self.resource.kind, %failure, "No streaming list; listing in pages");
            self.streams = false;
            return Ok(Duration::ZERO);
        }
        if failure.is_not_found() {
            return self.without_kind();
        }
        self.outages.failed(self.resource.kind, failure);
        let wait = self.backoff.failed(failure.trouble(), random_share());
        Ok(wait.max(failure.retry_after().unwrap_or_default()))
    }

    /// A server of an older release has no such kind: then there are none.
    fn without_kind(&mut self) -> Result<Duration, Stopped> {
        if !self.synced {
            tracing::info!(kind = %self.resource.kind, "The apiserver does not have this kind; going on without");
        }
        self.version = None;
        self.finish_list(Listing::default())?;
        Ok(ABSENT_KIND)
    }

    /// One list or one watch.
    async fn turn(&mut self) -> Result<(), Step> {
        match self.version.clone() {
            Some(version) => self.watch(&version).await,
            None if self.streams => self.stream().await,
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
        self.follow(response, Some(Listing::default())).await
    }

    async fn watch(&mut self, version: &str) -> Result<(), Step> {
        let query = format!("{}&resourceVersion={version}", self.watch_query());
        let response = self.link.get(&self.path(&query)).await?;
        self.follow(response, None).await
    }

    /// Read events until the server ends the watch.
    async fn follow(&mut self, response: Response<Body>, mut listing: Option<Listing>) -> Result<(), Step> {
        let started = Instant::now();
        let encoding = encoding(&response)?;
        let mut decoder = WatchDecoder::new(encoding);
        let mut body = response.into_body();
        loop {
            let silence = if listing.is_some() { LIST_SILENCE } else { WATCH_SILENCE };
            let Some(chunk) = next_chunk(&mut body, silence).await? else { break };
            decoder.feed(&chunk);
            let mut changes = Vec::new();
            let mut failure = None;
            while let Some(event) = decoder.next().map_err(Failure::from)? {
                match self.take_event(event, encoding, &mut listing, &mut changes) {
                    Ok(Taken::Event) => {}
                    Ok(Taken::ListEnd) => {
                        self.hand_over(std::mem::take(&mut changes))?;
                        self.finish_list(listing.take().unwrap_or_default())?;
                    }
                    Err(end) => {
                        failure = Some(end);
                        break;
                    }
                }
            }
            self.hand_over(changes)?;
            if let Some(failure) = failure {
                return Err(failure.into());
            }
            if listing.is_none() {
                self.works();
            }
        }
        if listing.is_some() || !decoder.is_between_events() {
            return Err(Failure::Cut("the stream ended in the middle".into()).into());
        }
        if started.elapsed() < SHORTEST_WATCH {
            return Err(Failure::Cut("the watch ended as soon as it began".into()).into());
        }
        Ok(())
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
                    Some(listing) => self.note(listing, key),
                    None => self.version = Some(version),
                }
            }
            "DELETED" => {
                let (key, version) =
                    self.resource.identify(event.object, encoding).map_err(Failure::Malformed)?;
                match listing {
                    Some(listing) => drop(listing.keys.remove(&key.path)),
                    None => self.version = Some(version),
                }
                changes.push(Change::Delete(key));
            }
            "BOOKMARK" => {
                let mark = bookmark(event.object, encoding).map_err(Failure::Malformed)?;
                if listing.is_none() || mark.ends_initial {
                    self.version = Some(mark.version);
                }
                if listing.is_some() && mark.ends_initial {
                    return Ok(Taken::ListEnd);
                }
            }
            "ERROR" => return Err(error_event(event, encoding)),
            other => return Err(Failure::Malformed(format!("an event of type {other:?}"))),
        }
        Ok(Taken::Event)
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
        let mut listing = Listing::default();
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
                self.version = Some(meta.resource_version);
                self.finish_list(listing)?;
                self.works();
                return Ok(());
            }
            rest = meta.rest;
        }
    }

    async fn take_page(
        &mut self,
        response: Response<Body>,
        listing: &mut Listing,
    ) -> Result<super::wire::ListMeta, Step> {
        let encoding = encoding(&response)?;
        let mut decoder = ListDecoder::new(encoding);
        let mut body = response.into_body();
        while let Some(chunk) = next_chunk(&mut body, LIST_SILENCE).await? {
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
            self.note(listing, key);
        }
        Ok(self.hand_over(changes)?)
    }

    fn note(&self, listing: &mut Listing, key: ObjectKey) {
        if self.delivered {
            listing.keys.insert(key.path);
        }
    }

    /// The list is whole: what is not in it goes.
    fn finish_list(&mut self, listing: Listing) -> Result<(), Stopped> {
        let kind = self.resource.kind;
        if self.delivered {
            self.tell(Update::Retain(kind, listing.keys))?;
        }
        (self.delivered, self.from_quorum) = (true, false);
        if !self.synced {
            self.synced = true;
            self.tell(Update::Synced(kind))?;
        }
        Ok(())
    }

    fn works(&mut self) {
        self.backoff.succeeded();
        self.outages.works(self.resource.kind);
    }

    fn hand_over(&mut self, changes: Vec<Change>) -> Result<(), Stopped> {
        if changes.is_empty() { Ok(()) } else { self.tell(Update::Changes(changes)) }
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

fn error_event(event: RawEvent, encoding: Encoding) -> Failure {
    let status = match encoding {
        Encoding::Protobuf => prost::Message::decode(event.object).ok(),
        Encoding::Json => serde_json::from_slice(&event.object).ok(),
    };
    let status: Status = status.unwrap_or_default();
    if status.code == 410 || status.reason == "Expired" || status.reason == "Gone" {
        return Failure::Gone;
    }
    Failure::Rejected {
        code: u16::try_from(status.code).unwrap_or(500),
        message: super::failure::one_line(status.message),
        retry_after: None,
    }
}

fn encoding(response: &Response<Body>) -> Result<Encoding, Failure> {
    let given =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    Encoding::of(given).ok_or_else(|| Failure::Malformed(format!("it is written in {given:?}")))
}

/// More of the body; `None` at its end.
async fn next_chunk(body: &mut Body, silence: Duration) -> Result<Option<Bytes>, Failure> {
    loop {
        let frame = tokio::time::timeout(silence, body.frame()).await;
        match frame.map_err(|_| Failure::Stalled(silence))? {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => return Err(Failure::of_body(&error)),
        }
    }
}
