//! Connections that are forwarded and refused, told as `explain` tells them, in every mode.

use std::net::SocketAddr;
use std::time::Duration;

use model::{Family, Protocol};
use sandbox::probe;
use serde_json::{Value, json};
use test_support::{Carrier, Case, ServiceManifest};

use super::super::places::{PORT, at_cluster_ip, at_node_port, cluster_ip, external_ip};
use super::super::rig::every_mode;
use super::super::stage::{From, POD_PORT, PROMPT, Stage};
use super::watching::{Watching, tables};

const NODE_PORT: u16 = 30090;
const CLOSED_NODE_PORT: u16 = 30093;
/// Some of them are never answered.
const BRIEFLY: Duration = Duration::from_millis(300);

pub(crate) fn cases() -> Vec<Case<'static>> {
    every_mode("connections are traced and refused ones counted by reason", told)
}

/// What is asked, and what the trace says.
struct Expected {
    from: From,
    protocol: Protocol,
    to: SocketAddr,
    seen_as: &'static str,
    end: Result<&'static [&'static str], (&'static str, &'static str)>,
}

/// Services 1 (a load balancer with source ranges), 2 (UDP), 3 (without endpoints) and 4 (policy Local, none here).
pub(super) fn stage(carrier: Carrier) -> Stage {
    let mut stage = Stage::of(carrier);
    let web = ServiceManifest::new("web", &Family::BOTH.map(|family| cluster_ip(1, family)))
        .with("type", "LoadBalancer")
        .with("loadBalancerSourceRanges", json!(["10.0.0.0/8", "fd00:244::/32"]))
        .port("main", Protocol::Tcp, PORT, NODE_PORT);
    let web = Family::BOTH.into_iter().fold(web, |web, family| web.balancer_ip(balancer(family), "VIP"));
    stage.folder.put_service(&web);
    stage.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
    stage.folder.put_service(&stage.service("dns", 2, Protocol::Udp));
    stage.put_endpoints("dns", Protocol::Udp, &["b"]);
    let empty = ServiceManifest::new("empty", &Family::BOTH.map(|family| cluster_ip(3, family)))
        .with("type", "NodePort")
        .port("main", Protocol::Tcp, PORT, CLOSED_NODE_PORT);
    stage.folder.put_service(&empty);
    let local = stage.service("local", 4, Protocol::Tcp).with("externalTrafficPolicy", "Local");
    stage.folder.put_service(&local.external_ips(&Family::BOTH.map(external_ip)));
    stage.put_endpoints("local", Protocol::Tcp, &["c"]);
    stage.start_with(&[PROMPT]);
    stage
}

fn balancer(family: Family) -> std::net::IpAddr {
    match family {
        Family::V4 => [203, 0, 113, 9].into(),
        Family::V6 => [0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 9].into(),
    }
}

fn expected(family: Family) -> Vec<Expected> {
    use Protocol::{Tcp, Udp};
    let at = |ip, port| SocketAddr::new(ip, port);
    let one = |from, protocol, to, seen_as, end| Expected { from, protocol, to, seen_as, end };
    vec![
        one(From::Guest, Tcp, at_cluster_ip(1, family), "pod", Ok(&["a", "c"])),
        one(From::Node, Tcp, at_cluster_ip(1, family), "node", Ok(&["a", "c"])),
        one(From::Outside, Tcp, at_node_port(NODE_PORT, family), "outside", Ok(&["a", "c"])),
        one(From::Guest, Udp, at_cluster_ip(2, family), "pod", Ok(&["b"])),
        one(From::Guest, Tcp, at_cluster_ip(3, family), "pod", Err(("reject", "no_endpoints"))),
        one(From::Node, Tcp, at_node_port(CLOSED_NODE_PORT, family), "node", Err(("reject", "no_endpoints"))),
        one(
            From::Outside,
            Tcp,
            at_node_port(CLOSED_NODE_PORT, family),
            "outside",
            Err(("reject", "no_endpoints")),
        ),
        one(From::Outside, Tcp, at(balancer(family), PORT), "outside", Err(("drop", "source_range"))),
        one(
            From::Outside,
            Tcp,
            at(external_ip(family), PORT),
            "outside",
            Err(("drop", "no_local_endpoints")),
        ),
        one(From::Guest, Tcp, at(cluster_ip(1, family), 81), "pod", Err(("reject", "unlisted_port"))),
        one(From::Guest, Tcp, at_cluster_ip(99, family), "pod", Err(("drop", "unallocated_address"))),
    ]
}

pub(super) fn ask(stage: &Stage, from: From, protocol: Protocol, to: SocketAddr) {
    let namespace = stage.namespace(from);
    match protocol {
        Protocol::Udp => drop(probe::udp(namespace, None, to, BRIEFLY)),
        _ => drop(probe::tcp(namespace, None, to, BRIEFLY)),
    }
}

fn told(carrier: Carrier) {
    let mut stage = stage(carrier);
    for family in Family::BOTH {
        for one in expected(family) {
            let word = format!("{}:{}", one.protocol, one.to);
            let watching = Watching::start(&stage, &[&word, "--for", "60s"]);
            assert_eq!(tables(&stage), 1);
            ask(&stage, one.from, one.protocol, one.to);
            let line = watching.next();
            check(&stage, &one, &line);
            watching.kill();
            assert!(test_support::wait_until(test_support::SOON, || tables(&stage) == 0), "a table stays");
        }
    }
    counted(&mut stage);
    let damaged = stage.log().lines().any(|line| stage.rig().tells_of_damage(line));
    assert!(!damaged, "a trace is no damage\n{}", stage.log());
}

/// What was refused above is counted by the same reasons.
fn counted(stage: &mut Stage) {
    for family in Family::BOTH {
        for (kind, reason) in expected(family).iter().filter_map(|one| one.end.err()) {
            let kind = if kind == "reject" { "rejected" } else { "dropped" };
            let labels = format!("ip_family=\"{family}\",reason=\"{reason}\"");
            let series = format!("pointsman_{kind}_packets_total{{{labels}}}");
            let count = stage.metric(&series);
            assert!(count.is_some_and(|count| count >= 1.0), "{series}: {count:?}\n{}", stage.log());
        }
    }
}

fn check(stage: &Stage, one: &Expected, line: &Value) {
    let about = || format!("{:?} to {} {}: {line}\n{}", one.from, one.protocol, one.to, stage.log());
    assert_eq!(line["seenAs"], one.seen_as, "{}", about());
    match one.end {
        Ok(pods) => {
            assert_eq!(line["verdict"], "forward", "{}", about());
            let family = Family::of(one.to.ip());
            let of = |pod: &&str| json!(SocketAddr::new(stage.address(pod, family), POD_PORT));
            // A process chooses unseen, unless it has no choice.
            let is_unseen = stage.carrier.is_a_process() && pods.len() > 1 && line["via"].is_string();
            let is_one = pods.iter().map(of).any(|endpoint| line["endpoint"] == endpoint);
            assert!(is_one || is_unseen, "{}", about());
        }
        Err((verdict, reason)) => {
            assert_eq!((&line["verdict"], &line["reason"]), (&json!(verdict), &json!(reason)), "{}", about());
        }
    }
}
