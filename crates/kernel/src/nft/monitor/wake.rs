//! Waiting for a socket or for the signal to stop, whichever comes first.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use crate::netlink::Socket;

/// Ends the waiting of a [`Monitor`](super::Monitor) from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<File>);

impl Stopper {
    pub fn stop(&self) {
        // An eventfd only refuses to be raised beyond 2^64 - 2: it is raised then.
        let _ = (&*self.0).write_all(&1u64.to_ne_bytes());
    }
}

/// An eventfd that stays raised once it is.
#[derive(Debug)]
pub(in crate::nft) struct Signal(Arc<File>);

pub(in crate::nft) enum Ready {
    Readable,
    Elapsed,
    Stopped,
}

impl Signal {
    pub(in crate::nft) fn new() -> io::Result<Signal> {
        // SAFETY: plain system call without pointers.
        let raw = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor just made, which nothing else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Signal(Arc::new(fd.into())))
    }

    pub(in crate::nft) fn stopper(&self) -> Stopper {
        Stopper(self.0.clone())
    }

    /// Wait until there is something to read, the deadline (`None`: never) passes, or a stopper stops.
    pub(in crate::nft) fn wait(&self, socket: &Socket, deadline: Option<Instant>) -> io::Result<Ready> {
        loop {
            let timeout = deadline.map_or(-1, milliseconds_until);
            let (readable, stopped) = self.poll(socket, timeout)?;
            if stopped {
                return Ok(Ready::Stopped);
            }
            if readable {
                return Ok(Ready::Readable);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Ready::Elapsed);
            }
        }
    }

    pub(in crate::nft) fn is_readable(&self, socket: &Socket) -> io::Result<bool> {
        Ok(self.poll(socket, 0)?.0)
    }

    fn poll(&self, socket: &Socket, milliseconds: libc::c_int) -> io::Result<(bool, bool)> {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut entries = [entry(socket.as_fd().as_raw_fd()), entry(self.0.as_raw_fd())];
        // SAFETY: pointer and count describe the live array.
        let result = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, milliseconds) };
        if result < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok((false, false)) } else { Err(error) };
        }
        Ok((entries[0].revents != 0, entries[1].revents != 0))
    }
}

/// Rounded up, so that a wait does not end before its time and spin.
fn milliseconds_until(deadline: Instant) -> libc::c_int {
    let left = deadline.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
    libc::c_int::try_from(left).unwrap_or(libc::c_int::MAX)
}
