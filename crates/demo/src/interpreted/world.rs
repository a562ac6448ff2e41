//! A node that exists only here: the agent's own state, plans and rendering over a simulated nf_tables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use cluster::manifests::ManifestSource;
use cluster::{ClusterPlanner, ClusterState, Update};
use dataplane::Reconciler;
use dataplane::nftables::{Nftables, TABLE_NAME};
use kernel::nft::{self, Batch, Transport as _};
use model::{Family, LocalDetector, NodePortAddresses, NodeView, Settings};
use sandbox::address;
use simulate::nft::Simulator;
use simulate::{Host, Journey, Origin, Outcome, Packet, Protocol, Xorshift};

use super::DemoError;
use super::cast::*;
use super::commit::Commit;
use super::folder::Folder;
use super::slices::Backed;

/// As the agent's default.
const MASQUERADE_MARK: u32 = 1 << 14;

pub(super) struct InterpretedWorld {
    folder: Folder,
    source: ManifestSource,
    state: ClusterState,
    reconciler: Reconciler<Nftables<Simulator>>,
    node: NodeView,
    random: Xorshift,
    /// Every packet is the first of a new connection.
    port: u16,
    pub(super) members: Vec<Member>,
}

impl InterpretedWorld {
    pub(super) fn new(root: std::path::PathBuf) -> Result<InterpretedWorld, DemoError> {
        let members = vec![member("a", 1, 10), member("b", 1, 11), member("c", 2, 10)];
        let folder = Folder::fill(root, &members)?;
        let detector = LocalDetector::Cidrs(vec![address::CLUSTER_V4.into(), address::CLUSTER_V6.into()]);
        let backend = Nftables::new(Simulator::new(), &detector, MASQUERADE_MARK);
        Ok(InterpretedWorld {
            source: ManifestSource::new(folder.manifests()),
            folder,
            state: ClusterState::default(),
            reconciler: Reconciler::new(backend),
            node: node(),
            random: Xorshift::new(u64::from(std::process::id())),
            port: 1024,
            members,
        })
    }

    /// Read the manifests and bring the rules up to date.
    pub(super) fn sync(&mut self) -> Result<Commit, DemoError> {
        let loaded = self.source.load()?;
        if let Some(problem) = loaded.problems.first() {
            return Err(DemoError::NotSeen(problem.to_string()));
        }
        self.state.update(Update::Changes(loaded.changes));
        let started = Instant::now();
        let dirty = self.state.take_dirty();
        // As the agent's defaults.
        let planner = ClusterPlanner {
            state: &self.state,
            node: &self.node,
            settings: &Settings::default(),
            nodeport_addresses: &NodePortAddresses::Primary,
            nodeports_on_loopback: model::OnLoopback::Never,
        };
        let mut commit = Commit::default();
        for family in Family::BOTH {
            let synced = self.reconciler.sync_and_sweep(family, &dirty.services, &planner)?;
            commit.services = commit.services.max(synced.services);
            commit.bytes += synced.committed.bytes;
            commit.full |= synced.full;
        }
        commit.took = started.elapsed();
        Ok(commit)
    }

    pub(super) fn publish(&mut self, services: &[Backed]) -> Result<Commit, DemoError> {
        for service in services {
            self.folder.put_members(*service, &self.members)?;
        }
        self.sync()
    }

    /// As another program would do it; the agent's monitor then tells the reconciler.
    pub(super) fn delete_tables(&mut self) -> Result<(), DemoError> {
        for (family, table) in [(Family::V4, nft::TableFamily::Ip), (Family::V6, nft::TableFamily::Ip6)] {
            let mut batch = Batch::new(table, TABLE_NAME);
            batch.delete_table();
            self.reconciler.backend().transport().commit(&batch)?;
            self.reconciler.distrust(family);
        }
        Ok(())
    }

    /// Send the first packet of a new connection through the rules.
    pub(super) fn walk(&mut self, question: &Question) -> Journey {
        self.port = self.port.checked_add(1).unwrap_or(1024);
        let packet = Packet {
            protocol: match question.transport {
                Transport::Tcp => Protocol::Tcp,
                Transport::Udp => Protocol::Udp,
            },
            source: self.address_of(question.caller, question.to.ip()),
            source_port: self.port,
            destination: question.to.ip(),
            destination_port: question.to.port(),
            mark: 0,
            origin: Origin::Interface(match question.caller {
                Caller::Frontend => format!("{}{FRONTEND}", address::POD_LINK_PREFIX),
                Caller::Client | Caller::SecondClient => address::NODE_OUTSIDE.to_owned(),
            }),
        };
        let host = Host::new(self.node.addresses.iter().copied());
        let random = &mut self.random;
        let simulator = self.reconciler.backend().transport();
        simulate::walk(simulator, &host, packet, &mut |modulus| random.draw(modulus))
    }

    fn pod_at(&self, ip: IpAddr) -> Option<String> {
        let found = self.members.iter().find(|member| member.v4 == ip || member.v6 == ip);
        found.map(|member| format!("pod-{}", member.name))
    }
}

impl World for InterpretedWorld {
    fn ask(&mut self, question: &Question, _: Duration) -> Answer {
        let journey = self.walk(question);
        match (&journey.outcome, journey.delivery()) {
            (Outcome::Rejected(_), _) => Answer::Refused,
            (_, Some(delivery)) => match self.pod_at(delivery.to) {
                Some(pod) => Answer::By { pod, seen_as: delivery.source },
                None => Answer::Silence,
            },
            (_, None) => Answer::Silence,
        }
    }

    fn address_of(&self, caller: Caller, like: IpAddr) -> IpAddr {
        let frontend = member(FRONTEND, 1, 12);
        match (caller, like.is_ipv4()) {
            (Caller::Frontend, true) => frontend.v4.into(),
            (Caller::Frontend, false) => frontend.v6.into(),
            (Caller::Client, true) => address::CLIENT_V4.into(),
            (Caller::Client, false) => address::CLIENT_V6.into(),
            (Caller::SecondClient, true) => address::CLIENT_SECOND_V4.into(),
            (Caller::SecondClient, false) => address::CLIENT_SECOND_V6.into(),
        }
    }

    fn keeps_time(&self) -> bool {
        false
    }
}

/// A pod by the number of its node and its own; numbered as the sandbox does.
pub(super) fn member(name: &str, node: u8, number: u8) -> Member {
    let decimal = u16::from(number / 10) << 4 | u16::from(number % 10);
    Member {
        name: name.to_owned(),
        v4: Ipv4Addr::new(10, 244, node, number),
        v6: Ipv6Addr::new(0xfd00, 0x244, u16::from(node), 0, 0, 0, 0, decimal),
        node: if node == 1 { NODE_NAME } else { OTHER_NODE_NAME },
    }
}

fn node() -> NodeView {
    let primary = [Some(address::NODE_V4.into()), Some(address::NODE_V6.into())];
    let outer = [address::NODE_OUTER_V4.into(), address::NODE_OUTER_V6.into()];
    let addresses = primary.iter().flatten().copied().chain(outer).collect();
    NodeView { name: NODE_NAME.into(), zone: None, primary, addresses }
}
