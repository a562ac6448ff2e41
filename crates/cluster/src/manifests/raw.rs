//! Documents as they are written, for those who look at what nobody reads: misspelt names.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::file::read_all;
use super::folder;
use super::split::documents;
use super::yaml;

/// A document of a file, or an item of a list in it.
#[derive(Clone, Debug, PartialEq)]
pub struct RawDocument {
    pub file: PathBuf,
    /// From 1.
    pub number: usize,
    pub content: Value,
}

/// Every document that can be read, below this path; what cannot be read is left to
/// [`ManifestSource`](super::ManifestSource) to say.
pub fn raw_documents(path: &Path) -> Vec<RawDocument> {
    let (listing, _) = folder::list(path);
    let mut found = Vec::new();
    for (file, _) in &listing.files {
        let Ok(text) = read_all(file) else { continue };
        let is_json = file.extension().is_some_and(|end| end == "json");
        match is_json {
            true => add(&mut found, file, 1, serde_json::from_str(&text).ok()),
            false => {
                documents(&text).for_each(|one| add(&mut found, file, one.number, yaml::read(one.text).ok()))
            }
        }
    }
    found
}

/// Lists are taken apart.
fn add(found: &mut Vec<RawDocument>, file: &Path, number: usize, content: Option<Value>) {
    let Some(mut content) = content else { return };
    let is_list = content["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match content.get_mut("items").and_then(Value::as_array_mut).filter(|_| is_list) {
        Some(items) => {
            let items = std::mem::take(items).into_iter();
            found.extend(items.map(|content| RawDocument { file: file.to_owned(), number, content }));
        }
        None => found.push(RawDocument { file: file.to_owned(), number, content }),
    }
}
