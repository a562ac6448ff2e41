//! Pipes through which data goes from one socket to another without being copied. A connection has one only while data is
//! on its way, so that ten thousand idle connections need none.

use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use crate::memory::Memory;

/// What a pipe is to hold; the kernel may refuse it to an ordinary user.
const SIZE: usize = 256 * 1024;
/// So many are in use at once; other connections copy meanwhile.
const MOST: usize = 512;
/// So many may be full because somebody does not read; the others are for those who do.
const MOST_STUCK: usize = 256;
/// So many wait for the next connection.
const MOST_SPARE: usize = 32;
/// What all of them take, two each.
pub(crate) const DESCRIPTORS: usize = 2 * (MOST + MOST_SPARE);

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) read: OwnedFd,
    pub(crate) write: OwnedFd,
}

#[derive(Debug, Default)]
pub(crate) struct Pipes {
    spare: Vec<Pipe>,
    used: usize,
    /// For what is not in a pipe.
    pub(crate) memory: Memory,
}

impl Pipes {
    pub(crate) fn new(memory: Memory) -> Pipes {
        Pipes { memory, ..Pipes::default() }
    }

    /// An empty one; `None` if there are too many, or no descriptors left. They get short for slow readers first.
    pub(crate) fn take(&mut self, for_slow: bool) -> Option<Pipe> {
        if self.used >= if for_slow { MOST_STUCK } else { MOST } {
            return None;
        }
        let pipe = self.spare.pop().or_else(make)?;
        self.used += 1;
        Some(pipe)
    }

    /// It is empty again.
    pub(crate) fn give_back(&mut self, pipe: Pipe) {
        self.used = self.used.saturating_sub(1);
        if self.spare.len() < MOST_SPARE {
            self.spare.push(pipe);
        }
    }

    /// Whether a pipe with so much in it that nobody reads should be emptied.
    pub(crate) fn are_short(&self, left: usize) -> bool {
        self.used > MOST_STUCK && self.memory.has_room(left)
    }

    /// It went with its connection, whatever was in it.
    pub(crate) fn lost(&mut self) {
        self.used = self.used.saturating_sub(1);
    }
}

fn make() -> Option<Pipe> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
    let _smaller_will_do = fcntl_setpipe_size(&write, SIZE);
    Some(Pipe { read, write })
}
