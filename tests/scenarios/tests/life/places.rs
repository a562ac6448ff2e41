//! Addresses and ports that the cases use, within the ranges of the sandbox.

use std::net::{IpAddr, SocketAddr};

use model::Family;
use sandbox::address;

/// The port of every service here.
pub(crate) const PORT: u16 = 80;

pub(crate) fn cluster_ip(number: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => [10, 96, 0, number].into(),
        Family::V6 => [0xfd00, 0x96, 0, 0, 0, 0, 0, u16::from(number)].into(),
    }
}

pub(crate) fn external_ip(family: Family) -> IpAddr {
    match family {
        Family::V4 => [198, 51, 100, 7].into(),
        Family::V6 => [0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 7].into(),
    }
}

/// Further addresses of the outside client.
pub(crate) fn client_address(number: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => [192, 168, 60, 100 + number].into(),
        Family::V6 => [0xfd00, 0x60, 0, 0, 0, 0, 0, 0x100 + u16::from(number)].into(),
    }
}

/// The cluster IP of service `number` at its port.
pub(crate) fn at_cluster_ip(number: u8, family: Family) -> SocketAddr {
    SocketAddr::new(cluster_ip(number, family), PORT)
}

pub(crate) fn at_node_port(port: u16, family: Family) -> SocketAddr {
    let ip: IpAddr = match family {
        Family::V4 => address::NODE_V4.into(),
        Family::V6 => address::NODE_V6.into(),
    };
    SocketAddr::new(ip, port)
}
