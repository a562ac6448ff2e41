//! Upstream's e2e suite: which of its tests are about a service proxy, how they are run, and what came of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use conformance_support::User;
use serde_json::Value;

use crate::cluster::Cluster;

const GROUP: &str = "[sig-network]";

/// What the names of tests about a service proxy contain, beside [`GROUP`].
const ABOUT_PROXIES: &[&str] = &[
    "Services ",
    "Conntrack ",
    "EndpointSlice",
    "EndpointsController ",
    "Endpoints ",
    "KubeProxy ",
    "Networking ",
    "Traffic Distribution ",
    "Topology Hints ",
    "IPv6DualStack",
    "NoSNAT ",
    "HostPort ",
    "Connectivity Pod Lifecycle ",
    "Service CIDRs ",
    "Service endpoints latency ",
    "LocalhostNodePorts ",
    "LoadBalancers ",
    "Proxy ",
];

/// Tests among them that cannot run here: what their names contain, and why.
const CANNOT_RUN: &[(&str, &str)] = &[
    ("should recreate its iptables rules if they are deleted", "deletes them through SSH"),
    ("should work after restarting apiserver", "the apiserver does not run in a pod here"),
    ("Internet connection", "the namespaces have no Internet access"),
    ("SCTPConnectivity", "the kernel may lack SCTP, see make test-vm"),
    ("pull an image", "there is no registry"),
    ("Networking-Performance", "measures the network, not the proxy"),
    ("Networking-DNS", "asks for names of the Internet"),
    ("iperf2", "measures the network, not the proxy"),
];

/// Tests that need other nodes than the rest, [`OTHER_NODES`]: the group they are in, and how they are called in it.
const ELSEWHERE: &[(&str, &str)] = &[
    // Asks for the health of a Service with one family at every address of the nodes.
    (
        "LoadBalancers ExternalTrafficPolicy: Local [Feature:LoadBalancer]",
        "should only target nodes with endpoints",
    ),
    // Two nodes in each of three zones.
    (DISTRIBUTION, "should route traffic correctly between pods on multiple nodes when using PreferClose"),
    (DISTRIBUTION, "should route traffic correctly between pods on multiple nodes when using PreferSameZone"),
    (
        DISTRIBUTION,
        "should route traffic to an endpoint on the same node or fall back to same zone when using PreferSameNode",
    ),
    // Ends the kube-proxies of all nodes, which other tests would notice.
    ("Services", "should work after restarting kube-proxy"),
];

const DISTRIBUTION: &str = "Traffic Distribution";

/// Nodes of a cluster, and of how many families the addresses are by which the API knows them.
pub const USUAL_NODES: (u8, usize) = (3, 2);
pub const OTHER_NODES: (u8, usize) = (6, 1);

/// The suite shuffles its tests. In this order those three begin at once that take a quarter of an hour each, so that
/// nobody waits for them in the end; and it is the same for all proxies.
const SEED: u32 = 1_795_033_889;

/// Ten that use what a proxy does in different ways, for a quick answer.
pub const TEN: &[&str] = &[
    "Services should serve a basic endpoint from pods",
    "Services should serve multiport endpoints from pods",
    "Services should be able to create a functioning NodePort service",
    "Services should be able to change the type from ClusterIP to ExternalName",
    "Services should have session affinity work for service with type clusterIP",
    "Services should be able to switch session affinity for NodePort service",
    "Services should respect internalTrafficPolicy=Local Pod to Pod",
    "Services should be rejected when no endpoints exist",
    "Services should preserve source pod IP for traffic thru service cluster IP",
    "Conntrack should be able to preserve UDP traffic when server pod cycles for a ClusterIP service",
];

/// What became of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Passed,
    Failed(String),
    /// In the suite's own words, or in ours.
    Skipped(String),
}

/// Every test about a service proxy, by name.
pub type Fates = BTreeMap<String, Fate>;

/// How to run it.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Names contain one of these; none means all that are about a proxy.
    pub only: Vec<String>,
    /// Tests for other nodes are left out.
    pub is_usual: bool,
    pub processes: usize,
    pub minutes: u32,
}

