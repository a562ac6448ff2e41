//! What is programmed for a service, as a list of services shows it.

use std::net::IpAddr;

use cluster::ClusterState;
use dataplane::{Backend, Reconciler};
use model::{
    Address, Claim, DeadEnd, Excess, Family, PortPlan, Protocol, Refusal, Service, ServiceKey, ServicePlan,
    ServicePort, TrafficPolicy,
};

use super::{MOST_JUDGED, MOST_ROWS};
use crate::lane::Lane;

/// Ports, and addresses of each kind, that a row names; and so many more ports that refuse somebody.
pub(super) const MOST_PORTS: usize = 50;
const MOST_ADDRESSES: usize = 10;
/// Addresses at which another service was asked for.
pub(super) const MOST_LOST: usize = 5;
/// Endpoints of a pool that are looked through for problems, and how much of what services have at the address of one.
const MOST_ENDPOINTS: usize = 50;
const MOST_CLAIMS: usize = 4;
/// Addresses of services after which one answer is enough: a fraction of a millisecond. A service may have thousands.
const ENOUGH_ADDRESSES: usize = 2_000;

/// The rows of the first services, until it is enough: how many that were, and their rows.
pub(crate) fn describe<B: Backend>(
    services: &[ServiceKey],
    state: &ClusterState,
    reconciler: &Reconciler<B>,
    lanes: &[Lane; 2],
) -> (usize, Vec<ServiceRow>) {
    let mut rows = Vec::new();
    let count = until_enough(services.iter().take(MOST_ROWS), state, |key| {
        rows.extend(ServiceRow::of(key, state, reconciler, lanes));
    });
    (count, rows)
}

/// A service that refuses somebody, or may: none of its first ports does, and it has more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Refuses(ServiceKey),
    Further(ServiceKey),
}

/// Which of the first services refuse somebody: how many were judged until it was enough, and those.
pub(crate) fn judge<B: Backend>(
    services: &[ServiceKey],
    state: &ClusterState,
    reconciler: &Reconciler<B>,
) -> (usize, Vec<Judged>) {
    let mut found = Vec::new();
    let count = until_enough(services.iter().take(MOST_JUDGED), state, |key| {
        if has_problems(key, state, reconciler) {
            found.push(Judged::Refuses(key.clone()));
        } else if state.service(key).is_some_and(|service| service.ports.len() > MOST_PORTS) {
            found.push(Judged::Further(key.clone()));
        }
    });
    (count, found)
}

/// What is wrong with some ports of a service.
#[derive(Debug, Default)]
pub(crate) struct Troubled {
    /// The first port that was not judged.
    pub(crate) next: Option<usize>,
    pub(crate) ports: Vec<PortRow>,
    pub(crate) lost: Vec<(Claim, ServiceKey)>,
}

/// Judge the ports of a service from one of them on, until it is enough.
pub(crate) fn judge_ports<B: Backend>(
    key: &ServiceKey,
    from: usize,
    state: &ClusterState,
    reconciler: &Reconciler<B>,
) -> Troubled {
    let Some(service) = state.service(key) else { return Troubled::default() };
    let count = (ENOUGH_ADDRESSES / addresses_of_a_port(service)).max(1);
    let end = from.saturating_add(count).min(service.ports.len());
    let some = service.ports.get(from..end).unwrap_or_default();
    let plans = Family::BOTH.map(|family| reconciler.plan(family, key));
    let mut ports = ports(some, &plans, state, reconciler);
    ports.retain(|port| !port.refused.is_empty() || port.dead_end.is_some());
    let lost = lost(key, service, some, reconciler);
    Troubled { next: (end < service.ports.len()).then_some(end), ports, lost }
}

/// Returns how many services were looked at.
fn until_enough<'a>(
    services: impl Iterator<Item = &'a ServiceKey>,
    state: &ClusterState,
    mut look: impl FnMut(&'a ServiceKey),
) -> usize {
    let (mut count, mut addresses) = (0, 0);
    for key in services {
        look(key);
        count += 1;
        addresses += state.service(key).map_or(1, address_count);
        if addresses >= ENOUGH_ADDRESSES {
            break;
        }
    }
    count
}

/// What is looked up for a service.
fn address_count(service: &Service) -> usize {
    service.ports.len().min(MOST_PORTS) * addresses_of_a_port(service)
}

fn addresses_of_a_port(service: &Service) -> usize {
    service.cluster_ips.len() + service.external_ips.len() + service.load_balancer_ips.len() + 1
}

