//! Mode iptables, with each variant of its tools: settings that change while connections come in, node ports on
//! 127.0.0.1, and damage by others.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use model::{Family, Protocol};
use sandbox::{Outcome, address, probe};
use scenarios::{Carrier, Case, ServiceManifest, Verdict, at_load, carrier, wait_until};

use super::places::{PORT, at_cluster_ip, at_node_port, cluster_ip};
use super::stage::{From, SOON, Stage};
use super::traffic::Traffic;

const HEAD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: iptables\n\
                    logging: {verbosity: 4}\nconntrack: {maxPerCore: 0}\noomScoreAdj: 0\n";
const NODE_PORT: u16 = 30080;
const QUICK: Duration = Duration::from_millis(500);
/// The agent looks every second.
const REPAIRED_WITHIN: Duration = Duration::from_secs(3);

pub(crate) fn cases() -> Vec<Case<'static>> {
    let [legacy, nft] = Carrier::IPTABLES;
    vec![
        case("settings of mode iptables change without losing a packet, legacy", legacy, live),
        case("settings of mode iptables change without losing a packet, nft", nft, live),
        case("damage to the rules of mode iptables is repaired soon, legacy", legacy, damage),
        case("damage to the rules of mode iptables is repaired soon, nft", nft, damage),
    ]
}

fn case(name: &'static str, carrier: Carrier, run: fn(Configured)) -> Case<'static> {
    Case::new(name, move || match Configured::start(carrier) {
        Ok(configured) => {
            run(configured);
            Verdict::Passed
        }
        Err(why) => Verdict::Skipped(format!("the tools do not work here: {why}")),
    })
}

struct Configured {
    stage: Stage,
    carrier: Carrier,
    file: PathBuf,
}

fn body(more: &str) -> String {
    format!("{HEAD}clusterCIDR: {},{}\n{more}", address::CLUSTER_V4, address::CLUSTER_V6)
}

impl Configured {
    fn start(carrier: Carrier) -> Result<Configured, String> {
        let mut stage = Stage::new();
        carrier.prepare(&stage.sandbox.node, &stage.folder.lock())?;
        let ips = Family::BOTH.map(|family| cluster_ip(1, family));
        let web = ServiceManifest::new("web", &ips).with("type", "NodePort");
        stage.folder.put_service(&web.port("main", Protocol::Tcp, PORT, NODE_PORT));
        stage.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
        let file = stage.folder.path().join(".config.yaml");
        fs::write(&file, body("")).unwrap();
        stage.start_with(&[&format!("--config={}", file.display())]);
        Ok(Configured { stage, carrier, file })
    }

    /// Change, and wait until the agent says what is in force.
    fn change(&self, more: &str, words: &str) {
        let next = self.stage.folder.path().join(".config.next");
        fs::write(&next, body(more)).unwrap();
        fs::rename(&next, &self.file).unwrap();
        let is_said = || self.stage.log().contains(words);
        assert!(wait_until(SOON, is_said), "never said: {words}\n{}", self.stage.log());
    }

    fn await_rules(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        let mut saved = String::new();
        let found = wait_until(SOON, || {
            saved = self.saved(Family::V4);
            is_there(&saved)
        });
        assert!(found, "{what}\n{saved}\n{}", self.stage.log());
    }

    fn tool(&self, family: Family, kind: &str, arguments: &[&str], input: &str) -> String {
        let tool = self.carrier.tool(family == Family::V6, kind);
        carrier::run(&self.stage.sandbox.node, &self.stage.folder.lock(), &tool, arguments, input).unwrap()
    }

    /// All rules, without counts and remarks.
    fn saved(&self, family: Family) -> String {
        let text = self.tool(family, "-save", &[], "");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| format!("{}\n", line.split(" [").next().unwrap_or(line))).collect()
    }

    fn answers(&self, from: From, to: SocketAddr) -> bool {
        probe::tcp(self.stage.namespace(from), None, to, QUICK).by().is_some()
    }

    fn await_answer(&self, from: From, to: SocketAddr, wanted: bool) {
        let is_so = wait_until(SOON, || self.answers(from, to) == wanted);
        assert!(is_so, "{from:?} to {to}: wanted an answer: {wanted}\n{}", self.stage.log());
    }

    /// Whom the server took for its client.
    fn client_seen(&self, family: Family) -> Option<IpAddr> {
        match self.stage.tcp(From::Guest, at_cluster_ip(1, family)) {
            Outcome::Answered { seen_as, .. } => Some(seen_as),
            _ => None,
        }
    }
}

fn on_loopback() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), NODE_PORT)
}

