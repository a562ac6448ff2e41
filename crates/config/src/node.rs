//! A document without a type: what a file said, before anybody asks what it means.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A value of such a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Null,
    Bool(bool),
    /// As written: its reader knows how large it may be.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(BTreeMap<String, Node>),
}

impl Node {
    /// A text, whatever it is made of.
    pub fn text(text: impl Into<String>) -> Node {
        Node::Text(text.into())
    }

    /// What Go takes for a field that was not set: no value, or the zero of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Node::Null => true,
            Node::Bool(value) => !value,
            Node::Number(text) => text.parse() == Ok(0.0),
            Node::Text(text) => {
                text.is_empty() || crate::duration::parse(text).is_ok_and(|value| value.is_zero())
            }
            Node::List(items) => items.is_empty(),
            Node::Map(fields) => fields.is_empty(),
        }
    }

    /// How an error calls it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Node::Null => "null".into(),
            Node::Bool(value) => value.to_string(),
            Node::Number(text) => text.clone(),
            Node::Text(text) => format!("{:?}", shortened(text)),
            Node::List(_) => "a list".into(),
            Node::Map(_) => "a mapping".into(),
        }
    }
}

/// What was meant shows at its beginning, and a log line has an end.
fn shortened(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 100;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Node, D::Error> {
        source.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "any value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, source: D) -> Result<Node, D::Error> {
        source.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Node, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((name, value)) = fields.next_entry()? {
            map.insert(name, value);
        }
        Ok(Node::Map(map))
    }
}