fn first_ports(service: &Service) -> &[ServicePort] {
    service.ports.get(..MOST_PORTS).unwrap_or(&service.ports)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceRow {
    pub(crate) service: ServiceKey,
    /// A sync that may change it is still to come.
    pub(crate) is_pending: bool,
    pub(crate) cluster_ips: Vec<IpAddr>,
    pub(crate) external_ips: Vec<IpAddr>,
    pub(crate) load_balancer_ips: Vec<IpAddr>,
    /// Of these three, how many there are.
    pub(crate) ip_counts: [usize; 3],
    pub(crate) internal_policy: TrafficPolicy,
    pub(crate) external_policy: TrafficPolicy,
    pub(crate) affinity_seconds: Option<u32>,
    pub(crate) source_ranges: usize,
    /// Endpoints in its slices, by [`Family::index`].
    pub(crate) known: [usize; 2],
    pub(crate) port_count: usize,
    /// The first of them; and the first of the others that refuse somebody, once these were asked for.
    pub(crate) ports: Vec<PortRow>,
    /// Addresses that it asks for and others have.
    pub(crate) lost: Vec<(Claim, ServiceKey)>,
    pub(crate) excess: Excess,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortRow {
    pub(crate) name: Box<str>,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
    pub(crate) node_port: Option<u16>,
    /// Endpoints in use, by [`Family::index`]; `None` if the family has no rules of it.
    pub(crate) usable: [Option<usize>; 2],
    pub(crate) refused: Vec<Refused>,
    /// An endpoint in use that leads nowhere.
    pub(crate) dead_end: Option<(IpAddr, DeadEnd)>,
}

/// Clients that are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) family: Family,
    pub(crate) why: Refusal,
    /// Only those that are neither this node nor its pods.
    pub(crate) only_outside: bool,
    /// Where, for one; there may be more of the same kind.
    pub(crate) at: Address,
}

impl ServiceRow {
    /// `None` if the cluster has no such service.
    pub(crate) fn of<B: Backend>(
        key: &ServiceKey,
        state: &ClusterState,
        reconciler: &Reconciler<B>,
        lanes: &[Lane; 2],
    ) -> Option<ServiceRow> {
        let service = state.service(key)?;
        let plans = Family::BOTH.map(|family| reconciler.plan(family, key));
        let waits = |lane: &Lane| reconciler.is_unknown(lane.family) || lane.waits_for(key);
        let some = |ips: &[IpAddr]| ips.iter().take(MOST_ADDRESSES).copied().collect();
        let excess = plans.iter().flatten().map(|plan| plan.excess).find(|excess| !excess.is_none());
        Some(ServiceRow {
            service: key.clone(),
            is_pending: lanes.iter().any(waits),
            cluster_ips: some(&service.cluster_ips),
            external_ips: some(&service.external_ips),
            load_balancer_ips: some(&service.load_balancer_ips),
            ip_counts: [&service.cluster_ips, &service.external_ips, &service.load_balancer_ips]
                .map(|ips| ips.len()),
            internal_policy: service.internal_policy,
            external_policy: service.external_policy,
            affinity_seconds: service.affinity_seconds,
            source_ranges: service.source_ranges.len(),
            known: Family::BOTH.map(|family| state.endpoint_count(key, family)),
            port_count: service.ports.len(),
            ports: ports(first_ports(service), &plans, state, reconciler),
            lost: lost(key, service, first_ports(service), reconciler),
            excess: excess.unwrap_or_default(),
        })
    }

    /// As far as its addresses tell.
    pub(crate) fn kind(&self) -> &'static str {
        match () {
            () if !self.load_balancer_ips.is_empty() => "LoadBalancer",
            () if self.ports.iter().any(|port| port.node_port.is_some()) => "NodePort",
            () => "ClusterIP",
        }
    }
}

/// Whether a service refuses somebody: what its row would tell, without the row.
fn has_problems<B: Backend>(key: &ServiceKey, state: &ClusterState, reconciler: &Reconciler<B>) -> bool {
    let Some(service) = state.service(key) else { return false };
    let mut plans = Family::BOTH.into_iter().filter_map(|family| reconciler.plan(family, key));
    let refuses = |plan: &ServicePlan| {
        let ports = first_ports(service).iter();
        let mut planned = ports.filter_map(|port| plan.port(&port.name, port.protocol));
        !plan.excess.is_none()
            || planned.any(|port| {
                let mut all = port.destinations.iter();
                all.any(|to| reconciler.refusal(port.protocol, to).is_some())
                    || dead_end_of(port, state, reconciler).is_some()
            })
    };
    plans.any(refuses) || has_lost(key, service, reconciler)
}

