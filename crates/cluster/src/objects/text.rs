//! Text as it came. Protobuf of an apiserver may hold any bytes where the API says `string`: its validation looks at
//! few of them. So nothing here insists on UTF-8, and nothing is copied out of the answer it stands in.

use std::borrow::Cow;

use prost::bytes::Bytes;
use serde::{Deserialize, Deserializer};

/// The bytes of a text.
pub type Text = Bytes;

/// To compare and to show. Bytes that are not UTF-8 become U+FFFD, which no address, number or keyword holds.
pub fn shown(text: &Text) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

/// `null` counts as empty.
pub(super) fn text<'de, D: Deserializer<'de>>(source: D) -> Result<Text, D::Error> {
    optional(source).map(Option::unwrap_or_default)
}

pub(super) fn optional<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Text>, D::Error> {
    Ok(Option::<String>::deserialize(source)?.map(Text::from))
}

pub(super) fn list<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<Text>, D::Error> {
    let texts = Option::<Vec<String>>::deserialize(source)?.unwrap_or_default();
    Ok(texts.into_iter().map(Text::from).collect())
}
