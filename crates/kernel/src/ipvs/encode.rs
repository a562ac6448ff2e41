//! From commands to messages.

use std::net::IpAddr;

use super::sys::*;
use super::{Command, Destination, Settings, Timeouts, VirtualServer, flags};
use crate::netlink::Writer;

/// The number of a command.
pub(super) fn number(command: &Command) -> u8 {
    match command {
        Command::NewService(..) => NEW_SERVICE,
        Command::SetService(..) => SET_SERVICE,
        Command::DeleteService(_) => DEL_SERVICE,
        Command::NewDestination(..) => NEW_DEST,
        Command::SetDestination(..) => SET_DEST,
        Command::DeleteDestination(..) => DEL_DEST,
    }
}

pub(super) fn command(message: &mut Writer, command: &Command) {
    match command {
        Command::NewService(server, settings) | Command::SetService(server, settings) => {
            whole_server(message, *server, settings, whole_address(server.address));
        }
        Command::DeleteService(server) => key(message, *server),
        Command::NewDestination(server, to, weight) | Command::SetDestination(server, to, weight) => {
            key(message, *server);
            destination(message, *to, Some(*weight));
        }
        Command::DeleteDestination(server, to) => {
            key(message, *server);
            destination(message, *to, None);
        }
    }
}

pub(super) fn key(message: &mut Writer, server: VirtualServer) {
    let nest = message.nest(SERVICE);
    write_key(message, server);
    message.end_nest(nest);
}

/// The mask with which persistence tells clients apart: each address by itself. For IPv6 the kernel takes the length of
/// the prefix, as a number in host byte order.
fn whole_address(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(_) => [0xff; 4],
        IpAddr::V6(_) => 128u32.to_ne_bytes(),
    }
}

pub(super) fn whole_server(
    message: &mut Writer,
    server: VirtualServer,
    settings: &Settings,
    netmask: [u8; 4],
) {
    let nest = message.nest(SERVICE);
    write_key(message, server);
    message.string(SERVICE_SCHEDULER, &settings.scheduler);
    let set = settings.flags & flags::ALL;
    message.attribute(SERVICE_FLAGS, [set.to_ne_bytes(), flags::ALL.to_ne_bytes()].as_flattened());
    message.u32(SERVICE_TIMEOUT, settings.persistence_timeout);
    message.attribute(SERVICE_NETMASK, &netmask);
    message.end_nest(nest);
}

fn write_key(message: &mut Writer, server: VirtualServer) {
    message.u16(SERVICE_FAMILY, family(server.address));
    message.u16(SERVICE_PROTOCOL, server.protocol.number().into());
    message.attribute(SERVICE_ADDRESS, &padded(server.address));
    message.be16(SERVICE_PORT, server.port);
}

fn destination(message: &mut Writer, to: Destination, weight: Option<u32>) {
    let nest = message.nest(DEST);
    message.attribute(DEST_ADDRESS, &padded(to.address));
    message.be16(DEST_PORT, to.port);
    message.u16(DEST_FAMILY, family(to.address));
    if let Some(weight) = weight {
        message.u32(DEST_FORWARDING, FORWARD_MASQUERADE);
        message.u32(DEST_WEIGHT, weight);
        message.u32(DEST_UPPER_THRESHOLD, 0);
        message.u32(DEST_LOWER_THRESHOLD, 0);
    }
    message.end_nest(nest);
}

pub(super) fn timeouts(message: &mut Writer, timeouts: Timeouts) {
    message.u32(TIMEOUT_TCP, timeouts.tcp);
    message.u32(TIMEOUT_TCP_FIN, timeouts.tcp_fin);
    message.u32(TIMEOUT_UDP, timeouts.udp);
}

fn family(address: IpAddr) -> u16 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u16,
        IpAddr::V6(_) => libc::AF_INET6 as u16,
    }
}

/// `union nf_inet_addr`: an IPv4 address takes the first four bytes.
fn padded(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}
