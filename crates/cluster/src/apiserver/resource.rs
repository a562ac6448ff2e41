//! What is watched: where each kind lives, which of its objects, and how one is decoded.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use prost::Message;
use prost::bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::wire::Encoding;
use crate::fault_path::path_to_fault;
use crate::objects::pairs::INITIAL_END;
use crate::objects::{self, Metadata, Text, shown};
use crate::{Invalid, Kind, ObjectKey, Translated, translate};

/// Objects that another proxy serves, or no proxy serves, stay on the server.
const OURS: &str = "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless";

/// One kind as the apiserver offers it.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) kind: Kind,
    pub(super) path: &'static str,
    /// Query parameters that select what we need, already escaped.
    pub(super) selector: String,
    decode: fn(Bytes, Encoding) -> Result<(Translated, Text), String>,
}

/// An object from the wire, whatever it looks like.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) identity: Identity,
    /// What became of it, or why it cannot be used.
    pub(super) outcome: Result<Translated, String>,
}

/// Which object, in which version, as far as is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) key: Option<ObjectKey>,
    pub(super) version: Option<String>,
}

/// Only what every object has.
#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
struct Bare {
    #[prost(message, required, tag = "1")]
    metadata: Metadata,
}

/// The same of an object whose other fields, or whose metadata, have types they should not have.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Salvage<'a> {
    #[serde(borrow)]
    metadata: SalvagedMetadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SalvagedMetadata<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow)]
    resource_version: Option<&'a RawValue>,
}

/// A bookmark: how far the watch has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bookmark {
    pub(super) version: Option<String>,
    pub(super) ends_initial: bool,
}

impl Resource {
    /// Everything the proxy lives on, for the node of that name.
    pub(super) fn all(node: &str) -> Vec<Resource> {
        let ours = format!("labelSelector={}", escape(OURS));
        let node = format!("fieldSelector={}", escape(&format!("metadata.name={node}")));
        vec![
            Resource::new::<objects::Service>("/api/v1/services", ours.clone()),
            Resource::new::<objects::EndpointSlice>("/apis/discovery.k8s.io/v1/endpointslices", ours),
            Resource::new::<objects::Node>("/api/v1/nodes", node),
            Resource::new::<objects::ServiceCidr>("/apis/networking.k8s.io/v1/servicecidrs", String::new()),
        ]
    }

    fn new<T: Wire>(path: &'static str, selector: String) -> Resource {
        Resource { kind: T::KIND, path, selector, decode: decode::<T> }
    }

    /// Servers of older releases do not have it, and the proxy does without.
    pub(super) fn is_optional(&self) -> bool {
        self.kind == Kind::ServiceCidr
    }

    /// Never fails: what cannot be read or used says so, with as much of its identity as there is.
    pub(super) fn decode(&self, object: Bytes, encoding: Encoding) -> Decoded {
        match (self.decode)(object.clone(), encoding) {
            Ok((translated, version)) => {
                let key = Some(translated.outcome.key().clone());
                Decoded { identity: Identity { key, version: some(&version) }, outcome: Ok(translated) }
            }
            Err(why) => Decoded { identity: self.identify(object, encoding), outcome: Err(why) },
        }
    }

    /// Of an object of which nothing else matters, or can be read.
    pub(super) fn identify(&self, object: Bytes, encoding: Encoding) -> Identity {
        let metadata = bare(object, encoding);
        let key = translate::key(self.kind, &metadata).ok();
        Identity { key, version: some(&metadata.resource_version) }
    }
}

pub(super) fn bookmark(object: Bytes, encoding: Encoding) -> Bookmark {
    let metadata = bare(object, encoding);
    let ends_initial = metadata.annotations.get(INITIAL_END).is_some_and(|value| value == "true");
    Bookmark { version: some(&metadata.resource_version), ends_initial }
}

/// Without a version a watch would begin anywhere, and miss what went.
fn some(version: &Text) -> Option<String> {
    (!version.is_empty()).then(|| shown(version).into_owned())
}

