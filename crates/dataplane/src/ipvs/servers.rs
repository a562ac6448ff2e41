//! From plans to virtual servers: which ones a port asks for, and where each leads. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kernel::ipvs::{self, Destination, Settings, VirtualServer, flags};
use model::{
    Address, IpvsSettings, Masquerade, PlannedEndpoint, PortPlan, Protocol, Role, Routing, Scheduler,
    ServicePlan,
};

/// Marks a virtual server as ours. No scheduler reads this bit.
pub(super) const OURS: u32 = flags::SCHEDULER_3;

/// What one address and port of a service is to IPVS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer<'a> {
    /// Where its clients are led; `None` if rules answer them, or pick.
    pub(super) pool: Option<&'a [PlannedEndpoint]>,
    pub(super) affinity_seconds: Option<u32>,
    /// The rules rewrite the source of every client.
    pub(super) masqueraded: bool,
    /// Rules of its own mark or guard its clients.
    pub(super) needs_rules: bool,
}

pub(super) type Offers<'a> = BTreeMap<VirtualServer, Offer<'a>>;

/// The virtual servers of every port of a plan.
pub(super) fn add_plan<'a>(offers: &mut Offers<'a>, plan: &'a ServicePlan, nodeport_ips: &[IpAddr]) {
    plan.ports.iter().for_each(|port| add_port(offers, port, nodeport_ips));
}

/// The virtual servers of one port; a node port has one for each address of the node that serves it.
pub(super) fn add_port<'a>(offers: &mut Offers<'a>, port: &'a PortPlan, nodeport_ips: &[IpAddr]) {
    let is_picked = port.is_picked_by_ipvs(nodeport_ips);
    let protocol = protocol(port.protocol);
    for destination in &port.destinations {
        let [led, _inside] = destination.routing.pools();
        let pool = led.filter(|_| is_picked).map(|pool| port.pool(pool));
        let (ips, number) = match &destination.at {
            Address::Vip(ip, number) => (std::slice::from_ref(ip), *number),
            Address::NodePort(number) => (nodeport_ips, *number),
        };
        let masqueraded = matches!(destination.routing, Routing::Same(_, Masquerade::Everyone));
        let offer = Offer {
            pool,
            affinity_seconds: port.affinity_seconds,
            masqueraded,
            needs_rules: masqueraded
                || destination.role == Role::ClusterIp
                || destination.allowed_sources.is_some(),
        };
        for ip in ips {
            let place = offers.entry(VirtualServer { address: *ip, protocol, port: number }).or_insert(offer);
            // An address of the node may be another service's, which rules serve; the server is the node port's.
            if place.pool.is_none() {
                *place = offer;
            }
        }
    }
}

/// How many virtual servers and destinations are offered.
pub(super) fn sizes(offers: &Offers<'_>) -> [usize; 2] {
    let pools = || offers.values().filter_map(|offer| offer.pool);
    [pools().count(), pools().map(<[_]>::len).sum()]
}

pub(super) fn protocol(protocol: Protocol) -> ipvs::Protocol {
    match protocol {
        Protocol::Tcp => ipvs::Protocol::Tcp,
        Protocol::Udp => ipvs::Protocol::Udp,
        Protocol::Sctp => ipvs::Protocol::Sctp,
    }
}

/// Whether a destination of weight 0 is passed over. `dh` alone refuses whom it leads there, and knows no other choice.
pub(super) fn passes_over_idle(scheduler: Scheduler) -> bool {
    scheduler != Scheduler::DestinationHash
}

pub(super) fn destination(endpoint: &PlannedEndpoint) -> Destination {
    Destination { address: endpoint.ip, port: endpoint.port }
}

impl Offer<'_> {
    pub(super) fn settings(&self, options: &IpvsSettings) -> Settings {
        let settings = Settings::new(options.scheduler.name()).with_flags(OURS);
        // What hashes keeps the places of destinations that drain, and refuses whom it leads there unless it may look
        // further.
        let settings = match options.scheduler {
            // As upstream's mode has it: connections of one client spread, too.
            Scheduler::MaglevHash => settings.with_flags(flags::HASH_PORT | flags::HASH_FALLBACK),
            Scheduler::SourceHash => settings.with_flags(flags::HASH_FALLBACK),
            _ => settings,
        };
        match self.affinity_seconds {
            Some(seconds) => settings.persistent(seconds),
            None => settings,
        }
    }
}
