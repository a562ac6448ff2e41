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
    event_of(encoding, kind, &item(encoding, object))
}

/// The same of an object that is already spelled, rightly or not.
pub(crate) fn event_of(encoding: Encoding, kind: &str, item: &[u8]) -> Vec<u8> {
    match encoding {
        Encoding::Json => {
            let head = format!("{{\"type\":\"{kind}\",\"object\":");
            [head.as_bytes(), item, b"}\n"].concat()
        }
        Encoding::Protobuf => {
            let raw = envelope(item);
            let event = WatchEvent { kind: kind.to_owned(), object: Some(RawExtension { raw }) };
            let body = event.encode_to_vec();
            [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
        }
    }
}

/// An object as it stands in a list or an event.
pub(crate) fn item(encoding: Encoding, object: &Value) -> Vec<u8> {
    match encoding {
        Encoding::Json => object.to_string().into_bytes(),
        Encoding::Protobuf => message(object),
    }
}

/// With one more annotation, in bytes that need not be text. What JSON cannot spell stands there as it is.
pub(crate) fn annotated(encoding: Encoding, object: &Value, value: &[u8]) -> Vec<u8> {
    let spelled = item(encoding, object);
    match encoding {
        Encoding::Protobuf => {
            let entry = [field(1, b"example.com/odd"), field(2, value)].concat();
            [field(1, &field(12, &entry)), spelled].concat()
        }
        Encoding::Json => {
            let text = String::from_utf8(spelled).unwrap();
            let (head, tail) = text.split_once("\"metadata\":{").unwrap();
            let odd = [b"\"metadata\":{\"annotations\":{\"example.com/odd\":\"", value, b"\"},"].concat();
            [head.as_bytes(), &odd, tail.as_bytes()].concat()
        }
    }
}

/// A field of a protobuf message that has a length.
pub(crate) fn field(tag: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::bytes::encode(tag, &content.to_vec(), &mut bytes);
    bytes
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
    let items: Vec<Vec<u8>> = items.iter().map(|object| item(encoding, object)).collect();
    list_of(encoding, version, more, &items)
}

/// The same of objects that are already spelled.
pub(crate) fn list_of(encoding: Encoding, version: u32, more: &str, items: &[Vec<u8>]) -> Vec<u8> {
    match encoding {
        Encoding::Json => {
            let metadata = json!({"resourceVersion": version.to_string(), "continue": more});
            let head = format!("{{\"kind\":\"ServiceList\",\"metadata\":{metadata},\"items\":[");
            [head.as_bytes(), &items.join(&b","[..]), b"]}"].concat()
        }
        Encoding::Protobuf => {
            let metadata = Some(ListMeta { version: version.to_string(), more: more.to_owned() });
            envelope(&List { metadata, items: items.to_vec() }.encode_to_vec())
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
        "Service" => [padding(object), from_json::<objects::Service>(object)].concat(),
        "EndpointSlice" => from_json::<objects::EndpointSlice>(object),
        "Node" => from_json::<objects::Node>(object),
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

/// A label that the proxy does not read.
fn padding(object: &Value) -> Vec<u8> {
    let Some(value) = object["metadata"]["labels"]["padding"].as_str() else { return Vec::new() };
    field(1, &field(11, &[field(1, b"padding"), field(2, value.as_bytes())].concat()))
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
