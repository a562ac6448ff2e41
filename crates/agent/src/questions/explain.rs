//! What becomes of packets to an address, and why: the question, and what the sync thread knows about it. It is put into
//! words elsewhere.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use cluster::ClusterState;
use commands::targets::Target;
use dataplane::{Backend, Explained, HEAVIEST_PLANNED, Inquiry, Reconciler};
use model::{
    Address, Client, DeadEnd, Family, LocalDetector, NodeView, Planner, Protocol, Role, ServicePort,
    TrafficPolicy,
};

use super::services::dead_end;
use crate::lane::Lane;

/// Addresses of a service that are explained, and their weight together: each of a service with a thousand endpoints
/// takes a millisecond or two.
const MOST_ADDRESSES: usize = 16;
const MOST_WEIGHT: usize = 3_000;
/// Ports of a service whose addresses are looked for.
const MOST_PORTS: usize = 500;
/// Objects of services after whose planning one answer ends, and the others are asked for one by one: less than a
/// millisecond's worth.
const ENOUGH_PLANNED: usize = 500;
/// Endpoints that one answer names.
pub(crate) const MOST_ENDPOINTS: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExplainRequest {
    pub(crate) target: Target,
    /// `None` asks about one client of each kind.
    pub(crate) from: Option<Sender>,
    /// By [`Family::index`]: those that something was written of. What services have in others is left out.
    pub(crate) written: [bool; 2],
    /// Whether what the kernel holds is compared.
    pub(crate) reads_kernel: bool,
    /// Endpoints that are named of all addresses together, for each kind of client.
    pub(crate) most_endpoints: usize,
}

/// Their protocol and where they go.
type Packets = (Protocol, SocketAddr);

/// What a target means.
#[derive(Default)]
struct Meant {
    /// All of it, or the first.
    targets: Vec<Packets>,
    count: usize,
    unwritten: Vec<Family>,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) ip: IpAddr,
    /// Where its packets come in, by the route back to it.
    pub(crate) interface: Option<String>,
}

/// What the sync thread knows.
pub(crate) struct View<'a, B> {
    pub(crate) state: &'a ClusterState,
    pub(crate) node: &'a NodeView,
    pub(crate) planner: &'a dyn Planner,
    pub(crate) reconciler: &'a mut Reconciler<B>,
    pub(crate) lanes: &'a [Lane; 2],
    pub(crate) detector: &'a LocalDetector,
    pub(crate) mode: &'static str,
}

