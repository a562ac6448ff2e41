//! Who is where in the flow tests: pods, nodes, and the servers that listen on them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use model::Family;
use sandbox::{Place, address};

/// The node the agent runs on, as Kubernetes calls it, and the other one.
pub const NODE: &str = "node-1";
pub const OTHER_NODE: &str = "node-2";
pub const ZONE: &str = "zone-1";

/// Ports that every endpoint listens on. A server on the first answers with the endpoint's name, one on the
/// second with the name and the port: `a` and `a/9090`.
pub const MAIN_PORT: u16 = 8080;
pub const SECOND_PORT: u16 = 9090;

/// The pods, in the order in which the sandbox makes them. `guest` is a client, and an endpoint to itself.
pub const PODS: [(&str, Place); 4] =
    [("a", Place::Local), ("b", Place::Local), ("guest", Place::Local), ("c", Place::Remote)];

/// The node's interface toward `far`, a pod of yet another node. It is a client, and an endpoint to itself.
pub const TUNNEL: &str = "tunnel";

/// Everything that can be an endpoint: pods, and the two nodes for endpoints in the host network.
pub const ENDPOINTS: [&str; 7] = ["a", "b", "guest", "c", "far", "node", "remote"];

/// The addresses of an endpoint or client, IPv4 first.
fn addresses(name: &str) -> (Ipv4Addr, Ipv6Addr) {
    let pod = |third: u8, last: u8| {
        let v6 = Ipv6Addr::new(0xfd00, 0x244, third.into(), 0, 0, 0, 0, u16::from(last) - 10 + 0x10);
        (Ipv4Addr::new(10, 244, third, last), v6)
    };
    match name {
        "a" => pod(1, 10),
        "b" => pod(1, 11),
        "guest" => pod(1, 12),
        "c" => pod(2, 10),
        "far" => pod(2, 11),
        "node" => (address::NODE_V4, address::NODE_V6),
        "remote" => (address::REMOTE_V4, address::REMOTE_V6),
        other => panic!("nobody is called {other}"),
    }
}

pub fn address_of(name: &str, family: Family) -> IpAddr {
    let (v4, v6) = addresses(name);
    match family {
        Family::V4 => v4.into(),
        Family::V6 => v6.into(),
    }
}

/// The node on which an endpoint is.
pub fn node_of(endpoint: &str) -> &'static str {
    match endpoint {
        "a" | "b" | "guest" | "node" => NODE,
        _ => OTHER_NODE,
    }
}

/// Every server: its name and address. Each listens for TCP, UDP and, where the kernel has it, SCTP.
pub fn servers() -> impl Iterator<Item = (&'static str, String, SocketAddr)> {
    ENDPOINTS.into_iter().flat_map(|endpoint| {
        Family::BOTH.into_iter().flat_map(move |family| {
            [MAIN_PORT, SECOND_PORT].map(|port| {
                (endpoint, server_name(endpoint, port), SocketAddr::new(address_of(endpoint, family), port))
            })
        })
    })
}

/// Which server listens there, if any.
pub fn server_at(at: SocketAddr) -> Option<String> {
    servers().find(|(_, _, address)| *address == at).map(|(_, name, _)| name)
}

fn server_name(endpoint: &str, port: u16) -> String {
    if port == MAIN_PORT { endpoint.to_owned() } else { format!("{endpoint}/{port}") }
}

/// Every address of the node: what a masqueraded client may be seen as.
pub fn node_addresses() -> Vec<IpAddr> {
    vec![
        address::NODE_V4.into(),
        address::NODE_OUTER_V4.into(),
        // The pods' gateway, on the node's end of each pod's link.
        Ipv4Addr::new(169, 254, 1, 1).into(),
        address::NODE_V6.into(),
        address::NODE_OUTER_V6.into(),
    ]
}
