//! Asking the kernel: the real binary in the sandbox's node, real servers, real clients.

pub mod table;
mod tunnel;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use model::{Family, Protocol};
use sandbox::{Namespace, Outcome, Place, Sandbox, SandboxSpec, Server, probe};

use crate::directory::{self, NODE, PODS};
use crate::flows::judge::{Asker, CLIENTS, Observed, client_address};
use crate::flows::{Expect, Flow, Position};
use crate::world::World;
use crate::{ANSWER, Carrier, ManifestFolder, NodeAgent, SettingsVariant, patient};

/// How long to listen to what must be silence.
const SILENCE: Duration = Duration::from_millis(300);
const EPERM: i32 = 1;

/// A sandbox in which the table can be asked, as soon as a proxy steers traffic in it. Parts are dropped in
/// this order.
#[derive(Debug)]
pub struct Ground {
    _servers: Vec<Server>,
    far: Namespace,
    pub sandbox: Sandbox,
}

/// The ground with the real binary on it, over manifests. Parts are dropped in this order.
#[derive(Debug)]
pub struct Rig {
    pub agent: NodeAgent,
    ground: Ground,
    pub manifests: ManifestFolder,
}

impl Rig {
    pub fn start(
        binary: &Path,
        world: &World,
        carrier: Carrier,
        variant: SettingsVariant,
    ) -> Result<Rig, String> {
        let ground = Ground::new()?;
        let manifests = ManifestFolder::create();
        world.write_to(&manifests);
        carrier.prepare(&ground.sandbox.node, &manifests.lock())?;
        let mut flags = carrier.flags();
        flags.extend(variant.flags());
        let agent = NodeAgent::start(binary, &ground.sandbox.node, &manifests, NODE, &flags)?;
        Ok(Rig { agent, ground, manifests })
    }
}

impl Deref for Rig {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        &self.ground
    }
}

impl Ground {
    pub fn new() -> Result<Ground, String> {
        let sandbox = build_sandbox().map_err(|e| e.to_string())?;
        let far = Family::BOTH.map(|family| Position::Far.address(family));
        let far = tunnel::dig(&sandbox.node, far)?;
        let servers = start_servers(&sandbox, &far).map_err(|e| e.to_string())?;
        Ok(Ground { _servers: servers, far, sandbox })
    }

    fn namespace(&self, position: Position) -> &Namespace {
        match position {
            Position::Guest => namespace_of(&self.sandbox, "guest"),
            Position::EndpointB => namespace_of(&self.sandbox, "b"),
            Position::Far => &self.far,
            Position::Node | Position::NodeOuter => &self.sandbox.node,
            Position::Outside | Position::OutsideSecond | Position::OutsideAsBalancer => &self.sandbox.client,
        }
    }
}

fn build_sandbox() -> Result<Sandbox, sandbox::SandboxError> {
    let names = |place: Place| PODS.iter().filter(move |pod| pod.1 == place).map(|pod| pod.0.to_owned());
    let spec = SandboxSpec {
        local_pods: names(Place::Local).collect(),
        remote_pods: names(Place::Remote).collect(),
    };
    let sandbox = Sandbox::new(&spec)?;
    for pod in sandbox.pods() {
        let known = Family::BOTH.map(|family| directory::address_of(&pod.name, family));
        assert_eq!(pod.addresses(), known, "the directory and the sandbox disagree about pod {}", pod.name);
    }
    for family in Family::BOTH {
        sandbox.add_client_address(Position::OutsideAsBalancer.address(family))?;
        for number in 0..CLIENTS {
            sandbox.add_client_address(client_address(number, family))?;
        }
    }
    Ok(sandbox)
}

fn start_servers(sandbox: &Sandbox, far: &Namespace) -> Result<Vec<Server>, sandbox::SandboxError> {
    let mut servers = Vec::new();
    for (endpoint, name, at) in directory::servers() {
        let namespace = if endpoint == "far" { far } else { namespace_of(sandbox, endpoint) };
        servers.push(Server::tcp(namespace, &name, at)?);
        servers.push(Server::udp(namespace, &name, at)?);
        if no_sctp().is_none() {
            servers.push(Server::sctp(namespace, &name, at)?);
        }
    }
    Ok(servers)
}

/// Where an endpoint or a client pod lives.
fn namespace_of<'a>(sandbox: &'a Sandbox, name: &str) -> &'a Namespace {
    match name {
        "node" => &sandbox.node,
        "remote" => &sandbox.remote,
        pod => &sandbox.pod(pod).unwrap().namespace,
    }
}

/// Puts the questions of one flow.
#[derive(Debug)]
pub struct Calls<'a> {
    from: &'a Namespace,
    position: Position,
    protocol: Protocol,
    to: SocketAddr,
    timeout: Duration,
}

impl<'a> Calls<'a> {
    pub fn new(
        ground: &'a Ground,
        world: &World,
        flow: &Flow,
        variant: SettingsVariant,
        family: Family,
    ) -> Calls<'a> {
        let to = flow.to.at(world, family);
        let silent = match flow.expected(variant) {
            Expect::Dropped => true,
            Expect::Untouched => untouched(to) == Observed::Silent,
            Expect::Answered(..) | Expect::Rejected => false,
        };
        Calls {
            from: ground.namespace(flow.from),
            position: flow.from,
            protocol: flow.protocol,
            to,
            timeout: if silent { SILENCE } else { patient(ANSWER) },
        }
    }
}

impl Asker for Calls<'_> {
    fn ask(&mut self, source: IpAddr) -> Observed {
        let outcome = match self.protocol {
            Protocol::Tcp => probe::tcp(self.from, Some(source), self.to, self.timeout),
            Protocol::Udp => probe::udp(self.from, Some(source), self.to, self.timeout),
            Protocol::Sctp => probe::sctp(self.from, Some(source), self.to, self.timeout),
        };
        let own_datagram = self.position.is_node() && self.protocol == Protocol::Udp;
        match outcome {
            Outcome::Answered { by, seen_as, .. } => Observed::Answered { by, seen_as },
            Outcome::Refused => Observed::Rejected,
            Outcome::TimedOut => Observed::Silent,
            Outcome::Unreachable(errno) if own_datagram && errno == EPERM => Observed::RefusedAtSending,
            other => Observed::Odd(format!("{other:?}")),
        }
    }

    fn untouched(&self) -> Observed {
        untouched(self.to)
    }
}

/// A port of the node on which nothing listens is refused by the node's own kernel; any other address is sent
/// on to the client, which does not forward.
fn untouched(to: SocketAddr) -> Observed {
    let of_node = directory::node_addresses().contains(&to.ip()) || to.ip().is_loopback();
    if of_node { Observed::Rejected } else { Observed::Silent }
}

/// Why SCTP flows cannot be asked here, if they cannot.
pub fn no_sctp() -> Option<String> {
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    kernel::sctp::socket(any).err().map(|error| format!("this kernel has no SCTP: {error}"))
}
