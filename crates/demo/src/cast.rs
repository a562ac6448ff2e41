//! Who plays: the pods, the callers, and the addresses of the services in `manifests/`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

pub(super) const NODE_NAME: &str = "demo-node";
pub(super) const OTHER_NODE_NAME: &str = "demo-other";

/// The pods that serve at first, in the order in which they are made, and the one that calls.
pub(super) const LOCAL_PODS: [&str; 3] = ["a", "b", FRONTEND];
pub(super) const REMOTE_PODS: [&str; 1] = ["c"];
pub(super) const FRONTEND: &str = "frontend";
/// Joins later.
pub(super) const NEWCOMER: &str = "d";
/// Goes later.
pub(super) const LEAVER: &str = "b";

pub(super) const HTTP_PORT: u16 = 8080;
pub(super) const DNS_PORT: u16 = 5353;

pub(super) const WEB: SocketAddr = v4(10, 96, 0, 10, 80);
pub(super) const WEB_V6: SocketAddr =
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0xfd00, 0x96, 0, 0, 0, 0, 0, 0x10)), 80);
pub(super) const WEB_NODE_PORT: SocketAddr = v4(192, 168, 50, 2, 30080);
pub(super) const WEB_BALANCER: SocketAddr = v4(203, 0, 113, 10, 80);
pub(super) const WEB_LOCAL_BALANCER: SocketAddr = v4(203, 0, 113, 20, 80);
pub(super) const CART: SocketAddr = v4(10, 96, 0, 30, 80);
pub(super) const CART_BALANCER: SocketAddr = v4(203, 0, 113, 30, 80);
pub(super) const DNS: SocketAddr = v4(10, 96, 0, 53, 53);
pub(super) const EMPTY: SocketAddr = v4(10, 96, 0, 40, 80);
/// In the range of services, but of none.
pub(super) const NO_SERVICE: SocketAddr = v4(10, 96, 0, 99, 80);

const fn v4(a: u8, b: u8, c: u8, d: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port)
}

/// A pod as the EndpointSlices name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) v4: Ipv4Addr,
    pub(super) v6: Ipv6Addr,
    pub(super) node: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// A pod of the node.
    Frontend,
    /// Outside the cluster, by its two addresses.
    Client,
    SecondClient,
}

impl Caller {
    pub(super) fn name(self) -> &'static str {
        match self {
            Caller::Frontend => "pod-frontend",
            Caller::Client => "client",
            Caller::SecondClient => "client, by its second address",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) caller: Caller,
    pub(super) transport: Transport,
    pub(super) to: SocketAddr,
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    By {
        pod: String,
        seen_as: IpAddr,
    },
    /// Refused at once: nothing serves there.
    Refused,
    /// Nothing came back.
    Silence,
    Failed(String),
}

/// Somewhere questions can be asked: namespaces with packets, or the interpreter of the rules.
pub(super) trait World {
    /// Ask, and take at most so long.
    fn ask(&mut self, question: &Question, patience: Duration) -> Answer;
    fn address_of(&self, caller: Caller, like: IpAddr) -> IpAddr;
    /// Whether the time an answer takes means anything.
    fn keeps_time(&self) -> bool;
}
