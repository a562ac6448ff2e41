//! What upstream's kube-proxy has in mode ipvs: virtual servers without a sign, an address per service on a device, chains
//! of iptables, and sets that their rules look into.

use model::Family;
use test_support::{tools, wait_until};

use super::super::places::at_cluster_ip;
use super::super::rig::OfUpstream;
use super::super::stage::{ENDPOINTS, POD_PORT, SOON, Stage};
use super::rig::DEVICE;

const IPSET: &str = "ipset";
/// The chain in which its rules begin, and one that it has in this mode alone.
const CHAINS: [&str; 2] = ["KUBE-SERVICES", "KUBE-NODE-PORT"];

/// The set of services' addresses.
fn set(family: Family) -> &'static str {
    if family == Family::V4 { "KUBE-CLUSTER-IP" } else { "KUBE-6-CLUSTER-IP" }
}

pub(super) fn write(stage: &Stage, family: Family, services: &[OfUpstream]) {
    let ip = |arguments: &str| stage.try_tool("ip", arguments);
    // The other family may have made it.
    if ip(&format!("link show {DEVICE}")).is_err() {
        ip(&format!("link add {DEVICE} type dummy")).unwrap();
        ip(&format!("link set {DEVICE} up")).unwrap();
    }
    for OfUpstream { number, has_affinity, .. } in services {
        let at = at_cluster_ip(*number, family);
        // Of IPv6, one that is still checked for a second owner would not be in use yet.
        let rest = if family == Family::V4 { "/32" } else { "/128 nodad" };
        let address = at.ip().to_string() + rest;
        ip(&format!("address add dev {DEVICE} {address}")).unwrap();
        let affinity = if *has_affinity { "-p 10800" } else { "" };
        stage.ipvsadm(&format!("-A -t {at} -s rr {affinity}"));
        for pod in ENDPOINTS {
            let endpoint = std::net::SocketAddr::new(stage.address(pod, family), POD_PORT);
            stage.ipvsadm(&format!("-a -t {at} -r {endpoint} -m -w 1"));
        }
    }
    let node = &stage.sandbox.node;
    node.run(|| ["conntrack", "expire_nodest_conn", "expire_quiescent_template"].map(set_for_ipvs));
    let set = set(family);
    if tools::is_installed(IPSET) {
        let word = if family == Family::V4 { "inet" } else { "inet6" };
        stage.try_tool(IPSET, &format!("create {set} hash:ip,port family {word}")).unwrap();
        for OfUpstream { number, .. } in services {
            let at = at_cluster_ip(*number, family);
            stage.try_tool(IPSET, &format!("add {set} {},tcp:{}", at.ip(), at.port())).unwrap();
        }
    }
    if let Some(tool) = iptables(family) {
        let [root, node_port] = CHAINS;
        for arguments in [
            format!("-t nat -N {root}"),
            format!("-t nat -N {node_port}"),
            format!("-t nat -A {root} -m addrtype --dst-type LOCAL -j {node_port}"),
            format!("-t nat -A PREROUTING -j {root}"),
        ] {
            stage.try_tool(tool, &arguments).unwrap();
        }
        if tools::is_installed(IPSET) {
            let rule = format!("-t nat -A {root} -m set --match-set {set} dst,dst -j ACCEPT");
            stage.try_tool(tool, &rule).unwrap();
        }
    }
}

fn set_for_ipvs(name: &str) {
    kernel::sysctl::write(&format!("net/ipv4/vs/{name}"), 1).unwrap();
}

/// What is left for good: it is removed once the rules are in place, beside everything else.
pub(super) fn left(stage: &Stage, family: Family) -> Vec<String> {
    let is_gone = wait_until(SOON, || found(stage, family).is_empty());
    if is_gone { Vec::new() } else { found(stage, family) }
}

pub(super) fn found(stage: &Stage, family: Family) -> Vec<String> {
    let option = if family == Family::V4 { "-4" } else { "-6" };
    // The device itself may be gone.
    let addresses = stage.try_tool("ip", &format!("{option} -o address show dev {DEVICE} scope global"));
    let mut left: Vec<String> = addresses.unwrap_or_default().lines().map(str::to_owned).collect();
    if tools::is_installed(IPSET) {
        let sets = stage.try_tool(IPSET, "list -n").unwrap();
        left.extend(sets.lines().filter(|name| *name == set(family)).map(str::to_owned));
    }
    let unsigned = stage.servers(family).into_values().filter(|server| !server.is_ours());
    left.extend(unsigned.map(|server| server.line));
    if let Some(tool) = iptables(family) {
        let rules = stage.try_tool(tool, "-t nat -S").unwrap_or_default();
        left.extend(rules.lines().filter(|line| line.contains("KUBE-")).map(str::to_owned));
    }
    left
}

fn iptables(family: Family) -> Option<&'static str> {
    let tool = if family == Family::V4 { "iptables-nft" } else { "ip6tables-nft" };
    tools::is_installed(tool).then_some(tool)
}
