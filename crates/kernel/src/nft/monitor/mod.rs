//! [`Monitor`]: word that somebody else changed tables.
//!
//! The kernel tells subscribers every object that a commit touched. Our own commits are dropped by a filter in
//! the kernel, before they take room in the receive buffer. What packets do to dynamic sets, and elements
//! that expire, are no commits and are never told.

mod filter;
mod wake;

use std::io;
use std::time::{Duration, Instant};

use super::sys::*;
use super::{Family, decode};
use crate::netlink::{Message, Protocol, Socket, messages};
use wake::{Ready, Signal};

pub use wake::Stopper;

/// What happened while [`Monitor::wait`] waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing until the timeout.
    Nothing,
    /// Somebody else touched these tables, each named once.
    Tables(Vec<ChangedTable>),
    /// More was told than the receive buffer holds: any table may have been touched.
    Overrun,
    /// A [`Stopper`] ended the waiting, now and for good.
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangedTable {
    pub family: Family,
    pub table: String,
}

/// A subscription to the changes in the network namespace that the opening thread was in.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    signal: Signal,
    buffer: Vec<u8>,
}

/// Room for what others commit while we are busy; what exceeds it is an [`Change::Overrun`], no more.
const RECEIVE_BUFFER: usize = 4 << 20;

impl Monitor {
    /// Subscribe, and ignore what the connection of that port commits.
    ///
    /// Changes from now on are told: read what the tables hold after this, not before.
    pub fn open(ignore_port: u32) -> io::Result<Monitor> {
        let socket = Socket::open(Protocol::Netfilter)?;
        socket.reserve_receive_buffer(RECEIVE_BUFFER)?;
        // Before joining, or a commit of ours may slip in between.
        filter::drop_port(&socket, ignore_port)?;
        socket.join(NFNLGRP_NFTABLES)?;
        Ok(Monitor { socket, signal: Signal::new()?, buffer: Vec::new() })
    }

    /// A handle that ends the waiting from another thread.
    pub fn stopper(&self) -> Stopper {
        self.signal.stopper()
    }

    /// Wait for a change (`None`: for ever) and take all that has arrived with it.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Change> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            match self.signal.wait(&self.socket, deadline)? {
                Ready::Stopped => return Ok(Change::Stopped),
                Ready::Elapsed => return Ok(Change::Nothing),
                Ready::Readable => {}
            }
            // What arrived may be about nothing that is watched: a flow table, another family.
            let change = self.take_arrived()?;
            if change != Change::Nothing {
                return Ok(change);
            }
        }
    }

    fn take_arrived(&mut self) -> io::Result<Change> {
        let mut touched = Vec::new();
        let mut overrun = false;
        while self.signal.is_readable(&self.socket)? {
            match self.socket.receive(&mut self.buffer) {
                Ok(datagram) => messages(datagram).for_each(|message| note(&mut touched, &message)),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => overrun = true,
                Err(error) => return Err(error),
            }
        }
        Ok(match overrun {
            true => Change::Overrun,
            false if touched.is_empty() => Change::Nothing,
            false => Change::Tables(touched),
        })
    }
}

pub(crate) fn note(touched: &mut Vec<ChangedTable>, message: &Message<'_>) {
    let Some((family, table)) = subject(message) else { return };
    // A large commit says the same table again and again: compare before copying the name.
    if !touched.iter().any(|known| known.family == family && known.table == table) {
        touched.push(ChangedTable { family, table: table.to_owned() });
    }
}

/// The table a notification is about, if it is of a kind and a family that count.
fn subject<'a>(message: &Message<'a>) -> Option<(Family, &'a str)> {
    if message.kind >> 8 != NFNL_SUBSYS_NFTABLES {
        return None;
    }
    match message.kind & 0xff {
        NFT_MSG_NEWTABLE
        | NFT_MSG_DELTABLE
        | NFT_MSG_NEWCHAIN
        | NFT_MSG_DELCHAIN
        | NFT_MSG_NEWRULE
        | NFT_MSG_DELRULE
        | NFT_MSG_NEWSET
        | NFT_MSG_DELSET
        | NFT_MSG_NEWSETELEM
        | NFT_MSG_DELSETELEM
        | NFT_MSG_DESTROYSETELEM
        | NFT_MSG_NEWOBJ
        | NFT_MSG_DELOBJ => {}
        _ => return None,
    }
    let family = match *message.payload.first()? {
        NFPROTO_IPV4 => Family::Ip,
        NFPROTO_IPV6 => Family::Ip6,
        _ => return None,
    };
    // The table's name is attribute 1 of every kind above.
    Some((family, decode::text(message, NFTA_TABLE_NAME)?))
}
