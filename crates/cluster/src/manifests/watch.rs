//! The thread that follows the manifests: asleep until inotify speaks, then one reading for a burst of events.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::folder::{self, Interest, Listing, Points};
use super::{Loaded, ManifestError, ManifestProblem, ManifestSource};
use crate::{Change, Kind, Update};

/// A burst of events is over when it has been quiet for so long.
const QUIET: Duration = Duration::from_millis(5);
/// Under events without end, read at least this often.
const LONGEST_BURST: Duration = Duration::from_millis(50);

/// A writer is heard when it closes the file: half a file read too early could pass for a whole one.
const EVENTS: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// A running watch; dropping it ends its thread.
#[derive(Debug)]
pub struct ManifestWatch {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl ManifestSource {
    /// Deliver the manifests and every change of them, from a thread of its own.
    ///
    /// First come the objects found now, then `Synced` for every kind; after that changes as they happen.
    /// `deliver` ends the watch by breaking (its receiver is gone).
    pub fn watch(
        self,
        deliver: impl FnMut(Update) -> ControlFlow<()> + Send + 'static,
    ) -> Result<ManifestWatch, ManifestError> {
        let missing =
            std::fs::metadata(&self.path).err().filter(|error| error.kind() == io::ErrorKind::NotFound);
        if missing.is_some() {
            return Err(ManifestError::Missing { path: self.path });
        }
        let path = self.path.clone();
        let unwatchable = move |source: io::Error| ManifestError::Unwatchable { path, source };
        match start(self, deliver) {
            Ok(watch) => Ok(watch),
            Err(source) => Err(unwatchable(source)),
        }
    }
}

fn start(
    source: ManifestSource,
    deliver: impl FnMut(Update) -> ControlFlow<()> + Send + 'static,
) -> io::Result<ManifestWatch> {
    let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let mut follower = Follower {
        source,
        events: Events { inotify, stop: stop.clone(), interests: HashMap::new(), failed: Vec::new() },
        deliver,
        reported: Vec::new(),
    };
    let thread = thread::Builder::new().name("manifests".into()).spawn(move || {
        // Either way the watch is over; there is nobody left to tell.
        let _ended: ControlFlow<()> = follower.run();
    })?;
    Ok(ManifestWatch { stop, thread: Some(thread) })
}

impl Drop for ManifestWatch {
    fn drop(&mut self) {
        let woken = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes()).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken)
            && thread.join().is_err()
        {
            tracing::error!("the thread that watched the manifests had panicked");
        }
    }
}

struct Follower<D> {
    source: ManifestSource,
    events: Events,
    deliver: D,
    /// The problems last delivered.
    reported: Vec<ManifestProblem>,
}

impl<D: FnMut(Update) -> ControlFlow<()>> Follower<D> {
    fn run(&mut self) -> ControlFlow<()> {
        self.refresh()?;
        for kind in Kind::ALL {
            (self.deliver)(Update::Synced(kind))?;
        }
        loop {
            self.events.wait_for_burst()?;
            self.refresh()?;
        }
    }

    fn refresh(&mut self) -> ControlFlow<()> {
        let (listing, error) = self.list_watched();
        let mut batch =
            Batch { changes: Vec::new(), deliver: &mut self.deliver, state: ControlFlow::Continue(()) };
        let mut loaded = match error {
            None => self.source.load_listed(&listing, &mut |change| batch.push(change)),
            // Someone may be about to put it back, and rules without a source are better than none.
            Some(error) => {
                let message = format!("cannot be read ({error}); all objects stay as they were");
                let problems = vec![ManifestProblem::of_file(self.source.path(), message)];
                Loaded { changes: Vec::new(), problems }
            }
        };
        batch.changes.append(&mut loaded.changes);
        batch.flush();
        batch.state?;
        loaded.problems.append(&mut self.events.failed);
        if loaded.problems != self.reported {
            (self.deliver)(Update::Problems(loaded.problems.clone()))?;
            self.reported = loaded.problems;
        }
        ControlFlow::Continue(())
    }