fn ports<B: Backend>(
    ports: &[ServicePort],
    plans: &[Option<&ServicePlan>; 2],
    state: &ClusterState,
    reconciler: &Reconciler<B>,
) -> Vec<PortRow> {
    let row = |port: &ServicePort| {
        let planned = plans.map(|plan| plan.and_then(|plan| plan.port(&port.name, port.protocol)));
        let usable = |plan: &std::sync::Arc<PortPlan>| plan.cluster_pool.len().max(plan.local_pool.len());
        let refused = Family::BOTH.into_iter().zip(planned);
        PortRow {
            name: port.name.clone(),
            protocol: port.protocol,
            port: port.port,
            node_port: port.node_port.map(|number| number.get()),
            usable: planned.map(|plan| plan.map(usable)),
            refused: refused
                .flat_map(|(family, plan)| {
                    plan.map(|plan| refused_at(family, plan, reconciler)).unwrap_or_default()
                })
                .collect(),
            dead_end: planned.iter().flatten().find_map(|port| dead_end_of(port, state, reconciler)),
        }
    };
    ports.iter().map(row).collect()
}

/// One of each kind.
fn refused_at<B: Backend>(family: Family, port: &PortPlan, reconciler: &Reconciler<B>) -> Vec<Refused> {
    let mut found: Vec<Refused> = Vec::new();
    for destination in port.destinations.iter() {
        let Some((why, only_outside)) = reconciler.refusal(port.protocol, destination) else { continue };
        if !found.iter().any(|known| (known.why, known.only_outside) == (why, only_outside)) {
            found.push(Refused { family, why, only_outside, at: destination.at });
        }
    }
    found
}

/// An endpoint that leads nowhere, among the first of each pool. A look takes part of a microsecond and there are many, so
/// they are looked at only if any service has something from the least to the greatest of them: cluster IPs are from another
/// range than the addresses of pods.
fn dead_end_of<B: Backend>(
    port: &PortPlan,
    state: &ClusterState,
    reconciler: &Reconciler<B>,
) -> Option<(IpAddr, DeadEnd)> {
    [&port.cluster_pool, &port.local_pool].into_iter().find_map(|pool| {
        let mut ips = pool.iter().take(MOST_ENDPOINTS).map(|endpoint| endpoint.ip);
        let (least, greatest) = (ips.clone().min()?, ips.clone().max()?);
        match reconciler.has_claims_between(least, greatest) {
            true => ips.find_map(|ip| Some((ip, dead_end(ip, state, reconciler)?))),
            false => ips.find_map(|ip| Some((ip, DeadEnd::of(ip, |_| None)?))),
        }
    })
}

/// Why connections to an endpoint get nowhere, if they do.
pub(super) fn dead_end<B: Backend>(
    ip: IpAddr,
    state: &ClusterState,
    reconciler: &Reconciler<B>,
) -> Option<DeadEnd> {
    let has_it = |key: &ServiceKey| state.service(key).is_some_and(|one| one.cluster_ips.contains(&ip));
    DeadEnd::of(ip, |ip| {
        reconciler.claims_at(ip, MOST_CLAIMS).into_iter().map(|(_, service)| service).find(has_it)
    })
}

fn lost<B: Backend>(
    key: &ServiceKey,
    service: &Service,
    ports: &[ServicePort],
    reconciler: &Reconciler<B>,
) -> Vec<(Claim, ServiceKey)> {
    let rival = |(family, claim)| {
        let owner = reconciler.owner(family, claim).filter(|owner| *owner != key)?;
        Some((claim, owner.clone()))
    };
    claims(service, ports).filter_map(rival).take(MOST_LOST).collect()
}

fn has_lost<B: Backend>(key: &ServiceKey, service: &Service, reconciler: &Reconciler<B>) -> bool {
    let contested = Family::BOTH.map(|family| reconciler.has_contests(family));
    let is_lost = |(family, claim): (Family, Claim)| {
        contested[family.index()] && reconciler.owner(family, claim).is_some_and(|owner| owner != key)
    };
    contested.contains(&true) && claims(service, first_ports(service)).any(is_lost)
}

/// What a service asks for with these ports, or the first of it.
fn claims<'a>(service: &'a Service, ports: &'a [ServicePort]) -> impl Iterator<Item = (Family, Claim)> + 'a {
    let families = Family::BOTH.into_iter().filter(|family| service.cluster_ip(*family).is_some());
    ports.iter().flat_map(move |port| {
        let ips = service.cluster_ips.iter().chain(&service.load_balancer_ips).chain(&service.external_ips);
        let ips = ips.take(ENOUGH_ADDRESSES);
        let vips = ips.map(|ip| (Family::of(*ip), Address::Vip(*ip, port.port)));
        let node_port = port.node_port.into_iter().flat_map({
            let families = families.clone();
            move |number| families.clone().map(move |family| (family, Address::NodePort(number.get())))
        });
        let protocol = port.protocol;
        vips.chain(node_port).map(move |(family, at)| (family, Claim { at, protocol }))
    })
}