/// What to run on the usual nodes and on the others, to have all tests whose names contain one of `only`.
pub fn wishes(only: &[String], processes: usize, minutes: u32) -> Vec<Wish> {
    let is_elsewhere = |part: &String| ELSEWHERE.iter().any(|(_, name)| part.contains(name));
    let is_part = |part: &str, (group, name): &(&str, &str)| format!("{group} {name}").contains(part);
    let is_asked = |test: &&(&str, &str)| only.is_empty() || only.iter().any(|part| is_part(part, test));
    let mut elsewhere: Vec<String> =
        ELSEWHERE.iter().filter(is_asked).map(|(_, name)| (*name).into()).collect();
    // Those that say more than the name: a label behind it, say.
    let is_more = |part: &&String| is_elsewhere(part) && !ELSEWHERE.iter().any(|test| is_part(part, test));
    elsewhere.extend(only.iter().filter(is_more).cloned());
    let usual: Vec<String> = only.iter().filter(|part| !is_elsewhere(part)).cloned().collect();
    let mut wishes = Vec::new();
    if only.is_empty() || !usual.is_empty() {
        wishes.push(Wish { only: usual, is_usual: true, processes, minutes });
    }
    if !elsewhere.is_empty() {
        wishes.push(Wish { only: elsewhere, is_usual: false, processes, minutes });
    }
    wishes
}

/// Run it and keep its log and report in `folder`.
pub fn run(cluster: &Cluster, wish: &Wish, folder: &Path) -> Result<Fates, String> {
    fs::create_dir_all(folder).map_err(|e| format!("making {}: {e}", folder.display()))?;
    let log = fs::File::create(folder.join("log")).map_err(|e| e.to_string())?;
    let programs = cluster.programs();
    let mut command = cluster.client(&programs.path("ginkgo")?)?;
    command
        .args(["run", "--no-color", "--silence-skips", "--json-report=report.json"])
        .arg(format!("--seed={SEED}"))
        .arg(format!("--procs={}", wish.processes))
        .arg(format!("--timeout={}m", wish.minutes))
        .arg(format!("--output-dir={}", folder.display()))
        .arg(format!("--focus={}", focus(wish)))
        .arg(format!("--skip={}", alternatives(skipped(wish))))
        .arg(programs.path("e2e.test")?)
        .args(["--", "--provider=skeleton", "--disable-log-dump"])
        .arg(format!("--kubeconfig={}", cluster.plane.kubeconfig(User::ADMIN)?.display()))
        .arg(format!("--kubectl-path={}", programs.path("kubectl")?.display()))
        .arg(format!("--num-nodes={}", cluster.nodes.len()))
        .env("KUBE_TEST_REPO_LIST", &cluster.images.registries)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(|e| e.to_string())?)
        .stderr(log);
    // Its exit code only says that something failed, which the report says better.
    command.status().map_err(|e| format!("running the suite: {e}"))?;
    let report = folder.join("report.json");
    let text = fs::read_to_string(&report)
        .map_err(|e| format!("the suite left no report ({e}); see {}", folder.join("log").display()))?;
    let report = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", report.display()))?;
    Ok(read(&report, &wish.only))
}

fn skipped(wish: &Wish) -> impl Iterator<Item = &'static str> {
    let elsewhere = if wish.is_usual { ELSEWHERE } else { &[] };
    CANNOT_RUN.iter().map(|(part, _)| *part).chain(elsewhere.iter().map(|(_, name)| *name))
}

fn focus(wish: &Wish) -> String {
    let group = quoted(GROUP);
    if wish.only.is_empty() {
        return format!("{group}.*{}", alternatives(ABOUT_PROXIES.iter().copied()));
    }
    format!("{group}.*{}", alternatives(wish.only.iter().map(String::as_str)))
}

fn alternatives<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    format!("({})", parts.map(quoted).collect::<Vec<_>>().join("|"))
}

/// Text that a regular expression of Go takes literally.
fn quoted(text: &str) -> String {
    let special = |letter: char| r"\.+*?()|[]{}^$".contains(letter);
    text.chars().flat_map(|letter| special(letter).then_some('\\').into_iter().chain([letter])).collect()
}

fn is_wanted(name: &str, only: &[String]) -> bool {
    let Some((_, rest)) = name.split_once(GROUP) else { return false };
    if only.is_empty() {
        ABOUT_PROXIES.iter().any(|part| rest.contains(part))
    } else {
        only.iter().any(|part| rest.contains(part.as_str()))
    }
}

