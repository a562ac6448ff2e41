//! Following a watch: single changes, and before them the list if it comes as a stream.

use std::time::Instant;

use hyper::Response;
use hyper::body::Incoming;

use super::super::answer::{Arrived, encoding, error_event, next_chunk};
use super::super::failure::Failure;
use super::super::observer::Phase;
use super::super::pace::random_share;
use super::super::resource::{Identity, bookmark, escape};
use super::super::wire::{Encoding, RawEvent, WatchDecoder};
use super::{Listing, Reflector, Step, known};
use crate::ObjectChange;

/// A watch is renewed after 5 to 10 minutes, spread so that the server does not get all at once.
const WATCH_SECONDS: (f64, f64) = (300.0, 600.0);

/// Objects of a list that are handed over together: an apiserver sends each in a piece of its own, and waking the
/// sync thread for each would cost more than reading it.
const LIST_BATCH: usize = 256;

enum Taken {
    Event,
    /// With the version of the list.
    ListEnd(String),
}

impl Reflector {
    fn watch_query(&self) -> String {
        let (least, most) = WATCH_SECONDS;
        let seconds = least + (most - least) * random_share();
        format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds:.0}")
    }

    /// A list that becomes a watch: the server sends what there is, then a mark, then what changes.
    pub(super) async fn stream(&mut self) -> Result<(), Step> {
        let query = format!(
            "{}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=",
            self.watch_query()
        );
        let response = self.link.get(&self.path(&query)).await?;
        self.follow(response, Some(self.new_listing())).await
    }

    pub(super) async fn watch(&mut self, version: &str) -> Result<(), Step> {
        let query = format!("{}&resourceVersion={}", self.watch_query(), escape(version));
        let response = self.link.get(&self.path(&query)).await?;
        self.phase(Phase::Watching);
        self.follow(response, None).await
    }

    /// Read events until the server ends the watch.
    async fn follow(
        &mut self,
        response: Response<Incoming>,
        mut listing: Option<Listing>,
    ) -> Result<(), Step> {
        let timing = self.link.timing;
        let encoding = encoding(&response)?;
        let mut decoder = WatchDecoder::new(encoding);
        let mut body = response.into_body();
        // A list goes on as long as objects come; marks and changes are no part of it. Its time is not the watch's.
        let (mut started, mut last_item, mut proven) = (Instant::now(), Instant::now(), false);
        let mut changes = Vec::new();
        loop {
            self.report_late();
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
                    tracing::debug!(kind = %self.resource.kind, "Restarting a silent watch");
                    return Ok(());
                }
                Arrived::Nothing => {}
                Arrived::Data(chunk) => {
                    self.link.observer.heard(self.resource.kind);
                    decoder.feed(&chunk);
                    let was_listing = listing.is_some();
                    let taken = self.take_events(&mut decoder, encoding, &mut listing, &mut changes);
                    if listing.is_none() || changes.len() >= LIST_BATCH {
                        self.hand_over(std::mem::take(&mut changes))?;
                    }
                    if taken? {
                        last_item = Instant::now();
                    }
                    if was_listing && listing.is_none() {
                        self.phase(Phase::Watching);
                        started = Instant::now();
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

    /// Take in the events that are whole, also if one of them is an error after others. Says whether there was a new
    /// object among them.
    fn take_events(
        &mut self,
        decoder: &mut WatchDecoder,
        encoding: Encoding,
        listing: &mut Option<Listing>,
        changes: &mut Vec<ObjectChange>,
    ) -> Result<bool, Step> {
        let mut added = false;
        while let Some(event) = decoder.next().map_err(Failure::from)? {
            added |= event.kind == "ADDED";
            if let Taken::ListEnd(version) = self.take_event(event, encoding, listing, changes)? {
                self.hand_over(std::mem::take(changes))?;
                if let Some(listing) = listing.take() {
                    self.finish_list(listing, version)?;
                }
            }
        }
        Ok(added)
    }

    fn take_event(
        &mut self,
        event: RawEvent,
        encoding: Encoding,
        listing: &mut Option<Listing>,
        changes: &mut Vec<ObjectChange>,
    ) -> Result<Taken, Failure> {
        match &*event.kind {
            "ADDED" | "MODIFIED" => {
                let Identity { key, version } = self.take_object(event.object, encoding, changes);
                match listing {
                    Some(listing) => listing.note(key),
                    None => self.advance(version),
                }
            }
            "DELETED" => {
                let Identity { key, version } = self.take_deletion(event.object, encoding, changes);
                match (listing, key) {
                    (Some(listing), Some(key)) => listing.strike(&key),
                    (Some(listing), None) => listing.has_nameless = true,
                    (None, key) => {
                        if key.is_none() {
                            self.position.list_after_watch();
                        }
                        self.advance(version);
                    }
                }
            }
            "BOOKMARK" => {
                let mark = bookmark(event.object, encoding);
                if listing.is_none() {
                    self.advance(mark.version);
                } else if mark.ends_initial {
                    return Ok(Taken::ListEnd(known(mark.version)?));
                }
            }
            "ERROR" => return Err(error_event(event, encoding)),
            // Ending the watch would only bring it again.
            other => {
                tracing::debug!(kind = %self.resource.kind, "Ignoring an event of type {other:?}");
            }
        }
        Ok(Taken::Event)
    }

    /// The watch has come so far. After an object without a version it resumes where it was before: then that one comes
    /// again, and is passed over again.
    fn advance(&mut self, version: Option<String>) {
        if let Some(version) = version {
            self.position.advance(version);
        }
    }
}
