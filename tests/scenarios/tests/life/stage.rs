//! One cluster for one case: a sandbox whose pods all serve, manifests in a folder, and the agent over them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use kernel::sysctl;
use model::{Family, Protocol};
use sandbox::{Outcome, Place, Sandbox, SandboxSpec, Server, address, probe};
use serde_json::{Value, json};
pub(crate) use test_support::SOON;
use test_support::{
    Carrier, EndpointManifest, ManifestFolder, NodeAgent, ServiceManifest, SliceManifest, manifest, patient,
    wait_until,
};

use super::places::{PORT, at_cluster_ip, client_address, cluster_ip};
use super::rig::{self, Rig};

pub(crate) const NODE: &str = "node-1";
pub(crate) const OTHER_NODE: &str = "node-2";

/// Pods that serve: `a`, `b` and `e` on the node, `c` and `d` on the other one. `guest` only asks.
pub(crate) const ENDPOINTS: [&str; 5] = ["a", "b", "c", "d", "e"];
pub(crate) const GUEST: &str = "guest";

/// Where the servers listen, TCP and UDP.
pub(crate) const POD_PORT: u16 = 8080;

/// How long to listen to what may be silence, and then to make sure of it: a slow machine answers late.
const SILENCE: Duration = Duration::from_millis(500);
const LASTING_SILENCE: Duration = Duration::from_secs(3);

/// The pause after a costly sync. By default it is up to 1 s; a case that measures the agent's reactions on a
/// slow machine would measure little else.
pub(crate) const PROMPT: &str = "--iptables-min-sync-period=100ms";

/// Set by `main`, before any case runs.
pub(crate) static BINARY: OnceLock<PathBuf> = OnceLock::new();

pub(crate) struct Stage {
    // Dropped in this order: the agent before the namespaces it lives in.
    agent: Option<NodeAgent>,
    _servers: Vec<Server>,
    pub(crate) folder: ManifestFolder,
    pub(crate) sandbox: Sandbox,
    pub(crate) carrier: Carrier,
}

/// How long an answer may take.
pub(crate) fn answer() -> Duration {
    patient(test_support::ANSWER)
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Guest,
    /// The client outside, from its usual address.
    Outside,
    /// The client outside, from one of its further addresses; see [`Stage::add_clients`].
    OutsideAs(u8),
    Node,
}

impl Stage {
    /// Everything but the agent, which runs in mode nftables: for cases that are about no mode.
    pub(crate) fn new() -> Stage {
        Stage::of(Carrier::Nftables)
    }

    /// Everything but the agent, whose mode is this.
    pub(crate) fn of(carrier: Carrier) -> Stage {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let spec =
            SandboxSpec { local_pods: names(&["a", "b", "e", GUEST]), remote_pods: names(&["c", "d"]) };
        let sandbox = Sandbox::new(&spec).unwrap();
        let mut servers = Vec::new();
        for name in ENDPOINTS {
            let pod = sandbox.pod(name).unwrap();
            // A masqueraded client has another port each time, and now and then one whose last connection the
            // server still remembers; the server would not answer its first packet.
            pod.namespace.run(|| sysctl::write("net/ipv4/tcp_max_tw_buckets", 0).unwrap());
            for ip in pod.addresses() {
                let at = SocketAddr::new(ip, POD_PORT);
                servers.push(Server::tcp(&pod.namespace, name, at).unwrap());
                servers.push(Server::udp(&pod.namespace, name, at).unwrap());
            }
        }
        let folder = ManifestFolder::create();
        let own = [address::NODE_V4.into(), address::NODE_V6.into()];
        folder.put("node", &manifest::node(NODE, "zone-1", &own));
        let cidrs = [address::SERVICES_V4.into(), address::SERVICES_V6.into()];
        folder.put("cidrs", &manifest::service_cidr("kubernetes", &cidrs));
        carrier.prepare(&sandbox.node, &folder.lock()).unwrap();
        Stage { agent: None, _servers: servers, folder, sandbox, carrier }
    }

