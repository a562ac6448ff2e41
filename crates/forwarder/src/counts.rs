//! What the forwarder counts, for its metrics and its limits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use model::{Family, Protocol};

use crate::memory::Memory;
use crate::port::Port;

/// Beyond these, new connections are turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub tcp: usize,
    pub udp: usize,
    /// Sockets of ended flows whose ports are kept for a moment, of all threads.
    pub(crate) parked: usize,
    /// Whether it is descriptors that allow no more flows of UDP, not ports.
    is_udp_short_of_descriptors: bool,
}

/// No more than this, however many descriptors there are.
const MOST_TCP: usize = 250_000;
/// Descriptors of pipes, which all threads may have at once.
const OF_PIPES: u64 = (crate::MOST_THREADS * crate::pipes::DESCRIPTORS) as u64;
/// Those for the rest of the agent: the apiserver, netlink, probes and health checks.
const OF_AGENT: u64 = 1_792;

impl Limits {
    /// A connection takes two descriptors, a flow of UDP one, and for eight of them one port is kept; TCP gets two thirds.
    /// What pipes, listeners and the rest of the agent take is left, so that probes are answered even if all of this is in
    /// use.
    ///
    /// A flow of UDP also takes one of the ports of the namespace, whatever its family and endpoint: Linux gives a socket
    /// that is not bound a port that no other one has. Half of them are left to other programs.
    pub fn of(descriptors: u64, listeners: usize, ports: usize) -> Limits {
        let reserved = (OF_PIPES + OF_AGENT).saturating_add(listeners as u64);
        let free = descriptors.saturating_sub(reserved.min(descriptors / 4 * 3));
        // Nothing needs more.
        let free = usize::try_from(free).unwrap_or(usize::MAX).min(1 << 28);
        let share = free * 8 / 25;
        let udp = share.min((ports / 2).max(1));
        // Descriptors that flows leave, or few more; an eighth of the ports.
        let parked = (share - udp).max(share / 8).min(ports / 8);
        Limits { tcp: share.min(MOST_TCP), udp, parked, is_udp_short_of_descriptors: udp == share }
    }

    pub fn of_protocol(self, protocol: Protocol) -> usize {
        if protocol == Protocol::Udp { self.udp } else { self.tcp }
    }

    /// What to do if the limit of a protocol is reached.
    pub(crate) fn remedy(self, protocol: Protocol) -> String {
        match protocol {
            Protocol::Udp => {
                let remedy =
                    if self.is_udp_short_of_descriptors { RAISE_OPEN_FILES } else { WIDEN_PORT_RANGE };
                format!("{remedy}, or lower udpIdleTimeout (--udp-idle-timeout)")
            }
            Protocol::Tcp | Protocol::Sctp if self.tcp >= MOST_TCP => {
                "Use another proxy mode, which has no such limit".to_owned()
            }
            Protocol::Tcp | Protocol::Sctp => RAISE_OPEN_FILES.to_owned(),
        }
    }
}

/// No flag of kube-proxy does it: at its start it takes all that it may have.
pub(crate) const RAISE_OPEN_FILES: &str = "Raise the hard limit of open files where kube-proxy is started, such as \
                                           LimitNOFILE of the container runtime's systemd unit";

/// They are counted when kube-proxy starts.
pub(crate) const WIDEN_PORT_RANGE: &str =
    "Widen net.ipv4.ip_local_port_range on the node, and restart kube-proxy";

/// A port is taken for a minute after a connection that the client has ended.
pub(crate) const MORE_PORTS: &str = "Widen net.ipv4.ip_local_port_range on the node, set net.ipv4.tcp_tw_reuse to 1, \
                                     or add endpoints";

/// The ports that the kernel chooses from for sockets of this network namespace; its default if it does not tell.
pub(crate) fn local_ports() -> usize {
    let range = kernel::sysctl::read("net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut bounds = range.split_whitespace().filter_map(|bound| bound.parse::<usize>().ok());
    match (bounds.next(), bounds.next()) {
        (Some(first), Some(last)) => (last + 1).saturating_sub(first),
        _ => 28_232,
    }
}

/// The limit that a new client would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    All,
    /// Its service port must not take everything from the others.
    Port,
}

