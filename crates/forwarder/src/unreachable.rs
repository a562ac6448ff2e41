//! Tells a client of UDP that nobody wants its datagrams, as a kernel would: "port unreachable".
//!
//! The message quotes a datagram from the client to the front. Where the rules have redirected it, conntrack knows it, and
//! rewrites the message to be about the address that the client knows.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use model::Family;
use rustix::io::Errno;
use rustix::net::{SendFlags, bind, sendto};

use crate::counts::RAISE_OPEN_FILES;
use crate::sockets;

#[derive(Default)]
pub(crate) struct Messages {
    /// By the address that they come from. They stay few: the front's, and loopback.
    sockets: Vec<(IpAddr, Socket)>,
}

enum Socket {
    Open(OwnedFd),
    /// When it was tried last, and why there is none.
    Missing(Instant, Errno),
}

/// So many addresses have a socket for messages.
const MOST_SOCKETS: usize = 8;
/// Between two attempts to open one: descriptors may have run out for a while.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(10);

impl Messages {
    /// `front` is where the client's datagram arrived.
    pub(crate) fn refuse(&mut self, front: SocketAddr, client: SocketAddr, now: Instant) {
        let Some(socket) = self.socket(front.ip(), now, open) else { return };
        let Some(message) = message(front, client) else { return };
        // Like any message of this kind, it may be lost.
        let _ = sendto(socket, &message, SendFlags::NOSIGNAL, &SocketAddr::new(client.ip(), 0));
    }

    fn socket(
        &mut self,
        ip: IpAddr,
        now: Instant,
        mut open: impl FnMut(IpAddr) -> Result<OwnedFd, Errno>,
    ) -> Option<&OwnedFd> {
        let known = self.sockets.iter().position(|(known, _)| *known == ip);
        let at = match known {
            Some(at) => at,
            None if self.sockets.len() < MOST_SOCKETS => {
                self.sockets.push((ip, Socket::first(open(ip), now)));
                self.sockets.len() - 1
            }
            None => return None,
        };
        let (_, socket) = self.sockets.get_mut(at)?;
        let is_due = |at: Instant| now.saturating_duration_since(at) >= BETWEEN_ATTEMPTS;
        if let Socket::Missing(tried, before) = *socket
            && is_due(tried)
        {
            *socket = Socket::again(open(ip), before, now);
        }
        match socket {
            Socket::Open(socket) => Some(socket),
            Socket::Missing(..) => None,
        }
    }
}

impl Socket {
    fn first(opened: Result<OwnedFd, Errno>, now: Instant) -> Socket {
        opened.map_or_else(|error| Socket::missing(error, now), Socket::Open)
    }

    /// Only what changed is said.
    fn again(opened: Result<OwnedFd, Errno>, before: Errno, now: Instant) -> Socket {
        match opened {
            Ok(socket) => {
                tracing::info!("Resolved: UDP clients get port unreachable again if an endpoint refuses");
                Socket::Open(socket)
            }
            Err(error) if error == before => Socket::Missing(now, error),
            Err(error) => Socket::missing(error, now),
        }
    }

    fn missing(error: Errno, now: Instant) -> Socket {
        let remedy = match error {
            Errno::PERM | Errno::ACCESS => "Give kube-proxy the capability NET_RAW",
            Errno::MFILE | Errno::NFILE => RAISE_OPEN_FILES,
            _ => "Check that the address is local",
        };
        tracing::info!(
            %error, "Failed to open a raw socket; UDP clients get no port unreachable if an endpoint refuses, retrying. {remedy}"
        );
        Socket::Missing(now, error)
    }
}

fn open(ip: IpAddr) -> Result<OwnedFd, Errno> {
    let socket = sockets::icmp(Family::of(ip))?;
    bind(&socket, &SocketAddr::new(ip, 0))?;
    Ok(socket)
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

    #[test]
    fn a_socket_that_could_not_be_opened_is_tried_again_after_a_while() {
        let (mut messages, start) = (Messages::default(), Instant::now());
        let ip = "10.0.0.1".parse().unwrap();
        let mut tried = 0;
        let mut attempt = |seconds: u64, outcome: fn() -> Result<OwnedFd, Errno>| {
            let open = |_| {
                tried += 1;
                outcome()
            };
            let is_there = messages.socket(ip, start + Duration::from_secs(seconds), open).is_some();
            (is_there, tried)
        };
        let full = || Err(Errno::MFILE);
        let works = || Ok(std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into());
        assert_eq!(attempt(0, full), (false, 1));
        assert_eq!(attempt(9, works), (false, 1), "not yet");
        assert_eq!(attempt(10, full), (false, 2));
        assert_eq!(attempt(19, works), (false, 2));
        assert_eq!(attempt(20, works), (true, 3));
        assert_eq!(attempt(60, full), (true, 3), "it is open");
    }
}
