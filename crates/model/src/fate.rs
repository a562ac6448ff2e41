//! What becomes of the first packet of a connection: a plan seen by one client. Modes render plans and do not ask here;
//! tests hold each of them to it.

use std::net::IpAddr;

use crate::{
    Destination, Family, LocalDetector, Masquerade, NodePlan, NodeView, Pool, Role, Routing, Verdict,
};

/// Who sends a packet, as far as rules look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// `None` is any of its kind.
    pub ip: Option<IpAddr>,
    /// The node itself sends it.
    pub is_node: bool,
    /// Whether it counts as a pod of this node; `None` if nothing can tell.
    pub is_pod: Option<bool>,
}

/// What a client counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClientKind {
    Pod,
    Node,
    Outside,
}

impl Client {
    pub fn kind(&self) -> ClientKind {
        match self {
            Client { is_node: true, .. } => ClientKind::Node,
            Client { is_pod: Some(true), .. } => ClientKind::Pod,
            _ => ClientKind::Outside,
        }
    }
}

impl LocalDetector {
    /// Whether packets with this source that come in through this interface are those of pods of this node; `None` if
    /// nothing can tell. The node's own come in through none.
    pub fn is_pod(&self, family: Family, source: Option<IpAddr>, interface: Option<&str>) -> Option<bool> {
        match self {
            LocalDetector::None => None,
            LocalDetector::Cidrs(nets) => {
                let net = nets.iter().find(|net| Family::of_net(net) == family)?;
                Some(source.is_some_and(|ip| net.contains(&ip)))
            }
            LocalDetector::Bridge(name) => Some(interface == Some(name)),
            LocalDetector::InterfacePrefix(prefix) => {
                Some(interface.is_some_and(|name| name.starts_with(prefix.as_str())))
            }
        }
    }

    /// Whether it can tell pods from other clients in this family.
    pub fn tells(&self, family: Family) -> bool {
        self.is_pod(family, None, None).is_some()
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// To a random endpoint of the pool. An endpoint that reaches itself is masqueraded in any case.
    Forward { pool: Pool, masquerade: Option<MasqueradeCause> },
    /// TCP reset or ICMP port unreachable.
    Reject(Refusal),
    /// Silence.
    Drop(Refusal),
    /// It goes its way with the destination it had.
    NotOurs,
}

/// Why a packet is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// No usable endpoint anywhere.
    NoEndpoints,
    /// Policy Local, and no usable endpoint on this node.
    NoLocalEndpoints,
    /// Outside the source ranges of a load-balancer address.
    SourceRange,
    /// A live cluster IP does not have this port.
    UnlistedPort,
    /// No service has this address of the ServiceCIDRs.
    UnallocatedAddress,
    /// The mode does not carry the protocol.
    NotCarried,
}

impl Refusal {
    /// Those that rules have counters for.
    pub const COUNTED: [Refusal; 5] = [
        Refusal::NoEndpoints,
        Refusal::NoLocalEndpoints,
        Refusal::SourceRange,
        Refusal::UnlistedPort,
        Refusal::UnallocatedAddress,
    ];

    /// In answers to programs, and in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Refusal::NoEndpoints => "no_endpoints",
            Refusal::NoLocalEndpoints => "no_local_endpoints",
            Refusal::SourceRange => "source_range",
            Refusal::UnlistedPort => "unlisted_port",
            Refusal::UnallocatedAddress => "unallocated_address",
            Refusal::NotCarried => "not_carried",
        }
    }
}

/// Why the endpoint sees an address of the node instead of the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasqueradeCause {
    /// `masqueradeAll`.
    AllTraffic,
    /// External traffic of policy Cluster.
    External,
    /// A cluster IP, called by a client that is no pod of this node.
    NotAPod,
    /// The node itself, short-circuited to all endpoints of a service of policy Local.
    NodeShortCircuit,
    /// The mode opens a connection of its own to the endpoint.
    OwnConnection,
}

impl Destination {
    /// A client without an address is taken for one that source ranges allow.
    pub fn fate(&self, client: &Client) -> Fate {
        let is_allowed =
            |ip: IpAddr| self.allowed_sources.is_none() || self.sources().any(|net| net.contains(&ip));
        if !client.ip.is_none_or(is_allowed) {
            return Fate::Drop(Refusal::SourceRange);
        }
        let (verdict, masquerade) = match self.routing {
            Routing::Same(verdict, Masquerade::Everyone) => {
                let is_cluster_ip = self.role == Role::ClusterIp;
                let cause =
                    if is_cluster_ip { MasqueradeCause::AllTraffic } else { MasqueradeCause::External };
                (verdict, Some(cause))
            }
            Routing::Same(verdict, Masquerade::Outsiders) => {
                (verdict, (client.is_pod == Some(false)).then_some(MasqueradeCause::NotAPod))
            }
            Routing::Split { inside, .. } if client.is_node => {
                let cause = (client.is_pod != Some(true)).then_some(MasqueradeCause::NodeShortCircuit);
                (inside, cause)
            }
            Routing::Split { inside, .. } if client.is_pod == Some(true) => (inside, None),
            Routing::Split { outside, .. } => (outside, None),
        };
        verdict.fate(masquerade)
    }
}

