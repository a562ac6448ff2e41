//! The files that are written, and the settings they stand for.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum File {
    ConntrackMax,
    ConntrackBuckets,
    TcpEstablished,
    TcpCloseWait,
    TcpBeLiberal,
    UdpTimeout,
    UdpStreamTimeout,
    RouteLocalnet,
    OomScoreAdj,
}

impl File {
    pub(super) const ALL: [File; 9] = [
        File::ConntrackMax,
        File::ConntrackBuckets,
        File::TcpEstablished,
        File::TcpCloseWait,
        File::TcpBeLiberal,
        File::UdpTimeout,
        File::UdpStreamTimeout,
        File::RouteLocalnet,
        File::OomScoreAdj,
    ];

    pub(super) fn path(self) -> &'static str {
        match self {
            File::ConntrackMax => "/proc/sys/net/netfilter/nf_conntrack_max",
            File::ConntrackBuckets => "/sys/module/nf_conntrack/parameters/hashsize",
            File::TcpEstablished => "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established",
            File::TcpCloseWait => "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait",
            File::TcpBeLiberal => "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal",
            File::UdpTimeout => "/proc/sys/net/netfilter/nf_conntrack_udp_timeout",
            File::UdpStreamTimeout => "/proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream",
            File::RouteLocalnet => "/proc/sys/net/ipv4/conf/all/route_localnet",
            File::OomScoreAdj => "/proc/self/oom_score_adj",
        }
    }

    /// The setting that asks for it.
    pub(super) fn setting(self) -> &'static str {
        match self {
            File::ConntrackMax | File::ConntrackBuckets => "conntrack.maxPerCore",
            File::TcpEstablished => "conntrack.tcpEstablishedTimeout",
            File::TcpCloseWait => "conntrack.tcpCloseWaitTimeout",
            File::TcpBeLiberal => "conntrack.tcpBeLiberal",
            File::UdpTimeout => "conntrack.udpTimeout",
            File::UdpStreamTimeout => "conntrack.udpStreamTimeout",
            File::RouteLocalnet => "iptables.localhostNodePorts",
            File::OomScoreAdj => "oomScoreAdj",
        }
    }
}
