//! Which file provides which object, and what changes when files do. Pure.
//!
//! The rules: of two files that hold the same object, the first by path provides it. A file with a broken
//! document keeps what it provided before, unless a healthy document anywhere provides it now.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::path::PathBuf;

use super::ManifestProblem;
use super::file::{FileRecord, Reading, Standing};
use crate::{Change, ObjectKey};

/// The outcome of comparing what is in use with what was read.
#[derive(Debug)]
pub(super) enum Settled {
    Changes {
        changes: Vec<Change>,
        problems: Vec<ManifestProblem>,
        records: Vec<FileRecord>,
    },
    /// These files came to provide objects that were not parsed this time; they have to be read afresh.
    Reread(Vec<PathBuf>),
}

/// What the files provide, by the hash of each object's text.
pub(super) fn provided(records: &[FileRecord]) -> HashMap<ObjectKey, u64> {
    let entries = records.iter().flat_map(|record| &record.entries);
    let used = entries.filter(|entry| entry.standing != Standing::Shadowed);
    used.map(|entry| (entry.key.clone(), entry.hash)).collect()
}

/// Compare what has been handed over so far with what was read. `readings` must be sorted by path.
pub(super) fn settle(mut in_use: HashMap<ObjectKey, u64>, mut readings: Vec<Reading>) -> Settled {
    let problems = choose(&mut readings);
    let mut applied = Vec::new();
    let mut reread = Vec::new();
    for reading in &mut readings {
        for (entry, object) in reading.record.entries.iter().zip(&mut reading.objects) {
            let used = entry.standing != Standing::Shadowed;
            if !used || in_use.remove(&entry.key) == Some(entry.hash) {
                continue;
            }
            match object.take() {
                Some(object) => applied.push(Change::Apply(object)),
                None => reread.push(reading.record.path.clone()),
            }
        }
    }
    if !reread.is_empty() {
        reread.dedup();
        return Settled::Reread(reread);
    }
    let changes = in_use.into_keys().map(Change::Delete).chain(applied).collect();
    Settled::Changes {
        changes,
        problems,
        records: readings.into_iter().map(|reading| reading.record).collect(),
    }
}

/// Which document provides an object: the file by position, and the document's number.
type Provider = (usize, u32);

/// Set the standing of every entry; returns all problems, those of the files and those between files.
fn choose(readings: &mut [Reading]) -> Vec<ManifestProblem> {
    let total = readings.iter().map(|reading| reading.record.entries.len()).sum();
    let mut providers: HashMap<ObjectKey, Provider> = HashMap::with_capacity(total);
    let mut doubles: Vec<(ObjectKey, Provider, Provider)> = Vec::new();
    for (file, reading) in readings.iter_mut().enumerate() {
        for entry in reading.record.entries.iter_mut().filter(|entry| entry.standing != Standing::Kept) {
            let here = (file, entry.document);
            match providers.entry(entry.key.clone()) {
                Slot::Vacant(vacant) => {
                    vacant.insert(here);
                    entry.standing = Standing::Used;
                }
                Slot::Occupied(first) => {
                    doubles.push((entry.key.clone(), *first.get(), here));
                    entry.standing = Standing::Shadowed;
                }
            }
        }
    }
    drop_needless(readings, providers);
    let shadowed = doubles.iter().map(|(key, first, second)| twice(readings, key, *first, *second));
    readings.iter().flat_map(|reading| &reading.record.problems).cloned().chain(shadowed).collect()
}

/// A kept entry is needed only while nobody else provides the object.
fn drop_needless(readings: &mut [Reading], mut providers: HashMap<ObjectKey, Provider>) {
    for (file, reading) in readings.iter_mut().enumerate() {
        if reading.record.entries.iter().all(|entry| entry.standing != Standing::Kept) {
            continue;
        }
        let objects = std::mem::take(&mut reading.objects);
        let entries = std::mem::take(&mut reading.record.entries);
        for (entry, object) in entries.into_iter().zip(objects) {
            let mut provided = || providers.insert(entry.key.clone(), (file, entry.document)).is_some();
            if entry.standing != Standing::Kept || !provided() {
                reading.record.entries.push(entry);
                reading.objects.push(object);
            }
        }
    }
}

fn twice(readings: &[Reading], key: &ObjectKey, first: Provider, second: Provider) -> ManifestProblem {
    let path = |provider: Provider| readings.get(provider.0).map(|reading| reading.record.path.clone());
    let first_path = path(first).unwrap_or_default();
    let message = format!(
        "is already in {} (document {}), which is used; remove one of the two",
        first_path.display(),
        first.1
    );
    ManifestProblem {
        document: Some(second.1 as usize),
        object: Some(key.to_string()),
        ..ManifestProblem::of_file(path(second).unwrap_or_default(), message)
    }
}
