//! What is watched: where each kind lives, which of its objects, and how one is decoded.

use prost::Message;
use prost::bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::wire::Encoding;
use crate::objects::{self, Metadata};
use crate::{Invalid, Kind, ObjectKey, Outcome, translate};

/// Objects that another proxy serves, or nobody proxies, stay on the server.
const OURS: &str = "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless";
/// Set on the bookmark that ends the objects there were when a streaming list began.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// One kind as the apiserver offers it.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) kind: Kind,
    pub(super) path: &'static str,
    /// Query parameters that select what we need, already escaped.
    pub(super) selector: String,
    decode: fn(Bytes, Encoding) -> Result<(Outcome, String), String>,
}

/// An object from the wire.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) key: ObjectKey,
    /// What became of it, or why it cannot be used.
    pub(super) outcome: Result<Outcome, String>,
    pub(super) version: String,
}

/// Only what every object has.
#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
struct Bare {
    #[prost(message, required, tag = "1")]
    metadata: Metadata,
}

/// A bookmark: how far the watch has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bookmark {
    pub(super) version: String,
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

    pub(super) fn decode(&self, object: Bytes, encoding: Encoding) -> Result<Decoded, String> {
        match (self.decode)(object.clone(), encoding) {
            Ok((outcome, version)) => {
                Ok(Decoded { key: outcome.key().clone(), outcome: Ok(outcome), version })
            }
            Err(why) => {
                let metadata = bare(object, encoding).map_err(|_| why.clone())?;
                let key = ObjectKey::new(self.kind, &metadata.namespace, &metadata.name);
                Ok(Decoded { key, outcome: Err(why), version: metadata.resource_version })
            }
        }
    }

    /// The key and version of an object that is gone; nothing else of it matters.
    pub(super) fn identify(&self, object: Bytes, encoding: Encoding) -> Result<(ObjectKey, String), String> {
        let metadata = bare(object, encoding)?;
        Ok((ObjectKey::new(self.kind, &metadata.namespace, &metadata.name), metadata.resource_version))
    }
}

pub(super) fn bookmark(object: Bytes, encoding: Encoding) -> Result<Bookmark, String> {
    let metadata = bare(object, encoding)?;
    let ends_initial = metadata.annotations.get(INITIAL_END).is_some_and(|value| value == "true");
    Ok(Bookmark { version: metadata.resource_version, ends_initial })
}

fn bare(object: Bytes, encoding: Encoding) -> Result<Metadata, String> {
    parse::<Bare>(object, encoding).map(|bare| bare.metadata)
}

fn parse<T: Message + Default + DeserializeOwned>(object: Bytes, encoding: Encoding) -> Result<T, String> {
    match encoding {
        Encoding::Protobuf => T::decode(object).map_err(|error| error.to_string()),
        Encoding::Json => {
            let mut text = serde_json::Deserializer::from_slice(&object);
            serde_path_to_error::deserialize(&mut text).map_err(|error| error.to_string())
        }
    }
}

/// A kind that can be read from the wire.
trait Wire: Message + Default + DeserializeOwned {
    const KIND: Kind;
    fn version(&mut self) -> String;
    fn translate(self) -> Result<Outcome, Invalid>;
}

fn decode<T: Wire>(object: Bytes, encoding: Encoding) -> Result<(Outcome, String), String> {
    let mut object: T = parse(object, encoding)?;
    let version = object.version();
    let outcome = object.translate().map_err(|invalid| invalid.to_string())?;
    Ok((outcome, version))
}

macro_rules! wire {
    ($object:ty, $kind:expr, $translate:path) => {
        impl Wire for $object {
            const KIND: Kind = $kind;

            fn version(&mut self) -> String {
                std::mem::take(&mut self.metadata.resource_version)
            }

            fn translate(self) -> Result<Outcome, Invalid> {
                $translate(self)
            }
        }
    };
}

wire!(objects::Service, Kind::Service, translate::service);
wire!(objects::EndpointSlice, Kind::EndpointSlice, translate::endpoint_slice);
wire!(objects::Node, Kind::Node, translate::node);
wire!(objects::ServiceCidr, Kind::ServiceCidr, translate::service_cidr);

/// A value of a query: everything but letters, digits and a few marks as `%XX`.
pub(super) fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte as char),
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}
