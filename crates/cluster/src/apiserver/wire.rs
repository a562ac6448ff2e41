//! The apiserver's envelopes: what stands around objects in lists and watches, in protobuf and in JSON.
//!
//! Pure and incremental: bytes go in as they arrive, single objects come out, so that no more than one object
//! is ever held beside what the network delivered last.

use prost::Message;
use prost::bytes::{Buf, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Nothing in a cluster is that large: etcd takes 1.5 MB by default. What claims to be is no Kubernetes.
pub(super) const LARGEST: usize = 64 << 20;
/// Stands before every protobuf object that is not inside another.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// How objects are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    /// What an answer is written in, by its `Content-Type`.
    pub(super) fn of(content_type: &str) -> Option<Encoding> {
        match content_type.split(';').next().map(str::trim) {
            Some("application/vnd.kubernetes.protobuf") => Some(Encoding::Protobuf),
            Some("application/json") => Some(Encoding::Json),
            _ => None,
        }
    }

    /// What to ask for: protobuf costs the server less, and JSON is what every server speaks.
    pub(super) fn accept(self) -> &'static str {
        match self {
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf, application/json",
            Encoding::Json => "application/json",
        }
    }
}

/// The answer is not what an apiserver sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) String);

impl Malformed {
    fn new(why: impl ToString) -> Malformed {
        Malformed(why.to_string())
    }
}

/// What stands around a protobuf object.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Envelope {
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) raw: Bytes,
}

/// Take the envelope off a protobuf object.
pub(super) fn unwrap(mut object: Bytes) -> Result<Bytes, Malformed> {
    if !object.starts_with(MAGIC) {
        return Err(Malformed::new("a protobuf object does not begin with the magic number"));
    }
    object.advance(MAGIC.len());
    Envelope::decode(object).map(|envelope| envelope.raw).map_err(Malformed::new)
}

/// JSON that is UTF-8. One object with other bytes must not make the others unreadable.
pub(super) fn readable(text: Bytes) -> Bytes {
    match std::str::from_utf8(&text) {
        Ok(_) => text,
        Err(_) => String::from_utf8_lossy(&text).into_owned().into(),
    }
}

/// `metadata` of a list.
#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    #[prost(string, tag = "2")]
    pub(super) resource_version: String,
    #[prost(string, tag = "3")]
    #[serde(rename = "continue")]
    pub(super) rest: String,
}

/// The body of an error, and the object of a watch's `ERROR`.
#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    #[prost(string, tag = "3")]
    pub(super) message: String,
    #[prost(string, tag = "4")]
    pub(super) reason: String,
    #[prost(int32, tag = "6")]
    pub(super) code: i32,
}

impl Status {
    pub(super) fn decode_any(body: Bytes, encoding: Encoding) -> Option<Status> {
        match encoding {
            Encoding::Protobuf => Status::decode(unwrap(body).ok()?).ok(),
            Encoding::Json => serde_json::from_slice(&body).ok(),
        }
    }
}

/// One event of a watch; the object is still encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawEvent {
    pub(super) kind: String,
    /// Protobuf without its envelope, or JSON.
    pub(super) object: Bytes,
}

/// Cuts the body of a watch into events.
#[derive(Debug)]
pub(super) struct WatchDecoder {
    encoding: Encoding,
    buffer: BytesMut,
    /// In so many bytes of the buffer no line ends: a long one is not searched again with each chunk.
    searched: usize,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ProtobufEvent {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, required, tag = "2")]
    object: RawExtension,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

#[derive(Deserialize)]
struct JsonEvent<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl WatchDecoder {
    pub(super) fn new(encoding: Encoding) -> WatchDecoder {
        WatchDecoder { encoding, buffer: BytesMut::new(), searched: 0 }
    }

    pub(super) fn feed(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// No event has begun and not ended.
    pub(super) fn is_between_events(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next whole event, if it is there.
    pub(super) fn next(&mut self) -> Result<Option<RawEvent>, Malformed> {
        match self.encoding {
            Encoding::Protobuf => self.next_protobuf(),
            Encoding::Json => self.next_json(),
        }
    }

    /// Four bytes of length, then the event.
    fn next_protobuf(&mut self) -> Result<Option<RawEvent>, Malformed> {
        let Some(head) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head) as usize;
        if length > LARGEST {
            return Err(Malformed(format!("an event of {length} bytes is announced")));
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        self.buffer.advance(4);
        let event = ProtobufEvent::decode(self.buffer.split_to(length).freeze()).map_err(Malformed::new)?;
        // An object that cannot be unwrapped is skipped like others that cannot be read: it has no name.
        Ok(Some(RawEvent { kind: event.kind, object: unwrap(event.object.raw).unwrap_or_default() }))
    }

    /// A line an event.
    fn next_json(&mut self) -> Result<Option<RawEvent>, Malformed> {
        loop {
            let new = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(end) = new.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buffer.len();
                return match self.buffer.len() > LARGEST {
                    true => Err(Malformed(format!("a line longer than {LARGEST} bytes"))),
                    false => Ok(None),
                };
            };
            let end = std::mem::take(&mut self.searched) + end;
            let line = readable(self.buffer.split_to(end + 1).freeze());
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let event: JsonEvent<'_> = serde_json::from_slice(&line).map_err(Malformed::new)?;
            let object = line.slice_ref(event.object.get().as_bytes());
            return Ok(Some(RawEvent { kind: event.kind, object }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_in_short_chunks_is_searched_once() {
        let line = format!("{{\"type\":\"ADDED\",\"object\":\"{}\"}}\n", "x".repeat(1 << 20));
        let mut decoder = WatchDecoder::new(Encoding::Json);
        let mut events = 0;
        for chunk in [&line[..], &line[..]].concat().as_bytes().chunks(64) {
            decoder.feed(chunk);
            while let Some(event) = decoder.next().unwrap() {
                assert_eq!(event.object.len(), (1 << 20) + 2);
                events += 1;
            }
            assert_eq!(decoder.searched, decoder.buffer.len(), "the next chunk is searched alone");
        }
        assert!(events == 2 && decoder.is_between_events());
    }
}
