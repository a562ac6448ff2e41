//! Labels and annotations: those the proxy looks at, and none of the others.
//!
//! Anybody may hang a quarter of a megabyte of annotations on an object. They are passed over as they stand: neither copied
//! nor checked.

use std::borrow::Cow;
use std::fmt;

use prost::bytes::{Buf, BufMut};
use prost::encoding::{self, DecodeContext, WireType};
use prost::{DecodeError, Message};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::text::{Text, shown};

/// The label that names the service of an EndpointSlice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Set on objects that another proxy serves.
pub const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
pub const HEADLESS: &str = "service.kubernetes.io/headless";
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The annotation that says when the control plane saw the change behind an EndpointSlice.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Set on the bookmark that ends the objects there were when a streaming list began.
pub const INITIAL_END: &str = "k8s.io/initial-events-end";

const KNOWN: [&str; 6] = [SERVICE_NAME, OTHER_PROXY, HEADLESS, ZONE, TRIGGER_TIME, INITIAL_END];

/// What is known of the labels, or of the annotations, of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    found: Vec<(&'static str, Text)>,
    /// The key of the entry that is being read, if it is one of ours.
    current: Option<&'static str>,
}

impl Pairs {
    pub fn contains(&self, key: &str) -> bool {
        self.found.iter().any(|(known, _)| *known == key)
    }

    pub fn get(&self, key: &str) -> Option<Cow<'_, str>> {
        self.found.iter().find(|(known, _)| *known == key).map(|(_, value)| shown(value))
    }

    fn set(&mut self, key: &'static str, value: Text) {
        match self.found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.found.push((key, value)),
        }
    }
}

fn known(key: &[u8]) -> Option<&'static str> {
    KNOWN.into_iter().find(|known| known.as_bytes() == key)
}

/// An entry of a protobuf map is a message of a key and a value. prost merges messages of one field, so all entries of the
/// map come here one after the other, the key before its value.
impl Message for Pairs {
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        let mut text = Text::new();
        match tag {
            1 => {
                encoding::bytes::merge(wire_type, &mut text, buffer, context)?;
                self.current = known(&text);
                self.current.into_iter().for_each(|key| self.set(key, Text::new()));
                Ok(())
            }
            2 => {
                encoding::bytes::merge(wire_type, &mut text, buffer, context)?;
                self.current.take().into_iter().for_each(|key| self.set(key, text.clone()));
                Ok(())
            }
            _ => encoding::skip_field(wire_type, tag, buffer, context),
        }
    }

    /// All in one entry, which is enough, because only we read what we write.
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        for (key, value) in &self.found {
            encoding::bytes::encode(1, &Text::from_static(key.as_bytes()), buffer);
            encoding::bytes::encode(2, value, buffer);
        }
    }

    fn encoded_len(&self) -> usize {
        let length = |(key, value): &(&'static str, Text)| {
            encoding::bytes::encoded_len(1, &Text::from_static(key.as_bytes()))
                + encoding::bytes::encoded_len(2, value)
        };
        self.found.iter().map(length).sum()
    }

    fn clear(&mut self) {
        *self = Pairs::default();
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Pairs, D::Error> {
        source.deserialize_map(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut pairs = Pairs::default();
        while let Some(key) = map.next_key::<String>()? {
            match known(key.as_bytes()) {
                Some(key) => pairs.set(key, map.next_value::<Option<String>>()?.unwrap_or_default().into()),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Go writes a map.
    fn entry(key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut entry = Vec::new();
        encoding::bytes::encode(1, &Text::copy_from_slice(key), &mut entry);
        encoding::bytes::encode(2, &Text::copy_from_slice(value), &mut entry);
        entry
    }

    #[derive(Clone, PartialEq, Message)]
    struct Holder {
        #[prost(message, required, tag = "12")]
        pairs: Pairs,
    }

    #[test]
    fn only_known_keys_are_kept_and_no_value_has_to_be_utf8() {
        let mut bytes = Vec::new();
        for (key, value) in [
            (&b"example.com/any"[..], &b"\xff\xfe"[..]),
            (ZONE.as_bytes(), b"zone-1"),
            (b"\xff", b"b"),
            (HEADLESS.as_bytes(), b""),
            (OTHER_PROXY.as_bytes(), b"\xff"),
        ] {
            encoding::bytes::encode(12, &entry(key, value), &mut bytes);
        }
        let pairs = Holder::decode(&*bytes).unwrap().pairs;
        assert_eq!(pairs.get(ZONE).as_deref(), Some("zone-1"));
        assert_eq!(pairs.get(HEADLESS).as_deref(), Some(""));
        assert_eq!(pairs.get(OTHER_PROXY).as_deref(), Some("\u{fffd}"));
        assert_eq!(pairs.found.len(), 3);
        let again = Holder::decode(&*Holder { pairs: pairs.clone() }.encode_to_vec()).unwrap().pairs;
        assert_eq!(again, pairs);
    }

    /// The bytes of a large annotation are those of the answer.
    #[test]
    fn nothing_large_is_copied() {
        let large = vec![b'x'; 1 << 20];
        let mut bytes = Vec::new();
        encoding::bytes::encode(12, &entry(TRIGGER_TIME.as_bytes(), &large), &mut bytes);
        let bytes = Text::from(bytes);
        let pairs = Holder::decode(bytes.clone()).unwrap().pairs;
        let (_, value) = &pairs.found[0];
        assert!(bytes.as_ptr_range().contains(&value.as_ptr()), "copied");
    }
}
