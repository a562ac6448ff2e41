//! Objects, lists and events as an apiserver writes them. The field numbers are those of `cluster::objects`: whether they are
//! right, only a real apiserver can tell, in the conformance tests.

use cluster::apiserver::Encoding;
use cluster::objects;
use prost::Message;
use serde_json::{Value, json};

/// A Service of the namespace `default`.
pub(crate) fn service(name: &str, ip: &str, version: u32) -> Value {
    json!({
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": version.to_string()},
        "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": [{"name": "main", "protocol": "TCP", "port": 80}]},
    })
}

pub(crate) fn service_cidr(name: &str, cidr: &str, version: u32) -> Value {
    json!({
        "kind": "ServiceCIDR",
        "metadata": {"name": name, "resourceVersion": version.to_string()},
        "spec": {"cidrs": [cidr]},
    })
}

pub(crate) fn content_type(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
        Encoding::Json => "application/json",
    }
}

/// One event of a watch.
pub(crate) fn event(encoding: Encoding, kind: &str, object: &Value) -> Vec<u8> {
    match encoding {
        Encoding::Json => format!("{}\n", json!({"type": kind, "object": object})).into_bytes(),
        Encoding::Protobuf => {
            let raw = envelope(&message(object));
            let event = WatchEvent { kind: kind.to_owned(), object: Some(RawExtension { raw }) };
            let body = event.encode_to_vec();
            [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
        }
    }
}

pub(crate) fn added(encoding: Encoding, objects: &[Value]) -> Vec<u8> {
    objects.iter().flat_map(|object| event(encoding, "ADDED", object)).collect()
}

pub(crate) fn bookmark(encoding: Encoding, version: u32) -> Vec<u8> {
    let metadata = json!({"resourceVersion": version.to_string()});
    event(encoding, "BOOKMARK", &json!({"kind": "Service", "metadata": metadata}))
}

/// The end of the objects that a streaming list begins with.
pub(crate) fn mark(encoding: Encoding, version: u32) -> Vec<u8> {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    let metadata = json!({"resourceVersion": version.to_string(), "annotations": annotations});
    event(encoding, "BOOKMARK", &json!({"kind": "Service", "metadata": metadata}))
}

/// Objects, then the mark.
pub(crate) fn stream(encoding: Encoding, version: u32, objects: &[Value]) -> Vec<u8> {
    [added(encoding, objects), mark(encoding, version)].concat()
}

pub(crate) fn error(encoding: Encoding, code: u16, reason: &str) -> Vec<u8> {
    event(encoding, "ERROR", &status(code, reason))
}

pub(crate) fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "code": code, "reason": reason, "message": format!("this is {reason}")})
}

/// A whole list, or a page of one if there is more.
pub(crate) fn list(encoding: Encoding, version: u32, more: &str, items: &[Value]) -> Vec<u8> {
    let version = version.to_string();
    match encoding {
        Encoding::Json => {
            let metadata = json!({"resourceVersion": version, "continue": more});
            json!({"kind": "ServiceList", "metadata": metadata, "items": items}).to_string().into_bytes()
        }
        Encoding::Protobuf => {
            let metadata = Some(ListMeta { version, more: more.to_owned() });
            envelope(&List { metadata, items: items.iter().map(message).collect() }.encode_to_vec())
        }
    }
}

pub(crate) fn envelope(raw: &[u8]) -> Vec<u8> {
    let type_meta = TypeMeta { version: "v1".into(), kind: "Any".into() };
    let unknown = Unknown { type_meta: Some(type_meta), raw: raw.to_vec(), kind: String::new() };
    [b"k8s\0", &unknown.encode_to_vec()[..]].concat()
}

fn message(object: &Value) -> Vec<u8> {
    let kind = object["kind"].as_str().unwrap();
    match kind {
        "Service" => from_json::<objects::Service>(object),
        "ServiceCIDR" => from_json::<objects::ServiceCidr>(object),
        "Status" => Status {
            message: object["message"].as_str().unwrap().to_owned(),
            reason: object["reason"].as_str().unwrap().to_owned(),
            code: object["code"].as_i64().unwrap(),
        }
        .encode_to_vec(),
        other => panic!("{other} is not spelled here"),
    }
}

fn from_json<T: Message + Default + serde::de::DeserializeOwned>(object: &Value) -> Vec<u8> {
    serde_json::from_value::<T>(object.clone()).unwrap().encode_to_vec()
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
    #[prost(string, tag = "4")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct WatchEvent {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, optional, tag = "2")]
    object: Option<RawExtension>,
}

#[derive(Clone, PartialEq, Message)]
struct RawExtension {
    #[prost(bytes = "vec", tag = "1")]
    raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ListMeta {
    #[prost(string, tag = "2")]
    version: String,
    #[prost(string, tag = "3")]
    more: String,
}

#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    items: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "3")]
    message: String,
    #[prost(string, tag = "4")]
    reason: String,
    #[prost(int64, tag = "6")]
    code: i64,
}
