//! Word that the addresses of this namespace changed.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::{LinkError, sys};
use crate::netlink::{Protocol, Socket};

/// Woken by the kernel whenever an address comes, goes or changes state.
#[derive(Debug)]
pub struct AddressMonitor {
    socket: Socket,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// One or more changes; list what was watched again.
    Changed,
    /// More changes than the socket could hold; list what was watched again, nothing else is lost.
    Overrun,
    /// None within the time given.
    Quiet,
}

impl AddressMonitor {
    /// Changes from now on are reported: list the addresses after this, not before.
    pub fn open() -> Result<AddressMonitor, LinkError> {
        let socket = Socket::open(Protocol::Route).map_err(LinkError::Socket)?;
        socket.join(sys::RTNLGRP_IPV4_IFADDR).map_err(LinkError::Socket)?;
        socket.join(sys::RTNLGRP_IPV6_IFADDR).map_err(LinkError::Socket)?;
        Ok(AddressMonitor { socket, buffer: Vec::new() })
    }

    /// Wait for a change and take everything that has arrived with it.
    pub fn wait(&mut self, timeout: Duration) -> Result<Wake, LinkError> {
        let mut wake = Wake::Quiet;
        if !readable(&self.socket, timeout)? {
            return Ok(wake);
        }
        while readable(&self.socket, Duration::ZERO)? {
            match self.socket.receive(&mut self.buffer) {
                Ok(_) if wake == Wake::Quiet => wake = Wake::Changed,
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => wake = Wake::Overrun,
                Err(error) => return Err(LinkError::Socket(error)),
            }
        }
        Ok(wake)
    }
}

/// For a caller that polls several things at once.
impl AsFd for AddressMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

pub(super) fn readable(socket: &Socket, timeout: Duration) -> Result<bool, LinkError> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let milliseconds = libc::c_int::try_from(left.as_micros().div_ceil(1000)).unwrap_or(libc::c_int::MAX);
        let mut poll = libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: a pointer to exactly one live pollfd.
        match unsafe { libc::poll(&mut poll, 1, milliseconds) } {
            0 => return Ok(false),
            n if n > 0 => return Ok(true),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(LinkError::Socket(error));
                }
            }
        }
    }
}
