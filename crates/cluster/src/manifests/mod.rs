//! The file source: a file or folder of manifests, watched.
//!
//! Every `*.yaml`, `*.yml` and `*.json` under the path is read, subfolders included, names that begin with a
//! dot excluded (ConfigMap mounts keep their versions in such folders and link to them). Until everything was
//! read whole once, nothing is said to be complete. From then on a broken document is reported and leaves
//! everything else working; what its file provided before stays in use. Of the manifests only keys and hashes
//! are remembered here; the objects themselves live in the cluster state.

mod decode;
mod error;
mod events;
mod file;
mod folder;
#[doc(hidden)]
pub mod fuzz;
mod index;
mod list;
mod outage;
mod pass;
mod problem;
mod raw;
mod report;
mod split;
mod watch;
mod yaml;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::RandomState;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Object, ObjectChange, ObjectKey};
use file::{FileRecord, NoWriters, Reading, Writers};
use folder::{Listing, Stamp};
use index::Index;
use pass::Pass;

pub use decode::api_version;
pub use error::ManifestError;
pub use problem::{Consequence, ManifestProblem};
pub use raw::{RawDocument, raw_documents};
pub use watch::ManifestWatch;

/// A file or folder of manifests, and what of it has been handed over.
#[derive(Debug)]
pub struct ManifestSource {
    path: PathBuf,
    files: BTreeMap<Arc<Path>, FileRecord>,
    index: Index,
    hasher: RandomState,
    is_complete: bool,
}

/// What a reading of the manifests brought.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The steps from what was handed over before to what the files say now.
    pub changes: Vec<ObjectChange>,
    /// Everything that is wrong now, not only what is new.
    pub problems: Vec<ManifestProblem>,
    /// Everything could be read, now or earlier. Before that, part of the objects is missing: programming the
    /// others would take away the rules of these.
    pub is_complete: bool,
}

