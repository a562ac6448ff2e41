//! Interfaces: listing, making, removing.

use std::os::fd::{AsFd, AsRawFd};

use super::sys::{self, LINK_HEADER, link_header};
use super::{LinkError, Links};
use crate::netlink::{Message, Writer, attributes};
use crate::netns::Namespace;

const CREATE: libc::c_int = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
const UP: u32 = libc::IFF_UP as u32;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// Whether it was switched on, which says nothing about the other end.
    pub up: bool,
    /// Whether it carries packets: switched on at both ends, and the kernel has taken note.
    pub running: bool,
    pub loopback: bool,
}

/// A pair of interfaces to be made: one end here, the other in `peer_namespace`.
#[derive(Clone, Copy, Debug)]
pub struct Veth<'a> {
    pub name: &'a str,
    /// The index of our end, or 0 for the next free one.
    ///
    /// If both ends have the same index the kernel takes the pair for an ordinary device and may let a
    /// second pass before it believes the carrier; with indices that differ it is usable at once.
    pub index: u32,
    pub peer_name: &'a str,
    pub peer_namespace: &'a Namespace,
}

impl Links {
    pub fn links(&mut self) -> Result<Vec<Link>, LinkError> {
        self.list(libc::RTM_GETLINK, &link_header(0, 0, 0), "listing interfaces", read)
    }

    pub fn create_veth(&mut self, veth: &Veth<'_>) -> Result<(), LinkError> {
        let doing = || format!("making the veth pair {} and {}", veth.name, veth.peer_name);
        let header = link_header(veth.index, 0, 0);
        self.command(libc::RTM_NEWLINK, CREATE, &header, doing, |message| {
            message.string(libc::IFLA_IFNAME, veth.name);
            of_kind(message, "veth", |message| {
                let data = message.nest(libc::IFLA_INFO_DATA);
                let peer = message.nest(sys::VETH_INFO_PEER);
                message.raw(&link_header(0, 0, 0));
                message.string(libc::IFLA_IFNAME, veth.peer_name);
                message.u32(libc::IFLA_NET_NS_FD, veth.peer_namespace.as_fd().as_raw_fd() as u32);
                message.end_nest(peer);
                message.end_nest(data);
            });
        })
    }

    pub fn create_bridge(&mut self, name: &str) -> Result<(), LinkError> {
        let doing = || format!("making the bridge {name}");
        self.command(libc::RTM_NEWLINK, CREATE, &link_header(0, 0, 0), doing, |message| {
            message.string(libc::IFLA_IFNAME, name);
            of_kind(message, "bridge", |_| {});
        })
    }

    /// Make an interface that swallows what is sent to it: a place for routes and addresses.
    pub fn create_dummy(&mut self, name: &str) -> Result<(), LinkError> {
        let doing = || format!("making the dummy interface {name} (module dummy)");
        self.command(libc::RTM_NEWLINK, CREATE, &link_header(0, 0, 0), doing, |message| {
            message.string(libc::IFLA_IFNAME, name);
            of_kind(message, "dummy", |_| {});
        })
    }

    pub fn enslave(&mut self, name: &str, bridge: &str) -> Result<(), LinkError> {
        let doing = || format!("adding {name} to the bridge {bridge}");
        let (index, master) = (self.index(name, doing)?, self.index(bridge, doing)?);
        self.command(libc::RTM_SETLINK, 0, &link_header(index, 0, 0), doing, |message| {
            message.u32(libc::IFLA_MASTER, master);
        })
    }

    pub fn set_up(&mut self, name: &str) -> Result<(), LinkError> {
        let doing = || format!("setting {name} up");
        let index = self.index(name, doing)?;
        self.command(libc::RTM_SETLINK, 0, &link_header(index, UP, UP), doing, |_| {})
    }

    /// Remove an interface; the other end of a veth pair goes with it.
    pub fn delete(&mut self, name: &str) -> Result<(), LinkError> {
        let doing = || format!("deleting the interface {name}");
        let index = self.index(name, doing)?;
        self.command(libc::RTM_DELLINK, 0, &link_header(index, 0, 0), doing, |_| {})
    }
}

fn of_kind(message: &mut Writer, kind: &str, data: impl FnOnce(&mut Writer)) {
    let info = message.nest(libc::IFLA_LINKINFO);
    message.string(libc::IFLA_INFO_KIND, kind);
    data(message);
    message.end_nest(info);
}

pub(crate) fn read(message: &Message<'_>) -> Option<Link> {
    let header: &[u8; LINK_HEADER] = message.payload.first_chunk()?;
    let number = |at: usize| Some(u32::from_ne_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let (mut name, mut operational) = (None, 0);
    for attribute in attributes(message.payload.get(LINK_HEADER..)?) {
        match attribute.kind {
            libc::IFLA_IFNAME => name = attribute.text(),
            libc::IFLA_OPERSTATE => operational = attribute.u8()?,
            _ => {}
        }
    }
    let flags = number(8)?;
    let loopback = flags & libc::IFF_LOOPBACK as u32 != 0;
    Some(Link {
        index: number(4)?,
        name: name?.to_owned(),
        up: flags & UP != 0,
        // Not IFF_RUNNING: that is also set as long as the kernel does not know.
        running: operational == sys::IF_OPER_UP || loopback && flags & UP != 0,
        loopback,
    })
}
