//! [`Tracer`]: follows the first packets of connections to one address through the kernel.
//!
//! A rule in a table of its own marks packets to be followed; the kernel then tells every rule that they match. The table
//! belongs to a socket of the tracer: it goes with it, however the process ends. Beside that, conntrack tells of every
//! connection that got through, and where it was led to. Both arrive at one socket, whose filter keeps away the
//! connections of others and whose buffer is bounded: what does not fit is lost, and that is told.

mod filter;
mod packet;
mod step;
mod table;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::Instant;

use super::monitor::wake::{Ready, Signal};
use super::sys::*;
use super::{CommitError, Connection, Stopper, Transport};
use crate::conntrack::Flow;
use crate::netlink::{Message, Protocol, Socket, messages};

pub use packet::Packet;
pub use step::Step;

/// What to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub to: IpAddr,
    pub port: Option<u16>,
    /// `IPPROTO_*`: TCP, UDP or SCTP; `None` is any of them.
    pub protocol: Option<u8>,
    pub from: Option<IpAddr>,
    /// Packets that are followed in a second, for each protocol and way in. All others pass as if nobody looked.
    pub per_second: u64,
}

/// What the kernel tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// A packet that is followed matched a rule, or came to the end of a chain.
    Step(Step<'a>),
    /// A connection got through.
    Flow(Flow),
}

/// How waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Heard,
    /// The buffer was full: an unknown number of messages is lost.
    Lost,
    Elapsed,
    Stopped,
}

/// What is needed to follow packets could not be had.
#[derive(Debug)]
pub enum TraceError {
    Socket(io::Error),
    Table(CommitError),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Socket(error) => write!(f, "cannot open a netlink socket: {error}"),
            TraceError::Table(error) => write!(f, "cannot add the tracing table: {error}"),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TraceError::Socket(error) => Some(error),
            TraceError::Table(error) => Some(error),
        }
    }
}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> TraceError {
        TraceError::Socket(error)
    }
}

/// Room for the messages of a second at the full rate; what exceeds it is lost.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Datagrams that are read before the caller has its turn.
const AT_A_TIME: usize = 256;

#[derive(Debug)]
pub struct Tracer {
    socket: Socket,
    signal: Signal,
    buffer: Vec<u8>,
    /// Owns the table, until it is closed.
    owner: Connection,
    table: String,
}

impl Tracer {
    /// Follow from now on, in the network namespace of the calling thread.
    pub fn open(wanted: &Wanted) -> Result<Tracer, TraceError> {
        let socket = Socket::open(Protocol::Netfilter)?;
        socket.reserve_receive_buffer(RECEIVE_BUFFER)?;
        // Before joining, or connections of others slip in.
        socket.attach_filter(&filter::program(wanted))?;
        socket.join(NFNLGRP_NFTRACE)?;
        // Where the kernel has no conntrack events the steps still tell.
        let _ = socket.join(NFNLGRP_CONNTRACK_NEW);
        let mut owner = Connection::open()?;
        let table = format!("{}{}", table::PREFIX, owner.port());
        owner.commit(&table::batch(&table, wanted)).map_err(TraceError::Table)?;
        Ok(Tracer { socket, signal: Signal::new()?, buffer: Vec::new(), owner, table })
    }

    /// The table that holds the rules by which packets are followed.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The connection that owns the table, for questions.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.owner
    }

    /// A handle that ends the waiting from another thread.
    pub fn stopper(&self) -> Stopper {
        self.signal.stopper()
    }

    /// Wait for something to be told, until `deadline`, and hand over what has arrived.
    pub fn wait(&mut self, deadline: Instant, each: &mut dyn FnMut(Heard<'_>)) -> io::Result<Wait> {
        match self.signal.wait(&self.socket, Some(deadline))? {
            Ready::Stopped => return Ok(Wait::Stopped),
            Ready::Elapsed => return Ok(Wait::Elapsed),
            Ready::Readable => {}
        }
        let mut outcome = Wait::Heard;
        for _ in 0..AT_A_TIME {
            if !self.signal.is_readable(&self.socket)? {
                break;
            }
            match self.socket.receive(&mut self.buffer) {
                Ok(datagram) => messages(datagram).filter_map(|message| read(&message)).for_each(&mut *each),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => outcome = Wait::Lost,
                Err(error) => return Err(error),
            }
        }
        Ok(outcome)
    }
}

pub(crate) fn read<'a>(message: &Message<'a>) -> Option<Heard<'a>> {
    const TRACE: u16 = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_TRACE;
    const NEW_FLOW: u16 = NFNL_SUBSYS_CTNETLINK << 8;
    match message.kind {
        TRACE => Step::read(message).map(Heard::Step),
        NEW_FLOW => Flow::read(message.payload).map(Heard::Flow),
        _ => None,
    }
}
