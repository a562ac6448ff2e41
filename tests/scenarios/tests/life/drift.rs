//! Damage by others is repaired within a second, whatever it is, and told in the log.

use std::time::{Duration, Instant};

use model::{Family, Protocol};
use scenarios::{Case, ServiceManifest, wait_until};
use serde_json::json;

use super::case;
use super::churn::assert_no_drift;
use super::nft::{self, TABLE};
use super::places::{at_cluster_ip, cluster_ip};
use super::stage::{From, PROMPT, SOON, Stage, at_load};

const REPAIRED_WITHIN: Duration = Duration::from_secs(1);

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("damage to the rules is repaired within a second, ipv4", || damage(Family::V4)),
        case("damage to the rules is repaired within a second, ipv6", || damage(Family::V6)),
        case("the agent's own changes are no damage", own_changes),
        case("a large transaction of others is no damage", large_transaction_of_others),
    ]
}

fn start() -> Stage {
    let mut stage = Stage::new();
    let ips = Family::BOTH.map(|family| cluster_ip(1, family));
    let web = ServiceManifest::new("web", &ips)
        .with("type", "NodePort")
        .with("sessionAffinity", "ClientIP")
        .with("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 600}}))
        .port("main", Protocol::Tcp, 80, 30080);
    stage.folder.put_service(&web);
    stage.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
    stage.folder.put_service(&stage.service("plain", 2, Protocol::Tcp));
    stage.put_endpoints("plain", Protocol::Tcp, &["a", "b"]);
    stage.folder.put_service(&stage.service("empty", 3, Protocol::Tcp));
    stage.start_with(&[PROMPT]);
    stage
}

fn damage(family: Family) {
    let mut stage = start();
    let node = stage.sandbox.node.try_clone().unwrap();
    let whole = nft::table(&node, family).unwrap();
    let word = nft::family_word(family);
    let (vip, other) = (cluster_ip(2, family), stage.address("d", family));
    let slot = format!("{vip} . tcp . 80 . 0x00000000");
    let rule = rule_handle(&stage, family, "nat-prerouting");
    let damages = [
        ("flush ruleset", "flush ruleset".to_owned()),
        ("the table deleted", format!("delete table {word} {TABLE}")),
        ("an element deleted", format!("delete element {word} {TABLE} service-ips {{ {vip} . tcp . 80 }}")),
        ("a slot deleted", format!("delete element {word} {TABLE} endpoints {{ {slot} }}")),
        (
            "a slot changed",
            format!(
                "delete element {word} {TABLE} endpoints {{ {slot} }}\n\
                 add element {word} {TABLE} endpoints {{ {slot} : {other} . 8080 }}"
            ),
        ),
        ("a rule deleted", format!("delete rule {word} {TABLE} nat-prerouting handle {rule}")),
        ("a rule added", format!("add rule {word} {TABLE} services-prerouting drop")),
        ("a chain flushed", format!("flush chain {word} {TABLE} services-prerouting")),
        ("a set flushed", format!("flush set {word} {TABLE} cluster-ips")),
        ("a map flushed", format!("flush map {word} {TABLE} service-ips")),
        (
            "an element added",
            format!("add element {word} {TABLE} no-endpoint-drop-ips {{ {vip} . tcp . 81 }}"),
        ),
    ];
    for (what, commands) in damages {
        let commands = if what == "a rule deleted" {
            let rule = rule_handle(&stage, family, "nat-prerouting");
            format!("delete rule {word} {TABLE} nat-prerouting handle {rule}")
        } else {
            commands
        };
        let started = Instant::now();
        nft::load(&node, &commands);
        let is_whole = || nft::table(&node, family).as_ref() == Some(&whole);
        let repaired = wait_until(SOON, is_whole);
        let took = started.elapsed();
        assert!(repaired, "{what}: never repaired\n{}", difference(&node, family, &whole));
        println!("repair after {what}, {family}: {took:?}");
        assert!(took < at_load(REPAIRED_WITHIN), "{what}: repaired after {took:?}\n{}", stage.log());
        for number in [1, 2] {
            let outcome = stage.tcp(From::Guest, at_cluster_ip(number, family));
            assert!(outcome.by().is_some(), "after {what}: {outcome:?}");
        }
    }
    let log = stage.log();
    assert!(log.contains("nft (pid ") && log.contains(") changed our table in nf_tables"), "{log}");
    assert_eq!(stage.agent().probe("/healthz"), Some(200));
}

/// The handle of a chain's first rule.
fn rule_handle(stage: &Stage, family: Family, chain: &str) -> String {
    let arguments = ["-a", "list", "chain", nft::family_word(family), TABLE, chain];
    let text = nft::run(&stage.sandbox.node, &arguments).unwrap();
    let handles: Vec<&str> = text.lines().filter_map(|line| Some(line.rsplit_once("# handle ")?.1)).collect();
    // The first handle is the chain's own.
    handles.get(1).unwrap_or_else(|| panic!("no rule in:\n{text}")).trim().to_owned()
}

fn difference(node: &sandbox::Namespace, family: Family, whole: &str) -> String {
    let now = nft::table(node, family).unwrap_or_default();
    let missing = whole.lines().filter(|line| !now.lines().any(|other| other == *line));
    let surplus = now.lines().filter(|line| !whole.lines().any(|other| other == *line));
    let lines = missing.map(|line| format!("- {line}")).chain(surplus.map(|line| format!("+ {line}")));
    lines.take(10).collect::<Vec<_>>().join("\n")
}

/// More than any receive buffer holds, in a table that is not ours: nothing is rewritten for it, and damage is still seen.
fn large_transaction_of_others() {
    let mut stage = start();
    let node = stage.sandbox.node.try_clone().unwrap();
    let elements: Vec<String> = (0..200_000u32).map(|number| number.to_string()).collect();
    nft::load(
        &node,
        &format!(
            "add table ip theirs\nadd set ip theirs numbers {{ type mark; }}\nadd element ip theirs numbers {{ {} }}",
            elements.join(", ")
        ),
    );
    nft::load(&node, &format!("flush chain ip {TABLE} services-prerouting"));
    assert!(wait_until(SOON, || repairs(&mut stage).contains(&"1".to_owned())), "{}", stage.log());
    let log = stage.log();
    assert!(log.contains(") changed our table in nf_tables"), "{log}");
    assert!(!log.contains("Notifications of nf_tables were lost"), "{log}");
    assert_eq!(repairs(&mut stage), ["1", "0"], "IPv4 and IPv6\n{log}");
}

/// How often each family was repaired.
fn repairs(stage: &mut Stage) -> Vec<String> {
    let page = stage.agent().metrics().unwrap_or_default();
    let series = page.lines().filter(|line| line.starts_with("pointsman_drift_repairs_total{"));
    series.filter_map(|line| Some(line.rsplit_once(' ')?.1.to_owned())).collect()
}

/// Changes, pins written by packets, sweeps of pins, restarts: none of it may look like a change by another process.
fn own_changes() {
    let mut stage = start();
    for round in 0..30 {
        let pods: &[&str] = [&["a", "c"][..], &["b"], &["a", "b", "c", "d", "e"], &[]][round % 4];
        stage.put_endpoints("web", Protocol::Tcp, pods);
        for family in Family::BOTH {
            stage.await_pool(1, family, pods);
            if let Some(pod) = pods.first() {
                let outcome = stage.tcp(From::Guest, at_cluster_ip(1, family));
                assert!(outcome.by().is_some(), "{pod}: {outcome:?}");
            }
        }
    }
    stage.restart(false);
    stage.put_endpoints("web", Protocol::Tcp, &["e"]);
    stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, Family::V4), "e");
    assert_no_drift(&stage);
}
