//! Virtual servers and their destinations: the keys that name them, what can be set, and what the kernel reports.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

pub use crate::IpProtocol as Protocol;

/// What clients connect to. Port 0 would take every port of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualServer {
    pub address: IpAddr,
    pub protocol: Protocol,
    pub port: u16,
}

impl fmt::Display for VirtualServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", SocketAddr::new(self.address, self.port), self.protocol)
    }
}

/// Where connections of a virtual server go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    pub address: IpAddr,
    pub port: u16,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.address, self.port).fmt(f)
    }
}

/// Bits of [`Settings::flags`].
pub mod flags {
    /// A client keeps its destination for [`super::Settings::persistence_timeout`] seconds after its last connection.
    pub const PERSISTENT: u32 = 1;
    /// Every datagram is scheduled by itself.
    pub const ONE_PACKET: u32 = 4;
    /// `sh` and `mh`: clients whose destination is unavailable get another one.
    pub const HASH_FALLBACK: u32 = 8;
    /// `sh` and `mh`: the client's port counts, too.
    pub const HASH_PORT: u32 = 16;
    /// No scheduler of the kernel reads it: a mark that stays with the server.
    pub const SCHEDULER_3: u32 = 32;
    /// All that can be set; every change sets or clears each of them.
    pub const ALL: u32 = PERSISTENT | ONE_PACKET | HASH_FALLBACK | HASH_PORT | SCHEDULER_3;
}

/// What can be set on a virtual server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// `rr`, `lc`, ...: the module `ip_vs_rr`, `ip_vs_lc`, ... is loaded if it can be. Ask
    /// [`super::Transport::scheduler_available`] first: `lblc` and `lblcr` must not be loaded by the command itself.
    pub scheduler: String,
    /// See [`flags`].
    pub flags: u32,
    /// In seconds. Kept, though without effect, while [`flags::PERSISTENT`] is not set.
    pub persistence_timeout: u32,
}

impl Settings {
    pub fn new(scheduler: &str) -> Settings {
        Settings { scheduler: scheduler.to_owned(), flags: 0, persistence_timeout: 0 }
    }

    pub fn with_flags(self, flags: u32) -> Settings {
        Settings { flags: self.flags | flags, ..self }
    }

    /// Clients keep their destination for so many seconds.
    pub fn persistent(self, seconds: u32) -> Settings {
        Settings { persistence_timeout: seconds, ..self.with_flags(flags::PERSISTENT) }
    }
}

/// Counted since the server or destination was made. The kernel adds the counters up every two seconds, and not at
/// all while the sysctl `net.ipv4.vs.run_estimation` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub connections: u64,
    pub in_packets: u64,
    pub out_packets: u64,
    pub in_bytes: u64,
    pub out_bytes: u64,
}

/// A virtual server as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpedServer {
    pub server: VirtualServer,
    pub settings: Settings,
    /// Persistence is not for single addresses but for networks of clients, which [`Settings`] cannot ask for.
    pub by_network: bool,
    pub statistics: Statistics,
}

/// A destination as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpedDestination {
    pub destination: Destination,
    /// 0 takes no new connections but carries those it has.
    pub weight: u32,
    /// Whether it is reached by rewriting the destination address, the only way that [`super::Batch`] asks for.
    pub masquerading: bool,
    /// Established connections.
    pub active: u32,
    /// Connections in any other state: opening, closing, waiting for their end. All UDP ones are here.
    pub inactive: u32,
    /// Clients that are bound to it; see [`flags::PERSISTENT`].
    pub persistent: u32,
    pub statistics: Statistics,
}

/// How long an idle connection is remembered, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    pub tcp: u32,
    /// After a FIN was seen.
    pub tcp_fin: u32,
    pub udp: u32,
}

/// What the kernel says about its IPVS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Major, minor, patch; of IPVS, not of the kernel.
    pub version: (u8, u8, u8),
    /// Buckets of the connection table, not a limit.
    pub connection_table_size: u32,
}
