//! Which files the manifests are in, and where to look for changes of that. Reads the file system, nothing more.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// A file whatever path leads to it: paths may be relative or go over links, and events use yet others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) fn of(metadata: &Metadata) -> Identity {
        Identity { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Enough to tell that a file was written to or replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    identity: Identity,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            identity: Identity::of(metadata),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// When the file last changed, in whole seconds since the epoch.
    pub(super) fn changed_at(&self) -> i64 {
        self.changed.0.max(self.modified.0)
    }
}

/// What was found under the path of the source.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Sorted by path.
    pub(super) files: Vec<(PathBuf, Stamp)>,
    /// Files and folders that exist but cannot be looked at.
    pub(super) unreadable: Vec<(PathBuf, io::Error)>,
    pub(super) points: Points,
}

/// Folders to watch, and which names in them matter.
pub(super) type Points = BTreeMap<PathBuf, Interest>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interest {
    /// Every name that could be a manifest or a folder of them.
    pub(super) manifests: bool,
    /// Single names: symbolic links on the way to a manifest, or a file itself.
    pub(super) names: HashSet<OsString>,
}

impl Interest {
    pub(super) fn in_name(&self, name: &OsStr) -> bool {
        (self.manifests && !is_hidden(name)) || self.names.contains(name)
    }
}

/// Find all manifests under `root`, a file or a folder. An error means that `root` itself is out of reach;
/// the points to watch are complete nevertheless.
pub(super) fn list(root: &Path) -> (Listing, Option<io::Error>) {
    let mut listing = Listing::default();
    let root_path = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    trace(&root_path, &mut listing.points);
    let error = match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => {
            list_folder(root, &metadata, &mut listing, &mut HashSet::new()).err()
        }
        Ok(metadata) => {
            listing.files.push((root.to_owned(), Stamp::of(&metadata)));
            None
        }
        Err(error) => Some(error),
    };
    listing.files.sort_by(|(a, _), (b, _)| a.cmp(b));
    (listing, error)
}

fn list_folder(
    folder: &Path,
    metadata: &Metadata,
    listing: &mut Listing,
    visited: &mut HashSet<Identity>,
) -> io::Result<()> {
    // A link to a folder above would have us go in circles.
    if !visited.insert(Identity::of(metadata)) {
        return Ok(());
    }
    listing.points.entry(folder.to_owned()).or_default().manifests = true;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !is_hidden(&entry.file_name()) {
            list_entry(entry.path(), entry.file_type()?.is_symlink(), listing, visited);
        }
    }
    Ok(())
}

fn list_entry(path: PathBuf, is_link: bool, listing: &mut Listing, visited: &mut HashSet<Identity>) {
    if is_link {
        let full = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        trace(&full, &mut listing.points);
    }
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => {
            if let Err(error) = list_folder(&path, &metadata, listing, visited)
                && error.kind() != ErrorKind::NotFound
            {
                listing.unreadable.push((path, error));
            }
        }
        Ok(metadata) if metadata.is_file() && is_manifest(&path) => {
            listing.files.push((path, Stamp::of(&metadata)));
        }
        Ok(_) => {}
        // Gone since the folder was read, or a link to nowhere: both mean there is no such file.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) if is_manifest(&path) => listing.unreadable.push((path, error)),
        Err(_) => {}
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json")
}

/// Note every place where a change would make `path` (absolute) lead elsewhere: each symbolic link on the
/// way, the first missing name, and the file at the end.
fn trace(path: &Path, points: &mut Points) {
    const MOST_LINKS: usize = 40; // the kernel's own limit
    let mut links = 0;
    let mut at = PathBuf::from("/");
    let mut ahead: Vec<OsString> = parts(path);
    while let Some(name) = ahead.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let target = fs::read_link(&next);
        if target.is_ok() || ahead.is_empty() || fs::symlink_metadata(&next).is_err() {
            points.entry(at.clone()).or_default().names.insert(name);
        }
        match target {
            Ok(target) if links < MOST_LINKS => {
                links += 1;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                ahead.extend(parts(&target));
            }
            _ => at = next,
        }
        if fs::symlink_metadata(&at).is_err() {
            return;
        }
    }
}

/// The names of a path, last first.
fn parts(path: &Path) -> Vec<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).collect()
}