impl ManifestSource {
    pub fn new(path: impl Into<PathBuf>) -> ManifestSource {
        ManifestSource {
            path: path.into(),
            files: BTreeMap::new(),
            index: Index::default(),
            hasher: RandomState::new(),
            is_complete: false,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Read what changed since the last call (at the first: everything).
    pub fn load(&mut self) -> Result<Loaded, ManifestError> {
        match folder::list(&self.path) {
            (listing, None) => {
                let mut changes = Vec::new();
                let mut loaded =
                    self.load_listed(&listing, &mut NoWriters, &mut |change| changes.push(change));
                changes.append(&mut loaded.changes);
                Ok(Loaded { changes, ..loaded })
            }
            (_, Some(source)) if source.kind() == ErrorKind::NotFound => {
                Err(ManifestError::Missing { path: self.path.clone() })
            }
            (_, Some(source)) => Err(ManifestError::Unreadable { path: self.path.clone(), source }),
        }
    }

    /// Look into every file at the next occasion, whatever its stamp says.
    fn distrust(&mut self) {
        self.files.values_mut().for_each(|record| record.stamp = None);
    }

    /// `early` gets objects while files are still being read, where that needs no comparison: at the first
    /// reading. Thousands of objects then need not stand in memory at once.
    fn load_listed(
        &mut self,
        listing: &Listing,
        writers: &mut dyn Writers,
        early: &mut dyn FnMut(ObjectChange),
    ) -> Loaded {
        let is_first = self.files.is_empty();
        let mut index = std::mem::take(&mut self.index);
        let mut pass = Pass::new(&mut index);
        let mut is_whole = true;
        for (path, stamp) in &listing.files {
            if self.files.get(&**path).is_some_and(|record| record.stamp == Some(*stamp)) {
                continue;
            }
            let known = pass.known(path, self.files.get(&**path));
            let file = (&**path, *stamp);
            let was_read = self.read_file(&mut pass, file, &known, writers, is_first.then_some(&mut *early));
            // A file that waits for its writer is as it was, and missing if it was not there.
            is_whole &= was_read || self.files.contains_key(&**path);
        }
        for (path, error) in self.out_of_reach(listing) {
            self.replace(&mut pass, &path, Some(Reading::unreadable(&path, error)));
        }
        for path in self.gone(listing) {
            self.replace(&mut pass, &path, None);
        }
        self.read_missing(&mut pass, listing, writers);
        let changes = pass.finish();
        self.index = index;
        is_whole &= self.files.values().all(|record| record.problems.is_empty());
        self.is_complete |= is_whole;
        Loaded { changes, problems: self.problems(), is_complete: self.is_complete }
    }

    /// False if it waits for its writer, whose closing it is an event.
    fn read_file(
        &mut self,
        pass: &mut Pass<'_>,
        file: (&Path, Stamp),
        known: &HashMap<u64, ObjectKey>,
        writers: &mut dyn Writers,
        mut early: Option<&mut dyn FnMut(ObjectChange)>,
    ) -> bool {
        let mut hand_over = |object: Object, hash| match &mut early {
            Some(early) if pass.hand_over(&object.key, hash) => {
                early(ObjectChange::Apply(object));
                None
            }
            _ => Some(object),
        };
        let (path, _) = file;
        let reading = match file::read_text(file, writers) {
            Ok(None) => return false,
            Ok(Some(text)) => Some(file::decode_text(file, &text, known, &self.hasher, &mut hand_over)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => Some(Reading::unreadable(path, &error)),
        };
        self.replace(pass, &path.into(), reading);
        true
    }

    fn replace(&mut self, pass: &mut Pass<'_>, path: &Arc<Path>, reading: Option<Reading>) {
        let old = self.files.remove(path);
        if let Some(record) = pass.replace(path, old, reading) {
            self.files.insert(path.clone(), record);
        }
    }

    /// Read the files again from which objects are needed that were not parsed.
    fn read_missing(&mut self, pass: &mut Pass<'_>, listing: &Listing, writers: &mut dyn Writers) {
        let stamps: HashMap<&Path, Stamp> =
            listing.files.iter().map(|(path, stamp)| (&**path, *stamp)).collect();
        let mut read = HashSet::new();
        loop {
            let missing = pass.missing();
            if missing.is_empty() {
                return;
            }
            for (path, keys) in missing {
                let stamp = stamps.get(&*path).filter(|_| read.insert(path.clone()));
                let nothing_known = HashMap::new();
                let was_read = stamp.is_some_and(|stamp| {
                    self.read_file(pass, (&path, *stamp), &nothing_known, writers, None)
                });
                if !was_read {
                    // Not to be had now: the file does without until it is read the next time.
                    keys.iter().for_each(|key| pass.index.retract(key, &path));
                    self.files.get_mut(&path).into_iter().for_each(|record| record.stamp = None);
                }
            }
        }
    }

    /// Files and folders that cannot be looked at, and everything known in them.
    fn out_of_reach<'a>(&self, listing: &'a Listing) -> Vec<(Arc<Path>, &'a io::Error)> {
        let within = |path: &Path| -> Vec<Arc<Path>> {
            let inside = self.files.keys().filter(|file| ***file != *path && file.starts_with(path));
            std::iter::once(path.into()).chain(inside.cloned()).collect()
        };
        let unreadable = listing.unreadable.iter();
        unreadable.flat_map(|(path, error)| within(path).into_iter().map(move |path| (path, error))).collect()
    }

    fn gone(&self, listing: &Listing) -> Vec<Arc<Path>> {
        let listed: HashSet<&Path> = listing.files.iter().map(|(path, _)| &**path).collect();
        let out_of_reach = |file: &Path| listing.unreadable.iter().any(|(path, _)| file.starts_with(path));
        let files = self.files.keys();
        files.filter(|file| !listed.contains(&***file) && !out_of_reach(file)).cloned().collect()
    }
}