fn live(mut configured: Configured) {
    let process = configured.stage.agent().process();
    let to = Family::BOTH.map(|family| (From::Guest, at_cluster_ip(1, family)));
    let traffic = Traffic::start(&configured.stage, &to);
    let before = Family::BOTH.map(|family| configured.client_seen(family));

    configured.await_answer(From::Node, on_loopback(), true);
    let metrics = configured.stage.agent().metrics().unwrap();
    let accepted = "\nkubeproxy_iptables_localhost_nodeports_accepted_packets_total ";
    if let Some((_, rest)) = metrics.split_once(accepted) {
        assert!(!rest.starts_with("0\n"), "not counted:\n{metrics}");
    }
    configured.change("iptables: {localhostNodePorts: false}\n", "iptables.localhostNodePorts: true → false");
    configured.await_answer(From::Node, on_loopback(), false);
    for family in Family::BOTH {
        configured.await_answer(From::Outside, at_node_port(NODE_PORT, family), true);
    }

    configured.change(
        "nodePortAddresses: [203.0.113.0/24, '2001:db8:77::/64']\n",
        "nodePortAddresses: null → [203.0.113.0/24, 2001:db8:77::/64]",
    );
    for family in Family::BOTH {
        configured.await_answer(From::Outside, at_node_port(NODE_PORT, family), false);
    }

    configured
        .change("iptables: {masqueradeAll: true, masqueradeBit: 11}\n", "iptables.masqueradeBit: 14 → 11");
    configured.await_rules("another bit", |rules| rules.contains("0x800/0x800") && !rules.contains("0x4000"));
    for (family, before) in Family::BOTH.into_iter().zip(before) {
        configured.await_answer(From::Outside, at_node_port(NODE_PORT, family), true);
        let masked = wait_until(SOON, || configured.client_seen(family) != before);
        assert!(masked, "not masqueraded: {before:?}\n{}", configured.stage.log());
    }

    assert!(configured.saved(Family::V4).contains("--ctstate INVALID"));
    configured
        .change("conntrack: {maxPerCore: 0, tcpBeLiberal: true}\n", "conntrack.tcpBeLiberal: false → true");
    configured.await_rules("liberal", |rules| !rules.contains("--ctstate INVALID"));
    for (family, before) in Family::BOTH.into_iter().zip(before) {
        let plain = wait_until(SOON, || configured.client_seen(family) == before);
        assert!(plain, "still masqueraded, not {before:?}\n{}", configured.stage.log());
    }

    // A change of the cluster still gets through.
    configured.stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    for family in Family::BOTH {
        configured.stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, family), "b");
    }
    let asked = traffic.finish();
    assert!(asked > 20, "{asked} connections only");
    assert_eq!(configured.stage.agent().process(), process);
    assert!(!configured.stage.log().contains("Somebody else"), "{}", configured.stage.log());
}

fn damage(mut configured: Configured) {
    let flush_all = "*nat\nCOMMIT\n*filter\nCOMMIT\n";
    for family in Family::BOTH {
        let whole = configured.saved(family);
        let chain = whole.lines().find_map(|line| line.strip_prefix(":KUBE-SVC-")).unwrap();
        let chain = format!("KUBE-SVC-{}", chain.split(' ').next().unwrap());
        let damages: [(&str, &str, Vec<&str>, &str); 6] = [
            ("all rules flushed", "", vec!["-t", "nat", "-F"], ""),
            ("everything replaced", "-restore", vec![], flush_all),
            ("a chain flushed", "", vec!["-t", "nat", "-F", &chain], ""),
            ("a rule removed", "", vec!["-t", "nat", "-D", &chain, "1"], ""),
            ("a rule added", "", vec!["-t", "nat", "-I", "KUBE-SERVICES", "-j", "RETURN"], ""),
            ("the way in removed", "", vec!["-t", "nat", "-D", "PREROUTING", "1"], ""),
        ];
        for (what, kind, arguments, input) in damages {
            // Whoever damages again and again waits longer; this one has waited.
            std::thread::sleep(Duration::from_millis(1100));
            let started = Instant::now();
            configured.tool(family, kind, &arguments, input);
            let repaired = wait_until(SOON, || same(&configured.saved(family), &whole));
            let took = started.elapsed();
            assert!(
                repaired,
                "{what}: never repaired\n{}\n{}",
                configured.saved(family),
                configured.stage.log()
            );
            println!("repair after {what}, {}, {family}: {took:?}", configured.carrier.name());
            assert!(
                took < at_load(REPAIRED_WITHIN),
                "{what}: repaired after {took:?}\n{}",
                configured.stage.log()
            );
            let outcome = configured.stage.tcp(From::Guest, at_cluster_ip(1, family));
            assert!(outcome.by().is_some(), "after {what}: {outcome:?}");
        }
    }
    assert!(
        configured
            .stage
            .log()
            .contains("Somebody else changed our rules in iptables; writing all rules anew")
    );
    assert_eq!(configured.stage.agent().probe("/healthz"), Some(200));
}

/// In whatever order: what is written anew may come before what others have in the same chain.
fn same(one: &str, other: &str) -> bool {
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    sorted(one) == sorted(other)
}
