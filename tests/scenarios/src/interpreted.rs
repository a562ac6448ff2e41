//! Asking the rules: manifests → state → plans → rules in the simulator, and packets walked through those.

use std::net::{IpAddr, SocketAddr};

use cluster::manifests::ManifestSource;
use cluster::{ClusterPlanner, ClusterState, Kind, Update, observe_node};
use dataplane::Reconciler;
use model::{
    Family, KnownEndpoint, NodePlan, NodePortAddresses, NodeView, Planned, Planner, Pool, PortPlan, Protocol,
    ServiceKey, Settings,
};
use simulate::{Host, Origin, Outcome, Packet, Xorshift};

use crate::directory::{NODE, node_addresses, server_at};
use crate::flows::Flow;
use crate::flows::judge::{Asker, Observed};
use crate::manifest::ManifestFolder;
use crate::simulated::{Rules, Simulated};
use crate::variant::SettingsVariant;
use crate::world::World;

/// [`ClusterPlanner`] together with what it borrows.
#[derive(Debug)]
pub struct StatePlanner<'a> {
    pub state: &'a ClusterState,
    pub node: NodeView,
    pub settings: Settings,
    pub nodeport_addresses: NodePortAddresses,
}

impl StatePlanner<'_> {
    fn borrowed(&self) -> ClusterPlanner<'_> {
        ClusterPlanner {
            state: self.state,
            node: &self.node,
            settings: &self.settings,
            nodeport_addresses: &self.nodeport_addresses,
            nodeports_on_loopback: model::OnLoopback::Never,
        }
    }
}

impl Planner for StatePlanner<'_> {
    fn plan(&self, key: &ServiceKey, family: Family) -> Option<Planned> {
        self.borrowed().plan(key, family)
    }

    fn services(&self) -> Vec<ServiceKey> {
        self.borrowed().services()
    }

    fn node(&self, family: Family) -> NodePlan {
        self.borrowed().node(family)
    }

    fn endpoints(
        &self,
        key: &ServiceKey,
        family: Family,
        port: &PortPlan,
        pool: Pool,
        most: usize,
    ) -> (usize, Vec<KnownEndpoint>) {
        self.borrowed().endpoints(key, family, port, pool, most)
    }
}

/// What a folder of manifests says; every problem in it is a failure.
pub fn load(folder: &ManifestFolder) -> ClusterState {
    let loaded = ManifestSource::new(folder.path()).load().unwrap();
    assert!(loaded.problems.is_empty(), "problems in the manifests: {:?}", loaded.problems);
    let mut state = ClusterState::default();
    state.update(Update::Changes(loaded.changes));
    Kind::ALL.into_iter().for_each(|kind| state.mark_synced(kind));
    state
}

/// The node as the agent sees it in the sandbox.
pub fn node_view(state: &ClusterState) -> NodeView {
    observe_node(state.node(NODE), NODE, &node_addresses())
}

/// The rules of a state under a variant of the settings, in the mode of the backend.
pub fn program<B: Simulated>(state: &ClusterState, variant: SettingsVariant) -> Rules {
    let planner = StatePlanner {
        state,
        node: node_view(state),
        settings: variant.settings(),
        nodeport_addresses: variant.nodeport_addresses(),
    };
    let mut reconciler = Reconciler::new(B::new(variant));
    for family in Family::BOTH {
        reconciler.sync_and_sweep(family, &[], &planner).unwrap();
    }
    reconciler.backend().rules()
}

/// Walks the packets of one flow.
pub struct Walks {
    rules: Rules,
    host: Host,
    interface: Option<String>,
    protocol: Protocol,
    to: SocketAddr,
    port: u16,
    random: Xorshift,
    /// How the last packet went, for the reader of a failure.
    pub trace: Vec<String>,
}

impl Walks {
    pub fn new(rules: &Rules, world: &World, flow: &Flow, family: Family) -> Walks {
        Walks {
            rules: rules.clone(),
            host: Host::new(node_addresses()),
            interface: flow.from.interface(),
            protocol: flow.protocol,
            to: flow.to.at(world, family),
            port: 40_000,
            random: Xorshift::new(7),
            trace: Vec::new(),
        }
    }

    fn packet(&mut self, source: IpAddr) -> Packet {
        self.port += 1;
        Packet {
            protocol: protocol(self.protocol),
            source,
            source_port: self.port,
            destination: self.to.ip(),
            destination_port: self.to.port(),
            mark: 0,
            origin: self.interface.clone().map_or(Origin::Host, Origin::Interface),
        }
    }
}

impl Asker for Walks {
    fn ask(&mut self, source: IpAddr) -> Observed {
        let packet = self.packet(source);
        let journey = self.rules.walk(&self.host, packet, &mut |below| self.random.draw(below));
        self.trace = journey.trace.iter().map(ToString::to_string).collect();
        match journey.outcome {
            Outcome::Delivered(delivery) | Outcome::Local(delivery) => {
                let at = SocketAddr::new(delivery.to, delivery.port);
                match server_at(at) {
                    Some(by) => Observed::Answered { by, seen_as: delivery.source },
                    None if at == self.to => Observed::Untouched,
                    None => Observed::Odd(format!("it was sent to {at}, where nothing listens")),
                }
            }
            Outcome::Rejected(how) if how == rejection(self.protocol) => Observed::Rejected,
            Outcome::Rejected(how) => Observed::Odd(format!("rejected with {how:?}")),
            Outcome::Dropped => Observed::Silent,
        }
    }

    fn untouched(&self) -> Observed {
        Observed::Untouched
    }
}

pub fn protocol(protocol: Protocol) -> simulate::Protocol {
    match protocol {
        Protocol::Tcp => simulate::Protocol::Tcp,
        Protocol::Udp => simulate::Protocol::Udp,
        Protocol::Sctp => simulate::Protocol::Sctp,
    }
}

/// How a client of this protocol learns that nothing is there.
pub fn rejection(protocol: Protocol) -> simulate::Rejection {
    match protocol {
        Protocol::Tcp => simulate::Rejection::TcpReset,
        Protocol::Udp | Protocol::Sctp => simulate::Rejection::PortUnreachable,
    }
}
