//! The transport protocols that services use.

use std::fmt;

/// Each is its number in the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IpProtocol {
    Tcp = libc::IPPROTO_TCP as u8,
    Udp = libc::IPPROTO_UDP as u8,
    Sctp = libc::IPPROTO_SCTP as u8,
}

impl IpProtocol {
    const ALL: [IpProtocol; 3] = [IpProtocol::Tcp, IpProtocol::Udp, IpProtocol::Sctp];

    /// As in the IP header.
    pub fn number(self) -> u8 {
        self as u8
    }

    pub fn from_number(number: u8) -> Option<IpProtocol> {
        IpProtocol::ALL.into_iter().find(|one| one.number() == number)
    }
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IpProtocol::Tcp => "tcp",
            IpProtocol::Udp => "udp",
            IpProtocol::Sctp => "sctp",
        })
    }
}
