//! The namespace itself: making one, and running threads and commands inside it.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::Command;
use std::thread;

use crate::link::{LinkError, Links};

/// A network namespace, kept alive by its descriptor.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
}

#[derive(Debug)]
pub enum NamespaceError {
    /// `unshare(CLONE_NEWNET)` was refused.
    Make(io::Error),
    /// The descriptor of a thread's namespace could not be opened or doubled.
    Open(io::Error),
    /// `setns` was refused.
    Enter(io::Error),
    /// No thread could be started to work inside the namespace.
    Thread(io::Error),
    /// The new namespace's loopback could not be brought up.
    Loopback(LinkError),
}

impl Namespace {
    /// A new, empty namespace with `lo` up. Needs root or a user namespace, see [`super::acquire`].
    pub fn new() -> Result<Namespace, NamespaceError> {
        // In a thread of its own, which ends there: the caller's thread never changes namespace.
        in_thread(|| {
            // SAFETY: affects only the calling thread, takes no pointers.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
                return Err(NamespaceError::Make(io::Error::last_os_error()));
            }
            let namespace = Namespace::current()?;
            Links::open().and_then(|mut links| links.set_up("lo")).map_err(NamespaceError::Loopback)?;
            Ok(namespace)
        })?
    }

    /// The namespace the calling thread is in.
    pub fn current() -> Result<Namespace, NamespaceError> {
        let file = File::open("/proc/thread-self/ns/net").map_err(NamespaceError::Open)?;
        Ok(Namespace { fd: file.into() })
    }

    /// A second descriptor of the same namespace.
    pub fn try_clone(&self) -> Result<Namespace, NamespaceError> {
        Ok(Namespace { fd: self.fd.try_clone().map_err(NamespaceError::Open)? })
    }

    /// Run `work` in a thread inside the namespace and wait for it. Its panic becomes the caller's.
    pub fn try_run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        in_thread(|| {
            set_namespace(self.fd.as_fd()).map_err(NamespaceError::Enter)?;
            Ok(work())
        })?
    }

    /// [`Namespace::try_run`] for tests and demonstrations.
    ///
    /// # Panics
    /// If no thread can be started or the namespace not be entered, as `std::thread::spawn` would.
    #[allow(clippy::panic)]
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.try_run(work).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Start a thread inside the namespace. It keeps the namespace alive until it ends.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<thread::JoinHandle<T>, NamespaceError> {
        // A thread starts in the namespace of the one that starts it.
        let builder = thread::Builder::new().name(name.to_owned());
        self.try_run(|| builder.spawn(work))?.map_err(NamespaceError::Thread)
    }

    /// Let `command` run inside the namespace.
    pub fn enter(&self, command: &mut Command) -> Result<(), NamespaceError> {
        let fd = self.fd.try_clone().map_err(NamespaceError::Open)?;
        // SAFETY: the closure only calls setns on a descriptor it owns, which is async-signal-safe.
        unsafe { command.pre_exec(move || set_namespace(fd.as_fd())) };
        Ok(())
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().spawn_scoped(scope, work).map_err(NamespaceError::Thread)?;
        worker.join().map_or_else(|panic| resume_unwind(panic), Ok)
    })
}

fn set_namespace(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a borrowed descriptor is open; only the calling thread moves.
    match unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamespaceError::Make(e) => {
                write!(f, "making a network namespace: {e}; run as root or inside a user namespace")
            }
            NamespaceError::Open(e) => write!(f, "opening a network namespace: {e}"),
            NamespaceError::Enter(e) => write!(f, "entering a network namespace: {e}"),
            NamespaceError::Thread(e) => write!(f, "starting a thread in a network namespace: {e}"),
            NamespaceError::Loopback(e) => write!(f, "in a new network namespace: {e}"),
        }
    }
}

impl std::error::Error for NamespaceError {}
