//! A packet's headers as bytes, as far as addresses, protocol and ports go; the rest is zero.

use std::net::IpAddr;

use super::instruction::Header;
use crate::Packet;

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub(super) fn bytes_of(header: Header, packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    match (header, packet.destination) {
        (Header::Network, IpAddr::V4(_)) => {
            bytes.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, packet.protocol.number(), 0, 0]);
            bytes.extend(octets(packet.source));
            bytes.extend(octets(packet.destination));
        }
        (Header::Network, IpAddr::V6(_)) => {
            bytes.extend([0x60, 0, 0, 0, 0, 0, packet.protocol.number(), 64]);
            bytes.extend(octets(packet.source));
            bytes.extend(octets(packet.destination));
        }
        (Header::Transport, _) => {
            bytes.extend(packet.source_port.to_be_bytes());
            bytes.extend(packet.destination_port.to_be_bytes());
            bytes.extend([0; 4]);
        }
    }
    bytes
}
