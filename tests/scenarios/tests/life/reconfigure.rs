//! A configuration file that changes under a running agent, while connections come in.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use kernel::process::{Signal, send_signal};
use model::{Family, Protocol};
use sandbox::{Outcome, address};
use serde_json::json;
use test_support::{Carrier, Case, ServiceManifest, manifest, node_agent, wait_until};

use super::case;
use super::churn::assert_no_drift;
use super::places::{PORT, at_cluster_ip, at_node_port, cluster_ip};
use super::rig::in_mode;
use super::stage::{From, SOON, Stage};
use super::traffic::Traffic;

pub(crate) const NODE_PORT: u16 = 30080;

pub(crate) fn cases() -> Vec<Case<'static>> {
    // Where a process carries connections, most of them show nothing to endpoints.
    let carriers = Carrier::ALL.into_iter().filter(|carrier| !carrier.is_a_process());
    let name = "every setting that concerns packets changes without losing one";
    let mut cases: Vec<Case<'static>> = carriers.map(|carrier| in_mode(carrier, name, live)).collect();
    cases.extend([
        case("another node name moves every decision about what is local", renamed),
        case("a configuration that cannot be used changes nothing, and the next one does", refused),
        case("a way to detect local traffic that is not known yet holds nothing up", not_yet_known),
    ]);
    cases
}

/// What every file begins with. What all namespaces share is left alone, where the rest says nothing of it.
fn text(carrier: Carrier, body: &str) -> String {
    let alone = |field: &str, line| if body.contains(field) { "" } else { line };
    let limits = alone("conntrack:", "conntrack: {maxPerCore: 0}\n");
    let score = alone("oomScoreAdj:", "oomScoreAdj: 0\n");
    format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: {}\n\
         logging: {{verbosity: 4}}\n{limits}{score}{body}",
        carrier.mode()
    )
}

/// The field that tells pods from the rest, and what else is given.
pub(crate) fn with_cidrs(body: &str) -> String {
    format!("clusterCIDR: {},{}\n{body}", address::CLUSTER_V4, address::CLUSTER_V6)
}

/// The agent's process and file; it must live through all of this.
pub(crate) struct Configured {
    pub(crate) stage: Stage,
    file: PathBuf,
    process: u32,
}

impl Configured {
    pub(crate) fn start(carrier: Carrier, body: &str) -> Configured {
        let stage = Stage::of(carrier);
        let ips = Family::BOTH.map(|family| cluster_ip(1, family));
        let web = ServiceManifest::new("web", &ips).with("type", "NodePort");
        stage.folder.put_service(&web.port("main", Protocol::Tcp, PORT, NODE_PORT));
        stage.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
        Configured::over(stage, body, &[])
    }

    fn over(mut stage: Stage, body: &str, flags: &[&str]) -> Configured {
        let file = stage.folder.path().join(".config.yaml");
        fs::write(&file, text(stage.carrier, body)).unwrap();
        let config = format!("--config={}", file.display());
        stage.start_with(&[&[config.as_str()], flags].concat());
        let process = stage.agent().process();
        Configured { stage, file, process }
    }

    /// As the kubelet and careful people do it: the new text appears at once.
    fn write(&self, body: &str) {
        let next = self.stage.folder.path().join(".config.next");
        fs::write(&next, text(self.stage.carrier, body)).unwrap();
        fs::rename(&next, &self.file).unwrap();
    }

    fn said(&self, words: &str) -> usize {
        self.stage.log().matches(words).count()
    }

    /// Change, and wait until the agent says what is in force.
    pub(crate) fn change(&self, body: &str, words: &str) {
        let before = self.said(words);
        self.write(body);
        assert!(wait_until(SOON, || self.said(words) > before), "never said: {words}\n{}", self.stage.log());
    }

    fn answers_at_node_port(&self, family: Family) -> bool {
        self.stage.answers(From::Outside, at_node_port(NODE_PORT, family))
    }

    /// It is the same process, and well.
    pub(crate) fn assert_alive(&mut self) {
        assert_eq!(self.stage.agent().process(), self.process);
        assert_eq!(self.stage.agent().probe("/readyz"), Some(200));
    }

    /// Whom the server took for its client; `None` without an answer.
    fn client_seen(&self, family: Family) -> Option<IpAddr> {
        match self.stage.tcp(From::Guest, at_cluster_ip(1, family)) {
            Outcome::Answered { seen_as, .. } => Some(seen_as),
            _ => None,
        }
    }
}

