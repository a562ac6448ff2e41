//! inotify for the folders of the manifests: which events matter, and when a burst of them is over.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::ManifestProblem;
use super::folder::{Identity, Interest, Points};

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
    inotify: OwnedFd,
    stop: Arc<OwnedFd>,
    /// By watch descriptor.
    watched: HashMap<i32, Watched>,
    /// Files that were written to and not closed yet, by the path that events name.
    being_written: HashMap<PathBuf, Identity>,
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
    /// `stop` becoming readable ends every wait and pause.
    pub(super) fn new(stop: Arc<OwnedFd>) -> io::Result<Events> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Events::over(inotify, stop))
    }

    pub(super) fn over(inotify: OwnedFd, stop: Arc<OwnedFd>) -> Events {
        let (watched, being_written) = (HashMap::new(), HashMap::new());
        Events { inotify, stop, watched, being_written, failed: Vec::new() }
    }

    /// Watch exactly these folders; true if one of them was not watched before.
    pub(super) fn cover(&mut self, points: &Points) -> bool {
        let mut watched: HashMap<i32, Watched> = HashMap::with_capacity(points.len());
        self.failed.clear();
        for (folder, interest) in points {
            match inotify::add_watch(&self.inotify, folder.as_path(), EVENTS) {
                Ok(watch) => watched.entry(watch).or_default().add(folder, interest),
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => self.failed.push(unwatched(folder, error)),
            }
        }
        for gone in self.watched.keys().filter(|watch| !watched.contains_key(watch)) {
            // The kernel drops the watch of a deleted folder by itself.
            let _gone_already = inotify::remove_watch(&self.inotify, *gone);
        }
        let grown = watched.keys().any(|watch| !self.watched.contains_key(watch));
        self.watched = watched;
        grown
    }

    pub(super) fn being_written(&self) -> HashSet<Identity> {
        self.being_written.values().copied().collect()
    }

    /// Sleep until something happened to the manifests and the dust has settled.
    pub(super) fn wait_for_burst(&mut self) -> Result<(), Halt> {
        while !self.wait(None)? {}
        let started = Instant::now();
        loop {
            let left = LONGEST_BURST.saturating_sub(started.elapsed()).min(QUIET);
            let quiet_until = Instant::now() + left;
            if left.is_zero() || !self.wait_until(quiet_until)? {
                return Ok(());
            }
        }
    }

    /// Wait without listening; breaks when told to stop.
    pub(super) fn pause(&self, time: Duration) -> ControlFlow<()> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&*self.stop, PollFlags::IN)];
            match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Ok(0) => return ControlFlow::Continue(()),
                Err(Errno::INTR) => {}
                Ok(_) => return ControlFlow::Break(()),
                // Nothing is left to wait with but the thread's own clock.
                Err(_) => {
                    std::thread::sleep(left);
                    return ControlFlow::Continue(());
                }
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
        let timeout = at_most.and_then(|time| Timespec::try_from(time).ok());
        let mut fds = [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&*self.stop, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Halt::Failed(error.into())),
        }
        let [_, stop] = &fds;
        if !stop.revents().is_empty() {
            return Err(Halt::Told);
        }
        self.drain().map_err(|error| Halt::Failed(error.into()))
    }

    /// Take in all events there are.
    fn drain(&mut self) -> Result<bool, Errno> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut matters = false;
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::WOULDBLOCK) => return Ok(matters),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            let kind = event.events();
            let Some(watched) = self.watched.get(&event.wd()) else {
                if kind.contains(ReadFlags::QUEUE_OVERFLOW) {
                    self.being_written.clear();
                    matters = true;
                }
                continue;
            };
            // Without a name it is the folder itself that went.
            let Some(name) = event.file_name() else {
                matters = true;
                continue;
            };
            let name = OsStr::from_bytes(name.to_bytes());
            if !watched.interest.in_name(name) {
                continue;
            }
            let path = watched.folder.join(name);
            if !kind.contains(ReadFlags::MODIFY) {
                // Another mode or owner does not end the writing.
                if !kind.contains(ReadFlags::ATTRIB) {
                    self.being_written.remove(&path);
                }
                matters = true;
            } else if !self.being_written.contains_key(&path)
                && let Ok(metadata) = fs::metadata(&path)
            {
                self.being_written.insert(path, Identity::of(&metadata));
            }
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
    ManifestProblem::of_file(folder, format!("cannot be watched ({error}); changes go unnoticed{advice}"))
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
            assert!(events.being_written().contains(&identity), "{path:?}");
            writer.set_permissions(fs::metadata(&file).unwrap().permissions()).unwrap();
            assert!(events.drain().unwrap());
            assert!(events.being_written().contains(&identity), "{path:?}: still open");
            drop(std::mem::replace(&mut writer, fs::File::options().append(true).open(&file).unwrap()));
            assert!(events.drain().unwrap());
            assert!(events.being_written().is_empty(), "{path:?}: closed");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
