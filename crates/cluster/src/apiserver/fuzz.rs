//! Entry points for `tests/fuzz` to the decoders of the apiserver's answers, which are private otherwise.

use prost::bytes::Bytes;

use super::answer::error_event;
use super::list::ListDecoder;
use super::resource::{Resource, bookmark};
use super::wire::{Encoding, RawEvent, WatchDecoder};
use crate::{Kind, ObjectChange};

/// Read an object in every way in which objects of a kind are read; what it would change.
pub fn object(kind: Kind, encoding: Encoding, bytes: &[u8]) -> Option<ObjectChange> {
    let bytes = Bytes::copy_from_slice(bytes);
    let resource = Resource::all("node-1").into_iter().find(|resource| resource.kind == kind)?;
    let _bookmark = bookmark(bytes.clone(), encoding);
    let _error = error_event(RawEvent { kind: "ERROR".into(), object: bytes.clone() }, encoding).to_string();
    let identity = resource.identify(bytes.clone(), encoding);
    let decoded = resource.decode(bytes, encoding);
    assert_eq!(identity, decoded.identity, "two readings of {kind} differ");
    let translated = decoded.outcome.ok()?;
    assert!(identity.key.is_some(), "{kind} without a name is used");
    Some(translated.outcome.into_change())
}

/// The events of a watch that arrives in these chunks: each one's type and object, then how it ended.
pub fn watch<'a>(
    encoding: Encoding,
    chunks: impl Iterator<Item = &'a [u8]>,
) -> (Vec<(String, Vec<u8>)>, String) {
    let (mut decoder, mut events) = (WatchDecoder::new(encoding), Vec::new());
    for chunk in chunks {
        decoder.feed(chunk);
        loop {
            match decoder.next() {
                Ok(None) => break,
                Ok(Some(event)) => events.push((event.kind, event.object.to_vec())),
                Err(malformed) => return (events, malformed.0),
            }
        }
    }
    (events, if decoder.is_between_events() { "whole".into() } else { "cut".into() })
}

/// The version of a list and its continuation, or what is wrong with it.
pub type ListEnd = Result<(String, String), String>;

/// The items of a list that arrives in these chunks, then how it ended.
pub fn list<'a>(encoding: Encoding, chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, ListEnd) {
    let mut items = Vec::new();
    let mut take = |item: Bytes| items.push(item.to_vec());
    let mut decoder = ListDecoder::new(encoding);
    let mut fed = Ok(());
    for chunk in chunks {
        fed = fed.and_then(|()| decoder.feed(chunk, &mut take));
    }
    let end = fed.and_then(|()| decoder.finish(&mut take));
    (items, end.map(|meta| (meta.resource_version, meta.rest)).map_err(|malformed| malformed.0))
}
