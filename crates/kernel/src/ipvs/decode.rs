//! From the kernel's answers to values. What makes no sense reads as `None`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::sys::*;
use super::{
    Destination, DumpedDestination, DumpedServer, Info, Protocol, Settings, Statistics, Timeouts,
    VirtualServer,
};
use crate::netlink::{Attribute, Message, attributes, generic};

/// A server with an address; `None` for those by firewall mark.
pub(crate) fn server(message: &Message<'_>) -> Option<DumpedServer> {
    let nest = find(message, SERVICE)?;
    let of = |kind| nest.nested().find(|one| one.kind == kind);
    let family = of(SERVICE_FAMILY)?.u16()?;
    let server = VirtualServer {
        address: address(family, &of(SERVICE_ADDRESS)?)?,
        protocol: Protocol::from_number(of(SERVICE_PROTOCOL)?.u16()?.try_into().ok()?)?,
        port: of(SERVICE_PORT)?.be16()?,
    };
    let whole = if server.address.is_ipv4() { u32::MAX } else { 128 };
    Some(DumpedServer {
        server,
        settings: Settings {
            scheduler: of(SERVICE_SCHEDULER)?.text()?.to_owned(),
            flags: of(SERVICE_FLAGS)?.u32()? & !FLAG_HASHED,
            persistence_timeout: of(SERVICE_TIMEOUT)?.u32()?,
        },
        by_network: of(SERVICE_NETMASK)?.u32()? != whole,
        statistics: of(SERVICE_STATS64).map(|nest| statistics(&nest)).unwrap_or_default(),
    })
}

/// A destination of a server of that address.
pub(crate) fn destination(message: &Message<'_>, server: IpAddr) -> Option<DumpedDestination> {
    let nest = find(message, DEST)?;
    let of = |kind| nest.nested().find(|one| one.kind == kind);
    // Before Linux 3.18 a destination has the family of its server and does not say so.
    let families = if server.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let family = of(DEST_FAMILY).and_then(|one| one.u16()).unwrap_or(families as u16);
    let number = |kind| of(kind).and_then(|one| one.u32()).unwrap_or_default();
    Some(DumpedDestination {
        destination: Destination {
            address: address(family, &of(DEST_ADDRESS)?)?,
            port: of(DEST_PORT)?.be16()?,
        },
        weight: of(DEST_WEIGHT)?.u32()?,
        masquerading: of(DEST_FORWARDING)?.u32()? & FORWARD_MASK == FORWARD_MASQUERADE,
        active: number(DEST_ACTIVE),
        inactive: number(DEST_INACTIVE),
        persistent: number(DEST_PERSISTENT),
        statistics: of(DEST_STATS64).map(|nest| statistics(&nest)).unwrap_or_default(),
    })
}

/// The kernel leaves out those of protocols that it was built without.
pub(crate) fn timeouts(message: &Message<'_>) -> Timeouts {
    let number = |kind| find(message, kind).and_then(|one| one.u32()).unwrap_or_default();
    Timeouts { tcp: number(TIMEOUT_TCP), tcp_fin: number(TIMEOUT_TCP_FIN), udp: number(TIMEOUT_UDP) }
}

pub(crate) fn info(message: &Message<'_>) -> Option<Info> {
    let [_, major, minor, patch] = find(message, INFO_VERSION)?.u32()?.to_be_bytes();
    Some(Info {
        version: (major, minor, patch),
        connection_table_size: find(message, INFO_CONNECTION_TABLE)?.u32()?,
    })
}

fn find<'a>(message: &Message<'a>, kind: u16) -> Option<Attribute<'a>> {
    attributes(message.payload.get(generic::HEADER..)?).find(|one| one.kind == kind)
}

fn address(family: u16, attribute: &Attribute<'_>) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(Ipv4Addr::from(*attribute.value.first_chunk::<4>()?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(*attribute.value.first_chunk::<16>()?).into()),
        _ => None,
    }
}

fn statistics(nest: &Attribute<'_>) -> Statistics {
    let mut found = Statistics::default();
    for attribute in nest.nested() {
        let place = match attribute.kind {
            STATS_CONNECTIONS => &mut found.connections,
            STATS_IN_PACKETS => &mut found.in_packets,
            STATS_OUT_PACKETS => &mut found.out_packets,
            STATS_IN_BYTES => &mut found.in_bytes,
            STATS_OUT_BYTES => &mut found.out_bytes,
            _ => continue,
        };
        *place = attribute.u64().unwrap_or_default();
    }
    found
}