impl Full {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Full::All => "in total",
            Full::Port => "of one service port, which may have half of the limit",
        }
    }
}

pub(crate) fn limit_reached(open: usize, port: &Port, limit: usize) -> Option<Full> {
    match () {
        // First: such a service must make room by itself, even if there is none for others either.
        () if port.open.load(Ordering::Relaxed) >= limit / 2 => Some(Full::Port),
        () if open >= limit => Some(Full::All),
        () => None,
    }
}

/// Why a client was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too many are open, in total or of one service port.
    Limit,
    /// No descriptors left.
    Descriptors,
    /// No endpoint answered, or there is none.
    Endpoints,
    /// No service has the address any more, or conntrack does not tell which one is meant.
    Unknown,
    /// No port left for a socket to the endpoint.
    Ports,
}

impl Refused {
    pub const ALL: [Refused; 5] =
        [Refused::Limit, Refused::Descriptors, Refused::Endpoints, Refused::Unknown, Refused::Ports];

    pub fn word(self) -> &'static str {
        match self {
            Refused::Limit => "limit",
            Refused::Descriptors => "descriptors",
            Refused::Endpoints => "endpoints",
            Refused::Unknown => "unknown",
            Refused::Ports => "ports",
        }
    }
}

/// Of one family and protocol.
#[derive(Debug, Default)]
pub struct Count {
    pub open: AtomicUsize,
    pub opened: AtomicU64,
    /// Flows of UDP in whose place others began.
    pub ended_early: AtomicU64,
    /// Attempts to reach an endpoint that failed.
    pub failed_dials: AtomicU64,
    /// To endpoints, and back.
    pub bytes: [AtomicU64; 2],
    refused: [AtomicU64; 5],
}

impl Count {
    pub fn refuse(&self, why: Refused) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn refused(&self, why: Refused) -> u64 {
        self.refused[why as usize].load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub struct Counts {
    of: [[Count; 2]; 2],
    pub(crate) held: Memory,
    /// Connections that made no progress for a minute because one side takes nothing.
    pub blocked: AtomicUsize,
    /// Answers of UDP endpoints that could not be sent to their clients, of each family.
    pub lost_answers: [AtomicU64; 2],
}

impl Counts {
    pub fn of(&self, family: Family, protocol: Protocol) -> &Count {
        &self.of[family.index()][usize::from(protocol == Protocol::Udp)]
    }

    /// Bytes in memory that their receivers have not taken yet.
    pub fn held(&self) -> usize {
        self.held.0.load(Ordering::Relaxed)
    }

    /// Open connections of a protocol, in both families.
    pub fn open(&self, protocol: Protocol) -> usize {
        Family::BOTH.iter().map(|family| self.of(*family, protocol).open.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_fit_the_descriptors() {
        for (descriptors, ports) in [64, 1024, 4_096, 8_192, 16_384, 65_536, 102_912, 1_048_576, u64::MAX]
            .into_iter()
            .flat_map(|descriptors| [28_232, 64_512].map(|ports| (descriptors, ports)))
        {
            let Limits { tcp, udp, parked, .. } = Limits::of(descriptors, 0, ports);
            assert!(tcp > 0 && udp > 0, "{descriptors}");
            // A pipe for each way.
            let pipes = OF_PIPES.min(4 * tcp as u64);
            let of_agent = (descriptors / 4).min(OF_AGENT);
            assert!((2 * tcp + udp + parked) as u64 + pipes + of_agent <= descriptors, "{descriptors}");
        }
        assert!(Limits::of(1 << 16, 0, 1 << 16).remedy(Protocol::Tcp).contains("LimitNOFILE"));
        let most = Limits::of(u64::MAX, 0, 28_232);
        assert!(!most.remedy(Protocol::Udp).contains("LimitNOFILE"), "more would not help");
        assert!(Limits::of(65_536, 0, 28_232).tcp > 19_000);
        assert_eq!(Limits::of(65_536, 0, 28_232).parked, 3_529, "an eighth of the ports");
        let Limits { tcp, udp, parked, .. } = Limits::of(20_000, 8_000, 28_232);
        assert!(
            2 * tcp + udp + parked + 8_000 + 5_000 < 20_000,
            "there is room for listeners, pipes and probes"
        );
    }
}
