//! What would go wrong with services, as the plan has it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use cluster::objects::pairs::SERVICE_NAME;
use cluster::{ClusterPlanner, ClusterState, observe_node};
use model::{
    Claim, Claims, DeadEnd, Family, NodePortAddresses, NotUsed, OnLoopback, Planner, Pool, PortPlan, Refusal,
    Service, ServiceKey, Settings, TrafficPolicy,
};

/// What an apiserver gives out unless it is told otherwise.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// A line for each, in the order of names.
pub(super) fn problems(state: &ClusterState, node: Option<&str>) -> Vec<String> {
    let view = observe_node(node.and_then(|name| state.node(name)), node.unwrap_or_default(), &[]);
    let planner = ClusterPlanner {
        state,
        node: &view,
        settings: &Settings::default(),
        nodeport_addresses: &NodePortAddresses::All,
        nodeports_on_loopback: OnLoopback::Never,
    };
    let mut services: Vec<ServiceKey> = state.services().cloned().collect();
    services.sort_unstable();
    let mut lines = Vec::new();
    let cluster_ips = cluster_ips(&services, state);
    for key in &services {
        let Some(service) = state.service(key) else { continue };
        lines.extend(of_numbers(key, service));
        lines.extend(of_addresses(key, state, &cluster_ips));
        // Both families often say the same.
        let mut said: BTreeMap<String, Vec<Family>> = BTreeMap::new();
        for family in Family::BOTH {
            for line in of_endpoints(key, service, family, &planner, node) {
                said.entry(line).or_default().push(family);
            }
        }
        let dual = service.cluster_ips.len() > 1;
        lines.extend(said.into_iter().map(|(line, families)| match families.as_slice() {
            [family] if dual => format!("Service {key}: {line} ({family})"),
            _ => format!("Service {key}: {line}"),
        }));
    }
    lines.extend(contested(&services, &planner));
    lines
}

fn of_numbers(key: &ServiceKey, service: &Service) -> Vec<String> {
    let numbers = service.ports.iter().filter_map(|port| port.node_port).map(|number| number.get());
    let odd = numbers.filter(|number| !NODE_PORTS.contains(number));
    let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
    odd.map(|number| {
        format!("Service {key}: node port {number} is outside {first}-{last}, which an apiserver allows by default")
    })
    .collect()
}

fn of_endpoints(
    key: &ServiceKey,
    service: &Service,
    family: Family,
    planner: &ClusterPlanner<'_>,
    node: Option<&str>,
) -> Vec<String> {
    let Some(planned) = planner.plan(key, family) else { return Vec::new() };
    let mut lines = Vec::new();
    for port in &planned.plan.ports {
        let refusals = port.destinations.iter().filter_map(|at| at.refusal()).map(|(why, _)| why);
        let refusals: BTreeSet<Refusal> = refusals.collect();
        let number = service.ports.iter().find(|one| one.name == port.name).map(|one| one.port.to_string());
        let name = if port.name.is_empty() { number.unwrap_or_default() } else { port.name.to_string() };
        if refusals.contains(&Refusal::NoEndpoints) {
            lines.push(format!(
                "port {name} ({}): {}",
                port.protocol,
                without_endpoints(key, family, port, planner)
            ));
        } else if refusals.contains(&Refusal::NoLocalEndpoints) {
            let policy = local_policy(service);
            match node {
                Some(node) => lines.push(format!(
                    "port {name}: {policy} is Local, and no usable endpoint is on node {node}"
                )),
                None if names_no_node(key, family, port, planner) => {
                    lines.push(format!(
                        "port {name}: {policy} is Local, and no endpoint names its node: no node serves it"
                    ));
                }
                None => {}
            }
        }
    }
    lines
}

fn cluster_ips(services: &[ServiceKey], state: &ClusterState) -> HashMap<IpAddr, ServiceKey> {
    let found = services.iter().filter_map(|key| Some((key, state.service(key)?)));
    found.flat_map(|(key, service)| service.cluster_ips.iter().map(|ip| (*ip, key.clone()))).collect()
}

