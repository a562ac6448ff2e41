//! One direction of a connection: bytes from one socket to the other, in order and none lost.
//!
//! Little is read and written, much is spliced: a pipe costs more calls than a copy of some kilobytes. What the receiver
//! does not take stays in the pipe or in a small buffer, and nothing more is read until it is gone: the sender feels it.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustix::pipe::{SpliceFlags, splice};

use crate::pipes::{Pipe, Pipes};

/// What is copied at once, and the most that a slow receiver makes us keep.
pub(crate) const COPIED: usize = 16 * 1024;
/// What is spliced at once; the pipe sets the limit.
const SPLICED: usize = 1024 * 1024;
/// Steps before it is another connection's turn.
const STEPS: usize = 16;

/// What all connections of a thread share.
pub(crate) struct Tools {
    pub(crate) buffer: Box<[u8]>,
    pub(crate) pipes: Pipes,
}

impl Tools {
    pub(crate) fn new() -> Tools {
        Tools { buffer: vec![0; COPIED].into(), pipes: Pipes::default() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Way {
    held: Held,
    /// Much comes at once.
    is_bulk: bool,
    is_ended: bool,
    /// The receiver knows that it has ended.
    is_closed: bool,
    pub(crate) bytes: u64,
}

/// What was read and not yet written.
#[derive(Debug, Default)]
enum Held {
    #[default]
    Nothing,
    Piped(Pipe, usize),
    Copied(Box<[u8]>, usize),
}

/// What a socket is known to allow, until it says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ready {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The other side has ended or reset: read until it shows.
    pub(crate) is_hung: bool,
}

/// Why a way stopped for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It waits for one of its sockets.
    Waits,
    /// It could go on.
    HadItsTurn,
    /// There will be no more.
    Over,
}

impl Way {
    /// Move what can be moved.
    pub(crate) fn pump(
        &mut self,
        (from, source): (BorrowedFd<'_>, &mut Ready),
        (to, sink): (BorrowedFd<'_>, &mut Ready),
        tools: &mut Tools,
    ) -> Result<Pause, Errno> {
        for _ in 0..STEPS {
            if !self.deliver(to, sink, &mut tools.pipes)? {
                return Ok(Pause::Waits);
            }
            if self.is_ended {
                return self.close(to);
            }
            if !source.readable || !sink.writable {
                return Ok(Pause::Waits);
            }
            let pipe = if self.is_bulk { tools.pipes.take() } else { None };
            match pipe {
                Some(pipe) => self.splice_in(from, source, pipe, &mut tools.pipes)?,
                None => self.copy((from, source), (to, sink), &mut tools.buffer)?,
            }
        }
        Ok(Pause::HadItsTurn)
    }

    fn close(&mut self, to: BorrowedFd<'_>) -> Result<Pause, Errno> {
        if !self.is_closed {
            self.is_closed = true;
            match shutdown(to, Shutdown::Write) {
                // It is gone already; its other direction shows it.
                Ok(()) | Err(Errno::NOTCONN) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Pause::Over)
    }

    /// Write what is held; whether all of it is gone.
    fn deliver(&mut self, to: BorrowedFd<'_>, sink: &mut Ready, pipes: &mut Pipes) -> Result<bool, Errno> {
        while !matches!(self.held, Held::Nothing) {
            if !sink.writable {
                return Ok(false);
            }
            let written = match &self.held {
                Held::Piped(pipe, left) => {
                    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                    splice(&pipe.read, None, to, None, *left, flags)
                }
                Held::Copied(bytes, from) => {
                    send(to, bytes.get(*from..).unwrap_or_default(), SendFlags::NOSIGNAL)
                }
                Held::Nothing => break,
            };
            match written {
                Ok(count) => self.delivered(count, pipes),
                Err(Errno::AGAIN) => sink.writable = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn delivered(&mut self, count: usize, pipes: &mut Pipes) {
        self.bytes += count as u64;
        self.held = match std::mem::take(&mut self.held) {
            Held::Piped(pipe, left) if left > count => Held::Piped(pipe, left - count),
            Held::Piped(pipe, _) => {
                pipes.give_back(pipe);
                Held::Nothing
            }
            Held::Copied(bytes, from) if bytes.len() > from + count => Held::Copied(bytes, from + count),
            Held::Copied(..) | Held::Nothing => Held::Nothing,
        };
    }

    fn splice_in(
        &mut self,
        from: BorrowedFd<'_>,
        source: &mut Ready,
        pipe: Pipe,
        pipes: &mut Pipes,
    ) -> Result<(), Errno> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let read = splice(from, None, &pipe.write, None, SPLICED, flags);
        match read {
            Ok(count) if count > 0 => {
                self.is_bulk = count > COPIED / 2;
                self.held = Held::Piped(pipe, count);
                return Ok(());
            }
            Ok(_) => self.is_ended = true,
            Err(Errno::AGAIN) => source.readable = false,
            Err(Errno::INTR) => {}
            Err(error) => {
                pipes.give_back(pipe);
                return Err(error);
            }
        }
        pipes.give_back(pipe);
        Ok(())
    }

    fn copy(
        &mut self,
        (from, source): (BorrowedFd<'_>, &mut Ready),
        (to, sink): (BorrowedFd<'_>, &mut Ready),
        buffer: &mut [u8],
    ) -> Result<(), Errno> {
        let size = buffer.len();
        let count = match recv(from, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => {
                self.is_ended = true;
                return Ok(());
            }
            Ok((count, _)) => count,
            Err(Errno::AGAIN) => {
                source.readable = false;
                return Ok(());
            }
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.is_bulk = count == size;
        // What was not filled was all there is, unless the end follows.
        source.readable = self.is_bulk || source.is_hung;
        let bytes = buffer.get(..count).unwrap_or_default();
        let (sent, is_full) = match send(to, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => (sent, sent < count),
            Err(Errno::AGAIN) => (0, true),
            Err(Errno::INTR) => (0, false),
            Err(error) => return Err(error),
        };
        self.bytes += sent as u64;
        sink.writable &= !is_full;
        if sent < count {
            self.held = Held::Copied(bytes.get(sent..).unwrap_or_default().into(), 0);
        }
        Ok(())
    }

    /// The connection is over, whatever is held.
    pub(crate) fn abandon(self, pipes: &mut Pipes) {
        if let Held::Piped(..) = self.held {
            pipes.lost();
        }
    }
}
