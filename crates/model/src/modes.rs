//! The proxy modes, and what an operator chooses for single ones. Plain values: the configuration fills them in, the mode
//! carries them out.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

/// How rules are programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Nftables,
    Iptables,
    Ipvs,
    Userspace,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::Nftables, Mode::Iptables, Mode::Ipvs, Mode::Userspace];

    pub const fn word(self) -> &'static str {
        match self {
            Mode::Nftables => "nftables",
            Mode::Iptables => "iptables",
            Mode::Ipvs => "ipvs",
            Mode::Userspace => "userspace",
        }
    }

    /// The mode of this word.
    pub fn named(word: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.word() == word)
    }
}

/// Settings that only one mode has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModeSettings {
    pub ipvs: IpvsSettings,
    pub userspace: UserspaceSettings,
}

impl ModeSettings {
    /// How long a UDP flow that the agent carries lives without a datagram, in whatever mode.
    pub fn udp_idle(&self) -> Duration {
        self.userspace.udp_idle
    }

    /// How long the agent may take to stop.
    pub fn time_to_stop(&self) -> Duration {
        self.userspace.drain
    }
}

/// Settings of mode userspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserspaceSettings {
    /// How long a UDP flow lives without a datagram.
    pub udp_idle: Duration,
    /// How long open connections may go on when the agent stops.
    pub drain: Duration,
}

impl Default for UserspaceSettings {
    /// Conntrack keeps a UDP flow for 30 seconds, too.
    fn default() -> UserspaceSettings {
        UserspaceSettings { udp_idle: Duration::from_secs(30), drain: Duration::from_secs(10) }
    }
}

/// Settings of mode ipvs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpvsSettings {
    pub scheduler: Scheduler,
    /// Virtual servers in these prefixes belong to someone else and are never touched. Host bits are cleared.
    pub exclude_cidrs: Vec<IpNet>,
    /// Answer ARP requests only for addresses of the receiving interface.
    pub strict_arp: bool,
    pub timeouts: IpvsTimeouts,
}

impl IpvsSettings {
    /// Whether a virtual server at this address is someone else's.
    pub fn excludes(&self, address: IpAddr) -> bool {
        self.exclude_cidrs.iter().any(|net| net.contains(&address))
    }
}

/// How long IPVS keeps idle connections. Zero keeps the node's setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpvsTimeouts {
    pub tcp: Duration,
    /// After a FIN.
    pub tcp_fin: Duration,
    pub udp: Duration,
}

/// How IPVS picks an endpoint for a new connection. Each is a kernel module, `ip_vs_NAME`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheduler {
    #[default]
    RoundRobin,
    WeightedRoundRobin,
    LeastConnection,
    WeightedLeastConnection,
    LocalityLeastConnection,
    LocalityLeastConnectionReplication,
    SourceHash,
    DestinationHash,
    ShortestExpectedDelay,
    NeverQueue,
    MaglevHash,
}

impl Scheduler {
    pub const ALL: [Scheduler; 11] = [
        Scheduler::RoundRobin,
        Scheduler::WeightedRoundRobin,
        Scheduler::LeastConnection,
        Scheduler::WeightedLeastConnection,
        Scheduler::LocalityLeastConnection,
        Scheduler::LocalityLeastConnectionReplication,
        Scheduler::SourceHash,
        Scheduler::DestinationHash,
        Scheduler::ShortestExpectedDelay,
        Scheduler::NeverQueue,
        Scheduler::MaglevHash,
    ];

    /// As the kernel and the configuration call it.
    pub const fn name(self) -> &'static str {
        match self {
            Scheduler::RoundRobin => "rr",
            Scheduler::WeightedRoundRobin => "wrr",
            Scheduler::LeastConnection => "lc",
            Scheduler::WeightedLeastConnection => "wlc",
            Scheduler::LocalityLeastConnection => "lblc",
            Scheduler::LocalityLeastConnectionReplication => "lblcr",
            Scheduler::SourceHash => "sh",
            Scheduler::DestinationHash => "dh",
            Scheduler::ShortestExpectedDelay => "sed",
            Scheduler::NeverQueue => "nq",
            Scheduler::MaglevHash => "mh",
        }
    }

    /// The scheduler of this name.
    pub fn named(name: &str) -> Option<Scheduler> {
        Scheduler::ALL.into_iter().find(|scheduler| scheduler.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheduler_is_found_by_its_name() {
        for scheduler in Scheduler::ALL {
            assert_eq!(Scheduler::named(scheduler.name()), Some(scheduler));
        }
        assert_eq!(Scheduler::named(""), None);
        assert_eq!(Scheduler::default().name(), "rr");
    }

    #[test]
    fn excluded_is_what_a_prefix_contains() {
        let exclude_cidrs = ["10.9.0.0/16", "fd00:9::/64"].map(|net| net.parse().unwrap()).into();
        let settings = IpvsSettings { exclude_cidrs, ..IpvsSettings::default() };
        for (address, expected) in
            [("10.9.0.1", true), ("10.10.0.1", false), ("fd00:9::1", true), ("fd00:10::1", false)]
        {
            assert_eq!(settings.excludes(address.parse().unwrap()), expected, "{address}");
        }
    }
}
