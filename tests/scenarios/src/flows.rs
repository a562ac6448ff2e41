//! The table of packet flows: who calls what, and what must become of it.
//!
//! It says nothing of how rules are made, so every proxy mode is held to it. A flow names a position, a
//! protocol and a destination; what is expected may depend on whether the agent counts the client as
//! inside, which [`SettingsVariant`] knows.

mod affinity;
mod cluster_ip;
mod endpoints;
pub mod explained;
mod external;
mod firewall;
pub mod judge;
mod node_port;
mod odd;
mod position;
mod target;

use model::{Family, Protocol};

use crate::Carrier;
use crate::variant::SettingsVariant;

pub use position::Position;
pub use target::{Target, balancer, cluster, doors, external};

/// Whose address the endpoint sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Kept,
    Rewritten,
    /// Kept for pods of this node, rewritten for others: the rule of cluster IPs.
    ByDetector,
    /// An address of the node for every client: a process opens connections of its own to endpoints.
    OfTheNode,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// By each of these servers now and then, and by no other.
    Answered(&'static [&'static str], Source),
    /// TCP reset or "port unreachable", at once.
    Rejected,
    /// Silence.
    Dropped,
    /// Nothing the proxy has to do with: the packet goes its way with the destination it had.
    Untouched,
}

/// How often to ask, and what the answers have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// Until every expected server has answered.
    Cover,
    /// Every answer comes from the same server.
    Sticky,
    /// Many times: the servers share them evenly.
    Evenly,
    /// Once from each of many addresses: they do not all meet the same server.
    ManyClients,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Flow {
    pub from: Position,
    pub protocol: Protocol,
    pub to: Target,
    /// For clients that count as inside the node, and for all others.
    pub inside: Expect,
    pub outside: Expect,
    pub asking: Asking,
    pub families: &'static [Family],
    /// Expected instead if node ports are served on all addresses.
    pub on_all_addresses: Option<Expect>,
    /// The rule behind the expectation.
    pub why: &'static str,
}

impl Flow {
    /// Everybody gets the same answer.
    fn new(from: Position, protocol: Protocol, to: Target, expect: Expect, why: &'static str) -> Flow {
        Flow {
            from,
            protocol,
            to,
            inside: expect.clone(),
            outside: expect,
            asking: Asking::Cover,
            families: &Family::BOTH,
            on_all_addresses: None,
            why,
        }
    }

    /// Who is inside gets another answer than who is not.
    fn split(self, inside: Expect, outside: Expect) -> Flow {
        Flow { inside, outside, ..self }
    }

    fn asking(self, asking: Asking) -> Flow {
        Flow { asking, ..self }
    }

    fn only(self, families: &'static [Family]) -> Flow {
        Flow { families, ..self }
    }

    pub fn name(&self, family: Family) -> String {
        let asking = match self.asking {
            Asking::Cover => "",
            Asking::Sticky => ", repeatedly",
            Asking::Evenly => ", evenly",
            Asking::ManyClients => ", many clients",
        };
        format!("{} to {}, {family} {}{asking}", self.from, self.to, self.protocol)
    }

    pub fn expected(&self, variant: SettingsVariant) -> &Expect {
        match &self.on_all_addresses {
            Some(expect) if variant == SettingsVariant::AllNodePortAddresses => expect,
            _ if variant.is_inside(self.from) => &self.inside,
            _ => &self.outside,
        }
    }

    /// Whether the server `by` sees an address of the node instead of the client's.
    pub fn is_masqueraded(&self, variant: SettingsVariant, source: Source, by: &str) -> bool {
        let endpoint = by.split('/').next().unwrap_or(by);
        match source {
            Source::OfTheNode => true,
            // An endpoint in this node's host network is not behind postrouting.
            _ if endpoint == "node" => false,
            // Its answer to itself would never come back to the node to be translated.
            _ if self.from.endpoint() == Some(endpoint) => true,
            Source::Kept => false,
            Source::Rewritten => true,
            Source::ByDetector => variant.masquerades_cluster_ip(self.from),
        }
    }

    /// Whether the variant changes what this flow must do, compared with the base of the table.
    pub fn differs_in(&self, variant: SettingsVariant) -> bool {
        let base = SettingsVariant::ClusterCidr;
        if self.expected(variant) != self.expected(base) {
            return true;
        }
        let Expect::Answered(servers, source) = self.expected(variant) else { return false };
        let seen = |variant| servers.iter().map(move |by| self.is_masqueraded(variant, *source, by));
        !seen(variant).eq(seen(base))
    }
}

/// Every row as it is asked of one mode.
pub fn of(carrier: Carrier) -> Vec<Flow> {
    let flows = all();
    if !carrier.is_a_process() {
        return flows;
    }
    let carried = |expect: Expect, protocol| match expect {
        Expect::Answered(..) if protocol == Protocol::Sctp => Expect::Rejected,
        Expect::Answered(servers, _) => Expect::Answered(servers, Source::OfTheNode),
        other => other,
    };
    let carried = |flow: Flow| match flow.to {
        // Of no service.
        Target::OnNode(_) => flow,
        _ => Flow {
            inside: carried(flow.inside, flow.protocol),
            outside: carried(flow.outside, flow.protocol),
            on_all_addresses: flow.on_all_addresses.map(|expect| carried(expect, flow.protocol)),
            ..flow
        },
    };
    flows.into_iter().map(carried).collect()
}

/// Every row.
pub fn all() -> Vec<Flow> {
    let tables = [
        cluster_ip::flows(),
        external::flows(),
        node_port::flows(),
        endpoints::flows(),
        firewall::flows(),
        affinity::flows(),
        odd::flows(),
    ];
    tables.concat()
}

/// Servers, for the tables.
mod servers {
    pub(super) const ALL: &[&str] = &["a", "b", "c"];
    pub(super) const LOCAL: &[&str] = &["a", "b"];
    pub(super) const A: &[&str] = &["a"];
    pub(super) const B: &[&str] = &["b"];
    pub(super) const C: &[&str] = &["c"];
    pub(super) const A_C: &[&str] = &["a", "c"];
    pub(super) const A_C_SECOND: &[&str] = &["a/9090", "c/9090"];
    pub(super) const FAR: &[&str] = &["far"];
    pub(super) const GUEST: &[&str] = &["guest"];
    pub(super) const NODE: &[&str] = &["node"];
    pub(super) const REMOTE: &[&str] = &["remote"];
}

/// What the table modules use.
mod prelude {
    pub(super) use super::Asking::*;
    pub(super) use super::Expect::*;
    pub(super) use super::Position::*;
    pub(super) use super::Source::*;
    pub(super) use super::servers::*;
    pub(super) use super::{Flow, Target, balancer, cluster, doors, external};
    pub(super) use crate::world::Range;
    pub(super) use model::Family;
    pub(super) use model::Protocol::{Sctp, Tcp, Udp};
}
