//! A configuration file that changes under a running agent, while connections come in.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use kernel::process::{Signal, send_signal};
use model::{Family, Protocol};
use sandbox::{Outcome, address};
use scenarios::{Case, ServiceManifest, manifest, node_agent, wait_until};
use serde_json::json;

use super::case;
use super::places::{PORT, at_cluster_ip, at_node_port, cluster_ip};
use super::stage::{From, SOON, Stage};
use super::traffic::Traffic;

const HEAD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n\
                    logging: {verbosity: 4}\n";
const NODE_PORT: u16 = 30080;

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("every setting that concerns packets changes without losing one", live),
        case("another node name moves every decision about what is local", renamed),
        case("a configuration that cannot be used changes nothing, and the next one does", refused),
        case("a way to detect local traffic that is not known yet holds nothing up", not_yet_known),
    ]
}

/// The field that tells pods from the rest, and what else is given.
fn with_cidrs(body: &str) -> String {
    format!("clusterCIDR: {},{}\n{body}", address::CLUSTER_V4, address::CLUSTER_V6)
}

/// The agent's process and file; it must live through all of this.
struct Configured {
    stage: Stage,
    file: PathBuf,
    process: u32,
}

impl Configured {
    fn start(body: &str) -> Configured {
        let stage = Stage::new();
        let ips = Family::BOTH.map(|family| cluster_ip(1, family));
        let web = ServiceManifest::new("web", &ips).with("type", "NodePort");
        stage.folder.put_service(&web.port("main", Protocol::Tcp, PORT, NODE_PORT));
        stage.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
        Configured::over(stage, body, &[])
    }

    fn over(mut stage: Stage, body: &str, flags: &[&str]) -> Configured {
        let file = stage.folder.path().join(".config.yaml");
        fs::write(&file, format!("{HEAD}{body}")).unwrap();
        let config = format!("--config={}", file.display());
        stage.start_with(&[&[config.as_str()], flags].concat());
        let process = stage.agent().process();
        Configured { stage, file, process }
    }

    /// As the kubelet and careful people do it: the new text appears at once.
    fn write(&self, body: &str) {
        let next = self.stage.folder.path().join(".config.next");
        fs::write(&next, format!("{HEAD}{body}")).unwrap();
        fs::rename(&next, &self.file).unwrap();
    }

    fn said(&self, words: &str) -> usize {
        self.stage.log().matches(words).count()
    }

    fn await_said(&self, words: &str) {
        assert!(wait_until(SOON, || self.said(words) > 0), "never said: {words}\n{}", self.stage.log());
    }

    /// Change, and wait until the agent says what is in force.
    fn change(&self, body: &str, words: &str) {
        let before = self.said(words);
        self.write(body);
        assert!(wait_until(SOON, || self.said(words) > before), "never said: {words}\n{}", self.stage.log());
    }

    fn answers_at_node_port(&self, family: Family) -> bool {
        let quick = std::time::Duration::from_millis(500);
        let to = at_node_port(NODE_PORT, family);
        sandbox::probe::tcp(&self.stage.sandbox.client, None, to, quick).by().is_some()
    }

    /// Whom the server took for its client; `None` without an answer.
    fn client_seen(&self, family: Family) -> Option<IpAddr> {
        match self.stage.tcp(From::Guest, at_cluster_ip(1, family)) {
            Outcome::Answered { seen_as, .. } => Some(seen_as),
            _ => None,
        }
    }
}

fn live() {
    let mut configured = Configured::start(&with_cidrs(""));
    let traffic = {
        let stage = &configured.stage;
        let to = Family::BOTH.map(|family| (From::Guest, at_cluster_ip(1, family)));
        Traffic::start(stage, &to)
    };
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
    configured.change(&with_cidrs("bindAddress: 203.0.113.9\n"), "bindAddress: 0.0.0.0 → 203.0.113.9");
    let moved =
        || configured.answers_at_node_port(Family::V6) && !configured.answers_at_node_port(Family::V4);
    assert!(wait_until(SOON, moved), "bindAddress is not the primary address\n{}", configured.stage.log());

    configured.change(
        &with_cidrs("nftables: {masqueradeAll: true, masqueradeBit: 11}\n"),
        "nftables.masqueradeAll: false → true",
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
    configured
        .change(&with_cidrs("nftables: {minSyncPeriod: 50ms, syncPeriod: 5s}\n"), "minSyncPeriod: 1s → 50ms");
    for (family, before) in Family::BOTH.iter().zip(&before) {
        let plain = wait_until(SOON, || configured.client_seen(*family) == *before);
        assert!(plain, "still masqueraded, not {before:?}\n{}", configured.stage.log());
    }
    // A change of the cluster still gets through.
    configured.stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    for family in Family::BOTH {
        configured.stage.await_pool(1, family, &["b"]);
    }
    let asked = traffic.finish();
    assert!(asked > 20, "{asked} connections only");
    assert_eq!(configured.stage.agent().process(), configured.process);
    assert_eq!(configured.stage.agent().probe("/readyz"), Some(200));
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
    let answers = |family| {
        let quick = std::time::Duration::from_millis(500);
        let from = configured.stage.namespace(From::Guest);
        sandbox::probe::tcp(from, None, at_cluster_ip(2, family), quick).by().is_some()
    };
    Family::BOTH.iter().for_each(|family| assert!(!answers(*family), "{}", configured.stage.log()));
    configured.change(&with_cidrs("hostnameOverride: node-1\n"), "hostnameOverride: somebody-else → node-1");
    for family in Family::BOTH {
        assert!(wait_until(SOON, || answers(family)), "{family}\n{}", configured.stage.log());
    }
}

fn refused() {
    let mut configured = Configured::start(&with_cidrs(""));
    configured.write("mode: ipvs\n");
    configured.await_said("Refused the changed configuration; keeping the previous one");
    for family in Family::BOTH {
        let answers = wait_until(SOON, || configured.answers_at_node_port(family));
        assert!(answers, "{}", configured.stage.log());
    }
    let before = configured.said("keeping the previous one");
    send_signal(configured.process, Signal::Hangup).unwrap();
    let again = wait_until(SOON, || configured.said("keeping the previous one") > before);
    assert!(again, "SIGHUP gets no answer\n{}", configured.stage.log());
    configured.change(&with_cidrs("oomScoreAdj: -5\n"), "oomScoreAdj: -999 → -5");
    send_signal(configured.process, Signal::Hangup).unwrap();
    configured.await_said("the configuration file has no changes");
    assert_eq!(configured.stage.agent().probe("/healthz"), Some(200));
}

/// Rules that are written as before serve better than rules that are written no more.
fn not_yet_known() {
    let configured = Configured::start(&with_cidrs(""));
    configured.change(
        "detectLocalMode: NodeCIDR\nnftables: {syncPeriod: 1s}\n",
        "Applied the changed configuration",
    );
    configured.await_said("Keeping the previous node name and detection of local traffic");
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
    configured.await_said("Resolved: the changed node name and detection of local traffic are in use");
    for (family, before) in Family::BOTH.iter().zip(&before) {
        let masked = wait_until(SOON, || configured.client_seen(*family) != *before);
        assert!(masked, "not masqueraded: {before:?}\n{}", configured.stage.log());
    }
    let ready = probe("/readyz");
    assert!(ready.contains("{\"ready\":true,\"awaiting\":[]}"), "{ready}");
}
