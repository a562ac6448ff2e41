//! A stream that is written without waiting. What its reader does not take is held back, up to a bound; then whole
//! lines are lost and counted.
//!
//! A container's log is a pipe. If its reader stalls, a writer that waits stalls with it, and with it the sync
//! of rules: lines are worth less than those.

use std::collections::VecDeque;
use std::io::{Stderr, Stdout};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What is kept for a reader that stalls.
const MOST_HELD: usize = 1 << 20;
/// A pipe that is ready takes this much at once (PIPE_BUF).
const PIECE: usize = 4096;

/// Where bytes go.
pub(super) trait Drain: Send {
    /// Write as much as goes without waiting; how much that was.
    fn write(&mut self, bytes: &[u8]) -> usize;
}

impl Drain for Stdout {
    fn write(&mut self, bytes: &[u8]) -> usize {
        write_ready(self.as_fd(), bytes)
    }
}

impl Drain for Stderr {
    fn write(&mut self, bytes: &[u8]) -> usize {
        write_ready(self.as_fd(), bytes)
    }
}

fn write_ready(fd: BorrowedFd<'_>, bytes: &[u8]) -> usize {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        if !is_ready(fd) {
            break;
        }
        match rustix::io::write(fd, rest.get(..PIECE).unwrap_or(rest)) {
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            // When the stream is closed, there is no place left to report it.
            Err(_) => return bytes.len(),
        }
    }
    written
}

fn is_ready(fd: BorrowedFd<'_>) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    match poll(&mut asked, Some(&Timespec::default())) {
        Ok(count) => count > 0,
        Err(error) => error == Errno::INTR,
    }
}

pub(super) struct Outlet {
    drain: Box<dyn Drain>,
    /// Lines are collected up to this size before they are written.
    pub(super) buffer: usize,
    held: VecDeque<u8>,
    lost: u64,
}

impl Outlet {
    pub(super) fn new(drain: impl Drain + 'static) -> Outlet {
        Outlet { drain: Box::new(drain), buffer: 0, held: VecDeque::new(), lost: 0 }
    }

    pub(super) fn push(&mut self, line: &[u8]) {
        if self.held.len() + line.len() > self.buffer {
            self.flush();
        }
        if self.held.len() + line.len() > self.buffer.max(MOST_HELD) && !self.held.is_empty() {
            self.lost += 1;
            return;
        }
        self.held.extend(line);
        if self.held.len() > self.buffer {
            self.flush();
        }
    }

    /// Write what can be written now.
    pub(super) fn flush(&mut self) {
        let held = self.held.make_contiguous();
        if !held.is_empty() {
            let written = self.drain.write(held);
            self.held.drain(..written.min(self.held.len()));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// More is held than there is to be: the reader stalls.
    pub(super) fn is_stuck(&self) -> bool {
        self.held.len() > self.buffer
    }

    /// The lines lost so far, once there is room to say it.
    pub(super) fn confess(&mut self) -> Option<u64> {
        if self.lost == 0 || self.is_stuck() {
            return None;
        }
        Some(std::mem::take(&mut self.lost))
    }
}
