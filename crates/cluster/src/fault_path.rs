//! Where in an object a value stands that cannot be read.

use serde::de::{DeserializeOwned, Deserializer};

/// The path to the first value of `source` that a `T` cannot be made of.
///
/// Asked for only once reading failed: following the path allocates for every key. The type of the source is erased,
/// so that there is one copy of this per `T` and not one more per format; those took some 0.6 MB.
pub(crate) fn path_to_fault<'de, T: DeserializeOwned>(source: impl Deserializer<'de>) -> Option<String> {
    let mut source = <dyn erased_serde::Deserializer<'de>>::erase(source);
    let source: &mut dyn erased_serde::Deserializer<'de> = &mut source;
    serde_path_to_error::deserialize::<_, T>(source).err().map(|error| error.path().to_string())
}
