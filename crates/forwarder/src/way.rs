//! One direction of a connection: bytes from one socket to the other, in order and none lost.
//!
//! Little is read and written, much is spliced: a pipe costs more calls than a copy of some kilobytes. What the receiver
//! does not take stays in the pipe or in a small buffer, and nothing more is read until it is gone: the sender feels it.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustix::pipe::{SpliceFlags, splice};

use crate::memory::Memory;
use crate::pipes::{Pipe, Pipes};
use crate::sockets;

/// What is copied at once, and the most that a slow receiver makes us keep.
pub(crate) const COPIED: usize = 16 * 1024;
/// What is read of a client before its endpoint has answered: most requests are not larger.
const EARLY: usize = 2 * 1024;
/// What is spliced at once; the pipe sets the limit.
const SPLICED: usize = 1024 * 1024;
/// After so much without a stop, a receiver does not count as slow any more.
const STUCK: u64 = 1024 * 1024;
/// Steps before it is another connection's turn.
const STEPS: usize = 16;

/// What all connections of a thread share.
pub(crate) struct Tools {
    pub(crate) buffer: Box<[u8]>,
    pub(crate) pipes: Pipes,
}

impl Tools {
    pub(crate) fn new(memory: Memory) -> Tools {
        Tools { buffer: vec![0; COPIED].into(), pipes: Pipes::new(memory) }
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
    /// The receiver's socket sends small writes at once; needed from the second one on.
    is_prompt: bool,
    room: Room,
    /// So much went through since the receiver last took less than was there.
    since_stuck: u64,
    pub(crate) bytes: u64,
}

/// How much the sender may send before it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Room {
    /// What the kernel finds right: clients may be far away.
    #[default]
    Free,
    /// The same, but the endpoint's socket takes little that it cannot send: clients' sockets have that from the listener.
    FreeOfBacklog,
    /// Nothing has been set, for little needs nothing.
    Unbounded,
    Bounded,
    Proven,
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
    /// It has sent urgent data once, at which `splice` stops.
    pub(crate) is_urgent: bool,
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
    /// From an endpoint to a client, whose socket sends small writes at once already.
    pub(crate) fn to_client() -> Way {
        Way { is_prompt: true, room: Room::Unbounded, ..Way::default() }
    }

    /// Much comes: a sender gets more room once its receiver has proved to read.
    fn bound(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
        let room = match self.room {
            Room::Free => {
                self.room = Room::FreeOfBacklog;
                return sockets::bound_unsent(to);
            }
            Room::Unbounded => Room::Bounded,
            Room::Bounded if self.bytes >= sockets::PROVEN => Room::Proven,
            Room::FreeOfBacklog | Room::Bounded | Room::Proven => return,
        };
        self.room = room;
        sockets::bound_room(from, room == Room::Proven);
    }