impl Verdict {
    fn fate(self, masquerade: Option<MasqueradeCause>) -> Fate {
        match self {
            Verdict::Forward(pool) => Fate::Forward { pool, masquerade },
            Verdict::Reject => Fate::Reject(Refusal::NoEndpoints),
            Verdict::Drop => Fate::Drop(Refusal::NoLocalEndpoints),
        }
    }
}

impl Destination {
    /// Whom the service refuses here because of its endpoints, and why: everybody, or (`true`) only clients outside.
    pub fn refusal(&self) -> Option<(Refusal, bool)> {
        self.refusal_by(|planned| planned)
    }

    /// The same where a mode makes something else of what is planned. If it refuses clients inside, it refuses everybody.
    pub fn refusal_by(&self, mode: impl Fn(Fate) -> Fate) -> Option<(Refusal, bool)> {
        let refusal = |verdict: Verdict| match mode(verdict.fate(None)) {
            Fate::Reject(why) | Fate::Drop(why) => Some(why),
            Fate::Forward { .. } | Fate::NotOurs => None,
        };
        match self.routing {
            Routing::Same(verdict, _) => refusal(verdict).map(|why| (why, false)),
            Routing::Split { outside, inside } => {
                let everybody = refusal(inside).map(|why| (why, false));
                everybody.or_else(|| refusal(outside).map(|why| (why, true)))
            }
        }
    }
}

/// What becomes of a packet to an address and port that no service has. `is_live` says whether it is a cluster IP that
/// a service has.
pub fn fate_of_unowned(ip: IpAddr, is_live: bool, view: &NodeView, node: &NodePlan) -> Fate {
    match ip {
        // What is for the node itself is not refused.
        _ if view.addresses.contains(&ip) => Fate::NotOurs,
        _ if is_live => Fate::Reject(Refusal::UnlistedPort),
        _ if node.service_cidrs.iter().any(|net| net.contains(&ip)) => {
            Fate::Drop(Refusal::UnallocatedAddress)
        }
        _ => Fate::NotOurs,
    }
}