fn read(report: &Value, only: &[String]) -> Fates {
    let suites = report.as_array().into_iter().flatten();
    let specs = suites.flat_map(|suite| suite["SpecReports"].as_array().into_iter().flatten());
    let tests = specs.filter(|spec| spec["LeafNodeType"] == "It");
    let fates = tests.map(|spec| (name_of(spec), fate_of(spec)));
    fates
        .filter(|(name, _)| is_wanted(name, only))
        .map(|(name, fate)| {
            let impossible = CANNOT_RUN.iter().find(|(part, _)| name.contains(part));
            let fate = impossible.map_or(fate, |(_, why)| Fate::Skipped((*why).to_owned()));
            (name, fate)
        })
        .collect()
}

fn name_of(spec: &Value) -> String {
    let above = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
    let words = above.chain([&spec["LeafNodeText"]]).filter_map(Value::as_str);
    words.collect::<Vec<_>>().join(" ")
}

fn fate_of(spec: &Value) -> Fate {
    let message = spec["Failure"]["Message"].as_str().unwrap_or_default();
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match spec["State"].as_str().unwrap_or_default() {
        "passed" => Fate::Passed,
        "skipped" | "pending" => Fate::Skipped(message),
        state => Fate::Failed(format!("{state}: {message}")),
    }
}

/// How many passed, failed and were skipped.
pub fn count(fates: &Fates) -> [usize; 3] {
    let number = |wanted: fn(&Fate) -> bool| fates.values().filter(|fate| wanted(fate)).count();
    [
        number(|fate| *fate == Fate::Passed),
        number(|fate| matches!(fate, Fate::Failed(_))),
        number(|fate| matches!(fate, Fate::Skipped(_))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(text: &str, state: &str, message: &str) -> Value {
        json!({
            "LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-network] Services"], "LeafNodeText": text,
            "State": state, "Failure": {"Message": message},
        })
    }

    #[test]
    fn a_report_becomes_fates() {
        let other = json!({"LeafNodeType": "It", "LeafNodeText": "[sig-storage] Volumes", "State": "passed"});
        let specs = [
            spec("answer", "passed", ""),
            spec("fail", "timedout", "too\n  slow"),
            spec("need six nodes", "skipped", "requires 6 nodes"),
            spec("should work after restarting apiserver [Disruptive]", "skipped", ""),
            other,
        ];
        let fates = read(&json!([{"SpecReports": specs}]), &[]);
        assert_eq!(count(&fates), [1, 1, 2]);
        assert_eq!(fates["[sig-network] Services fail"], Fate::Failed("timedout: too slow".into()));
        assert_eq!(
            fates["[sig-network] Services should work after restarting apiserver [Disruptive]"],
            Fate::Skipped("the apiserver does not run in a pod here".into())
        );
    }

    #[test]
    fn names_are_taken_literally() {
        assert_eq!(quoted("a=b (x) [y]"), r"a=b \(x\) \[y\]");
        let wish = Wish { only: vec!["Services a.b".into()], is_usual: true, processes: 1, minutes: 1 };
        assert_eq!(focus(&wish), r"\[sig-network\].*(Services a\.b)");
    }

    #[test]
    fn tests_go_to_the_nodes_that_they_need() {
        let on = |only: &[&str]| -> Vec<(bool, usize)> {
            let only: Vec<String> = only.iter().map(|part| (*part).to_owned()).collect();
            wishes(&only, 1, 1).iter().map(|wish| (wish.is_usual, wish.only.len())).collect()
        };
        assert_eq!(on(&[]), [(true, 0), (false, ELSEWHERE.len())]);
        assert_eq!(on(&["Services should be"]), [(true, 1)]);
        // The first is also the beginning of a name there.
        assert_eq!(on(&["Services should"]), [(true, 1), (false, 1)]);
        assert_eq!(on(&["Services should work after restarting kube-proxy"]), [(false, 1)]);
        assert_eq!(on(&["should work after restarting kube-proxy [Disruptive]"]), [(false, 1)]);
        assert_eq!(on(&["Distribution should route"]), [(true, 1), (false, 3)]);
        assert_eq!(on(&["[Feature:LoadBalancer] should only target"]), [(true, 1), (false, 1)]);
        assert_eq!(on(&["restarting"]), [(true, 1), (false, 1)]);
    }
}
