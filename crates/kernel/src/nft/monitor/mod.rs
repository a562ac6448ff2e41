//! [`Monitor`]: reports that another process changed tables.
//!
//! The kernel tells subscribers every object that a commit touched, and at its end who committed. Our own commits, and
//! what others do to tables that are not watched, are dropped by a filter in the kernel before they take room in the
//! receive buffer. What packets do to dynamic sets, and elements that expire, are no commits and are never told.

pub(super) mod filter;
mod process;
pub(super) mod wake;

use std::io;
use std::time::{Duration, Instant};

use super::sys::*;
use super::{TableFamily, decode};
use crate::netlink::{Message, Protocol, Socket, messages};
use wake::{Ready, Signal};

pub use process::Process;
pub use wake::Stopper;

/// What happened while [`Monitor::wait`] waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Nothing until the timeout.
    Nothing,
    /// Another process touched these tables, each named once.
    Tables(Vec<ChangedTable>),
    /// More was reported than the receive buffer holds: any table may have been touched.
    Overrun,
    /// A [`Stopper`] ended the waiting, now and for good.
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangedTable {
    pub family: TableFamily,
    pub table: String,
    /// Who committed, if the kernel said so in time.
    pub by: Option<Process>,
}

/// A subscription to the changes in the network namespace that the opening thread was in.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    signal: Signal,
    buffer: Vec<u8>,
}

/// Room for what others commit while we are busy; what exceeds it is a [`Notification::Overrun`], no more.
const RECEIVE_BUFFER: usize = 4 << 20;
/// The last message of a commit says whose it is. It is sent a moment after the others.
const END_OF_COMMIT: Duration = Duration::from_millis(100);

impl Monitor {
    /// Subscribe to changes of tables of this name (`None`: of any), and ignore what the connection of that port
    /// commits. Others may be reported nevertheless.
    ///
    /// Changes from now on are reported: read what the tables hold after this, not before.
    pub fn open(ignore_port: u32, table: Option<&str>) -> io::Result<Monitor> {
        let socket = Socket::open(Protocol::Netfilter)?;
        socket.reserve_receive_buffer(RECEIVE_BUFFER)?;
        // Before joining, or a commit of ours may slip in between.
        filter::attach(&socket, ignore_port, table)?;
        socket.join(NFNLGRP_NFTABLES)?;
        Ok(Monitor { socket, signal: Signal::new()?, buffer: Vec::new() })
    }

    /// A handle that ends the waiting from another thread.
    pub fn stopper(&self) -> Stopper {
        self.signal.stopper()
    }

    /// Wait for a change (`None`: for ever) and take all that has arrived with it.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Notification> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            match self.signal.wait(&self.socket, deadline)? {
                Ready::Stopped => return Ok(Notification::Stopped),
                Ready::Elapsed => return Ok(Notification::Nothing),
                Ready::Readable => {}
            }
            // What arrived may be about nothing that is watched: a flow table, another family.
            let change = self.take_arrived()?;
            if change != Notification::Nothing {
                return Ok(change);
            }
        }
    }

    fn take_arrived(&mut self) -> io::Result<Notification> {
        let mut touched = Vec::new();
        let mut overrun = false;
        while self.is_readable_before_end(&touched)? {
            match self.socket.receive(&mut self.buffer) {
                Ok(datagram) => messages(datagram).for_each(|message| note(&mut touched, &message)),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => overrun = true,
                Err(error) => return Err(error),
            }
        }
        Ok(match overrun {
            true => Notification::Overrun,
            false if touched.is_empty() => Notification::Nothing,
            false => Notification::Tables(touched),
        })
    }

    /// Whether more has arrived, or arrives in a moment where the end of a commit is to come.
    fn is_readable_before_end(&self, touched: &[ChangedTable]) -> io::Result<bool> {
        if touched.iter().all(|table| table.by.is_some()) {
            return self.signal.is_readable(&self.socket);
        }
        let ready = self.signal.wait(&self.socket, Some(Instant::now() + END_OF_COMMIT))?;
        Ok(matches!(ready, Ready::Readable))
    }
}

pub(crate) fn note(touched: &mut Vec<ChangedTable>, message: &Message<'_>) {
    if let Some(process) = process::committer(message) {
        // The commit that ends here is that of all tables whose commit was still open.
        let open = touched.iter_mut().filter(|table| table.by.is_none());
        return open.for_each(|table| table.by = Some(process.clone()));
    }
    let Some((family, table)) = subject(message) else { return };
    // A large commit names the same table repeatedly: compare before copying the name.
    if !touched.iter().any(|known| known.family == family && known.table == table) {
        touched.push(ChangedTable { family, table: table.to_owned(), by: None });
    }
}

/// The table a notification is about, if it is of a kind and a family that count.
fn subject<'a>(message: &Message<'a>) -> Option<(TableFamily, &'a str)> {
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
        NFPROTO_IPV4 => TableFamily::Ip,
        NFPROTO_IPV6 => TableFamily::Ip6,
        _ => return None,
    };
    // The table's name is attribute 1 of every kind above.
    Some((family, decode::text(message, NFTA_TABLE_NAME)?))
}
