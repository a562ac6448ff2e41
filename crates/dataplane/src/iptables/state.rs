//! What the tables hold for services, kept up to date change by change.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use kernel::iptables::Table;
use model::{NodePlan, Protocol, ServiceKey, ServicePlan};

use super::dialect::Dialect;
use super::frame;
use super::key::{Key, Ports};
use super::matches::Lacks;
use super::rule::Rule;
use super::service::ports;
use super::tree::{Chain, Difference, Tree};

/// The trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    /// nat: addresses of services.
    Services,
    /// nat: ports of the node.
    NodePorts,
    /// nat: local endpoints that reach themselves.
    Hairpins,
    /// filter: what is refused at cluster IPs.
    ClosedClusterIps,
    /// filter: what is refused at other addresses of services.
    ClosedExternalIps,
    /// filter: what is refused at ports of the node.
    ClosedNodePorts,
    /// filter: who may not come in.
    Firewall,
    /// filter: health checks of load balancers.
    HealthChecks,
}

impl Place {
    const ALL: [Place; 8] = [
        Place::Services,
        Place::NodePorts,
        Place::Hairpins,
        Place::ClosedClusterIps,
        Place::ClosedExternalIps,
        Place::ClosedNodePorts,
        Place::Firewall,
        Place::HealthChecks,
    ];

    pub(super) fn table(self) -> Table {
        match self {
            Place::Services | Place::NodePorts | Place::Hairpins => Table::Nat,
            _ => Table::Filter,
        }
    }

    /// The root's name, and how those of the other chains begin: as names do that upstream takes for its own and
    /// removes. Chains of ours that lead to services would else keep it from removing those.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Place::Services | Place::ClosedClusterIps => (frame::SERVICES, "KUBE-SVC-"),
            Place::NodePorts | Place::HealthChecks => (frame::NODE_PORTS, "KUBE-SVC-"),
            Place::Hairpins => (frame::HAIRPIN, "KUBE-SVC-H-"),
            Place::ClosedExternalIps => (frame::EXTERNAL_SERVICES, "KUBE-EXT-"),
            Place::ClosedNodePorts => (frame::CLOSED_NODE_PORTS, "KUBE-EXT-"),
            Place::Firewall => (frame::FIREWALL, "KUBE-FW-"),
        }
    }
}

/// Rules of services that stand in trees.
pub(super) type Leaves = Vec<(Place, Key, Rule)>;

pub(super) struct State {
    /// By [`Place`], in the order of [`Place::ALL`].
    trees: [Tree<Rule>; 8],
    /// How many services want the leaves that several may want.
    wanted: HashMap<(Place, Key), usize>,
    /// Rules in force, by table.
    pub(super) rules: [usize; 2],
}

impl State {
    pub(super) fn new() -> State {
        let trees = Place::ALL.map(|place| {
            let (root, prefix) = place.names();
            Tree::new(root, prefix)
        });
        State { trees, wanted: HashMap::new(), rules: [0; 2] }
    }

    fn tree(&mut self, place: Place) -> &mut Tree<Rule> {
        &mut self.trees[place as usize]
    }

    /// The rules that belong to the node stand behind the trees.
    pub(super) fn set_node(&mut self, dialect: &Dialect, node: &NodePlan) {
        let tails = [
            (Place::Services, dialect.nodeport_jumps(node, frame::NODE_PORTS)),
            (Place::ClosedClusterIps, dialect.unallocated(node)),
            (Place::ClosedExternalIps, dialect.nodeport_jumps(node, frame::CLOSED_NODE_PORTS)),
        ];
        for (place, tail) in tails {
            self.tree(place).set_tail(tail);
        }
    }

    pub(super) fn insert(&mut self, leaves: &Leaves) {
        for (place, key, rule) in leaves {
            self.tree(*place).insert(*key, rule.clone());
        }
    }

    /// Take leaves out, of one table, unless another service has their places by now.
    pub(super) fn remove(&mut self, leaves: &Leaves, table: Table) {
        for (place, key, rule) in leaves.iter().filter(|(place, ..)| place.table() == table) {
            let tree = self.tree(*place);
            if tree.get(key) == Some(rule) {
                tree.remove(key);
            }
        }
    }

    /// A service wants what others may want too.
    pub(super) fn hold(&mut self, service: &ServiceKey, plan: &ServicePlan) {
        for (place, key, rule) in shared_leaves(service, plan) {
            *self.wanted.entry((place, key)).or_default() += 1;
            self.tree(place).insert(key, rule);
        }
    }

    /// It does no longer, in one table; if it still wants the same, that was held again before.
    pub(super) fn release(&mut self, service: &ServiceKey, plan: Option<&ServicePlan>, table: Table) {
        let leaves = plan.into_iter().flat_map(|plan| shared_leaves(service, plan));
        for (place, key, _) in leaves.filter(|(place, ..)| place.table() == table) {
            let Some(count) = self.wanted.get_mut(&(place, key)) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.wanted.remove(&(place, key));
                self.tree(place).remove(&key);
            }
        }
    }

    /// What differs in a table since it was last taken.
    pub(super) fn take(&mut self, table: Table) -> Difference {
        let mut whole = Difference::default();
        for place in Place::ALL.into_iter().filter(|place| place.table() == table) {
            let part = self.tree(place).take();
            whole.chains.extend(part.chains);
            whole.gone.extend(part.gone);
            whole.rules_before += part.rules_before;
        }
        whole
    }

    /// All chains of trees in a table.
    pub(super) fn chains(&self, table: Table) -> Vec<Chain> {
        let places = Place::ALL.into_iter().filter(|place| place.table() == table);
        places.flat_map(|place| self.trees[place as usize].chains()).collect()
    }
}

/// What a service puts into trees at places of its own.
pub(super) fn leaves(service: &ServiceKey, plan: Option<&ServicePlan>, lacks: Lacks) -> Leaves {
    let mut leaves = Leaves::new();
    for port in plan.into_iter().flat_map(|plan| ports(service, plan, lacks)) {
        port.leaves(|place, key, rule| leaves.push((place, key, rule)));
    }
    leaves
}

/// What it puts there besides, where others may put the same: these have no owner.
fn shared_leaves(service: &ServiceKey, plan: &ServicePlan) -> Leaves {
    let mut leaves = Leaves::new();
    if let Some(ip) = plan.cluster_ip {
        leaves.push((Place::ClosedClusterIps, Key::whole(ip), Rule::RejectRest));
    }
    if let Some(port) = plan.health_check_port {
        let key = Key { ip: None, ports: Ports::One(Protocol::Tcp, port.get()) };
        let rule = Rule::Accept(format!("{service} health check node port").into());
        leaves.push((Place::HealthChecks, key, rule));
    }
    leaves.extend(own_clients(plan).into_iter().map(|ip| (Place::Hairpins, Key::whole(ip), Rule::Hairpin)));
    leaves
}

fn own_clients(plan: &ServicePlan) -> BTreeSet<IpAddr> {
    let backends = plan.ports.iter().flat_map(|port| port.cluster_pool.iter().chain(&port.local_pool));
    backends.filter(|backend| backend.may_be_own_client).map(|backend| backend.ip).collect()
}
