//! What the configuration asks of the node, against what is there. Pure: nothing is read or written here.

use std::collections::BTreeMap;
use std::time::Duration;

use config::{ConntrackOptions, Options};
use model::Family;

use super::file::File;

/// Upstream's: more would take too much memory on machines with very many cores.
const MOST_CONNECTIONS: i64 = 1_048_576;

/// A number to be written, and the one that is there if it could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) file: File,
    pub(super) value: i64,
    pub(super) found: Option<i64>,
}

/// What is there now; a file that cannot be read is missing.
pub(super) type Found = BTreeMap<File, i64>;

/// What every process of this node shares, in the order to be written in.
pub(super) fn shared(options: &Options, cores: usize, found: &Found) -> Vec<Write> {
    let conntrack = &options.node.conntrack;
    let limit = limit(conntrack, cores);
    let mut wanted = Vec::new();
    if limit > 0 {
        wanted.push((File::ConntrackMax, limit));
        // A bucket for every four connections; more than that are left as they are.
        let buckets = found.get(&File::ConntrackBuckets).copied().unwrap_or(0);
        wanted.push((File::ConntrackBuckets, buckets.max(limit / 4)));
    }
    let timeouts = [
        (File::TcpEstablished, conntrack.tcp_established_timeout),
        (File::TcpCloseWait, conntrack.tcp_close_wait_timeout),
        (File::UdpTimeout, conntrack.udp_timeout),
        (File::UdpStreamTimeout, conntrack.udp_stream_timeout),
    ];
    wanted.extend(timeouts.into_iter().filter_map(|(file, timeout)| Some((file, seconds(timeout?)))));
    if conntrack.tcp_be_liberal {
        wanted.push((File::TcpBeLiberal, 1));
    }
    if routes_loopback(options) {
        wanted.push((File::RouteLocalnet, 1));
    }
    different(wanted, found)
}

/// What this process alone has.
pub(super) fn own(options: &Options, found: &Found) -> Vec<Write> {
    different(vec![(File::OomScoreAdj, options.node.oom_score_adj.into())], found)
}

fn different(wanted: Vec<(File, i64)>, found: &Found) -> Vec<Write> {
    let write = |(file, value)| Write { file, value, found: found.get(&file).copied() };
    wanted.into_iter().map(write).filter(|write| write.found != Some(write.value)).collect()
}

/// How many connections the kernel may track; 0 leaves it alone. The least does not outdo the cap where the cores
/// reach it, as upstream has it.
fn limit(conntrack: &ConntrackOptions, cores: usize) -> i64 {
    let per_core = i64::from(conntrack.max_per_core);
    let scaled = per_core.saturating_mul(i64::try_from(cores).unwrap_or(i64::MAX));
    match scaled {
        0 => 0,
        scaled if scaled > MOST_CONNECTIONS => MOST_CONNECTIONS,
        scaled => scaled.max(conntrack.min.into()),
    }
}

/// The kernel counts whole seconds; a part of one must not become none.
fn seconds(timeout: Duration) -> i64 {
    let whole = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
    i64::try_from(whole).unwrap_or(i64::MAX)
}

/// Only iptables mode reaches pods from 127.0.0.1, by routing what the kernel otherwise takes for a forgery. It
/// opens services of this node's loopback to its neighbours on the network, so it stays off unless it is needed.
pub(super) fn routes_loopback(options: &Options) -> bool {
    let Options { nodeport_addresses, nodeports_on_loopback, .. } = options;
    !model::nodeport_loopback(nodeport_addresses, *nodeports_on_loopback, Family::V4).is_empty()
}

#[cfg(test)]
#[path = "../../tests/unit/node_setup_plan.rs"]
mod tests;
