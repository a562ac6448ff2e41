//! One manifest file: read within limits, decoded document by document, remembered by keys and hashes only.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::decode::{Fault, Format, decode};
use super::folder::{Identity, Stamp};
use super::split::{Document, documents};
use super::{Consequence, ManifestProblem};
use crate::{Object, ObjectKey};

/// Far above any cluster's size in one file; a mistake (a log, a disk image) stops here.
const LARGEST_FILE: u64 = 256 * 1024 * 1024;

/// Rewriting a file in place empties it first, and the kernel reports that only some time later: tens of milliseconds on a
/// busy machine.
const NEWS_OF_EMPTYING: Duration = Duration::from_millis(500);

/// What is remembered of a file between two readings.
#[derive(Debug)]
pub(super) struct FileRecord {
    /// `None`: read it again at the next occasion.
    pub(super) stamp: Option<Stamp>,
    /// What it holds, or held.
    pub(super) keys: Vec<ObjectKey>,
    pub(super) problems: Vec<ManifestProblem>,
    /// Entries that are not used, of objects that are.
    pub(super) flaws: Vec<ManifestProblem>,
}

/// A file as read now.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) stamp: Option<Stamp>,
    pub(super) found: Vec<Found>,
    pub(super) problems: Vec<ManifestProblem>,
    /// Entries that are not used, of objects that are.
    pub(super) flaws: Vec<ManifestProblem>,
}

#[derive(Debug)]
pub(super) struct Found {
    pub(super) key: ObjectKey,
    /// Of the text it was made from.
    pub(super) hash: u64,
    pub(super) document: u32,
    /// Only if it was not known already.
    pub(super) object: Option<Box<Object>>,
}

/// Whether another process writes to a file: half of it could pass for a whole one.
pub(super) trait Writers {
    fn is_being_written(&mut self, file: Identity) -> bool;

    /// Whether it is being written, or was since the last question. News are waited for.
    fn was_written(&mut self, file: Identity, patience: Duration) -> bool;
}

/// No writer is known.
pub(super) struct NoWriters;

impl Writers for NoWriters {
    fn is_being_written(&mut self, _: Identity) -> bool {
        false
    }

    fn was_written(&mut self, _: Identity, _: Duration) -> bool {
        false
    }
}

/// The text of a file, or `None` if its writer is not done with it.
pub(super) fn read_text(
    (path, stamp): (&Path, Stamp),
    writers: &mut dyn Writers,
) -> io::Result<Option<String>> {
    if writers.is_being_written(stamp.identity()) {
        return Ok(None);
    }
    let text = read_all(path)?;
    let was_emptied = text.is_empty() && (stamp.size() > 0 || !is_settled(&stamp));
    let patience = if was_emptied { NEWS_OF_EMPTYING } else { Duration::ZERO };
    Ok(Some(text).filter(|_| !writers.was_written(stamp.identity(), patience)))
}

/// Takes an object with its hash, or returns it to be judged later with all others.
pub(super) type HandOver<'a> = &'a mut dyn FnMut(Object, u64) -> Option<Object>;

/// Decode the text of a file. Documents whose hash is `known` are not parsed again.
pub(super) fn decode_text(
    (path, stamp): (&Path, Stamp),
    text: &str,
    known: &HashMap<u64, ObjectKey>,
    hasher: &RandomState,
    hand_over: HandOver<'_>,
) -> Reading {
    let stamp = is_settled(&stamp).then_some(stamp);
    let mut reading = Reading { stamp, found: Vec::new(), problems: Vec::new(), flaws: Vec::new() };
    let format = if path.extension().is_some_and(|end| end == "json") { Format::Json } else { Format::Yaml };
    for document in parts(format, text) {
        let hash = hasher.hash_one(document.text);
        match known.get(&hash) {
            Some(key) => reading.push(key.clone(), hash, document.number, None),
            None => {
                let faults = decode(format, document.text, hash, hasher, &mut |object, hash| {
                    reading.push(object.key.clone(), hash, document.number, hand_over(object, hash));
                });
                let (flaws, broken): (Vec<_>, _) = faults.into_iter().partition(|fault| fault.leaves_object);
                reading.problems.extend(broken.into_iter().map(|fault| problem(path, document, fault)));
                reading.flaws.extend(flaws.into_iter().map(|fault| flaw(path, document, fault)));
            }
        }
    }
    reading
}

impl Reading {
    /// The file is there but cannot be used.
    pub(super) fn unreadable(path: &Path, why: &io::Error) -> Reading {
        let problem = ManifestProblem::of_file(path, format!("cannot be read ({why})"));
        Reading { stamp: None, found: Vec::new(), problems: vec![problem], flaws: Vec::new() }
    }

    fn push(&mut self, key: ObjectKey, hash: u64, document: usize, object: Option<Object>) {
        let document = u32::try_from(document).unwrap_or(u32::MAX);
        self.found.push(Found { key, hash, document, object: object.map(Box::new) });
    }
}

fn problem(path: &Path, document: Document<'_>, fault: Fault) -> ManifestProblem {
    ManifestProblem {
        document: Some(document.number),
        object: fault.object,
        position: fault.position.map(|(line, column)| (line + document.lines_before, column)),
        field: fault.field,
        ..ManifestProblem::of_file(path, fault.message)
    }
}

fn flaw(path: &Path, document: Document<'_>, fault: Fault) -> ManifestProblem {
    ManifestProblem { consequence: Some(Consequence::RestIsUsed), ..problem(path, document, fault) }
}

fn parts(format: Format, text: &str) -> Box<dyn Iterator<Item = Document<'_>> + '_> {
    match format {
        Format::Yaml => Box::new(documents(text)),
        Format::Json if text.trim().is_empty() => Box::new(std::iter::empty()),
        Format::Json => Box::new(std::iter::once(Document { number: 1, lines_before: 0, text })),
    }
}

pub(super) fn read_all(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    // A pipe may wait for a writer forever, and a device may never end.
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(io::Error::other("not a regular file"));
    }
    let too_large = || Err(io::Error::other(format!("larger than {} MiB", LARGEST_FILE >> 20)));
    if metadata.len() > LARGEST_FILE {
        return too_large();
    }
    let mut text = String::new();
    // It may grow meanwhile, and some file systems do not say how large it is.
    let read = File::open(path)?.take(LARGEST_FILE + 1).read_to_string(&mut text)?;
    if read as u64 > LARGEST_FILE { too_large() } else { Ok(text) }
}

/// A file that changed just now may change again without its stamp telling: clocks of file systems are coarse.
fn is_settled(stamp: &Stamp) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    i64::try_from(now).is_ok_and(|now| stamp.changed_at() + 2 <= now)
}
