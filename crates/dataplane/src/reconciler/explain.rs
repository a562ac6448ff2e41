//! Why a packet goes where it goes: who has the address, what a client meets there, and whether the kernel says the same.
//! The decisions are those of the plan; here they are only gathered.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::{
    Address, Claim, Client, Destination, Family, Fate, KnownEndpoint, NodePlan, NodeView, Planner, Pool,
    PortPlan, Protocol, Refusal, Role, Service, ServiceKey, ServicePlan, ServicePort, fate_of_unowned,
};

use super::Reconciler;
use super::asking::destination;
use crate::backend::Backend;
use crate::inspection::Look;

/// The heaviest service that is planned for a question, by [`Planner::weight`]: about a millisecond's worth.
pub const HEAVIEST_PLANNED: usize = 1_000;
/// Rivals, neighbours and source ranges that an answer names.
const MOST_RIVALS: usize = 10;
const MOST_NEIGHBOURS: usize = 50;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    pub protocol: Protocol,
    pub to: SocketAddr,
    /// Each gets an answer.
    pub clients: Vec<Client>,
    /// Endpoints that an answer names at most.
    pub most_endpoints: usize,
}

impl Inquiry {
    /// With as many endpoints as one answer should name.
    pub fn new(protocol: Protocol, to: SocketAddr, clients: Vec<Client>) -> Inquiry {
        Inquiry { protocol, to, clients, most_endpoints: 1_000 }
    }
}

#[derive(Debug)]
pub struct Explained {
    pub protocol: Protocol,
    pub to: SocketAddr,
    pub owner: Option<Holder>,
    /// The address is the cluster IP of a service.
    pub is_live: bool,
    /// What services have at the address, if none has the port.
    pub neighbours: Vec<(Claim, ServiceKey)>,
    pub answers: Vec<Answer>,
    pub node: NodePlan,
    /// `None` if all rules are about to be rewritten.
    pub look: Option<Look>,
}

/// The service that has an address and port.
#[derive(Clone, Debug)]
pub struct Holder {
    pub service: ServiceKey,
    pub port: Box<str>,
    pub at: Address,
    pub role: Role,
    pub affinity_seconds: Option<u32>,
    /// Who may come in, if not everybody: as many as are named, and how many there are.
    pub sources: Option<(Vec<ipnet::IpNet>, usize)>,
    /// Services that want it too: how many, and the first of them.
    pub rivals: (usize, Vec<ServiceKey>),
    /// The rules that are written say the same as the plan.
    pub is_written: bool,
    /// Too large to be planned for a question: this is what was written last.
    pub is_large: bool,
}

/// What one client meets.
#[derive(Clone, Debug)]
pub struct Answer {
    pub client: Client,
    pub fate: Fate,
    /// Where it may be sent; so many of them.
    pub endpoints: Vec<SocketAddr>,
    pub endpoint_count: usize,
    /// It is one of the endpoints, and masqueraded if it reaches itself.
    pub may_reach_itself: bool,
    /// Every endpoint that is known of the service port, used for such clients or not; so many of them.
    pub known: Vec<KnownEndpoint>,
    pub known_count: usize,
}

impl<B: Backend> Reconciler<B> {
    /// Explain what becomes of packets to one address and port. The cost is bounded, whatever service has it.
    pub fn explain(&mut self, inquiry: &Inquiry, planner: &dyn Planner, view: &NodeView) -> Explained {
        self.explain_and(inquiry, planner, view, true)
    }

    /// The same by the plan alone: the kernel is not read.
    pub fn explain_plan(&mut self, inquiry: &Inquiry, planner: &dyn Planner, view: &NodeView) -> Explained {
        self.explain_and(inquiry, planner, view, false)
    }

    fn explain_and(
        &mut self,
        inquiry: &Inquiry,
        planner: &dyn Planner,
        view: &NodeView,
        reads_kernel: bool,
    ) -> Explained {
        let Inquiry { protocol, to, clients, most_endpoints } = inquiry;
        let family = Family::of(to.ip());
        let node = planner.node(family);
        let (found, at) = self.holder(family, *protocol, *to, &node);
        let neighbours = self.claims_at(to.ip(), MOST_NEIGHBOURS);
        let is_live = self.is_live(to.ip(), &neighbours);
        let planned = found.and_then(|service| self.planned(family, &service, *protocol, at, planner));
        let client = clients.first().and_then(|client| client.ip);
        let owner = planned.as_ref().map(|planned| (&planned.service, &*planned.port.name, at));
        let look = match reads_kernel {
            true => self.inspect(*protocol, *to, owner, is_live, client),
            false => None,
        };
        let mut explained = Explained {
            protocol: *protocol,
            to: *to,
            owner: None,
            is_live,
            neighbours: Vec::new(),
            answers: Vec::with_capacity(clients.len()),
            node,
            look,
        };
        match planned {
            Some(planned) => {
                // Most clients meet the same pool.
                let mut known: [Option<(usize, Vec<KnownEndpoint>)>; 2] = [None, None];
                let mut known = |pool: Pool| {
                    let find = || {
                        let (service, port) = (&planned.service, &planned.port);
                        planner.endpoints(service, family, port, pool, *most_endpoints)
                    };
                    known[pool as usize].get_or_insert_with(find).clone()
                };
                for client in clients {
                    let answer = planned.answer(client, *most_endpoints, &mut known);
                    explained.answers.push(answer.by(|fate| self.backend.fate(*protocol, fate)));
                }
                let rivals = self.rivals(family, Claim { at, protocol: *protocol }, MOST_RIVALS);
                explained.owner = planned.holder(rivals);
            }
            None => {
                let fate = fate_of_unowned(to.ip(), is_live, view, &explained.node);
                explained.answers.extend(clients.iter().map(|client| Answer::unowned(*client, fate)));
                explained.neighbours = neighbours;
            }
        }
        explained
    }

