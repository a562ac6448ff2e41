//! The items of a list, one at a time, so that a list of thousands never stands in memory as a whole.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::decode::{Fault, Format};
use super::yaml;

/// Call `take` with the position and content of every item. A fault ends the list where it stands.
pub(super) fn for_each_item(
    format: Format,
    text: &str,
    mut take: impl FnMut(usize, Json),
) -> Result<(), Fault> {
    let list = List(&mut take);
    match format {
        Format::Yaml => {
            serde_saphyr::with_deserializer_from_str_with_options(text, yaml::options(), |source| {
                list.deserialize(source)
            })
            .map_err(|error| yaml::fault(&error, None))
        }
        Format::Json => {
            let mut source = serde_json::Deserializer::from_str(text);
            let read = list.deserialize(&mut source).and_then(|()| source.end());
            read.map_err(|error| Fault::of_json(&error, None))
        }
    }
}

/// The list object: everything but `items` is passed over.
struct List<'a>(&'a mut dyn FnMut(usize, Json));

/// The value of `items`; `null` is an empty list.
struct Items<'a>(&'a mut dyn FnMut(usize, Json));

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                map.next_value_seed(Items(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("items")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut position = 0;
        while let Some(item) = items.next_element::<Json>()? {
            (self.0)(position, item);
            position += 1;
        }
        Ok(())
    }
}
