//! Who has which address. Ranges that no namespace has (services, external, load balancer) are routed to the
//! node and end there unless something rewrites them.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// The node's own address, toward the second node.
pub const NODE_V4: Ipv4Addr = Ipv4Addr::new(192, 168, 50, 2);
pub const NODE_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x50, 0, 0, 0, 0, 0, 2);
/// The node's address toward the client.
pub const NODE_OUTER_V4: Ipv4Addr = Ipv4Addr::new(192, 168, 60, 2);
pub const NODE_OUTER_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x60, 0, 0, 0, 0, 0, 2);

pub const REMOTE_V4: Ipv4Addr = Ipv4Addr::new(192, 168, 50, 3);
pub const REMOTE_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x50, 0, 0, 0, 0, 0, 3);

pub const CLIENT_V4: Ipv4Addr = Ipv4Addr::new(192, 168, 60, 9);
pub const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x60, 0, 0, 0, 0, 0, 9);
pub const CLIENT_SECOND_V4: Ipv4Addr = Ipv4Addr::new(192, 168, 60, 10);
pub const CLIENT_SECOND_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x60, 0, 0, 0, 0, 0, 0x10);

pub const CLUSTER_V4: Ipv4Net = v4(10, 244, 0, 0, 16);
pub const CLUSTER_V6: Ipv6Net = v6(0xfd00, 0x244, 0, 32);
pub const LOCAL_PODS_V4: Ipv4Net = v4(10, 244, 1, 0, 24);
pub const LOCAL_PODS_V6: Ipv6Net = v6(0xfd00, 0x244, 1, 64);
pub const REMOTE_PODS_V4: Ipv4Net = v4(10, 244, 2, 0, 24);
pub const REMOTE_PODS_V6: Ipv6Net = v6(0xfd00, 0x244, 2, 64);

pub const SERVICES_V4: Ipv4Net = v4(10, 96, 0, 0, 16);
pub const SERVICES_V6: Ipv6Net = v6(0xfd00, 0x96, 0, 112);
pub const EXTERNAL_V4: Ipv4Net = v4(198, 51, 100, 0, 24);
pub const EXTERNAL_V6: Ipv6Net = v6(0x2001, 0xdb8, 0x100, 64);
pub const LOAD_BALANCER_V4: Ipv4Net = v4(203, 0, 113, 0, 24);
pub const LOAD_BALANCER_V6: Ipv6Net = v6(0x2001, 0xdb8, 0x113, 64);

/// The node's interfaces toward the second node, toward the client, and the beginning of those toward pods.
pub const NODE_UPLINK: &str = "uplink";
pub const NODE_OUTSIDE: &str = "outside";
pub const POD_LINK_PREFIX: &str = "pod-";

/// What every pod has as its gateway, on the node's end of each pod's link.
pub(crate) const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
pub(crate) const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(a: u16, b: u16, c: u16, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), length)
}