/// Endpoints that lead nowhere.
fn of_addresses(
    key: &ServiceKey,
    state: &ClusterState,
    cluster_ips: &HashMap<IpAddr, ServiceKey>,
) -> BTreeSet<String> {
    let slices = state.slices(key);
    let ips = slices.iter().flat_map(|slice| &slice.endpoints).map(|endpoint| endpoint.ip);
    let dead_end = |ip| DeadEnd::of(ip, |ip| cluster_ips.get(&ip).cloned());
    let line = |ip| dead_end(ip).map(|end| end.to_string()).or_else(|| refused(ip));
    ips.filter_map(|ip| Some(format!("Service {key}: endpoint {ip} {}", line(ip)?))).collect()
}

/// What an apiserver takes for no address of an endpoint, though packets could be sent there.
fn refused(ip: IpAddr) -> Option<String> {
    let what = match ip {
        ip if ip.is_loopback() => "loopback",
        IpAddr::V4(ip) if ip.is_link_local() => "link-local",
        IpAddr::V6(ip) if ip.is_unicast_link_local() => "link-local",
        _ => return None,
    };
    Some(format!("is a {what} address, which an apiserver refuses; point the EndpointSlice at pods"))
}

fn local_policy(service: &Service) -> &'static str {
    match service.internal_policy {
        TrafficPolicy::Local => "internalTrafficPolicy",
        TrafficPolicy::Cluster => "externalTrafficPolicy",
    }
}

fn names_no_node(key: &ServiceKey, family: Family, port: &PortPlan, planner: &ClusterPlanner<'_>) -> bool {
    let (_, known) = planner.endpoints(key, family, port, Pool::Local, usize::MAX);
    known.iter().all(|known| known.node.is_none())
}

fn without_endpoints(
    key: &ServiceKey,
    family: Family,
    port: &PortPlan,
    planner: &ClusterPlanner<'_>,
) -> String {
    let (_, known) = planner.endpoints(key, family, port, Pool::Cluster, usize::MAX);
    let reasons: BTreeSet<NotUsed> = known.iter().filter_map(|one| one.used.err()).collect();
    if known.is_empty() {
        return "no EndpointSlice has endpoints for it; clients are rejected".to_owned();
    }
    let slices = planner.state.slices(key);
    let ports = slices.iter().flat_map(|slice| slice.ports);
    let only = |why: NotUsed| reasons.iter().eq([&why]);
    if only(NotUsed::NoSuchPort) {
        let offered: BTreeSet<String> =
            ports.map(|port| format!("{:?} ({})", port.name, port.protocol)).collect();
        let offered: Vec<String> = offered.into_iter().take(10).collect();
        return format!(
            "no slice has a port of this name and protocol, they have {}; clients are rejected",
            offered.join(", ")
        );
    }
    let why = match () {
        () if only(NotUsed::BadPort) => ": its slices have no valid number for this port",
        () if only(NotUsed::BadAddress) => ": no connection can be sent to their addresses",
        () if only(NotUsed::LeftOut) => ": the service exceeds its limits",
        () => "",
    };
    format!("none of its {} endpoints is usable{why}; clients are rejected", known.len())
}

fn contested(services: &[ServiceKey], planner: &ClusterPlanner<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for family in Family::BOTH {
        let mut claims = Claims::new(family);
        let plans = || services.iter().filter_map(|key| Some((key, planner.plan(key, family)?)));
        for (key, planned) in plans() {
            claims.update(key, planned.created, planned.plan.wanted());
        }
        for (key, planned) in plans() {
            for (protocol, at, _) in planned.plan.wanted() {
                let claim = Claim { at, protocol };
                if let Some(owner) = claims.owner(claim).filter(|owner| *owner != key) {
                    lines.push(format!(
                        "Service {key}: {claim} belongs to {owner}, whose claim takes precedence"
                    ));
                }
            }
        }
    }
    lines.sort();
    lines.dedup();
    lines
}

/// Slices of services that are none of these. Where no service is given, slices alone are looked at.
pub(super) fn orphans(state: &ClusterState, given: &BTreeSet<String>) -> Vec<String> {
    let unknown = state.unknown_services().filter(|key| !given.is_empty() && !given.contains(&***key));
    let orphans = unknown.map(|key| {
        format!(
            "EndpointSlices of service {key}: there is no such service here; check their label \
             {SERVICE_NAME} and their namespace"
        )
    });
    let mut lines: Vec<String> = orphans.collect();
    lines.sort();
    lines
}
