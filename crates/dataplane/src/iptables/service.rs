//! One service port: its chains in nat, and the rules by which trees lead there or refuse.

use std::fmt::Write as _;
use std::net::SocketAddr;

use ipnet::IpNet;
use kernel::iptables::Table;
use model::{
    Address, Destination, Masquerade, PlannedEndpoint, Pool, PortPlan, Role, Routing, ServiceKey,
    ServicePlan, Verdict,
};

use super::dialect::{Dialect, MARK_MASQ, comment};
use super::key::Key;
use super::matches::Lacks;
use super::names::{ChainKind, PortName};
use super::rule::{Rule, SOURCE_RANGE};
use super::state::Place;
use super::tree::Chain;

/// A port with its name.
pub(super) struct ServicePort<'a> {
    pub(super) port: &'a PortPlan,
    pub(super) name: PortName,
}

pub(super) fn ports<'a>(
    service: &'a ServiceKey,
    plan: &'a ServicePlan,
    lacks: Lacks,
) -> impl Iterator<Item = ServicePort<'a>> {
    plan.ports.iter().filter(move |port| lacks.has(port)).map(move |port| {
        let name = PortName::new(service, &port.name, port.protocol);
        ServicePort { port, name }
    })
}

impl ServicePort<'_> {
    /// The chains it needs, with the table they stand in.
    pub(super) fn kinds(&self) -> Vec<(Table, ChainKind)> {
        let mut kinds = Vec::with_capacity(3);
        kinds.extend(self.external().map(|_| (Table::Nat, ChainKind::External)));
        if let Some(guarded) = self.guarded() {
            kinds.push((guard_table(guarded.routing), ChainKind::Firewall));
        }
        for pool in [Pool::Cluster, Pool::Local] {
            if self.port.uses(pool) {
                kinds.push((Table::Nat, pool.into()));
            }
        }
        kinds
    }

    pub(super) fn chain(&self, kind: ChainKind, dialect: &Dialect) -> Chain {
        let mut chain = Chain::new(self.name.chain(kind).to_string());
        match kind {
            ChainKind::External => self.fill_external(&mut chain, dialect),
            ChainKind::Firewall => self.fill_firewall(&mut chain),
            ChainKind::Cluster => self.fill_pool(&mut chain, Pool::Cluster, dialect),
            ChainKind::Local => self.fill_pool(&mut chain, Pool::Local, dialect),
        }
        chain
    }

    /// How clients of external addresses are routed, if any of them are: one way for all of them.
    fn external(&self) -> Option<Routing> {
        let mut outside = self.port.destinations.iter().filter(|to| to.role != Role::ClusterIp);
        outside.find(|to| forwards(to.routing)).map(|to| to.routing)
    }

    /// The first load-balancer address that only some may use.
    fn guarded(&self) -> Option<&Destination> {
        self.port.destinations.iter().find(|to| to.allowed_sources.is_some())
    }

    fn fill_external(&self, chain: &mut Chain, dialect: &Dialect) {
        let about = comment(&format!("{} external destinations", self.name.text));
        let mark = |chain: &mut Chain, who: &str| {
            chain.rule(format_args!("{who}{about} -j {MARK_MASQ}"));
        };
        let go = |chain: &mut Chain, who: &str, verdict: Verdict| {
            if let Verdict::Forward(pool) = verdict {
                let to = self.name.chain(pool.into());
                chain.rule(format_args!("{who} -j {to}"));
            }
        };
        match self.external() {
            Some(Routing::Same(verdict, masquerade)) => {
                match masquerade {
                    Masquerade::Everyone => mark(chain, ""),
                    Masquerade::Outsiders => dialect.if_pod(false).iter().for_each(|who| mark(chain, who)),
                }
                go(chain, "", verdict);
            }
            Some(Routing::Split { outside, inside }) => {
                if let Some(pods) = dialect.if_pod(true) {
                    go(chain, &pods, inside);
                }
                let node = " -m addrtype --src-type LOCAL";
                mark(chain, node);
                go(chain, node, inside);
                go(chain, "", outside);
            }
            None => {}
        }
    }

    /// In nat: who may come in goes on, everybody else is not translated, and dropped for it in filter. In filter,
    /// where nothing is translated: admitted clients go on to be rejected.
    fn fill_firewall(&self, chain: &mut Chain) {
        let Some(guarded) = self.guarded() else { return };
        let about = comment(&format!("{} loadbalancer IP", self.name.text));
        let in_nat = guard_table(guarded.routing) == Table::Nat;
        let accepted = match in_nat {
            true => self.name.chain(ChainKind::External).to_string(),
            false => "RETURN".to_owned(),
        };
        let nets = guarded.allowed_sources.iter().flat_map(|allowed| &*allowed.nets);
        let own = self.port.destinations.iter().filter_map(|to| match to {
            Destination { at: Address::Vip(ip, _), allowed_sources: Some(allowed), .. } if allowed.itself => {
                Some(IpNet::from(*ip))
            }
            _ => None,
        });
        let who = nets.map(|net| format!(" -s {net}")).chain(own.map(|ip| format!(" -s {ip} -d {ip}")));
        for who in who {
            let about = if chain.rules == 0 { &about } else { "" };
            chain.rule(format_args!("{who}{about} -j {accepted}"));
        }
        if !in_nat {
            chain.rule(format_args!(" -j {SOURCE_RANGE}"));
        }
    }

    fn fill_pool(&self, chain: &mut Chain, pool: Pool, dialect: &Dialect) {
        self.mark_cluster_ip(chain, pool, dialect);
        let backends = self.port.pool(pool);
        let affinity_seconds = self.port.affinity_seconds.filter(|_| !dialect.lacks.recent);
        if let Some(seconds) = affinity_seconds {
            for backend in backends {
                let pins = self.name.pins(backend);
                let pinned = format!(" -m recent --name {pins} --update --seconds {seconds} --reap");
                self.translate(chain, &pinned, backend);
            }
        }
        for (index, backend) in backends.iter().enumerate() {
            let mut which = String::new();
            // Each of those left is as likely as the others; the last is certain.
            let left = backends.len() - index;
            if left > 1 {
                let probability = 1.0 / left as f64;
                let _ = write!(which, " -m statistic --mode random --probability {probability:.10}");
            }
            if affinity_seconds.is_some() {
                let _ = write!(which, " -m recent --name {} --set", self.name.pins(backend));
            }
            self.translate(chain, &which, backend);
        }
    }

    /// Whose address is rewritten on the way through the cluster IP. External addresses lead into the same chain and
    /// are distinguished by the destination.
    fn mark_cluster_ip(&self, chain: &mut Chain, pool: Pool, dialect: &Dialect) {
        let ips = self.port.destinations.iter().filter(|to| to.role == Role::ClusterIp);
        for to in ips {
            let Routing::Same(Verdict::Forward(used), masquerade) = to.routing else { continue };
            let who = match masquerade {
                Masquerade::Everyone => Some(String::new()),
                Masquerade::Outsiders => dialect.if_pod(false),
            };
            let (Some(who), model::Address::Vip(ip, _)) = (who.filter(|_| used == pool), to.at) else {
                continue;
            };
            let about = comment(&format!("{} cluster IP", self.name.text));
            chain.rule(format_args!("{who} -d {ip}{about} -j {MARK_MASQ}"));
        }
    }

    fn translate(&self, chain: &mut Chain, which: &str, backend: &PlannedEndpoint) {
        let to = SocketAddr::new(backend.ip, backend.port);
        let about = if chain.rules == 0 { comment(&self.name.text) } else { String::new() };
        let protocol = self.port.protocol;
        chain.rule(format_args!(" -p {protocol}{about}{which} -j DNAT --to-destination {to}"));
    }

    /// The rules of this port that stand in trees.
    pub(super) fn leaves(&self, mut add: impl FnMut(Place, Key, Rule)) {
        let name = &self.name.text;
        for to in &self.port.destinations {
            let key = Key::of(to.at, self.port.protocol);
            let is_node_port = to.role == Role::NodePort;
            if forwards(to.routing) {
                let chain = self.name.chain(self.entrance(to));
                let place = if is_node_port { Place::NodePorts } else { Place::Services };
                add(place, key, Rule::To(chain, format!("{name}{}", role_words(to.role)).into()));
            }
            let refused = match to.routing {
                Routing::Same(Verdict::Reject, _) => {
                    Some(Rule::Reject(format!("{name} has no endpoints").into()))
                }
                Routing::Same(Verdict::Drop, _) | Routing::Split { outside: Verdict::Drop, .. } => {
                    Some(Rule::DropRemote(format!("{name} has no local endpoints").into()))
                }
                _ => None,
            };
            if let Some(rule) = refused {
                let place = match to.role {
                    Role::ClusterIp => Place::ClosedClusterIps,
                    Role::NodePort => Place::ClosedNodePorts,
                    Role::ExternalIp | Role::LoadBalancerIp => Place::ClosedExternalIps,
                };
                add(place, key, rule);
            }
            if to.allowed_sources.is_some() {
                let chain = self.name.chain(ChainKind::Firewall);
                add(
                    Place::Firewall,
                    key,
                    match guard_table(to.routing) {
                        Table::Nat => {
                            Rule::DropSource(format!("{name} traffic not accepted by {chain}").into())
                        }
                        Table::Filter => Rule::To(chain, format!("{name} loadbalancer IP").into()),
                    },
                );
            }
        }
    }

    /// The chain that a destination leads to.
    fn entrance(&self, to: &Destination) -> ChainKind {
        match (to.role, to.routing) {
            (Role::ClusterIp, Routing::Same(Verdict::Forward(pool), _)) => pool.into(),
            _ if to.allowed_sources.is_some() => ChainKind::Firewall,
            _ => ChainKind::External,
        }
    }
}

fn forwards(routing: Routing) -> bool {
    routing.forwards_to(Pool::Cluster) || routing.forwards_to(Pool::Local)
}

/// Where it is decided who may come in: before translation, if there is any.
fn guard_table(routing: Routing) -> Table {
    if forwards(routing) { Table::Nat } else { Table::Filter }
}

fn role_words(role: Role) -> &'static str {
    match role {
        Role::ClusterIp => " cluster IP",
        Role::ExternalIp => " external IP",
        Role::LoadBalancerIp => " loadbalancer IP",
        Role::NodePort => "",
    }
}
