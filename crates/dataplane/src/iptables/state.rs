//! What the tables hold for services, kept up to date change by change.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use kernel::iptables::Table;
use model::{NodePlan, Protocol, ServiceKey, ServicePlan};

use super::dialect::Dialect;
use super::frame;
use super::key::{Key, Ports};
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
    trees: HashMap<Place, Tree<Rule>>,
    /// How many services a local endpoint's address stands behind.
    local: HashMap<IpAddr, usize>,
    /// Rules in force, by table.
    pub(super) rules: [usize; 2],
}

impl State {
    pub(super) fn new() -> State {
        let trees = Place::ALL.map(|place| {
            let (root, prefix) = place.names();
            (place, Tree::new(root, prefix))
        });
        State { trees: trees.into_iter().collect(), local: HashMap::new(), rules: [0; 2] }
    }

    /// The rules that belong to the node stand behind the trees.
    pub(super) fn set_node(&mut self, dialect: &Dialect, node: &NodePlan) {
        let tails = [
            (Place::Services, dialect.nodeport_jumps(node, frame::NODE_PORTS)),
            (Place::ClosedClusterIps, dialect.unallocated(node)),
            (Place::ClosedExternalIps, dialect.nodeport_jumps(node, frame::CLOSED_NODE_PORTS)),
        ];
        for (place, tail) in tails {
            if let Some(tree) = self.trees.get_mut(&place) {
                tree.set_tail(tail);
            }
        }
    }

    pub(super) fn insert(&mut self, leaves: &Leaves) {
        for (place, key, rule) in leaves {
            if let Some(tree) = self.trees.get_mut(place).filter(|tree| tree.get(key) != Some(rule)) {
                tree.insert(*key, rule.clone());
            }
        }
    }

    /// Take leaves out, of one table, unless somebody else has their places by now.
    pub(super) fn remove(&mut self, leaves: &Leaves, table: Table) {
        for (place, key, rule) in leaves.iter().filter(|(place, ..)| place.table() == table) {
            if let Some(tree) = self.trees.get_mut(place).filter(|tree| tree.get(key) == Some(rule)) {
                tree.remove(key);
            }
        }
    }

    /// Endpoints of this node came to stand behind a service, or went.
    pub(super) fn count_local(&mut self, old: Option<&ServicePlan>, new: Option<&ServicePlan>) {
        let Some(tree) = self.trees.get_mut(&Place::Hairpins) else { return };
        for ip in new.into_iter().flat_map(local_ips) {
            *self.local.entry(ip).or_default() += 1;
            if tree.get(&Key::whole(ip)).is_none() {
                tree.insert(Key::whole(ip), Rule::Hairpin);
            }
        }
        for ip in old.into_iter().flat_map(local_ips) {
            let Some(count) = self.local.get_mut(&ip) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.local.remove(&ip);
                tree.remove(&Key::whole(ip));
            }
        }
    }

    /// What differs in a table since it was last taken.
    pub(super) fn take(&mut self, table: Table) -> Difference {
        let mut whole = Difference::default();
        for place in Place::ALL.into_iter().filter(|place| place.table() == table) {
            let Some(tree) = self.trees.get_mut(&place) else { continue };
            let part = tree.take();
            whole.chains.extend(part.chains);
            whole.gone.extend(part.gone);
            whole.rules_before += part.rules_before;
        }
        whole
    }

    /// All chains of trees in a table.
    pub(super) fn chains(&self, table: Table) -> Vec<Chain> {
        let places = Place::ALL.into_iter().filter(|place| place.table() == table);
        places.filter_map(|place| self.trees.get(&place)).flat_map(Tree::chains).collect()
    }
}

/// What a service puts into trees.
pub(super) fn leaves(service: &ServiceKey, plan: Option<&ServicePlan>) -> Leaves {
    let mut leaves = Leaves::new();
    let Some(plan) = plan else { return leaves };
    for port in ports(service, plan) {
        port.leaves(|place, key, rule| leaves.push((place, key, rule)));
    }
    if let Some(ip) = plan.cluster_ip {
        leaves.push((Place::ClosedClusterIps, Key::whole(ip), Rule::RejectRest));
    }
    if let Some(port) = plan.health_check_port {
        let key = Key { ip: None, ports: Ports::One(Protocol::Tcp, port.get()) };
        leaves.push((
            Place::HealthChecks,
            key,
            Rule::Accept(format!("{service} health check node port").into()),
        ));
    }
    leaves
}

fn local_ips(plan: &ServicePlan) -> BTreeSet<IpAddr> {
    let backends = plan.ports.iter().flat_map(|port| port.cluster_pool.iter().chain(&port.local_pool));
    backends.filter(|backend| backend.local).map(|backend| backend.ip).collect()
}