impl NodePlan {
    /// Whether node ports are served at this address.
    pub fn serves_node_ports(&self, ip: IpAddr) -> bool {
        self.nodeport_ips.contains(&ip)
            || self.nodeport_loopback.iter().any(|net| net.contains(&ip))
            || self.nodeport_listeners.contains(&ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{ip, node};
    use crate::{Address, AllowedSources};

    const POD: Client = Client { ip: None, is_node: false, is_pod: Some(true) };
    const NODE: Client = Client { ip: None, is_node: true, is_pod: Some(false) };
    const OUTSIDE: Client = Client { ip: None, is_node: false, is_pod: Some(false) };
    const UNKNOWN: Client = Client { ip: None, is_node: false, is_pod: None };

    fn at(role: Role, routing: Routing) -> Destination {
        Destination { at: Address::Vip(ip("10.96.0.1"), 80), role, routing, allowed_sources: None }
    }

    #[test]
    fn every_kind_of_client_meets_its_fate() {
        use MasqueradeCause::{AllTraffic, External, NodeShortCircuit, NotAPod};
        let forward = |pool, masquerade| Fate::Forward { pool, masquerade };
        let all = Verdict::Forward(Pool::Cluster);
        let local = Verdict::Forward(Pool::Local);
        let cluster_ip = at(Role::ClusterIp, Routing::Same(all, Masquerade::Outsiders));
        let masqueraded = at(Role::ClusterIp, Routing::Same(all, Masquerade::Everyone));
        let external = at(Role::ExternalIp, Routing::Same(all, Masquerade::Everyone));
        let split = at(Role::NodePort, Routing::Split { outside: local, inside: all });
        let none_here = at(Role::NodePort, Routing::Split { outside: Verdict::Drop, inside: all });
        let empty = at(Role::ClusterIp, Routing::Same(Verdict::Reject, Masquerade::Outsiders));
        let cases = [
            (&cluster_ip, POD, forward(Pool::Cluster, None)),
            (&cluster_ip, NODE, forward(Pool::Cluster, Some(NotAPod))),
            (&cluster_ip, OUTSIDE, forward(Pool::Cluster, Some(NotAPod))),
            (&cluster_ip, UNKNOWN, forward(Pool::Cluster, None)),
            (&masqueraded, POD, forward(Pool::Cluster, Some(AllTraffic))),
            (&external, POD, forward(Pool::Cluster, Some(External))),
            (&split, POD, forward(Pool::Cluster, None)),
            (&split, NODE, forward(Pool::Cluster, Some(NodeShortCircuit))),
            (&split, OUTSIDE, forward(Pool::Local, None)),
            (&split, UNKNOWN, forward(Pool::Local, None)),
            (&none_here, OUTSIDE, Fate::Drop(Refusal::NoLocalEndpoints)),
            (&none_here, POD, forward(Pool::Cluster, None)),
            (&empty, POD, Fate::Reject(Refusal::NoEndpoints)),
        ];
        for (destination, client, fate) in cases {
            assert_eq!(destination.fate(&client), fate, "{:?} {client:?}", destination.routing);
        }
        assert_eq!(empty.refusal(), Some((Refusal::NoEndpoints, false)));
        assert_eq!(none_here.refusal(), Some((Refusal::NoLocalEndpoints, true)));
        assert_eq!(split.refusal(), None);
        let carries_nothing = |fate| match fate {
            Fate::Forward { .. } => Fate::Reject(Refusal::NotCarried),
            other => other,
        };
        for refused in [&split, &none_here] {
            assert_eq!(refused.refusal_by(carries_nothing), Some((Refusal::NotCarried, false)));
        }
    }

    #[test]
    fn source_ranges_come_first() {
        let nets = ["192.0.2.0/24".parse().unwrap()].into();
        let allowed_sources = Some(std::sync::Arc::new(AllowedSources { nets, itself: true }));
        let empty = Routing::Same(Verdict::Reject, Masquerade::Outsiders);
        let guarded = Destination { allowed_sources, ..at(Role::LoadBalancerIp, empty) };
        let from = |text| Client { ip: Some(ip(text)), ..OUTSIDE };
        assert_eq!(guarded.fate(&from("198.51.100.1")), Fate::Drop(Refusal::SourceRange));
        assert_eq!(guarded.fate(&from("192.0.2.9")), Fate::Reject(Refusal::NoEndpoints));
        assert_eq!(
            guarded.fate(&from("10.96.0.1")),
            Fate::Reject(Refusal::NoEndpoints),
            "the address itself"
        );
        assert_eq!(guarded.fate(&OUTSIDE), Fate::Reject(Refusal::NoEndpoints), "any client");
    }

    #[test]
    fn what_nobody_has_is_refused_in_service_cidrs_only() {
        let view = NodeView { addresses: vec![ip("10.96.0.7")], ..node() };
        let plan = NodePlan { service_cidrs: vec!["10.96.0.0/16".parse().unwrap()], ..NodePlan::default() };
        let fate = |address, is_live| fate_of_unowned(ip(address), is_live, &view, &plan);
        assert_eq!(fate("10.96.0.1", true), Fate::Reject(Refusal::UnlistedPort));
        assert_eq!(fate("10.96.0.1", false), Fate::Drop(Refusal::UnallocatedAddress));
        assert_eq!(fate("10.96.0.7", true), Fate::NotOurs, "it is the node's own");
        assert_eq!(fate("192.0.2.1", false), Fate::NotOurs);
    }

    #[test]
    fn detectors_tell_pods_by_source_or_interface() {
        let v4 = Family::V4;
        let cidrs = LocalDetector::Cidrs(vec!["10.244.0.0/16".parse().unwrap()]);
        assert_eq!(cidrs.is_pod(v4, Some(ip("10.244.1.1")), None), Some(true));
        assert_eq!(cidrs.is_pod(v4, Some(ip("10.1.1.1")), Some("veth1")), Some(false));
        assert_eq!(cidrs.is_pod(Family::V6, Some(ip("fd00::1")), None), None, "no CIDR of the family");
        let prefix = LocalDetector::InterfacePrefix("veth".into());
        assert_eq!(prefix.is_pod(v4, None, Some("veth1")), Some(true));
        assert_eq!(prefix.is_pod(v4, None, None), Some(false));
        let bridge = LocalDetector::Bridge("cni0".into());
        assert_eq!(bridge.is_pod(v4, None, Some("cni01")), Some(false));
        assert!(!LocalDetector::None.tells(v4) && bridge.tells(v4));
    }
}
