//! The folders of the manifests: which events matter, and when a burst of them is over.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::ManifestProblem;
use super::file::Writers;
use super::folder::{Identity, Interest, Points};
use crate::inotify::{Happening, Inotify, ReadFlags, WatchFlags, Woken};

/// A burst of events is over when it has been quiet for so long.
const QUIET: Duration = Duration::from_millis(5);
/// Under events without end, read at least this often.
const LONGEST_BURST: Duration = Duration::from_millis(50);

/// A writer is heard when it closes the file, and left alone from its first write on: half a file read too
/// early could pass for a whole one.
const EVENTS: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// inotify, and what of it matters.
pub(super) struct Events {
    inotify: Inotify,
    stop: Arc<OwnedFd>,
    /// By watch descriptor.
    watched: HashMap<i32, Watched>,
    /// Files that were written to and not closed yet, by watch descriptor and name.
    being_written: HashMap<(i32, OsString), Identity>,
    /// Files that were written to since [`Writers`] was asked.
    written: HashSet<Identity>,
    /// Something that matters came in while nothing waited for it.
    pending: bool,
    /// Folders that could not be watched at the last try.
    pub(super) failed: Vec<ManifestProblem>,
}

/// Why waiting ended without an event.
#[derive(Debug)]
pub(super) enum Halt {
    Told,
    Failed(io::Error),
}

/// A folder; two paths to it share a watch, and either will do.
#[derive(Default)]
struct Watched {
    folder: PathBuf,
    interest: Interest,
}

impl Events {
    /// `stop` becoming readable ends every wait.
    pub(super) fn new(stop: Arc<OwnedFd>) -> io::Result<Events> {
        Ok(Events::over(Inotify::new()?, stop))
    }

    pub(super) fn over(inotify: Inotify, stop: Arc<OwnedFd>) -> Events {
        Events {
            inotify,
            stop,
            watched: HashMap::new(),
            being_written: HashMap::new(),
            written: HashSet::new(),
            pending: false,
            failed: Vec::new(),
        }
    }

    /// Watch exactly these folders; true if one of them was not watched before.
    pub(super) fn cover(&mut self, points: &Points) -> bool {
        let mut watched: HashMap<i32, Watched> = HashMap::with_capacity(points.len());
        self.failed.clear();
        for (folder, interest) in points {
            match self.inotify.watch(folder, EVENTS) {
                Ok(watch) => watched.entry(watch).or_default().add(folder, interest),
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => self.failed.push(unwatched(folder, error)),
            }
        }
        for gone in self.watched.keys().filter(|watch| !watched.contains_key(watch)) {
            self.inotify.forget(*gone);
        }
        let grown = watched.keys().any(|watch| !self.watched.contains_key(watch));
        self.being_written.retain(|(watch, _), _| watched.contains_key(watch));
        self.watched = watched;
        grown
    }

    /// Sleep until something happened to the manifests and the dust has settled.
    pub(super) fn wait_for_burst(&mut self) -> Result<(), Halt> {
        while !std::mem::take(&mut self.pending) && !self.wait(None)? {}
        let started = Instant::now();
        loop {
            let left = LONGEST_BURST.saturating_sub(started.elapsed()).min(QUIET);
            let quiet_until = Instant::now() + left;
            if left.is_zero() || !self.wait_until(quiet_until)? {
                return Ok(());
            }
        }
    }

