//! Kubernetes objects in protobuf, from their JSON: what an apiserver sends and takes.
//!
//! It shares no code with the agent's own decoder, so that the two cannot be wrong together. What JSON cannot say can
//! be said too: a character of [`RAW_BYTES`] in a text is a single byte, and [`RAW_FIELDS`] as a key adds whatever
//! follows, byte by byte, to the end of a message.

mod schema;

use serde_json::{Map, Value};

use schema::{Field, Shape};

/// The media type of requests and answers.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The character of this number stands for the byte 0, and so on.
pub const RAW_BYTES: u32 = 0xE000;
/// A key of any JSON object whose value, a text, is appended to the message as it is.
pub const RAW_FIELDS: &str = "+raw";

const MAGIC: &[u8] = b"k8s\0";
const VARINT: u64 = 0;
const DELIMITED: u64 = 2;

/// A text of these bytes, whatever they are.
pub fn raw_text(bytes: &[u8]) -> String {
    let character = |byte: &u8| char::from_u32(RAW_BYTES + u32::from(*byte));
    bytes.iter().filter_map(character).collect()
}

/// A whole object in its envelope, as the body of a request.
pub fn object(object: &Value) -> Vec<u8> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = schema::of_kind(text("kind")).unwrap_or_else(|| panic!("no schema for {object}"));
    let types = [delimited(1, text("apiVersion").as_bytes()), delimited(2, text("kind").as_bytes())].concat();
    let envelope = [delimited(1, &types), delimited(2, &message(kind, object))].concat();
    [MAGIC, &envelope].concat()
}

/// One event of a watch, with the length that stands before it.
pub fn event(kind: &str, object: &Value) -> Vec<u8> {
    let extension = delimited(1, &self::object(object));
    let event = [delimited(1, kind.as_bytes()), delimited(2, &extension)].concat();
    let length = u32::try_from(event.len()).expect("events are smaller than 4 GiB");
    [&length.to_be_bytes()[..], &event].concat()
}

fn message(fields: &[Field], value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Field(name, tag, shape) in fields {
        match value.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::Array(items)) => items.iter().for_each(|item| field(&mut bytes, *tag, shape, item)),
            Some(one) => field(&mut bytes, *tag, shape, one),
        }
    }
    if let Some(raw) = value.get(RAW_FIELDS).and_then(Value::as_str) {
        bytes.extend(text(raw));
    }
    bytes
}

fn field(bytes: &mut Vec<u8>, tag: u64, shape: &Shape, value: &Value) {
    match (shape, value) {
        (Shape::Message(fields), _) => bytes.extend(delimited(tag, &message(fields, value))),
        (Shape::Map, Value::Object(entries)) => map(bytes, tag, entries),
        (Shape::Plain, Value::String(value)) => bytes.extend(delimited(tag, &text(value))),
        (Shape::Plain, Value::Bool(value)) => number(bytes, tag, i64::from(*value)),
        (Shape::Plain, Value::Number(value)) => number(bytes, tag, value.as_i64().expect("whole numbers")),
        (Shape::NumberOrName, Value::String(name)) => {
            let bytes_of_name = delimited(3, &text(name));
            bytes.extend(delimited(tag, &[&[8, 1][..], &bytes_of_name].concat()));
        }
        (Shape::NumberOrName, Value::Number(value)) => {
            let mut inner = Vec::new();
            number(&mut inner, 2, value.as_i64().expect("whole numbers"));
            bytes.extend(delimited(tag, &inner));
        }
        _ => panic!("{value} is not of the shape {shape:?}"),
    }
}

fn map(bytes: &mut Vec<u8>, tag: u64, entries: &Map<String, Value>) {
    for (key, value) in entries {
        let value = value.as_str().expect("labels and annotations are texts");
        bytes.extend(delimited(tag, &[delimited(1, &text(key)), delimited(2, &text(value))].concat()));
    }
}

fn text(value: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len());
    for character in value.chars() {
        match u32::from(character).checked_sub(RAW_BYTES).and_then(|byte| u8::try_from(byte).ok()) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

fn number(bytes: &mut Vec<u8>, tag: u64, value: i64) {
    varint(bytes, tag << 3 | VARINT);
    varint(bytes, value.cast_unsigned());
}

fn delimited(tag: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len() + 8);
    varint(&mut bytes, tag << 3 | DELIMITED);
    varint(&mut bytes, content.len() as u64);
    bytes.extend_from_slice(content);
    bytes
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_texts_and_lists() {
        let port = json!({"name": "http", "port": 300, "targetPort": "web"});
        let expected = b"\x0a\x04http\x18\xac\x02\x22\x07\x08\x01\x1a\x03web";
        assert_eq!(message(schema::SERVICE_PORT, &port), expected);
        let endpoint = json!({"addresses": ["a", "b"], "conditions": {"ready": false}});
        assert_eq!(message(schema::ENDPOINT, &endpoint), b"\x0a\x01a\x0a\x01b\x12\x02\x08\x00");
        assert_eq!(message(schema::SERVICE_PORT, &json!({"port": -1})).len(), 11);
    }

    #[test]
    fn bytes_that_json_cannot_say() {
        let metadata = json!({"name": raw_text(&[0xff, 0xfe]), RAW_FIELDS: raw_text(&[0xf8, 0x07, 0x01])});
        assert_eq!(message(schema::METADATA, &metadata), b"\x0a\x02\xff\xfe\xf8\x07\x01");
    }

    #[test]
    fn an_event_begins_with_its_length() {
        let cidr =
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "x"}});
        let event = event("ADDED", &cidr);
        assert_eq!(event.len(), 4 + usize::from(event[3]));
        assert!(event.windows(4).any(|window| window == MAGIC));
    }
}
