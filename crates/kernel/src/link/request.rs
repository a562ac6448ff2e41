//! The connection: commands and lists, errors tied to what was being done.

use std::ffi::CString;
use std::ops::ControlFlow;

use super::LinkError;
use crate::netlink::{DumpEnd, Exchange, Message, Protocol, Writer};

/// Attempts at a consistent list before giving up.
const ATTEMPTS: usize = 8;

/// An rtnetlink connection to the network namespace of the thread that opened it.
///
/// Interface names are looked up in the namespace of the calling thread, so use it where it was opened.
#[derive(Debug)]
pub struct Links {
    pub(super) exchange: Exchange,
}

impl Links {
    pub fn open() -> Result<Links, LinkError> {
        Ok(Links { exchange: Exchange::open(Protocol::Route).map_err(LinkError::Socket)? })
    }

    pub(super) fn command(
        &mut self,
        kind: u16,
        flags: libc::c_int,
        header: &[u8],
        doing: impl Fn() -> String,
        fill: impl FnOnce(&mut Writer),
    ) -> Result<(), LinkError> {
        self.exchange
            .command(kind, flags, header, fill)
            .map_err(|refusal| LinkError::Refused { doing: doing(), refusal })
    }

    /// Everything of one kind; entries `read` makes nothing of are left out.
    pub(super) fn list<T>(
        &mut self,
        kind: u16,
        header: &[u8],
        doing: &'static str,
        read: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, LinkError> {
        list(&mut self.exchange, kind, header, doing, |_| {}, read)
    }

    pub(super) fn index(&self, name: &str, doing: impl Fn() -> String) -> Result<u32, LinkError> {
        let absent = || LinkError::NoSuchLink { doing: doing(), name: name.to_owned() };
        let text = CString::new(name).map_err(|_| absent())?;
        // SAFETY: the pointer is to a live NUL-terminated string.
        match unsafe { libc::if_nametoindex(text.as_ptr()) } {
            0 => Err(absent()),
            index => Ok(index),
        }
    }
}

/// Ask for a list until one is read with no change in between.
pub(super) fn list<T>(
    exchange: &mut Exchange,
    kind: u16,
    header: &[u8],
    doing: &'static str,
    fill: impl Fn(&mut Writer),
    read: impl Fn(&Message<'_>) -> Option<T>,
) -> Result<Vec<T>, LinkError> {
    for _ in 0..ATTEMPTS {
        let mut found = Vec::new();
        let end = exchange.dump(kind, header, &fill, |message| {
            found.extend(read(message));
            ControlFlow::Continue(())
        });
        match end {
            Ok(DumpEnd::Inconsistent) => {}
            // The same as inconsistent: the kernel could not go on where it had stopped.
            Err(refusal) if refusal.errno() == Some(libc::EINTR) => {}
            Ok(_) => return Ok(found),
            Err(refusal) => return Err(LinkError::Refused { doing: doing.to_owned(), refusal }),
        }
    }
    Err(LinkError::Restless { doing })
}
