//! The file source: a file or folder of manifests, watched.
//!
//! Every `*.yaml`, `*.yml` and `*.json` under the path is read, subfolders included, names that begin with a
//! dot excluded (ConfigMap mounts keep their versions in such folders and link to them). A broken document
//! is reported and leaves everything else working; what its file provided before stays in use. Of the
//! manifests only keys and hashes are remembered here; the objects themselves live in the cluster state.

mod decode;
mod events;
mod file;
mod folder;
mod ledger;
mod list;
mod problem;
mod split;
mod watch;
mod yaml;

use std::collections::HashSet;
use std::hash::RandomState;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::{error, fmt};

use crate::Change;
use file::{FileRecord, HandOver, Reading};
use folder::Listing;
use ledger::{Settled, settle};

pub use problem::ManifestProblem;
pub use watch::ManifestWatch;

/// A file or folder of manifests, and what of it has been handed over.
#[derive(Debug)]
pub struct ManifestSource {
    path: PathBuf,
    records: Vec<FileRecord>,
    hasher: RandomState,
}

/// What a reading of the manifests brought.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The steps from what was handed over before to what the files say now.
    pub changes: Vec<Change>,
    /// Everything that is wrong now, not only what is new.
    pub problems: Vec<ManifestProblem>,
}

/// Why the manifests cannot be used at all.
#[derive(Debug)]
pub enum ManifestError {
    Missing { path: PathBuf },
    Unreadable { path: PathBuf, source: io::Error },
    Unwatchable { path: PathBuf, source: io::Error },
}

impl ManifestSource {
    pub fn new(path: impl Into<PathBuf>) -> ManifestSource {
        ManifestSource { path: path.into(), records: Vec::new(), hasher: RandomState::new() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Read what changed since the last call (at the first: everything).
    pub fn load(&mut self) -> Result<Loaded, ManifestError> {
        match folder::list(&self.path) {
            (listing, None) => {
                let mut changes = Vec::new();
                let mut loaded = self.load_listed(&listing, &mut |change| changes.push(change));
                changes.append(&mut loaded.changes);
                Ok(Loaded { changes, ..loaded })
            }
            (_, Some(source)) if source.kind() == ErrorKind::NotFound => {
                Err(ManifestError::Missing { path: self.path.clone() })
            }
            (_, Some(source)) => Err(ManifestError::Unreadable { path: self.path.clone(), source }),
        }
    }

    /// `early` gets objects while files are still being read, where that needs no comparison: at the first
    /// reading. Thousands of objects then need not stand in memory at once.
    fn load_listed(&mut self, listing: &Listing, early: &mut dyn FnMut(Change)) -> Loaded {
        let mut in_use = ledger::provided(&self.records);
        let mut afresh = HashSet::new();
        let is_first = self.records.is_empty();
        loop {
            let readings = self.read_all(listing, &afresh, &mut |object, hash| {
                if !is_first || in_use.contains_key(&object.key) {
                    return Some(object);
                }
                in_use.insert(object.key.clone(), hash);
                early(Change::Apply(object));
                None
            });
            match settle(in_use.clone(), readings) {
                Settled::Changes { changes, problems, records } => {
                    self.records = records;
                    return Loaded { changes, problems };
                }
                // Every round names files that were not read afresh before, so this ends.
                Settled::Reread(files) => afresh.extend(files),
            }
        }
    }

    fn read_all(
        &self,
        listing: &Listing,
        afresh: &HashSet<PathBuf>,
        hand_over: HandOver<'_>,
    ) -> Vec<Reading> {
        let mut readings: Vec<Reading> = Vec::with_capacity(listing.files.len());
        for (path, stamp) in &listing.files {
            let old = self.record(path);
            let afresh = afresh.contains(path);
            if listing.being_written.contains(path) {
                readings.extend(old.cloned().map(Reading::unchanged));
                continue;
            }
            if let Some(old) = old
                && old.stamp == Some(*stamp)
                && !afresh
            {
                readings.push(Reading::unchanged(old.clone()));
                continue;
            }
            match file::read(path, *stamp, old, afresh, &self.hasher, hand_over) {
                Ok(reading) => readings.push(reading),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => readings.push(Reading::unreadable(path.clone(), old, error)),
            }
        }
        for (path, error) in &listing.unreadable {
            readings.extend(self.out_of_reach(path, error));
        }
        readings.sort_by(|a, b| a.record.path.cmp(&b.record.path));
        readings
    }

    /// A file or folder that cannot be looked at: everything known in it stays.
    fn out_of_reach(&self, path: &Path, error: &io::Error) -> Vec<Reading> {
        let listed = Reading::unreadable(path.to_owned(), self.record(path), error);
        let inside =
            self.records.iter().filter(|record| record.path != path && record.path.starts_with(path));
        let inside = inside.map(|record| Reading::unreadable(record.path.clone(), Some(record), error));
        std::iter::once(listed).chain(inside).collect()
    }

    fn record(&self, path: &Path) -> Option<&FileRecord> {
        let at = self.records.binary_search_by(|record| record.path.as_path().cmp(path)).ok()?;
        self.records.get(at)
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestError::Missing { path } => {
                write!(
                    f,
                    "manifests: {} does not exist; name a file or a folder of manifests",
                    path.display()
                )
            }
            ManifestError::Unreadable { path, source } => {
                write!(
                    f,
                    "manifests: {} cannot be read: {source}; let this user read it or name another path",
                    path.display()
                )
            }
            ManifestError::Unwatchable { path, source } => write!(
                f,
                "manifests: {} cannot be watched: {source}; fs.inotify.max_user_instances may be too low",
                path.display()
            ),
        }
    }
}

impl error::Error for ManifestError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            ManifestError::Missing { .. } => None,
            ManifestError::Unreadable { source, .. } | ManifestError::Unwatchable { source, .. } => {
                Some(source)
            }
        }
    }
}
