//! inotify: hears of what happens in folders. Which of it matters is for those to say who watch.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, Reader};
use rustix::io::Errno;

pub use rustix::fs::inotify::{ReadFlags, WatchFlags};

/// Folders that are watched, by watch descriptor.
#[derive(Debug)]
pub struct Inotify(OwnedFd);

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct Happening<'a> {
    /// In which folder; -1 if the queue overflowed and events are lost.
    pub watch: i32,
    pub kind: ReadFlags,
    /// The file; `None` if it happened to the folder itself.
    pub name: Option<&'a OsStr>,
}

/// Why waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Something may have happened, or the time is over.
    Perhaps,
    /// It is time to stop.
    Told,
}

impl Inotify {
    pub fn new() -> Result<Inotify, Errno> {
        inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map(Inotify)
    }

    /// Hear of `what` in a folder; one that is watched already keeps its descriptor.
    pub fn watch(&self, folder: &Path, what: WatchFlags) -> Result<i32, Errno> {
        inotify::add_watch(&self.0, folder, what)
    }

    pub fn forget(&self, watch: i32) {
        // The kernel drops the watch of a deleted folder by itself.
        let _gone_already = inotify::remove_watch(&self.0, watch);
    }

    /// Sleep until something happens, until `stop` is readable, or for this long.
    pub fn wait(&self, stop: Option<&OwnedFd>, at_most: Option<Duration>) -> Result<Woken, Errno> {
        let timeout = at_most.and_then(|time| Timespec::try_from(time).ok());
        let fds = stop.into_iter().chain([&self.0]);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let is_told = stop.is_some() && fds.first().is_some_and(|stop| !stop.revents().is_empty());
        Ok(if is_told { Woken::Told } else { Woken::Perhaps })
    }

    /// Hand over all events there are, without waiting for any.
    pub fn drain(&self, mut each: impl FnMut(Happening<'_>)) -> Result<(), Errno> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(&self.0, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => each(Happening {
                    watch: event.wd(),
                    kind: event.events(),
                    name: event.file_name().map(|name| OsStr::from_bytes(name.to_bytes())),
                }),
                Err(Errno::WOULDBLOCK) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Of a descriptor that is open already.
impl From<OwnedFd> for Inotify {
    fn from(fd: OwnedFd) -> Inotify {
        Inotify(fd)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    const LONG: Option<Duration> = Some(Duration::from_secs(60));

    fn names(inotify: &Inotify) -> Vec<String> {
        let mut names = Vec::new();
        let note = |happening: Happening<'_>| {
            names.extend(happening.name.map(|name| name.to_string_lossy().into_owned()));
        };
        inotify.drain(note).unwrap();
        names
    }

    #[test]
    fn what_happens_in_a_folder_wakes_and_is_told_once() {
        let folder = std::env::temp_dir().join(format!("inotify-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let inotify = Inotify::new().unwrap();
        let watch = inotify.watch(&folder, WatchFlags::CREATE).unwrap();
        assert_eq!(inotify.watch(&folder, WatchFlags::CREATE), Ok(watch));
        assert!(names(&inotify).is_empty());
        fs::write(folder.join("one"), "1").unwrap();
        assert_eq!(inotify.wait(None, LONG), Ok(Woken::Perhaps));
        assert_eq!(names(&inotify), ["one"]);
        assert!(names(&inotify).is_empty());
        inotify.forget(watch);
        fs::write(folder.join("two"), "2").unwrap();
        assert!(names(&inotify).is_empty());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn stopping_is_told_apart() {
        let inotify = Inotify::new().unwrap();
        let stop = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        assert_eq!(inotify.wait(Some(&stop), Some(Duration::ZERO)), Ok(Woken::Perhaps));
        rustix::io::write(&stop, &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(inotify.wait(Some(&stop), LONG), Ok(Woken::Told));
    }
}