/// The metadata as far as they can be read.
fn bare(object: Bytes, encoding: Encoding) -> Metadata {
    match encoding {
        Encoding::Protobuf => {
            let mut bare = Bare::default();
            // What was read before an error stays read, and servers write the metadata first.
            let _ = bare.merge(object);
            bare.metadata
        }
        Encoding::Json => {
            parse::<Bare>(object.clone(), encoding).map_or_else(|_| salvage(&object), |bare| bare.metadata)
        }
    }
}

fn salvage(object: &Bytes) -> Metadata {
    let found = serde_json::from_slice::<Salvage<'_>>(object).unwrap_or_default().metadata;
    let text = |raw: Option<&RawValue>| {
        raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok()).unwrap_or_default().into()
    };
    Metadata {
        name: text(found.name),
        namespace: text(found.namespace),
        resource_version: text(found.resource_version),
        ..Metadata::default()
    }
}

fn parse<T: Message + Default + DeserializeOwned>(object: Bytes, encoding: Encoding) -> Result<T, String> {
    match encoding {
        Encoding::Protobuf => T::decode(object).map_err(|error| error.to_string()),
        Encoding::Json => serde_json::from_slice(&object).map_err(|error| {
            let path = path_to_fault::<T>(&mut serde_json::Deserializer::from_slice(&object));
            let path = path.map(|path| format!("{path}: ")).unwrap_or_default();
            shortened(&format!("{path}{error}"))
        }),
    }
}

/// serde quotes the value that it could not use, all of it. What was expected, and where, stands behind it.
fn shortened(error: &str) -> String {
    const START: usize = 120;
    const END: usize = 80;
    let length = error.chars().count();
    if length <= START + END {
        return error.to_owned();
    }
    let (start, end) = (error.chars().take(START), error.chars().skip(length - END));
    start.chain("...".chars()).chain(end).collect()
}

/// A kind that can be read from the wire.
trait Wire: Message + Default + DeserializeOwned {
    const KIND: Kind;
    fn version(&mut self) -> Text;
    fn translate(self) -> Result<Translated, Invalid>;
}

fn decode<T: Wire>(object: Bytes, encoding: Encoding) -> Result<(Translated, Text), String> {
    let mut object: T = parse(object, encoding)?;
    let version = object.version();
    let translated = object.translate().map_err(|invalid| invalid.to_string())?;
    Ok((translated, version))
}

macro_rules! wire {
    ($object:ty, $kind:expr, $translate:path) => {
        impl Wire for $object {
            const KIND: Kind = $kind;

            fn version(&mut self) -> Text {
                std::mem::take(&mut self.metadata.resource_version)
            }

            fn translate(self) -> Result<Translated, Invalid> {
                $translate(self)
            }
        }
    };
}

wire!(objects::Service, Kind::Service, translate::service);
wire!(objects::EndpointSlice, Kind::EndpointSlice, translate::endpoint_slice);
wire!(objects::Node, Kind::Node, translate::node);
wire!(objects::ServiceCidr, Kind::ServiceCidr, translate::service_cidr);

/// What a value of a query or a segment of a path cannot hold as it is: all but RFC 3986's unreserved characters.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A value of a query, or a segment of a path.
pub(super) fn escape(value: &str) -> PercentEncode<'_> {
    utf8_percent_encode(value, ESCAPED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_little_of_the_object() {
        let long = "\u{e9}".repeat(1 << 20);
        let services = Resource::new::<objects::Service>("/api/v1/services", String::new());
        for object in [
            format!(r#"{{"metadata": {{"name": "a"}}, "spec": {{"ports": [{{"port": "{long}"}}]}}}}"#),
            format!(r#"{{"metadata": {{"name": "a"}}, "spec": "{long}"}}"#),
            format!(r#"{{"metadata": {{"name": "a", "labels": "{long}"}}}}"#),
        ] {
            let why = services.decode(object.into(), Encoding::Json).outcome.unwrap_err();
            assert!(why.chars().count() < 250, "{why}");
            assert!(why.contains("expected") && why.contains("line 1 column"), "{why}");
        }
    }
}
