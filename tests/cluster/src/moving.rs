//! Moving in and out under traffic: what an operator does to a cluster that must not notice.
//!
//! Each case starts from a cluster with one kind of proxy, does its steps while clients call every kind of Service, and
//! fails if one connection does.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use test_support::{SOON, wait_until};

use crate::cluster::Cluster;
use crate::proxy::{self, Mode};
use crate::services::Web;
use crate::traffic::{Account, Client, Traffic};

/// Answers that are awaited before and after each step, so that all targets were called in between.
const SOME: usize = 150;

const PATCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubeadm/patch.yaml");
const POINTSMAN: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/pointsman";

type Done = Result<(), String>;

/// A step, and what is done in it.
struct Step<'a> {
    name: &'a str,
    work: &'a dyn Fn(&Cluster) -> Done,
}

/// Under traffic, one step after the other.
fn under_traffic(
    cluster: &Cluster,
    web: &Web,
    steps: &[Step<'_>],
    say: &dyn Fn(&str),
) -> Result<Account, String> {
    let traffic = start(&web.clients(cluster, None)?)?;
    for Step { name, work } in steps {
        work(cluster).map_err(|e| format!("{name}: {e}"))?;
        traffic.go_on(SOME)?;
        say(&format!("    {name}"));
    }
    verdict(traffic.finish(), say)
}

/// Every target answers once, because rules for Services that were just created may come a moment later; from then on
/// all must answer always.
pub(crate) fn start(clients: &[Client]) -> Result<Traffic, String> {
    clients.iter().try_for_each(await_answers)?;
    let traffic = Traffic::start(clients)?;
    traffic.go_on(SOME)?;
    Ok(traffic)
}

pub(crate) fn verdict(account: Account, say: &dyn Fn(&str)) -> Result<Account, String> {
    say(&format!("    {account}"));
    match account.failures.len() {
        0 => Ok(account),
        failed => {
            Err(format!("{failed} failed: {:#?}", account.failures.get(..8).unwrap_or(&account.failures)))
        }
    }
}

pub(crate) fn await_answers(client: &Client) -> Done {
    for (what, to) in &client.targets {
        if !wait_until(SOON, || client.namespace.run(|| answers(*to))) {
            return Err(format!("{} gets no answer from {what} at {to}", client.name));
        }
    }
    Ok(())
}

fn answers(to: SocketAddr) -> bool {
    std::net::TcpStream::connect_timeout(&to, Duration::from_secs(2)).is_ok()
}

/// kubeadm's DaemonSet is patched to ours and rolled back, node by node.
pub fn in_the_place_of_kubeadms(cluster: &Cluster, mode: Mode, say: &dyn Fn(&str)) -> Done {
    proxy::install_upstream(cluster, mode, &[])?;
    let web = Web::create(cluster)?;
    let patched = fs::read_to_string(PATCH).map_err(|e| e.to_string())?;
    let suffix = if mode == Mode::Iptables { "-iptables" } else { "" };
    let patched = patched.replace(":0.1.0", &format!(":{}{suffix}", env!("CARGO_PKG_VERSION")));
    let patch = |cluster: &Cluster| {
        cluster.kubectl(&["-n", "kube-system", "patch", "ds/kube-proxy", "--patch", &patched])?;
        cluster.await_rollout("ds/kube-proxy")
    };
    let undo = |cluster: &Cluster| {
        cluster.kubectl(&["-n", "kube-system", "rollout", "undo", "ds/kube-proxy"])?;
        cluster.await_rollout("ds/kube-proxy")
    };
    let steps = [
        Step { name: "patched to ours", work: &patch },
        Step { name: "rolled back to upstream's", work: &undo },
        Step { name: "patched to ours again", work: &patch },
    ];
    under_traffic(cluster, &web, &steps, say).map(drop)
}

/// The chart is upgraded to another configuration and another image, and uninstalled; rules stay until the clean-up.
pub fn by_the_chart(cluster: &Cluster, say: &dyn Fn(&str)) -> Done {
    proxy::install(cluster, Mode::Nftables, &[])?;
    let web = Web::create(cluster)?;
    let steps = [
        Step {
            name: "upgraded to another configuration",
            work: &|cluster| proxy::install(cluster, Mode::Nftables, &["config.nftables.masqueradeAll=true"]),
        },
        Step {
            name: "upgraded to the image with the iptables tools",
            work: &|cluster| proxy::install(cluster, Mode::Nftables, &["image.iptablesTools=true"]),
        },
        Step { name: "uninstalled; the rules stay", work: &proxy::uninstall },
        Step {
            name: "installed over its own rules",
            work: &|cluster| proxy::install(cluster, Mode::Nftables, &[]),
        },
    ];
    under_traffic(cluster, &web, &steps, say)?;
    proxy::uninstall_with_rules(cluster, Mode::Nftables)?;
    for node in &cluster.nodes {
        let rules = node
            .namespace
            .run(|| crate::run::output(std::process::Command::new("nft").args(["list", "tables"])))?;
        if rules.contains("kube-proxy") {
            return Err(format!("{} has rules after the clean-up: {rules}", node.name));
        }
    }
    say("    uninstalled with clean-up; no rules are left");
    Ok(())
}

/// The apiserver goes away and comes back while a roll-out is under way.
pub fn while_the_apiserver_restarts(cluster: &mut Cluster, say: &dyn Fn(&str)) -> Done {
    proxy::install(cluster, Mode::Nftables, &[])?;
    let web = Web::create(cluster)?;
    let traffic = start(&web.clients(cluster, None)?)?;
    let annotation = json!({"spec": {"template": {"metadata": {"annotations": {"restarted": "yes"}}}}});
    cluster.api().patch(POINTSMAN, &annotation).map_err(|e| e.to_string())?;
    // One node has begun, the others have not.
    cluster.await_object(POINTSMAN, |set| {
        set["status"]["updatedNumberScheduled"].as_u64().is_some_and(|done| done >= 1)
    })?;
    cluster.plane.apiserver.restart()?;
    say("    the apiserver restarted in the middle of a roll-out");
    cluster.await_rollout("ds/pointsman")?;
    traffic.go_on(SOME)?;
    verdict(traffic.finish(), say).map(drop)
}

/// A node reboots: its namespaces end with all rules in them, and come back. Services work there again, and nobody
/// elsewhere notices.
pub fn while_a_node_reboots(cluster: &mut Cluster, say: &dyn Fn(&str)) -> Done {
    const REBOOTED: u8 = 3;
    proxy::install(cluster, Mode::Nftables, &[])?;
    let web = Web::create(cluster)?;
    let traffic = start(&web.clients(cluster, Some(REBOOTED))?)?;
    cluster.reboot(REBOOTED)?;
    say("    a node reboots");
    // The API may still show it as it was before; its new network has no rules until an agent runs there.
    serves(cluster, &web, REBOOTED)?;
    say("    Services work on it again");
    cluster.await_rollout("ds/pointsman")?;
    traffic.go_on(SOME)?;
    verdict(traffic.finish(), say).map(drop)
}

/// A node joins a cluster that runs: the chart's DaemonSet brings the agent, and Services work there.
pub fn a_node_joins_late(cluster: &mut Cluster, say: &dyn Fn(&str)) -> Done {
    proxy::install(cluster, Mode::Nftables, &[])?;
    let web = Web::create(cluster)?;
    let traffic = start(&web.clients(cluster, None)?)?;
    let joined = cluster.join()?;
    let nodes = cluster.nodes.len();
    let all = move |set: &Value| set["status"]["numberReady"] == nodes;
    cluster.await_object(POINTSMAN, all)?;
    say(&format!("    node{joined} joined"));
    traffic.go_on(SOME)?;
    verdict(traffic.finish(), say)?;
    serves(cluster, &web, joined)?;
    say("    Services work on it");
    Ok(())
}

/// Clients of one node get answers from everywhere.
fn serves(cluster: &Cluster, web: &Web, number: u8) -> Done {
    let node = cluster.nodes.iter().find(|node| node.number == number).ok_or("there is no such node")?;
    web.clients_on(node, None)?.iter().try_for_each(await_answers)
}
