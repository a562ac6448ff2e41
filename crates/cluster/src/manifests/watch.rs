//! The thread that follows the manifests: asleep until inotify speaks, then one reading for a burst of events.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};

use super::events::{Events, Halt};
use super::folder::{self, Listing};
use super::outage::{Outage, pause};
use super::problem::difference;
use super::{ManifestError, ManifestProblem, ManifestSource};
use crate::{Kind, ObjectChange, Update};

/// A running watch; dropping it ends its thread.
#[derive(Debug)]
pub struct ManifestWatch {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl ManifestSource {
    /// Deliver the manifests and every change of them, from a thread of its own.
    ///
    /// First come the objects found now, then `Synced` for every kind, as soon as everything could be read:
    /// without, rules of objects that could not would go. After that changes as they happen. `deliver` ends the watch by breaking (its receiver is gone).
    pub fn watch(
        self,
        deliver: impl FnMut(Update) -> ControlFlow<()> + Send + 'static,
    ) -> Result<ManifestWatch, ManifestError> {
        check(&self.path)?;
        let path = self.path.clone();
        let unwatchable = move |source: io::Error| ManifestError::Unwatchable { path, source };
        match start(self, deliver) {
            Ok(watch) => Ok(watch),
            Err(source) => Err(unwatchable(source)),
        }
    }
}

/// A start without manifests would take down whatever rules an earlier run left: better none at all.
fn check(path: &Path) -> Result<(), ManifestError> {
    let path = path.to_owned();
    // Opening, unlike looking at metadata, fails where reading would, for files and folders alike.
    match File::open(&path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ManifestError::Missing { path }),
        Err(source) => Err(ManifestError::Unreadable { path, source }),
    }
}

fn start(
    source: ManifestSource,
    deliver: impl FnMut(Update) -> ControlFlow<()> + Send + 'static,
) -> io::Result<ManifestWatch> {
    let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let events = Events::new(stop.clone())?;
    let mut follower = Follower::new(source, events, stop.clone(), deliver);
    let thread = thread::Builder::new().name("manifests".into()).spawn(move || {
        // Either way the watch is over; there is no receiver left.
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
            tracing::error!(
                "The thread that watches the manifests panicked; this is a bug, please report it"
            );
        }
    }
}

struct Follower<D> {
    source: ManifestSource,
    events: Events,
    stop: Arc<OwnedFd>,
    outage: Outage,
    deliver: D,
    /// The problems there were at the last reading; they are delivered.
    reported: Vec<ManifestProblem>,
    synced: bool,
}

impl<D: FnMut(Update) -> ControlFlow<()>> Follower<D> {
    fn new(source: ManifestSource, events: Events, stop: Arc<OwnedFd>, deliver: D) -> Follower<D> {
        let outage = Outage::default();
        Follower { source, events, stop, outage, deliver, reported: Vec::new(), synced: false }
    }

    fn run(&mut self) -> ControlFlow<()> {
        loop {
            self.refresh()?;
            match self.events.wait_for_burst() {
                Ok(()) => self.outage.end(&self.source.path),
                Err(Halt::Told) => return ControlFlow::Break(()),
                Err(Halt::Failed(error)) => self.reopen(error)?,
            }
        }
    }

    /// It is unknown what happened meanwhile, so every file is looked into again afterwards.
    fn reopen(&mut self, mut error: io::Error) -> ControlFlow<()> {
        loop {
            pause(&self.stop, self.outage.note(&self.source.path, &error))?;
            match Events::new(self.stop.clone()) {
                Ok(events) => {
                    self.events = events;
                    self.source.distrust();
                    return ControlFlow::Continue(());
                }
                Err(again) => error = again,
            }
        }
    }

    fn refresh(&mut self) -> ControlFlow<()> {
        let (listing, error) = self.list_watched();
        let mut batch =
            Batch { changes: Vec::new(), deliver: &mut self.deliver, state: ControlFlow::Continue(()) };
        let mut loaded = match error {
            None => self.source.load_listed(&listing, &mut self.events, &mut |change| batch.push(change)),
            Some(error) => self.source.unreachable(&error),
        };
        batch.changes.append(&mut loaded.changes);
        batch.flush();
        batch.state?;
        loaded.problems.append(&mut self.events.failed);
        self.report(loaded.problems)?;
        if loaded.is_complete && !self.synced {
            self.synced = true;
            Kind::ALL.into_iter().try_for_each(|kind| (self.deliver)(Update::Synced(kind)))?;
        }
        ControlFlow::Continue(())
    }

    fn report(&mut self, problems: Vec<ManifestProblem>) -> ControlFlow<()> {
        let (new, solved) = difference(&self.reported, &problems);
        self.reported = problems;
        match new.is_empty() && solved.is_empty() {
            true => ControlFlow::Continue(()),
            false => (self.deliver)(Update::Problems { new, solved }),
        }
    }

    /// List the files only after their folders are watched, so that nothing happens unseen in between.
    fn list_watched(&mut self) -> (Listing, Option<io::Error>) {
        const MOST_TRIES: usize = 8;
        let mut tries = 1;
        loop {
            let (listing, error) = folder::list(self.source.path());
            if !self.events.cover(&listing.points) || tries == MOST_TRIES {
                return (listing, error);
            }
            tries += 1;
        }
    }
}

/// Changes on their way out, in portions.
struct Batch<'a, D> {
    changes: Vec<ObjectChange>,
    deliver: &'a mut D,
    state: ControlFlow<()>,
}

impl<D: FnMut(Update) -> ControlFlow<()>> Batch<'_, D> {
    fn push(&mut self, change: ObjectChange) {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn watching_is_taken_up_again_after_it_failed() {
        const SOON: Duration = Duration::from_secs(20);
        let folder = std::env::temp_dir().join(format!("watched-again-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap());
        // Always ready, and impossible to read.
        let broken = Events::over(OwnedFd::from(File::open(&folder).unwrap()).into(), stop.clone());
        let (sender, updates) = mpsc::channel();
        let deliver = move |update| sender.send(update).map_or(ControlFlow::Break(()), ControlFlow::Continue);
        let source = ManifestSource::new(&folder);
        let mut follower = Follower::new(source, broken, stop.clone(), deliver);
        let thread = thread::spawn(move || follower.run());
        let solved =
            |update: &Update| matches!(update, Update::Problems { solved, .. } if !solved.is_empty());
        while !solved(&updates.recv_timeout(SOON).unwrap()) {}
        // Watched again: a change is noticed.
        let node = "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"node-1\"}}";
        fs::write(folder.join("node.json"), node).unwrap();
        while !matches!(updates.recv_timeout(SOON).unwrap(), Update::Changes(changes) if changes.len() == 1) {
        }
        rustix::io::write(&*stop, &1_u64.to_ne_bytes()).unwrap();
        assert!(thread.join().unwrap().is_break());
        fs::remove_dir_all(folder).unwrap();
    }
}