    /// List the files only after their folders are watched, so that nothing happens unseen in between.
    fn list_watched(&mut self) -> (Listing, Option<io::Error>) {
        const MOST_TRIES: usize = 8;
        for _ in 1..MOST_TRIES {
            let (listing, error) = folder::list(self.source.path());
            if !self.events.cover(&listing.points) {
                return (listing, error);
            }
        }
        folder::list(self.source.path())
    }
}

/// Changes on their way out, in portions.
struct Batch<'a, D> {
    changes: Vec<Change>,
    deliver: &'a mut D,
    state: ControlFlow<()>,
}

impl<D: FnMut(Update) -> ControlFlow<()>> Batch<'_, D> {
    fn push(&mut self, change: Change) {
        const PORTION: usize = 256;
        self.changes.push(change);
        if self.changes.len() >= PORTION {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        if !changes.is_empty() && self.state.is_continue() {
            self.state = (self.deliver)(Update::Changes(changes));
        }
    }
}

/// inotify, and what of it matters.
struct Events {
    inotify: OwnedFd,
    stop: Arc<OwnedFd>,
    /// By watch descriptor; two paths to one folder share it.
    interests: HashMap<i32, Interest>,
    failed: Vec<ManifestProblem>,
}

impl Events {
    /// Watch exactly these folders; true if one of them was not watched before.
    fn cover(&mut self, points: &Points) -> bool {
        let mut interests: HashMap<i32, Interest> = HashMap::with_capacity(points.len());
        self.failed.clear();
        for (folder, interest) in points {
            match inotify::add_watch(&self.inotify, folder.as_path(), EVENTS) {
                Ok(watch) => {
                    let merged = interests.entry(watch).or_default();
                    merged.manifests |= interest.manifests;
                    merged.names.extend(interest.names.iter().cloned());
                }
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => self.failed.push(unwatched(folder, error)),
            }
        }
        for gone in self.interests.keys().filter(|watch| !interests.contains_key(watch)) {
            // The kernel drops the watch of a deleted folder by itself.
            let _gone_already = inotify::remove_watch(&self.inotify, *gone);
        }
        let grown = interests.keys().any(|watch| !self.interests.contains_key(watch));
        self.interests = interests;
        grown
    }

    /// Sleep until something happened to the manifests and the dust has settled. Breaks when told to stop.
    fn wait_for_burst(&mut self) -> ControlFlow<()> {
        while !self.wait(None)? {}
        let started = Instant::now();
        loop {
            let left = LONGEST_BURST.saturating_sub(started.elapsed()).min(QUIET);
            let quiet_until = Instant::now() + left;
            if left.is_zero() || !self.wait_until(quiet_until)? {
                return ControlFlow::Continue(());
            }
        }
    }

    fn wait_until(&mut self, end: Instant) -> ControlFlow<(), bool> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return ControlFlow::Continue(false);
            }
            if self.wait(Some(left))? {
                return ControlFlow::Continue(true);
            }
        }
    }

    /// Wait for events; true if one of them matters.
    fn wait(&mut self, at_most: Option<Duration>) -> ControlFlow<(), bool> {
        let timeout = at_most.and_then(|time| Timespec::try_from(time).ok());
        let mut fds = [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&*self.stop, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "manifests are no longer watched: waiting for events failed");
                return ControlFlow::Break(());
            }
        }
        let [_, stop] = &fds;
        if !stop.revents().is_empty() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(self.drain())
    }

    fn drain(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut matters = false;
        // Ends with WOULDBLOCK.
        while let Ok(event) = events.next() {
            matters |= match (event.file_name(), self.interests.get(&event.wd())) {
                (Some(name), Some(interest)) => interest.in_name(OsStr::from_bytes(name.to_bytes())),
                // The folder itself went, or events were lost.
                (None, Some(_)) => true,
                (_, None) => event.events().contains(ReadFlags::QUEUE_OVERFLOW),
            };
        }
        matters
    }
}

fn unwatched(folder: &std::path::Path, error: Errno) -> ManifestProblem {
    let advice = if error == Errno::NOSPC { "; raise fs.inotify.max_user_watches" } else { "" };
    ManifestProblem::of_file(folder, format!("cannot be watched ({error}); changes go unnoticed{advice}"))
}