    fn wait_until(&mut self, end: Instant) -> Result<bool, Halt> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            if self.wait(Some(left))? {
                return Ok(true);
            }
        }
    }

    /// Wait for events; true if one of them matters.
    fn wait(&mut self, at_most: Option<Duration>) -> Result<bool, Halt> {
        let failed = |error: Errno| Halt::Failed(error.into());
        match self.inotify.wait(Some(&self.stop), at_most).map_err(failed)? {
            Woken::Told => Err(Halt::Told),
            Woken::Perhaps => self.drain().map_err(failed),
        }
    }

    /// Take in all events there are; true if one of them matters.
    fn drain(&mut self) -> Result<bool, Errno> {
        let Events { inotify, watched, being_written, written, .. } = self;
        let mut matters = false;
        inotify.drain(|Happening { watch, kind, name }| {
            let Some(watched) = watched.get(&watch) else {
                if kind.contains(ReadFlags::QUEUE_OVERFLOW) {
                    being_written.clear();
                    matters = true;
                }
                return;
            };
            // Without a name it is the folder itself that went.
            let Some(name) = name else {
                matters = true;
                return;
            };
            if !watched.interest.in_name(name) {
                return;
            }
            let file = (watch, name.to_owned());
            if !kind.contains(ReadFlags::MODIFY) {
                // Another mode or owner does not end the writing.
                if !kind.contains(ReadFlags::ATTRIB) {
                    being_written.remove(&file);
                }
                matters = true;
            } else if let Ok(metadata) = fs::metadata(watched.folder.join(name)) {
                let identity = Identity::of(&metadata);
                being_written.insert(file, identity);
                written.insert(identity);
            }
        })?;
        Ok(matters)
    }
}

/// What the kernel has to tell is taken in before every answer: a reader must not be ahead of it. If that fails,
/// the next wait fails too, and says so.
impl Writers for Events {
    fn is_being_written(&mut self, file: Identity) -> bool {
        self.pending |= self.drain().unwrap_or_default();
        self.written.clear();
        self.being_written.values().any(|written| *written == file)
    }

    fn was_written(&mut self, file: Identity, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        loop {
            self.pending |= self.drain().unwrap_or_default();
            if self.written.contains(&file) || self.being_written.values().any(|written| *written == file) {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let _news = self.inotify.wait(None, Some(left));
        }
    }
}

impl Watched {
    fn add(&mut self, folder: &Path, interest: &Interest) {
        self.folder = folder.to_owned();
        self.interest.manifests |= interest.manifests;
        self.interest.names.extend(interest.names.iter().cloned());
    }
}

fn unwatched(folder: &Path, error: Errno) -> ManifestProblem {
    let advice = if error == Errno::NOSPC { "; raise fs.inotify.max_user_watches" } else { "" };
    ManifestProblem::of_file(folder, format!("cannot be watched ({error}); changes are not noticed{advice}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::event::{EventfdFlags, eventfd};

    use super::super::folder;
    use super::*;

    /// From the current folder up to the root and down again.
    fn relative(path: &Path) -> PathBuf {
        let up = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect::<PathBuf>();
        up.join(path.strip_prefix("/").unwrap())
    }

    #[test]
    fn a_file_being_written_is_known_by_whatever_path() {
        let folder = std::env::temp_dir().join(format!("being-written-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.canonicalize().unwrap().join("hello.yaml");
        let mut writer = fs::File::create(&file).unwrap();
        std::os::unix::fs::symlink("hello.yaml", folder.join("link")).unwrap();
        for path in [relative(&file), relative(&folder.join("link")), file.clone()] {
            let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
            let mut events = Events::new(stop).unwrap();
            events.cover(&folder::list(&path).0.points);
            let (listing, _) = folder::list(&path);
            let identity = listing.files.first().unwrap().1.identity();
            writer.write_all(b"#").unwrap();
            assert!(!events.drain().unwrap(), "{path:?}: not before it is closed");
            assert!(events.is_being_written(identity), "{path:?}");
            writer.set_permissions(fs::metadata(&file).unwrap().permissions()).unwrap();
            assert!(events.drain().unwrap());
            assert!(events.is_being_written(identity), "{path:?}: still open");
            writer.write_all(b"#").unwrap();
            drop(std::mem::replace(&mut writer, fs::File::options().append(true).open(&file).unwrap()));
            assert!(events.drain().unwrap());
            // Opened, written and closed again while it was read.
            assert!(events.was_written(identity, Duration::ZERO) && !events.is_being_written(identity));
            assert!(!events.was_written(identity, Duration::ZERO));
            assert!(!events.is_being_written(identity), "{path:?}: closed");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
