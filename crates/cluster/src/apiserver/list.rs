//! The body of a list: items one by one, then what the list says of itself.

use prost::Message;
use prost::bytes::{Buf, Bytes, BytesMut};
use prost::encoding::{WireType, decode_key, decode_varint};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::{Encoding, LARGEST, ListMeta, MAGIC, Malformed, readable};

/// A key and a length are varints of at most ten bytes each.
const LONGEST_HEAD: usize = 20;
/// No page of JSON is that large.
const LARGEST_PAGE: usize = 1 << 30;

/// Cuts a list into items while it arrives.
#[derive(Debug)]
pub(super) enum ListDecoder {
    Protobuf(ProtobufList),
    /// JSON is read whole; pages keep it small.
    Json(Vec<u8>),
}

impl ListDecoder {
    pub(super) fn new(encoding: Encoding) -> ListDecoder {
        match encoding {
            Encoding::Protobuf => ListDecoder::Protobuf(ProtobufList::default()),
            Encoding::Json => ListDecoder::Json(Vec::new()),
        }
    }

    /// Take in more of the body and hand out the items that are whole now.
    pub(super) fn feed(&mut self, chunk: &[u8], item: &mut dyn FnMut(Bytes)) -> Result<(), Malformed> {
        match self {
            ListDecoder::Protobuf(list) => list.feed(chunk, item),
            ListDecoder::Json(text) if text.len() > LARGEST_PAGE => {
                Err(Malformed(format!("a list longer than {LARGEST_PAGE} bytes")))
            }
            ListDecoder::Json(text) => {
                text.extend_from_slice(chunk);
                Ok(())
            }
        }
    }

    /// The body is at its end.
    pub(super) fn finish(self, item: &mut dyn FnMut(Bytes)) -> Result<ListMeta, Malformed> {
        match self {
            ListDecoder::Protobuf(list) => list.finish(),
            ListDecoder::Json(text) => finish_json(text, item),
        }
    }
}

#[derive(Deserialize)]
struct JsonList<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

fn finish_json(text: Vec<u8>, item: &mut dyn FnMut(Bytes)) -> Result<ListMeta, Malformed> {
    let text = readable(Bytes::from(text));
    let list: JsonList<'_> = serde_json::from_slice(&text).map_err(|error| Malformed(error.to_string()))?;
    let items = list.items.unwrap_or_default();
    items.iter().for_each(|raw| item(text.slice_ref(raw.get().as_bytes())));
    Ok(list.metadata)
}

/// A protobuf list: magic number, envelope, and inside of it the fields of the list.
#[derive(Debug, Default)]
pub(super) struct ProtobufList {
    buffer: BytesMut,
    stage: Stage,
    meta: ListMeta,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Magic,
    Envelope,
    /// So many bytes of the list are to come.
    List(usize),
    /// The list is whole; what the envelope says after it does not matter.
    Done,
}

impl ProtobufList {
    fn feed(&mut self, chunk: &[u8], item: &mut dyn FnMut(Bytes)) -> Result<(), Malformed> {
        self.buffer.extend_from_slice(chunk);
        while self.step(item)? {}
        Ok(())
    }

    /// One step on; false if more has to arrive first.
    fn step(&mut self, item: &mut dyn FnMut(Bytes)) -> Result<bool, Malformed> {
        match self.stage {
            Stage::Magic if self.buffer.len() < MAGIC.len() => Ok(false),
            Stage::Magic if !self.buffer.starts_with(MAGIC) => {
                Err(Malformed("the list does not begin with the magic number of protobuf".into()))
            }
            Stage::Magic => {
                self.buffer.advance(MAGIC.len());
                self.stage = Stage::Envelope;
                Ok(true)
            }
            Stage::Envelope => self.step_envelope(),
            Stage::List(0) => {
                self.stage = Stage::Done;
                Ok(false)
            }
            Stage::List(left) => self.step_list(left, item),
            Stage::Done => {
                self.buffer.clear();
                Ok(false)
            }
        }
    }

    fn step_envelope(&mut self) -> Result<bool, Malformed> {
        let Some(head) = self.head()? else { return Ok(false) };
        if head.field == 2 {
            self.buffer.advance(head.size);
            self.stage = Stage::List(head.length);
            return Ok(true);
        }
        Ok(self.take(head)?.is_some())
    }

    fn step_list(&mut self, left: usize, item: &mut dyn FnMut(Bytes)) -> Result<bool, Malformed> {
        let Some(head) = self.head()? else { return Ok(false) };
        let Some(left) = left.checked_sub(head.size.saturating_add(head.length)) else {
            return Err(Malformed("an item is longer than its list".into()));
        };
        let Some(body) = self.take(head)? else { return Ok(false) };
        self.stage = Stage::List(left);
        match head.field {
            1 => self.meta = ListMeta::decode(body).map_err(|error| Malformed(error.to_string()))?,
            2 => item(body),
            _ => {}
        }
        Ok(true)
    }

    /// The key and length of the next field. Envelopes and lists have no fields without a length.
    fn head(&self) -> Result<Option<Head>, Malformed> {
        let mut rest = &self.buffer[..];
        let mut read = || {
            let (field, wire_type) = decode_key(&mut rest).ok()?;
            let length = match wire_type {
                WireType::LengthDelimited => decode_varint(&mut rest).ok()?,
                _ => return Some((field, None, 0)),
            };
            Some((field, usize::try_from(length).ok(), rest.len()))
        };
        match read() {
            Some((field, Some(length), rest)) => {
                Ok(Some(Head { field, length, size: self.buffer.len() - rest }))
            }
            Some((field, None, _)) => Err(Malformed(format!("field {field} of the list has no length"))),
            None if self.buffer.len() < LONGEST_HEAD => Ok(None),
            None => Err(Malformed("a field of the list does not begin like one".into())),
        }
    }

    /// The body of the field, once it is there.
    fn take(&mut self, head: Head) -> Result<Option<Bytes>, Malformed> {
        if head.length > LARGEST {
            return Err(Malformed(format!("an item of {} bytes is announced", head.length)));
        }
        if self.buffer.len() < head.size.saturating_add(head.length) {
            return Ok(None);
        }
        self.buffer.advance(head.size);
        Ok(Some(self.buffer.split_to(head.length).freeze()))
    }

    fn finish(self) -> Result<ListMeta, Malformed> {
        match self.stage {
            Stage::Done | Stage::List(0) => Ok(self.meta),
            _ => Err(Malformed("the list ends in the middle".into())),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Head {
    field: u32,
    length: usize,
    /// Of key and length together.
    size: usize,
}
