//! Tells a client of UDP that nobody wants its datagrams, as a kernel would: "port unreachable".
//!
//! The message quotes a datagram from the client to the front. Where the rules have redirected it, conntrack knows it, and
//! rewrites the message to be about the address that the client knows.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use model::Family;
use rustix::net::{SendFlags, bind, sendto};

use crate::sockets;

#[derive(Default)]
pub(crate) struct Messages {
    /// By the address that they come from. They stay few: the front's, and loopback.
    sockets: Vec<(IpAddr, Option<OwnedFd>)>,
}

/// So many addresses have a socket for messages.
const MOST_SOCKETS: usize = 8;

impl Messages {
    /// `front` is where the client's datagram arrived.
    pub(crate) fn refuse(&mut self, front: SocketAddr, client: SocketAddr) {
        let Some(socket) = self.socket(front.ip()) else { return };
        let Some(message) = message(front, client) else { return };
        // Like any message of this kind, it may be lost.
        let _ = sendto(socket, &message, SendFlags::NOSIGNAL, &SocketAddr::new(client.ip(), 0));
    }

    fn socket(&mut self, ip: IpAddr) -> Option<&OwnedFd> {
        if !self.sockets.iter().any(|(known, _)| *known == ip) && self.sockets.len() < MOST_SOCKETS {
            self.sockets.push((ip, open(ip)));
        }
        let known = self.sockets.iter().find(|(known, _)| *known == ip)?;
        known.1.as_ref()
    }
}

fn open(ip: IpAddr) -> Option<OwnedFd> {
    let opened = sockets::icmp(Family::of(ip)).and_then(|socket| {
        bind(&socket, &SocketAddr::new(ip, 0))?;
        Ok(socket)
    });
    if let Err(error) = &opened {
        tracing::info!(
            %error, "Failed to open a raw socket: UDP clients are not told if an endpoint refuses. kube-proxy needs NET_RAW for it"
        );
    }
    opened.ok()
}

const UDP: u8 = 17;
/// Of an IP header and the beginning of what follows it.
const UDP_HEADER: usize = 8;

fn message(front: SocketAddr, client: SocketAddr) -> Option<Vec<u8>> {
    let mut message = match (front.ip(), client.ip()) {
        // Destination unreachable: port.
        (IpAddr::V4(front), IpAddr::V4(client)) => {
            let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
            let length = 20 + UDP_HEADER as u8;
            message.extend([0x45, 0, 0, length, 0, 0, 0x40, 0, 64, UDP, 0, 0]);
            message.extend(client.octets());
            message.extend(front.octets());
            let header = checksum(message.get(8..28)?);
            message.get_mut(18..20)?.copy_from_slice(&header);
            message
        }
        (IpAddr::V6(front), IpAddr::V6(client)) => {
            // The kernel fills in the checksum.
            let mut message = vec![1, 4, 0, 0, 0, 0, 0, 0];
            message.extend([0x60, 0, 0, 0, 0, UDP_HEADER as u8, UDP, 64]);
            message.extend(client.octets());
            message.extend(front.octets());
            message
        }
        _ => return None,
    };
    message.extend(client.port().to_be_bytes());
    message.extend(front.port().to_be_bytes());
    message.extend([0, UDP_HEADER as u8, 0, 0]);
    if front.is_ipv4() {
        let whole = checksum(&message);
        message.get_mut(2..4)?.copy_from_slice(&whole);
    }
    Some(message)
}

fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|pair| match pair {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        [high] => u32::from(*high) << 8,
        _ => 0,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_right() {
        let message = message("10.0.0.1:53".parse().unwrap(), "10.0.0.2:4000".parse().unwrap()).unwrap();
        assert_eq!(checksum(&message), [0, 0]);
        assert_eq!(checksum(&message[8..28]), [0, 0]);
        assert_eq!(&message[28..32], [4000_u16.to_be_bytes(), 53_u16.to_be_bytes()].concat());
    }
}
