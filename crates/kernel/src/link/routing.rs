//! Word that local routes, policy rules or one interface changed.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::monitor::readable;
use super::sys::*;
use super::{LinkError, Wake, links};
use crate::netlink::{Message, Protocol, Socket, messages};

/// Woken by the kernel whenever a local route, a policy rule or the one interface comes, goes or changes.
///
/// Other routes and interfaces are passed over: on a node they change with every pod.
#[derive(Debug)]
pub struct RoutingMonitor {
    socket: Socket,
    buffer: Vec<u8>,
    device: String,
}

impl RoutingMonitor {
    /// Changes from now on are reported: list what is there after this, not before.
    pub fn open(device: &str) -> Result<RoutingMonitor, LinkError> {
        let socket = Socket::open(Protocol::Route).map_err(LinkError::Socket)?;
        for group in
            [RTNLGRP_LINK, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE]
        {
            socket.join(group).map_err(LinkError::Socket)?;
        }
        Ok(RoutingMonitor { socket, buffer: Vec::new(), device: device.to_owned() })
    }

    /// Wait for something to arrive and take everything that has arrived. [`Wake::Quiet`] may come before the time is
    /// up, if what arrived was about something else.
    pub fn wait(&mut self, timeout: Duration) -> Result<Wake, LinkError> {
        let mut wake = Wake::Quiet;
        if !readable(&self.socket, timeout)? {
            return Ok(wake);
        }
        while readable(&self.socket, Duration::ZERO)? {
            match self.socket.receive(&mut self.buffer) {
                Ok(datagram) => {
                    if wake == Wake::Quiet && messages(datagram).any(|one| concerns(&one, &self.device)) {
                        wake = Wake::Changed;
                    }
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => wake = Wake::Overrun,
                Err(error) => return Err(LinkError::Socket(error)),
            }
        }
        Ok(wake)
    }
}

/// For a caller that polls several things at once.
impl AsFd for RoutingMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn concerns(message: &Message<'_>, device: &str) -> bool {
    match message.kind {
        libc::RTM_NEWRULE | libc::RTM_DELRULE => true,
        libc::RTM_NEWLINK | libc::RTM_DELLINK => links::read(message).is_some_and(|link| link.name == device),
        // The type of a route in `struct rtmsg`.
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => message.payload.get(7) == Some(&libc::RTN_LOCAL),
        _ => false,
    }
}
