//! Who has which address. Everything is dual-stack, and nothing is routed out of the namespaces.
//!
//! ```text
//! control plane 192.168.70.2 ──┐ etcd, apiserver, controllers, the suite, clients outside
//! node1 192.168.70.11 ─────────┼─ wire 192.168.70.1: a bridge, and everybody's default route
//! node2 192.168.70.12 ─────────┘
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Both families of one thing.
pub type Dual<T> = [T; 2];

pub const WIRE: (Ipv4Addr, Ipv6Addr) = machine(1);
pub const CONTROL_PLANE: (Ipv4Addr, Ipv6Addr) = machine(2);
/// From where clients outside call: not an address of the nodes' network, because upstream's suite takes a caller from
/// there for one that was masqueraded.
pub const OUTSIDE: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(203, 0, 113, 2), Ipv6Addr::new(0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 2));

pub const PODS: &str = "10.244.0.0/16,fd00:244::/48";
pub const SERVICES: &str = "10.96.0.0/16,fd00:96::/112";
/// The first address of [`SERVICES`].
pub const KUBERNETES_SERVICE: &str = "10.96.0.1";
pub const DNS: &str = "10.96.0.10";

/// Of the machine with this number on the wire.
const fn machine(number: u8) -> (Ipv4Addr, Ipv6Addr) {
    (Ipv4Addr::new(192, 168, 70, number), Ipv6Addr::new(0xfd00, 0x70, 0, 0, 0, 0, 0, number as u16))
}

/// Of a node; they are counted from 1.
pub fn node(number: u8) -> (Ipv4Addr, Ipv6Addr) {
    machine(10 + number)
}

/// The pods of a node.
pub fn pods(node: u8) -> Dual<IpNet> {
    let v4 = Ipv4Net::new_assert(Ipv4Addr::new(10, 244, node, 0), 24);
    let v6 = Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0x244, 0, node.into(), 0, 0, 0, 0), 64);
    [v4.into(), v6.into()]
}

/// A client that a test puts beside the pods of a node, above what the plugin gives to real ones.
pub fn client(node: u8) -> Dual<IpAddr> {
    let v6 = Ipv6Addr::new(0xfd00, 0x244, 0, node.into(), 0, 0, 1, 250);
    [Ipv4Addr::new(10, 244, node, 250).into(), v6.into()]
}

/// The last address that the plugin gives to a pod.
pub fn last_pod(node: u8) -> Dual<IpAddr> {
    let v6 = Ipv6Addr::new(0xfd00, 0x244, 0, node.into(), 0, 0, 0, 0xffff);
    [Ipv4Addr::new(10, 244, node, 240).into(), v6.into()]
}

/// Addresses of load balancers, counted from 1.
pub fn balancer(number: u16) -> (Ipv4Addr, Ipv6Addr) {
    let [high, low] = number.to_be_bytes();
    (Ipv4Addr::new(198, 18, high, low), Ipv6Addr::new(0x2001, 0xdb8, 0x18, 0, 0, 0, 0, number))
}

/// On the wire both families have ordinary subnets.
pub fn on_wire((v4, v6): (Ipv4Addr, Ipv6Addr)) -> Dual<IpNet> {
    [Ipv4Net::new_assert(v4, 24).into(), Ipv6Net::new_assert(v6, 64).into()]
}

pub fn both((v4, v6): (Ipv4Addr, Ipv6Addr)) -> Dual<IpAddr> {
    [v4.into(), v6.into()]
}

/// Everything, in both families.
pub fn anywhere() -> Dual<IpNet> {
    [Ipv4Net::default().into(), Ipv6Net::default().into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_pods_share_a_prefix_but_no_address() {
        for (family, net) in pods(3).into_iter().enumerate() {
            assert!(net.contains(&client(3)[family]) && net.contains(&last_pod(3)[family]));
            assert!(client(3)[family] > last_pod(3)[family]);
        }
    }
}