    /// How the mode is looked at.
    pub(crate) fn rig(&self) -> &'static dyn Rig {
        rig::of(self.carrier)
    }

    pub(crate) fn start(&mut self) {
        self.start_with(&[]);
    }

    /// Start the agent and wait until it is ready.
    pub(crate) fn start_with(&mut self, flags: &[&str]) {
        self.start_by(&[], flags).unwrap_or_else(|why| panic!("{why}"));
    }

    /// Start the agent through a command that executes what follows it. Of a flag given twice the last one counts.
    pub(crate) fn start_by(&mut self, launcher: &[String], flags: &[&str]) -> Result<(), String> {
        let own = self.carrier.flags();
        // A configuration file names the mode itself.
        let own =
            own.iter().map(String::as_str).filter(|_| !flags.iter().any(|of| of.starts_with("--config=")));
        self.start_exactly(launcher, &own.chain(flags.iter().copied()).collect::<Vec<_>>())
    }

    /// The same without the flags of the mode.
    pub(crate) fn start_exactly(&mut self, launcher: &[String], flags: &[&str]) -> Result<(), String> {
        let mut all = vec![format!("--cluster-cidr={},{}", address::CLUSTER_V4, address::CLUSTER_V6)];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let binary = BINARY.get().expect("main has found the binary");
        self.agent =
            Some(NodeAgent::start_by(launcher, binary, &self.sandbox.node, &self.folder, NODE, &all)?);
        Ok(())
    }

    pub(crate) fn agent(&mut self) -> &mut NodeAgent {
        self.agent.as_mut().expect("the agent has been started")
    }

    pub(crate) fn log(&self) -> String {
        self.agent.as_ref().map(NodeAgent::log).unwrap_or_default()
    }

    /// SIGTERM (or SIGKILL), and the next life.
    pub(crate) fn restart(&mut self, kill: bool) {
        let agent = self.agent();
        if kill {
            agent.kill();
        } else {
            agent.stop().unwrap_or_else(|why| panic!("{why}"));
        }
        agent.restart().unwrap_or_else(|why| panic!("{why}"));
    }

    /// A service with a cluster IP of each family and one port, which is also its name's only one.
    pub(crate) fn service(&self, name: &str, number: u8, protocol: Protocol) -> ServiceManifest {
        let ips = Family::BOTH.map(|family| cluster_ip(number, family));
        ServiceManifest::new(name, &ips).port("main", protocol, PORT, 0)
    }

    /// Both families' slices of a service in one file, so that they change together.
    pub(crate) fn put_endpoints(&self, service: &str, protocol: Protocol, pods: &[&str]) {
        let ips: Vec<[IpAddr; 2]> = pods.iter().map(|pod| self.addresses(pod)).collect();
        let nodes: Vec<&str> = pods.iter().map(|pod| self.node_of(pod)).collect();
        self.folder.put(&format!("slices-{service}"), &list(slices(service, protocol, &ips, &nodes)));
    }

    /// The same with one endpoint on the node, of these addresses.
    pub(crate) fn put_endpoints_at(&self, service: &str, protocol: Protocol, ips: [IpAddr; 2]) {
        self.folder.put(&format!("slices-{service}"), &list(slices(service, protocol, &[ips], &[NODE])));
    }

    pub(crate) fn addresses(&self, pod: &str) -> [IpAddr; 2] {
        self.sandbox.pod(pod).unwrap().addresses()
    }

    pub(crate) fn address(&self, pod: &str, family: Family) -> IpAddr {
        self.addresses(pod)[family.index()]
    }

    fn node_of(&self, pod: &str) -> &'static str {
        match self.sandbox.pod(pod).unwrap().place {
            Place::Local => NODE,
            Place::Remote => OTHER_NODE,
        }
    }

    /// Further addresses of the outside client, for [`From::OutsideAs`] from 0 on.
    pub(crate) fn add_clients(&self, family: Family, count: u8) {
        for number in 0..count {
            self.sandbox.add_client_address(client_address(number, family)).unwrap();
        }
    }

    pub(crate) fn namespace(&self, from: From) -> &sandbox::Namespace {
        match from {
            From::Guest => &self.sandbox.pod(GUEST).unwrap().namespace,
            From::Outside | From::OutsideAs(_) => &self.sandbox.client,
            From::Node => &self.sandbox.node,
        }
    }

    pub(crate) fn tcp(&self, from: From, to: SocketAddr) -> Outcome {
        probe::tcp(self.namespace(from), from.source(to), to, answer())
    }

    pub(crate) fn udp(&self, from: From, to: SocketAddr) -> Outcome {
        probe::udp(self.namespace(from), from.source(to), to, answer())
    }

    /// Whether a connection is answered. Silence counts only if it lasts.
    pub(crate) fn answers(&self, from: From, to: SocketAddr) -> bool {
        let ask = |time| probe::tcp(self.namespace(from), from.source(to), to, time);
        match ask(SILENCE) {
            Outcome::TimedOut => ask(patient(LASTING_SILENCE)).by().is_some(),
            outcome => outcome.by().is_some(),
        }
    }

    pub(crate) fn ask(&self, protocol: Protocol, from: From, to: SocketAddr) -> Outcome {
        if protocol == Protocol::Udp { self.udp(from, to) } else { self.tcp(from, to) }
    }

    /// Who answers a connection; panics if none does.
    pub(crate) fn who(&self, protocol: Protocol, from: From, to: SocketAddr) -> String {
        let outcome = self.ask(protocol, from, to);
        outcome.by().unwrap_or_else(|| panic!("{from:?} to {protocol} {to}: {outcome:?}")).to_owned()
    }

    /// Wait until packets to a cluster IP are sent to just these pods: the change has reached traffic.
    pub(crate) fn await_pool(&self, number: u8, family: Family, pods: &[&str]) {
        let wanted: BTreeSet<SocketAddr> =
            pods.iter().map(|pod| SocketAddr::new(self.address(pod, family), POD_PORT)).collect();
        let at = at_cluster_ip(number, family);
        let meant = wanted.clone();
        let is_shown = self.rig().shown(wanted.clone()) == wanted;
        let wanted = self.rig().shown(wanted);
        let found = || self.rig().destinations(self, family).remove(&at).unwrap_or_default();
        assert!(wait_until(SOON, || found() == wanted), "{:?}, not {wanted:?}\n{}", found(), self.log());
        if !is_shown {
            // A client with affinity may be answered as before until then.
            let is_planned = wait_until(SOON, || self.explained(at).is_some_and(|planned| planned == meant));
            assert!(is_planned, "{at}: {:?}, not {meant:?}\n{}", self.explained(at), self.log());
            let is_met = wait_until(SOON, || self.meets(at, pods));
            assert!(is_met, "{at}: not {pods:?} answer\n{}", self.log());
        }
    }

    /// Where the agent says that it leads connections to an address.
    fn explained(&self, at: SocketAddr) -> Option<BTreeSet<SocketAddr>> {
        let explain = |protocol| {
            let page = self.agent.as_ref()?.page(&format!("/pointsman/v1/explain?to={protocol}:{at}"))?;
            let document: Value = serde_json::from_str(&page).ok()?;
            let endpoints = document["explanations"][0]["clients"][0]["endpoints"].as_array()?.clone();
            let endpoints: Option<BTreeSet<SocketAddr>> =
                endpoints.iter().map(|one| one.as_str()?.parse().ok()).collect();
            endpoints.filter(|endpoints| !endpoints.is_empty())
        };
        explain("tcp").or_else(|| explain("udp"))
    }

    /// Whether connections are answered by these pods: by all of them, or always by the same one.
    fn meets(&self, at: SocketAddr, pods: &[&str]) -> bool {
        let ask = |_| {
            let by_tcp = probe::tcp(self.namespace(From::Guest), From::Guest.source(at), at, SILENCE);
            let by = by_tcp.by().map(str::to_owned);
            by.or_else(|| self.udp(From::Guest, at).by().map(str::to_owned))
        };
        let met: Option<BTreeSet<String>> = (0..2 * pods.len()).map(ask).collect();
        let is_one_of = |by: &String| pods.contains(&by.as_str());
        met.is_some_and(|met| met.iter().all(is_one_of) && (met.len() == 1 || met.len() == pods.len()))
    }

    /// The same in both families.
    pub(crate) fn await_pools(&self, number: u8, pods: &[&str]) {
        Family::BOTH.into_iter().for_each(|family| self.await_pool(number, family, pods));
    }

    /// Wait until connections to `to` are answered by `by`.
    pub(crate) fn await_answer(&self, protocol: Protocol, from: From, to: SocketAddr, by: &str) -> Duration {
        let started = Instant::now();
        let answers = || self.ask(protocol, from, to).by() == Some(by);
        assert!(
            wait_until(SOON, answers),
            "{from:?} to {protocol} {to}: {by} never answered\n{}",
            self.log()
        );
        started.elapsed()
    }

    /// Whether services of these numbers answer, in both families.
    pub(crate) fn assert_answers(&self, numbers: &[u8], when: &str) {
        for family in Family::BOTH {
            for number in numbers {
                let outcome = self.tcp(From::Guest, at_cluster_ip(*number, family));
                let log = || self.log();
                assert!(outcome.by().is_some(), "service {number}, {family}, {when}: {outcome:?}\n{}", log());
            }
        }
    }

    pub(crate) fn await_said(&self, words: &str) {
        assert!(wait_until(SOON, || self.log().contains(words)), "never said: {words}\n{}", self.log());
    }

    /// All rules of both families, to be compared.
    pub(crate) fn rules(&self) -> [Vec<String>; 2] {
        Family::BOTH.map(|family| self.rig().rules(self, family))
    }

    /// Wait until the rules are these.
    pub(crate) fn await_rules(&self, wanted: &[Vec<String>; 2], what: &str) {
        let is_so = wait_until(SOON, || self.rules() == *wanted);
        let difference = || {
            let found = self.rules();
            Family::BOTH
                .map(|family| rig::difference(&found[family.index()], &wanted[family.index()]))
                .join("\n")
        };
        assert!(is_so, "{what}:\n{}\n{}", difference(), self.log());
    }

    /// A series of the page of metrics, by its whole name.
    pub(crate) fn metric(&mut self, series: &str) -> Option<f64> {
        let page = self.agent().metrics().unwrap_or_default();
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line?.trim().parse().ok()
    }

    /// `kube-proxy --cleanup` on the node.
    pub(crate) fn clean_up(&self) {
        let mut command = Command::new(BINARY.get().expect("main has found the binary"));
        command.arg("--cleanup").env("XTABLES_LOCKFILE", self.folder.lock());
        self.sandbox.node.enter(&mut command).unwrap();
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl From {
    pub(crate) fn source(self, to: SocketAddr) -> Option<IpAddr> {
        match self {
            From::OutsideAs(number) => Some(client_address(number, Family::of(to.ip()))),
            _ => None,
        }
    }
}

/// A slice of each family.
pub(crate) fn slices(service: &str, protocol: Protocol, ips: &[[IpAddr; 2]], nodes: &[&str]) -> [Value; 2] {
    let slice = |family: Family| {
        let slice = SliceManifest::new(service, "1", family).port("main", protocol, POD_PORT);
        let endpoints =
            ips.iter().zip(nodes).map(|(ips, node)| EndpointManifest::new(ips[family.index()], node));
        endpoints.fold(slice, |slice, endpoint| slice.endpoint(&endpoint)).to_json()
    };
    Family::BOTH.map(slice)
}

pub(crate) fn list(items: impl IntoIterator<Item = Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items.into_iter().collect::<Vec<_>>()})
}
