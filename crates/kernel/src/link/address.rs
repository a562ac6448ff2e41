//! Addresses on interfaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::sys::{self, ADDRESS_HEADER, address_header};
use super::{LinkError, Links};
use crate::IpFamily;
use crate::netlink::{Attribute, Message, attributes};

/// An address of this namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface, see [`super::Link::index`].
    pub index: u32,
    /// The address with the length of its prefix.
    pub net: IpNet,
    /// `RT_SCOPE_*`: 0 global, 253 link, 254 host.
    pub scope: u8,
    /// `IFA_F_*`.
    pub flags: u32,
}

impl Address {
    pub fn ip(&self) -> IpAddr {
        self.net.addr()
    }

    pub fn is_global(&self) -> bool {
        self.scope == libc::RT_SCOPE_UNIVERSE
    }

    /// Not yet known to be unique on its link (IPv6): it takes no traffic yet.
    pub fn is_tentative(&self) -> bool {
        self.flags & libc::IFA_F_TENTATIVE != 0
    }

    /// Another host on the link has it (IPv6): it never takes traffic.
    pub fn is_duplicate(&self) -> bool {
        self.flags & sys::IFA_F_DADFAILED != 0
    }

    /// Past its preferred lifetime: it takes traffic, but no new connection should begin from it.
    pub fn is_deprecated(&self) -> bool {
        self.flags & libc::IFA_F_DEPRECATED != 0
    }
}

impl Links {
    /// All addresses of all interfaces, both families.
    pub fn addresses(&mut self) -> Result<Vec<Address>, LinkError> {
        let header = address_header(libc::AF_UNSPEC as u8, 0, 0, 0, 0);
        self.list(libc::RTM_GETADDR, &header, "listing addresses", read)
    }

    /// Add an address. IPv6 ones are not first looked for on the link. IPv4 link-local ones get link scope, so
    /// that they are not chosen as the source of traffic to elsewhere.
    pub fn add_address(&mut self, name: &str, net: IpNet) -> Result<(), LinkError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.change_address(libc::RTM_NEWADDR, flags, name, net, || format!("adding address {net} to {name}"))
    }

    pub fn delete_address(&mut self, name: &str, net: IpNet) -> Result<(), LinkError> {
        self.change_address(libc::RTM_DELADDR, 0, name, net, || format!("deleting address {net} from {name}"))
    }

    fn change_address(
        &mut self,
        kind: u16,
        flags: libc::c_int,
        name: &str,
        net: IpNet,
        doing: impl Fn() -> String,
    ) -> Result<(), LinkError> {
        let index = self.index(name, &doing)?;
        let (options, scope) = match net.addr() {
            IpAddr::V6(_) => (libc::IFA_F_NODAD as u8, libc::RT_SCOPE_UNIVERSE),
            IpAddr::V4(ip) if ip.is_link_local() => (0, libc::RT_SCOPE_LINK),
            IpAddr::V4(_) => (0, libc::RT_SCOPE_UNIVERSE),
        };
        let header = address_header(family(net.addr()), net.prefix_len(), options, scope, index);
        self.command(kind, flags, &header, doing, |message| {
            message.attribute(libc::IFA_LOCAL, octets(&net.addr()).as_ref());
            message.attribute(libc::IFA_ADDRESS, octets(&net.addr()).as_ref());
        })
    }
}

pub(super) fn family(address: IpAddr) -> u8 {
    IpFamily::of(address).number()
}

pub(super) fn octets(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

pub(crate) fn read(message: &Message<'_>) -> Option<Address> {
    let &[_, prefix, flags, scope, a, b, c, d] = message.payload.first_chunk()?;
    let mut address = (
        None,
        None,
        Address {
            index: u32::from_ne_bytes([a, b, c, d]),
            net: IpNet::default(),
            scope,
            flags: flags.into(),
        },
    );
    for attribute in attributes(message.payload.get(ADDRESS_HEADER..)?) {
        match attribute.kind {
            libc::IFA_LOCAL => address.0 = ip(&attribute),
            libc::IFA_ADDRESS => address.1 = ip(&attribute),
            sys::IFA_FLAGS => address.2.flags = attribute.u32()?,
            _ => {}
        }
    }
    // On a point-to-point link IFA_ADDRESS is the other side's; ours is then IFA_LOCAL.
    let net = IpNet::new(address.0.or(address.1)?, prefix).ok()?;
    Some(Address { net, ..address.2 })
}

pub(super) fn ip(attribute: &Attribute<'_>) -> Option<IpAddr> {
    match attribute.value.len() {
        4 => Some(Ipv4Addr::from(*attribute.value.first_chunk::<4>()?).into()),
        16 => Some(Ipv6Addr::from(*attribute.value.first_chunk::<16>()?).into()),
        _ => None,
    }
}
