//! A simulated IPVS: [`Simulator`] takes the commands a kernel would, refuses what a kernel would refuse, and picks
//! destinations for connections. A [`Node`] is what packets walk through: IPVS and the simulated nf_tables together.
//!
//! `rr` and the schedulers that count connections choose exactly as the kernel does; those that hash only agree with
//! it in what their names say (one client, one destination). Destinations are reached by rewriting addresses (NAT).

mod commands;
mod connections;
mod hashing;
mod machine;
mod schedule;
mod server;
#[cfg(test)]
mod tests;
mod transport;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use kernel::ipvs::{Timeouts, VirtualServer};

use connections::Connections;
use server::Server;

pub use connections::Choice;
pub use machine::{Machine, SharedMachine};
pub use walk::{Node, Routing};

/// The schedulers of the kernel, each a module of its own.
pub const SCHEDULERS: [&str; 13] =
    ["rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "dh", "sh", "mh", "sed", "nq"];

/// The IPVS of one network namespace.
#[derive(Clone, Debug)]
pub struct Simulator {
    servers: BTreeMap<VirtualServer, Server>,
    connections: Connections,
    timeouts: Timeouts,
    schedulers: BTreeSet<String>,
    /// `net.ipv4.vs.*`.
    pub sysctls: Sysctls,
    now: u64,
    failure: Option<i32>,
}

/// What decides over connections whose destination is going; off at first, as in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sysctls {
    /// A connection to a deleted destination ends at its next packet; otherwise it stays, and its packets vanish.
    pub expire_nodest_conn: bool,
    /// A client bound to a destination of weight 0 gets another one.
    pub expire_quiescent_template: bool,
}

impl Default for Simulator {
    fn default() -> Simulator {
        Simulator::new()
    }
}

impl Simulator {
    /// With all schedulers, and the kernel's timeouts.
    pub fn new() -> Simulator {
        Simulator {
            servers: BTreeMap::new(),
            connections: Connections::default(),
            timeouts: Timeouts { tcp: 900, tcp_fin: 120, udp: 300 },
            schedulers: SCHEDULERS.iter().map(|name| (*name).to_owned()).collect(),
            sysctls: Sysctls::default(),
            now: 0,
            failure: None,
        }
    }

    /// Move the clock, in milliseconds of any origin; clients' bindings whose time is up disappear.
    pub fn set_now(&mut self, milliseconds: u64) {
        self.now = milliseconds;
        self.connections.expire(milliseconds);
    }

    /// As on a kernel that has not this module.
    pub fn remove_scheduler(&mut self, name: &str) {
        self.schedulers.remove(name);
    }

    /// Fail the next commit, dump or question with this error number, before anything is done.
    pub fn fail_next(&mut self, errno: i32) {
        self.failure = Some(errno);
    }
}