#[derive(Debug)]
pub(crate) struct Explanations {
    pub(crate) node: String,
    pub(crate) mode: &'static str,
    pub(crate) detector: LocalDetector,
    pub(crate) from: Option<Sender>,
    pub(crate) each: Vec<Explanation>,
    /// What is to be asked for in further questions, so that a sync waits for one address at most.
    pub(crate) rest: Vec<Packets>,
    /// Families in which the target has an address, too, and that nothing was written of yet.
    pub(crate) unwritten: Vec<Family>,
    /// There are more addresses than are explained.
    pub(crate) left_out: usize,
    /// Why there is nothing to explain.
    pub(crate) problem: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Explanation {
    pub(crate) explained: Explained,
    /// The policy that the service has for this address.
    pub(crate) policy: Option<(&'static str, TrafficPolicy)>,
    /// The names of the ports that its slices offer.
    pub(crate) offered: Vec<String>,
    /// A sync is still to come that may change it.
    pub(crate) is_pending: bool,
    /// Endpoints in use that lead nowhere.
    pub(crate) dead_ends: BTreeMap<IpAddr, DeadEnd>,
}

impl ExplainRequest {
    pub(crate) fn answer<B: Backend>(&self, mut view: View<'_, B>) -> Explanations {
        let (Meant { targets, count, unwritten }, problem) = match self.meant(&view) {
            Ok(found) => (found, None),
            Err(problem) => (Meant::default(), Some(problem)),
        };
        let weight = match &self.target {
            Target::Service(service, _) => view.planner.weight(service).min(HEAVIEST_PLANNED),
            Target::At(..) | Target::NodePort(..) => 0,
        };
        let most_addresses = (MOST_WEIGHT / weight.max(1)).min(MOST_ADDRESSES);
        let left_out = count.saturating_sub(most_addresses);
        let mut targets = targets.into_iter().take(most_addresses);
        let most_endpoints = self.most_endpoints / targets.len().max(1);
        // To find its addresses, of both families.
        let mut planned = 2 * weight;
        let mut each = Vec::new();
        while planned < ENOUGH_PLANNED
            && let Some((protocol, to)) = targets.next()
        {
            let one = self.explain(protocol, to, most_endpoints, &mut view);
            let owner = one.explained.owner.as_ref();
            planned += 1 + owner.map_or(0, |owner| view.planner.weight(&owner.service));
            each.push(one);
        }
        Explanations {
            node: view.node.name.clone(),
            mode: view.mode,
            detector: view.detector.clone(),
            from: self.from.clone(),
            each,
            rest: targets.collect(),
            unwritten,
            left_out,
            problem,
        }
    }

    fn meant<B: Backend>(&self, view: &View<'_, B>) -> Result<Meant, String> {
        let mut unwritten = Vec::new();
        let is_written = |family: &Family| self.written[family.index()];
        let is_asked = |family: Family| self.from.as_ref().is_none_or(|from| Family::of(from.ip) == family);
        let node_ip = |family: Family| view.planner.node(family).nodeport_ips.first().copied();
        match &self.target {
            Target::At(protocol, to) => Ok(Meant { targets: vec![(*protocol, *to)], count: 1, unwritten }),
            Target::NodePort(protocol, port) => {
                let families = Family::BOTH.into_iter().filter(|family| is_asked(*family));
                let (written, left_out): (Vec<Family>, Vec<Family>) =
                    families.filter(|family| node_ip(*family).is_some()).partition(is_written);
                if written.is_empty() && left_out.is_empty() {
                    return Err(
                        "no address of this node serves node ports; see --nodeport-addresses".to_owned()
                    );
                }
                let ips = written.into_iter().filter_map(node_ip);
                let targets: Vec<_> = ips.map(|ip| (*protocol, SocketAddr::new(ip, *port))).collect();
                Ok(Meant { count: targets.len(), targets, unwritten: left_out })
            }
            Target::Service(service, port) => {
                let Some(found) = view.state.service(service) else {
                    return Err(format!(
                        "there is no service {service} here, see kube-proxy services -A; headless services, those of type \
                         ExternalName and those with the label service.kubernetes.io/service-proxy-name are not proxied"
                    ));
                };
                let is_large = view.planner.weight(service) > HEAVIEST_PLANNED;
                let number = port.as_ref().and_then(|port| port.parse::<u16>().ok());
                let is_meant = |one: &&ServicePort| {
                    port.as_ref().is_none_or(|port| *port == *one.name || number == Some(one.port))
                };
                let meant = found.ports.iter().filter(is_meant).take(MOST_PORTS);
                let port_is_named = port.is_some();
                let (mut targets, mut count) = (Vec::new(), 0);
                for family in Family::BOTH.into_iter().filter(|family| is_asked(*family)) {
                    let planned = match is_large {
                        true => view.reconciler.plan(family, service).map(Cow::Borrowed),
                        false => view.planner.plan(service, family).map(|planned| Cow::Owned(planned.plan)),
                    };
                    let plan = planned.unwrap_or_default();
                    if !is_written(&family) {
                        let mut ports = meant.clone().filter_map(|one| plan.port(&one.name, one.protocol));
                        unwritten.extend(ports.any(|port| !port.destinations.is_empty()).then_some(family));
                        continue;
                    }
                    for port in meant.clone().filter_map(|one| plan.port(&one.name, one.protocol)) {
                        let at = port.destinations.iter().filter_map(|to| match to.at {
                            Address::Vip(ip, port) => Some(SocketAddr::new(ip, port)),
                            Address::NodePort(port) => node_ip(family).map(|ip| SocketAddr::new(ip, port)),
                        });
                        let room = MOST_ADDRESSES.saturating_sub(targets.len());
                        targets.extend(at.take(room).map(|at| (port.protocol, at)));
                        count += if port_is_named { port.destinations.len() } else { 0 };
                    }
                    // Those of ports that are not looked for, too.
                    let all = plan.ports.iter().filter(|_| !port_is_named);
                    count += all.map(|port| port.destinations.len()).sum::<usize>();
                }
                let has_port = meant.clone().next().is_some();
                let names = || {
                    found.ports.iter().take(20).map(|port| match port.name.is_empty() {
                        true => port.port.to_string(),
                        false => format!("{} ({})", port.port, port.name),
                    })
                };
                let is_unknown = Family::BOTH.iter().any(|family| view.reconciler.is_unknown(*family));
                match (targets.is_empty() && unwritten.is_empty(), port) {
                    (true, Some(port)) if !has_port => {
                        let names: Vec<String> = names().collect();
                        Err(format!("service {service} has no port {port}; it has {}", names.join(", ")))
                    }
                    (true, _) if is_large && is_unknown => {
                        Err(format!("the rules of service {service} are not written yet; try again later"))
                    }
                    (true, _) => Err(format!("service {service} has no address of this IP family")),
                    _ => Ok(Meant { targets, count, unwritten }),
                }
            }
        }
    }

    fn explain<B: Backend>(
        &self,
        protocol: Protocol,
        to: SocketAddr,
        most_endpoints: usize,
        view: &mut View<'_, B>,
    ) -> Explanation {
        let clients = self.clients(Family::of(to.ip()), view);
        let inquiry = Inquiry { most_endpoints, ..Inquiry::new(protocol, to, clients) };
        let explained = match self.reads_kernel {
            true => view.reconciler.explain(&inquiry, view.planner, view.node),
            false => view.reconciler.explain_plan(&inquiry, view.planner, view.node),
        };
        let family = Family::of(to.ip());
        let owner = explained.owner.as_ref();
        let service = owner.and_then(|owner| view.state.service(&owner.service));
        let policy = owner.zip(service).map(|(owner, service)| match owner.role {
            Role::ClusterIp => ("internalTrafficPolicy", service.internal_policy),
            _ => ("externalTrafficPolicy", service.external_policy),
        });
        let is_pending = view.reconciler.is_unknown(family)
            || owner.is_some_and(|owner| view.lanes[family.index()].waits_for(&owner.service));
        let offered = owner.filter(|owner| !owner.is_large);
        let offered = offered.map(|owner| offered_ports(view.state, owner)).unwrap_or_default();
        let used = explained.answers.iter().flat_map(|answer| &answer.endpoints).map(SocketAddr::ip);
        let used: BTreeSet<IpAddr> = used.collect();
        let dead_end = |ip| Some((ip, dead_end(ip, view.state, view.reconciler)?));
        let dead_ends = used.into_iter().filter_map(dead_end).collect();
        Explanation { explained, policy, offered, is_pending, dead_ends }
    }

    /// Who asks; or one of each kind that can be told apart.
    fn clients<B: Backend>(&self, family: Family, view: &View<'_, B>) -> Vec<Client> {
        let detector = view.detector;
        if let Some(from) = &self.from {
            let is_node = view.node.addresses.contains(&from.ip) || from.ip.is_loopback();
            let interface = from.interface.as_deref().filter(|_| !is_node);
            let is_pod = detector.is_pod(family, Some(from.ip), interface);
            return vec![Client { ip: Some(from.ip), is_node, is_pod }];
        }
        let pod = Client { ip: None, is_node: false, is_pod: Some(true) };
        let own = view.node.primary[family.index()];
        let node = Client { ip: own, is_node: true, is_pod: detector.is_pod(family, own, None) };
        let outside = Client { ip: None, is_node: false, is_pod: detector.tells(family).then_some(false) };
        let pod = detector.tells(family).then_some(pod);
        pod.into_iter().chain([node, outside]).collect()
    }
}

/// What the slices of a service call their ports of this protocol.
fn offered_ports(state: &ClusterState, owner: &dataplane::Holder) -> Vec<String> {
    let slices = state.slices(&owner.service);
    let ports = slices.iter().flat_map(|slice| slice.ports);
    let mut names: Vec<String> = ports.map(|port| format!("{:?} ({})", port.name, port.protocol)).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(20);
    names
}