    /// Who has it: an address of a service comes before a port of the node.
    fn holder(
        &self,
        family: Family,
        protocol: Protocol,
        to: SocketAddr,
        node: &NodePlan,
    ) -> (Option<ServiceKey>, Address) {
        let vip = Address::Vip(to.ip(), to.port());
        let node_port = node.serves_node_ports(to.ip()).then_some(Address::NodePort(to.port()));
        let places = std::iter::once(vip).chain(node_port);
        let mut owned = places.filter_map(|at| Some((self.owner(family, Claim { at, protocol })?, at)));
        owned.next().map_or((None, vip), |(service, at)| (Some(service.clone()), at))
    }

    fn planned(
        &self,
        family: Family,
        service: &ServiceKey,
        protocol: Protocol,
        at: Address,
        planner: &dyn Planner,
    ) -> Option<Planned> {
        let written = self.plan(family, service);
        let is_large = planner.weight(service) > HEAVIEST_PLANNED;
        let fresh = (!is_large).then(|| planner.plan(service, family)).flatten().map(|planned| {
            let mut plan = planned.plan;
            plan.retain(|protocol, at| self.owner(family, Claim { at, protocol }) == Some(service));
            plan
        });
        let plan = fresh.as_ref().or(written)?;
        let name = planner.service(service).and_then(|service| named(service, protocol, at));
        let (port, to) = destination(plan, protocol, name, at)?;
        let (port, to) = (port.clone(), to.clone());
        let here = |plan: Option<&ServicePlan>| {
            plan.and_then(|plan| destination(plan, protocol, name, at)).map(|(port, _)| in_order(port))
        };
        let is_written = is_large || here(fresh.as_ref()) == here(written);
        Some(Planned { service: service.clone(), port, to, is_written, is_large })
    }
}

/// The name of the port that a service has there.
fn named(service: &Service, protocol: Protocol, at: Address) -> Option<&str> {
    let is_there = |port: &&ServicePort| match at {
        Address::Vip(_, number) => port.port == number,
        Address::NodePort(number) => port.node_port.is_some_and(|port| port.get() == number),
    };
    service.ports.iter().filter(|port| port.protocol == protocol).find(is_there).map(|port| &*port.name)
}

/// The order of endpoints in a pool says nothing.
fn in_order(port: &PortPlan) -> PortPlan {
    let mut port = port.clone();
    port.cluster_pool.sort_unstable();
    port.local_pool.sort_unstable();
    port
}

struct Planned {
    service: ServiceKey,
    port: Arc<PortPlan>,
    to: Destination,
    is_written: bool,
    is_large: bool,
}

impl Planned {
    fn answer(
        &self,
        client: &Client,
        most_endpoints: usize,
        known: &mut impl FnMut(Pool) -> (usize, Vec<KnownEndpoint>),
    ) -> Answer {
        let fate = self.to.fate(client);
        let (used, asked) = match fate {
            Fate::Forward { pool, .. } => (self.port.pool(pool), Some(pool)),
            Fate::Drop(Refusal::NoLocalEndpoints) => (&[][..], Some(Pool::Local)),
            Fate::Reject(Refusal::NoEndpoints) => (&[][..], Some(Pool::Cluster)),
            _ => (&[][..], None),
        };
        let (known_count, known) = asked.filter(|_| !self.is_large).map(known).unwrap_or_default();
        let endpoints = used.iter().take(most_endpoints).map(|one| SocketAddr::new(one.ip, one.port));
        Answer {
            client: *client,
            fate,
            endpoints: endpoints.collect(),
            endpoint_count: used.len(),
            may_reach_itself: used.iter().any(|one| one.may_be_own_client && client.ip == Some(one.ip)),
            known,
            known_count,
        }
    }

    fn holder(&self, rivals: (usize, Vec<ServiceKey>)) -> Option<Holder> {
        let sources = self
            .to
            .allowed_sources
            .as_ref()
            .map(|_| (self.to.sources().take(MOST_NEIGHBOURS).collect(), self.to.sources().count()));
        Some(Holder {
            service: self.service.clone(),
            port: self.port.name.clone(),
            at: self.to.at,
            role: self.to.role,
            affinity_seconds: self.port.affinity_seconds,
            sources,
            rivals,
            is_written: self.is_written,
            is_large: self.is_large,
        })
    }
}

impl Answer {
    fn unowned(client: Client, fate: Fate) -> Answer {
        Answer {
            client,
            fate,
            endpoints: Vec::new(),
            endpoint_count: 0,
            may_reach_itself: false,
            known: Vec::new(),
            known_count: 0,
        }
    }

    /// As the mode carries it out.
    fn by(mut self, fate: impl FnOnce(Fate) -> Fate) -> Answer {
        self.fate = fate(self.fate);
        if !matches!(self.fate, Fate::Forward { .. }) {
            (self.endpoints, self.endpoint_count) = (Vec::new(), 0);
        }
        self
    }

    /// Whether the endpoint sees an address of the node instead of the client's, if it is this one.
    pub fn is_masqueraded(&self, endpoint: IpAddr) -> bool {
        let by_rule = matches!(self.fate, Fate::Forward { masquerade: Some(_), .. });
        by_rule || self.may_reach_itself && self.client.ip == Some(endpoint)
    }
}
