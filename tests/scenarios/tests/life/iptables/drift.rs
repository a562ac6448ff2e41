//! Damage by others is repaired within a second or two, whatever it is; what the agent itself writes is no damage, nor
//! is what others write elsewhere.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use model::{Family, Protocol};
use scenarios::{Carrier, Case, wait_until};
use serde_json::json;

use super::super::churn::{assert_no_drift, crowd_ip, crowd_member};
use super::super::places::at_cluster_ip;
use super::super::stage::{From, PROMPT, SOON, at_load, list};
use super::both;
use super::rig::{Rig, await_that};
use super::rules::Rules;

/// The agent looks once a second, and needs some time to read and write.
const REPAIRED_WITHIN: Duration = Duration::from_secs(2);
/// Repeated damage is repaired ever more slowly; here each damage is another one.
const STEADY: &str = "--iptables-sync-period=1s";
/// Enough for a tree.
const CROWD: u16 = 40;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = both("damage to the rules is repaired within two seconds", damage);
    cases.extend(both("the agent's own changes are no damage", own_changes));
    cases
}

fn start(carrier: Carrier) -> Rig {
    let mut rig = Rig::new(carrier);
    let web = rig
        .service("web", 1, Protocol::Tcp)
        .with("type", "NodePort")
        .with("sessionAffinity", "ClientIP")
        .with("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 600}}))
        .with("ports", json!([{"name": "main", "protocol": "TCP", "port": 80, "nodePort": 30080}]));
    rig.folder.put_service(&web);
    rig.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
    rig.folder.put_service(&rig.service("plain", 2, Protocol::Tcp));
    rig.put_endpoints("plain", Protocol::Tcp, &["a", "b"]);
    rig.folder.put_service(&rig.service("empty", 3, Protocol::Tcp));
    let crowd = (0..CROWD).flat_map(|number| crowd_member(number, 80, number, 2));
    rig.folder.put("crowd", &list(crowd));
    rig.start(&[PROMPT, STEADY]);
    rig
}

/// What another process does to the rules of one family; commands are of `iptables`.
fn damages(rig: &Rig, family: Family) -> Vec<(&'static str, Vec<String>)> {
    let rules = rig.rules(family);
    let plain = at_cluster_ip(2, family);
    let service = rules.service_chain(plain).unwrap().to_owned();
    let member = SocketAddr::new(crowd_ip(0, family), 80);
    let branch = rules.leaf(member).unwrap().0.to_owned();
    assert!(branch.starts_with("KUBE-SVC-"), "no tree, but {branch}");
    let last = rules.chain("nat", "KUBE-POSTROUTING").len();
    let other = format!("{}", SocketAddr::new(rig.address("d", family), 8080));
    let nat = |command: String| vec![format!("-t nat {command}")];
    let filter = |command: &str| vec![format!("-t filter {command}")];
    let flush = ["-t nat -F", "-t filter -F"].map(str::to_owned);
    let delete = ["-t nat -X", "-t filter -X"].map(str::to_owned);
    vec![
        ("all rules flushed", flush.to_vec()),
        ("all rules and chains gone", [flush, delete].concat()),
        ("a service's rule removed", nat(format!("-D {service} 2"))),
        ("the root's rule removed", nat("-D KUBE-SERVICES 1".to_owned())),
        ("a branch's rule removed", nat(format!("-D {branch} 1"))),
        ("masquerade removed", nat(format!("-D KUBE-POSTROUTING {last}"))),
        // Of another size than the rule that was there.
        (
            "a rule replaced",
            nat(format!("-R {service} 2 -p tcp -m comment --comment x -j DNAT --to-destination {other}")),
        ),
        ("a rule added", nat(format!("-I {service} -j RETURN"))),
        ("a rule added to filter", filter("-A KUBE-SERVICES -p tcp -j DROP")),
        ("the way in removed", nat("-D PREROUTING 1".to_owned())),
        ("the way into filter removed", filter("-D FORWARD 1")),
        ("a chain of filter flushed", filter("-F KUBE-FORWARD")),
        ("the canary removed", nat("-X KUBE-PROXY-CANARY".to_owned())),
    ]
}

fn damage(carrier: Carrier) {
    let mut rig = start(carrier);
    let whole = Family::BOTH.map(|family| rig.rules(family).comparable());
    let [v4, v6] = Family::BOTH.map(|family| damages(&rig, family));
    let mut times = Vec::new();
    for ((what, in_v4), (_, in_v6)) in v4.into_iter().zip(v6) {
        let started = Instant::now();
        in_v4.iter().for_each(|command| drop(rig.run(Family::V4, command)));
        in_v6.iter().for_each(|command| drop(rig.run(Family::V6, command)));
        let found = |family: Family| rig.rules(family).comparable();
        let is_whole = || Family::BOTH.into_iter().all(|family| found(family) == whole[family.index()]);
        let repaired = await_that(SOON, is_whole);
        let took = started.elapsed();
        let left = |family: Family| Rules::difference(&found(family), &whole[family.index()]);
        assert!(
            repaired,
            "{what}: never repaired\n{}\n{}\n{}",
            left(Family::V4),
            left(Family::V6),
            rig.log()
        );
        println!("{}: repair after {what}: {took:?}", carrier.name());
        rig.assert_answers(&[1, 2], what);
        times.push(took);
    }
    // A busy machine delays one or the other.
    times.sort();
    let usual = times[times.len() / 2];
    assert!(usual < at_load(REPAIRED_WITHIN), "{times:?}\n{}", rig.log());
    assert!(rig.log().contains("Another process changed our rules"), "nothing in the log\n{}", rig.log());
    assert_eq!(rig.agent().probe("/healthz"), Some(200));
}

/// Changes, pins written by packets, restarts: none of it may look like a change by another process.
fn own_changes(carrier: Carrier) {
    let mut rig = start(carrier);
    for round in 0..12 {
        let pods: &[&str] = [&["a", "c"][..], &["b"], &["a", "b", "c", "d", "e"], &[]][round % 4];
        rig.put_endpoints("web", Protocol::Tcp, pods);
        rig.await_pods_of(1, pods);
        if !pods.is_empty() {
            rig.assert_answers(&[1], "between changes");
        }
    }
    // Two looks at rest.
    let looked = Instant::now();
    assert!(wait_until(SOON, || looked.elapsed() > Duration::from_millis(2200)));
    rig.restart(false);
    rig.put_endpoints("web", Protocol::Tcp, &["e"]);
    rig.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, Family::V4), "e");
    assert_no_drift(&rig);
}
