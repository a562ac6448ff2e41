//! An entry point for `tests/fuzz` to the decoder of manifests, which is private otherwise.

use std::collections::HashMap;
use std::hash::RandomState;
use std::path::Path;

use super::file::decode_text;
use super::folder::Stamp;
use crate::Object;

/// The objects in the text of a file of that name, and what is wrong with it, in words.
pub fn manifest(path: &Path, text: &str) -> (Vec<Object>, Vec<String>) {
    let file = (path, Stamp::default());
    let reading =
        decode_text(file, text, &HashMap::new(), &RandomState::new(), &mut |object, _| Some(object));
    let objects = reading.found.into_iter().filter_map(|found| found.object).map(|object| *object).collect();
    (objects, reading.problems.iter().chain(&reading.flaws).map(ToString::to_string).collect())
}
