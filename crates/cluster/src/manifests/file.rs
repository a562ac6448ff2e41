//! One manifest file: read within limits, decoded document by document, remembered by keys and hashes only.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::ManifestProblem;
use super::decode::{Fault, Format, decode};
use super::folder::Stamp;
use super::split::{Document, documents};
use crate::{Object, ObjectKey};

/// Far above any cluster's size in one file; a mistake (a log, a disk image) stops here.
const LARGEST_FILE: u64 = 256 * 1024 * 1024;

/// What is remembered of a file between two readings.
#[derive(Clone, Debug)]
pub(super) struct FileRecord {
    pub(super) path: PathBuf,
    /// `None`: read it again at the next occasion.
    pub(super) stamp: Option<Stamp>,
    pub(super) entries: Vec<Entry>,
    pub(super) problems: Vec<ManifestProblem>,
}

/// An object a file holds, or held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: ObjectKey,
    /// Of the text it was made from.
    pub(super) hash: u64,
    pub(super) document: u32,
    pub(super) standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// This is the version in use.
    Used,
    /// An earlier file (or document) has the same object.
    Shadowed,
    /// Its document is broken or the file unreadable; the last good version stays in use.
    Kept,
}

/// A file as read now; `objects` runs beside `record.entries` and holds only what is not known already.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) record: FileRecord,
    pub(super) objects: Vec<Option<Object>>,
}

impl Reading {
    /// Nothing changed: everything is known from last time.
    pub(super) fn unchanged(record: FileRecord) -> Reading {
        Reading { objects: vec![None; record.entries.len()], record }
    }

    /// The file is there but cannot be used; what it provided stays.
    pub(super) fn unreadable(
        path: PathBuf,
        old: Option<&FileRecord>,
        why: impl std::fmt::Display,
    ) -> Reading {
        let entries = kept(old, &HashSet::new());
        let message = format!("cannot be read ({why}); its objects stay as they were");
        let problems = vec![ManifestProblem::of_file(&path, message)];
        Reading::unchanged(FileRecord { path, stamp: None, entries, problems })
    }
}

/// Takes an object with its hash, or returns it to be judged later with all others.
pub(super) type HandOver<'a> = &'a mut dyn FnMut(Object, u64) -> Option<Object>;

/// Read a file. Documents that `old` knows by their hash are not parsed again, unless `afresh`.
pub(super) fn read(
    path: &Path,
    stamp: Stamp,
    old: Option<&FileRecord>,
    afresh: bool,
    hasher: &RandomState,
    hand_over: HandOver<'_>,
) -> io::Result<Reading> {
    let text = read_text(path)?;
    let mut reading = Reading {
        record: FileRecord {
            path: path.to_owned(),
            stamp: is_settled(&stamp).then_some(stamp),
            entries: Vec::new(),
            problems: Vec::new(),
        },
        objects: Vec::new(),
    };
    let known: HashMap<u64, &ObjectKey> = match old {
        Some(old) if !afresh => old.entries.iter().map(|entry| (entry.hash, &entry.key)).collect(),
        _ => HashMap::new(),
    };
    let format = if path.extension().is_some_and(|end| end == "json") { Format::Json } else { Format::Yaml };
    for document in parts(format, &text) {
        let hash = hasher.hash_one(document.text);
        match known.get(&hash) {
            Some(key) => reading.push((*key).clone(), hash, document.number, None),
            None => {
                let faults = decode(format, document.text, hash, hasher, &mut |object, hash| {
                    reading.push(object.key.clone(), hash, document.number, hand_over(object, hash));
                });
                let problems = faults.into_iter().map(|fault| problem(path, document, fault));
                reading.record.problems.extend(problems);
            }
        }
    }
    if !reading.record.problems.is_empty() {
        let healthy: HashSet<&ObjectKey> = reading.record.entries.iter().map(|entry| &entry.key).collect();
        let kept = kept(old, &healthy);
        reading.objects.extend(kept.iter().map(|_| None));
        reading.record.entries.extend(kept);
    }
    reading.record.entries.shrink_to_fit();
    Ok(reading)
}

impl Reading {
    fn push(&mut self, key: ObjectKey, hash: u64, document: usize, object: Option<Object>) {
        let document = u32::try_from(document).unwrap_or(u32::MAX);
        self.record.entries.push(Entry { key, hash, document, standing: Standing::Used });
        self.objects.push(object);
    }
}

/// What the file provided so far and does not provide now.
fn kept(old: Option<&FileRecord>, healthy: &HashSet<&ObjectKey>) -> Vec<Entry> {
    let entries = old.map(|old| &*old.entries).unwrap_or_default().iter();
    entries
        .filter(|entry| entry.standing != Standing::Shadowed && !healthy.contains(&entry.key))
        .map(|entry| Entry { standing: Standing::Kept, ..entry.clone() })
        .collect()
}

fn problem(path: &Path, document: Document<'_>, fault: Fault) -> ManifestProblem {
    ManifestProblem {
        file: path.to_owned(),
        document: Some(document.number),
        object: fault.object,
        position: fault.position.map(|(line, column)| (line + document.lines_before, column)),
        field: fault.field,
        message: fault.message,
    }
}

fn parts(format: Format, text: &str) -> Box<dyn Iterator<Item = Document<'_>> + '_> {
    match format {
        Format::Yaml => Box::new(documents(text)),
        Format::Json if text.trim().is_empty() => Box::new(std::iter::empty()),
        Format::Json => Box::new(std::iter::once(Document { number: 1, lines_before: 0, text })),
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let mut text = String::new();
    let read = file.take(LARGEST_FILE + 1).read_to_string(&mut text)?;
    if read as u64 > LARGEST_FILE {
        return Err(io::Error::other(format!("larger than {} MiB", LARGEST_FILE >> 20)));
    }
    Ok(text)
}

/// A file that changed just now may change again without its stamp telling: clocks of file systems are coarse.
fn is_settled(stamp: &Stamp) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    i64::try_from(now).is_ok_and(|now| stamp.changed_at() + 2 <= now)
}