    /// Read what a client says before its endpoint has answered. Returns whether there may be more.
    pub(crate) fn read_early(&mut self, from: BorrowedFd<'_>, tools: &mut Tools) -> Result<bool, Errno> {
        let buffer = tools.buffer.get_mut(..EARLY).unwrap_or_default();
        if !tools.pipes.memory.has_room(EARLY) {
            return Ok(true);
        }
        match recv(from, &mut *buffer, RecvFlags::empty()) {
            // The end is seen again when it is its turn.
            Ok((0, _)) | Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Ok((count, _)) => {
                let bytes = buffer.get(..count).unwrap_or_default();
                self.held = Held::Copied(tools.pipes.memory.keep(bytes), 0);
                Ok(count == EARLY)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether something was read and not yet written.
    pub(crate) fn holds_something(&self) -> bool {
        !matches!(self.held, Held::Nothing)
    }

    /// Move what can be moved.
    pub(crate) fn pump(
        &mut self,
        (from, source): (BorrowedFd<'_>, &mut Ready),
        (to, sink): (BorrowedFd<'_>, &mut Ready),
        tools: &mut Tools,
        is_last: bool,
    ) -> Result<Pause, Errno> {
        for _ in 0..STEPS {
            if !self.deliver(to, sink, &mut tools.pipes)? {
                return Ok(Pause::Waits);
            }
            if self.is_ended {
                return self.close(to, is_last);
            }
            if !source.readable || !sink.writable {
                return Ok(Pause::Waits);
            }
            let is_spliced = self.is_bulk && !source.is_urgent;
            let pipe = if is_spliced { tools.pipes.take(self.since_stuck < STUCK) } else { None };
            if self.is_bulk {
                self.bound(from, to);
            }
            match pipe {
                Some(pipe) => {
                    self.send_at_once(to)?;
                    self.splice_in(from, source, pipe, &mut tools.pipes)?;
                }
                None => self.copy((from, source), (to, sink), tools)?,
            }
        }
        Ok(Pause::HadItsTurn)
    }

    /// Most connections write only once, and need not ask for it.
    fn send_at_once(&mut self, to: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.is_prompt || self.bytes == 0 {
            return Ok(());
        }
        self.is_prompt = true;
        sockets::send_at_once(to)
    }

    /// Whether the receiver knows that there will be no more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// If it is the last to end, closing the socket says as much.
    fn close(&mut self, to: BorrowedFd<'_>, is_last: bool) -> Result<Pause, Errno> {
        if !std::mem::replace(&mut self.is_closed, true) && !is_last {
            match shutdown(to, Shutdown::Write) {
                // It is gone already; its other direction shows it.
                Ok(()) | Err(Errno::NOTCONN) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Pause::Over)
    }

    /// Write what is held; whether all of it is gone.
    pub(crate) fn deliver(
        &mut self,
        to: BorrowedFd<'_>,
        sink: &mut Ready,
        pipes: &mut Pipes,
    ) -> Result<bool, Errno> {
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
                Err(Errno::AGAIN) => {
                    sink.writable = false;
                    self.since_stuck = 0;
                    self.unpipe(pipes)?;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// The receiver does not read: what is in the pipe moves to memory if others need the pipe.
    fn unpipe(&mut self, pipes: &mut Pipes) -> Result<(), Errno> {
        let Held::Piped(pipe, left) = &self.held else { return Ok(()) };
        if !pipes.are_short(*left) {
            return Ok(());
        }
        let mut bytes = vec![0; *left];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match rustix::io::read(&pipe.read, rest) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        let held = Held::Copied(pipes.memory.keep(bytes.get(..filled).unwrap_or_default()), 0);
        if let Held::Piped(pipe, _) = std::mem::replace(&mut self.held, held) {
            pipes.give_back(pipe);
        }
        Ok(())
    }

    fn delivered(&mut self, count: usize, pipes: &mut Pipes) {
        self.bytes += count as u64;
        self.since_stuck += count as u64;
        self.held = match std::mem::take(&mut self.held) {
            Held::Piped(pipe, left) if left > count => Held::Piped(pipe, left - count),
            Held::Piped(pipe, _) => {
                pipes.give_back(pipe);
                Held::Nothing
            }
            Held::Copied(bytes, from) if bytes.len() > from + count => Held::Copied(bytes, from + count),
            Held::Copied(bytes, _) => {
                pipes.memory.are_gone(bytes.len());
                Held::Nothing
            }
            Held::Nothing => Held::Nothing,
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
            // The end, unless it stopped at urgent data: reading tells.
            Ok(_) => self.is_bulk = false,
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
        Tools { buffer, pipes: Pipes { memory, .. } }: &mut Tools,
    ) -> Result<(), Errno> {
        let size = buffer.len();
        let can_hold = memory.has_room(size);
        let flags = if can_hold { RecvFlags::empty() } else { RecvFlags::PEEK };
        let mut count = match recv(from, &mut **buffer, flags) {
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
        let mut broken = Ok(());
        if source.is_hung && count < size && can_hold {
            // The end is likely to follow, and goes with the last bytes then: a packet less, and the receiver wakes up once.
            match recv(from, buffer.get_mut(count..).unwrap_or_default(), RecvFlags::empty()) {
                Ok((0, _)) => self.is_ended = true,
                Ok((more, _)) => count += more,
                Err(Errno::AGAIN | Errno::INTR) => {}
                // The kernel says it only once, and what came before is for the receiver.
                Err(error) => broken = Err(error),
            }
        }
        self.is_bulk = count == size;
        // What was not filled was all there is, unless the end follows, or urgent data: reading stops before it.
        source.readable = self.is_bulk || source.is_hung || source.is_urgent;
        self.send_at_once(to)?;
        let bytes = buffer.get(..count).unwrap_or_default();
        let more = if self.is_ended { SendFlags::MORE } else { SendFlags::empty() };
        let (sent, is_full) = match send(to, bytes, SendFlags::NOSIGNAL | more) {
            Ok(sent) => (sent, sent < count),
            Err(Errno::AGAIN) => (0, true),
            Err(Errno::INTR) => (0, false),
            Err(error) => return Err(error),
        };
        self.bytes += sent as u64;
        self.since_stuck = if is_full { 0 } else { self.since_stuck + sent as u64 };
        sink.writable &= !is_full;
        if !can_hold {
            source.readable = true;
            return discard(from, buffer.get_mut(..sent).unwrap_or_default());
        }
        if sent < count {
            self.held = Held::Copied(memory.keep(bytes.get(sent..).unwrap_or_default()), 0);
        }
        broken
    }

    /// The connection is over, whatever is held.
    pub(crate) fn abandon(self, pipes: &mut Pipes) {
        match self.held {
            Held::Piped(..) => pipes.lost(),
            Held::Copied(bytes, _) => pipes.memory.are_gone(bytes.len()),
            Held::Nothing => {}
        }
    }
}

/// Take from a socket what has been passed on without being taken; its size says how much.
fn discard(from: BorrowedFd<'_>, mut passed_on: &mut [u8]) -> Result<(), Errno> {
    while !passed_on.is_empty() {
        match recv(from, &mut *passed_on, RecvFlags::TRUNC) {
            Ok((0, _)) => return Err(Errno::CONNRESET),
            Ok((count, _)) => passed_on = passed_on.get_mut(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