fn live(carrier: Carrier) {
    let section = carrier.mode();
    // As in upstream's file, mode ipvs has no fields of its own for it.
    let masquerade = if carrier == Carrier::Ipvs { "iptables" } else { section };
    let mut configured = Configured::start(carrier, &with_cidrs("nodePortAddresses: [primary]\n"));
    let pairs = Family::BOTH.map(|family| (From::Guest, at_cluster_ip(1, family)));
    let traffic = Traffic::start(&configured.stage, &pairs);
    let before = Family::BOTH.map(|family| configured.client_seen(family));

    configured.change(
        &with_cidrs("nodePortAddresses: [203.0.113.0/24, '2001:db8:77::/64']\n"),
        "nodePortAddresses: [primary] → [203.0.113.0/24, 2001:db8:77::/64]",
    );
    for family in Family::BOTH {
        let closed = wait_until(SOON, || !configured.answers_at_node_port(family));
        assert!(closed, "the node port is not closed\n{}", configured.stage.log());
    }

    // Node ports are served on the primary addresses, and this one is not the node's.
    configured.change(
        &with_cidrs("nodePortAddresses: [primary]\nbindAddress: 203.0.113.9\n"),
        "bindAddress: 0.0.0.0 → 203.0.113.9",
    );
    let moved =
        || configured.answers_at_node_port(Family::V6) && !configured.answers_at_node_port(Family::V4);
    assert!(wait_until(SOON, moved), "bindAddress is not the primary address\n{}", configured.stage.log());

    configured.change(
        &with_cidrs(&format!(
            "nodePortAddresses: [primary]\n{masquerade}: {{masqueradeAll: true, masqueradeBit: 11}}\n"
        )),
        &format!("{masquerade}.masqueradeAll: false → true"),
    );
    for (family, before) in Family::BOTH.iter().zip(&before) {
        let open = wait_until(SOON, || configured.answers_at_node_port(*family));
        assert!(open, "the node port is not open again\n{}", configured.stage.log());
        let masked = wait_until(SOON, || configured.client_seen(*family) != *before);
        assert!(masked, "not masqueraded: {before:?}\n{}", configured.stage.log());
    }

    configured.change(
        "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: veth}\n",
        "detectLocalMode:",
    );
    configured.change(
        &with_cidrs(&format!("{section}: {{minSyncPeriod: 50ms, syncPeriod: 5s}}\n")),
        "minSyncPeriod: 1s → 50ms",
    );
    for (family, before) in Family::BOTH.iter().zip(&before) {
        let plain = wait_until(SOON, || configured.client_seen(*family) == *before);
        assert!(plain, "still masqueraded, not {before:?}\n{}", configured.stage.log());
    }
    // A change of the cluster still gets through.
    configured.stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    configured.stage.await_pools(1, &["b"]);
    traffic.go_on(20);
    println!("{}: {} connections during changes of settings", carrier.name(), traffic.finish());
    assert_no_drift(&configured.stage);
    configured.assert_alive();
}

/// Who gave a wrong name and corrects it must not have to wait for each service to change.
fn renamed() {
    let stage = Stage::new();
    let near = stage.service("near", 2, Protocol::Tcp).with("internalTrafficPolicy", "Local");
    stage.folder.put_service(&near);
    stage.put_endpoints("near", Protocol::Tcp, &["a"]);
    // Without a name the flag leaves that of the file.
    let wrong = with_cidrs("hostnameOverride: somebody-else\n");
    let configured = Configured::over(stage, &wrong, &["--hostname-override="]);
    let answers = |family| configured.stage.answers(From::Guest, at_cluster_ip(2, family));
    Family::BOTH.iter().for_each(|family| assert!(!answers(*family), "{}", configured.stage.log()));
    configured.change(&with_cidrs("hostnameOverride: node-1\n"), "hostnameOverride: somebody-else → node-1");
    for family in Family::BOTH {
        assert!(wait_until(SOON, || answers(family)), "{family}\n{}", configured.stage.log());
    }
}

fn refused() {
    let mut configured = Configured::start(Carrier::Nftables, &with_cidrs(""));
    configured.write("clusterCIDR: nowhere\n");
    configured.stage.await_said("Refused the changed configuration; keeping the previous one");
    for family in Family::BOTH {
        let answers = wait_until(SOON, || configured.answers_at_node_port(family));
        assert!(answers, "{}", configured.stage.log());
    }
    let before = configured.said("keeping the previous one");
    send_signal(configured.process, Signal::Hangup).unwrap();
    let again = wait_until(SOON, || configured.said("keeping the previous one") > before);
    assert!(again, "SIGHUP gets no answer\n{}", configured.stage.log());
    configured.change(&with_cidrs("oomScoreAdj: -5\n"), "oomScoreAdj: 0 → -5");
    send_signal(configured.process, Signal::Hangup).unwrap();
    configured.stage.await_said("the configuration file has no changes");
    assert_eq!(configured.stage.agent().probe("/healthz"), Some(200));
}

/// Rules that are written as before serve better than rules that are written no more.
fn not_yet_known() {
    let configured = Configured::start(Carrier::Nftables, &with_cidrs(""));
    configured.change(
        "detectLocalMode: NodeCIDR\nnftables: {syncPeriod: 1s}\n",
        "Applied the changed configuration",
    );
    configured.stage.await_said("Keeping the previous node name and detection of local traffic");
    let before = Family::BOTH.map(|family| configured.client_seen(family));
    configured.stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    for family in Family::BOTH {
        configured.stage.await_pool(1, family, &["b"]);
    }
    let probe = |path| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 10256));
        let answer = configured.stage.sandbox.node.run(|| node_agent::get(address, path)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200"), "{path}: {answer}");
        answer
    };
    let ready = probe("/readyz");
    assert!(ready.contains("pod CIDRs that the changed configuration needs"), "{ready}");
    probe("/healthz");
    // Another node's pods: those of this one are outsiders from now on.
    let own = [address::NODE_V4.into(), address::NODE_V6.into()];
    let mut node = manifest::node("node-1", "zone-1", &own);
    node["spec"] = json!({"podCIDRs": ["10.99.9.0/24", "fd00:99:9::/64"]});
    configured.stage.folder.put("node", &node);
    configured.stage.await_said("Resolved: the changed node name and detection of local traffic are in use");
    for (family, before) in Family::BOTH.iter().zip(&before) {
        let masked = wait_until(SOON, || configured.client_seen(*family) != *before);
        assert!(masked, "not masqueraded: {before:?}\n{}", configured.stage.log());
    }
    let ready = probe("/readyz");
    assert!(ready.contains("{\"ready\":true,\"awaiting\":[]}"), "{ready}");
}
