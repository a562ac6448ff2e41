//! Our tables beside those of others: complete from the first moment, and nothing of others touched or minded.

use std::time::Instant;

use model::{Family, Protocol};
use sandbox::Namespace;
use test_support::{Carrier, Case, patient, wait_until};

use super::super::case;
use super::super::churn::{assert_no_drift, crowd_member};
use super::super::drift::start;
use super::super::nft::{self, TABLE};
use super::super::places::at_cluster_ip;
use super::super::stage::{From, SOON, Stage, list};

const CROWD: u16 = 1000;

/// Of another program; its chain would show in the traffic if it were gone.
const FOREIGN: &str = r#"
table inet firewall {
    comment "not kube-proxy's"
    set blocked { type inet_service; elements = { 6666, 7777 } }
    chain input { type filter hook input priority filter; policy accept; tcp dport @blocked counter drop; }
    chain forward { type filter hook forward priority filter; policy accept; tcp dport 9999 drop; }
}
table ip kube-proxy-of-others {
    chain out { type nat hook postrouting priority srcnat; oifname "nowhere" masquerade; }
}
"#;

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("the first rules to appear are complete", first_rules),
        case("tables of others are left alone", foreign_tables),
        case("a large transaction of others is no damage", large_transaction_of_others),
    ]
}

/// Services come file by file; an observer of the kernel sees all of them or no table.
fn first_rules() {
    let mut stage = Stage::new();
    for first in (0..CROWD).step_by(50) {
        let items = (first..first + 50).flat_map(|number| crowd_member(number, 80, number % 200, 3));
        stage.folder.put(&format!("crowd-{first:04}"), &list(items));
    }
    let node = stage.sandbox.node.try_clone().unwrap();
    let watchers = Family::BOTH.map(|family| {
        let node = node.try_clone().unwrap();
        std::thread::spawn(move || watch_start(&node, family))
    });
    stage.start();
    let before =
        watchers.map(|watcher| watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    println!("a start with {CROWD} services: {before:?} looks at no table, the next one saw all of it");
    assert!(before.iter().all(|looks| *looks > 0), "nobody looked before the rules were there");
}

/// How often there was no table, until there was a complete one.
fn watch_start(node: &Namespace, family: Family) -> usize {
    let deadline = Instant::now() + patient(SOON);
    let mut before = 0;
    loop {
        if let Some(found) = nft::elements(node, family, "service-ips") {
            assert_eq!(found.len(), usize::from(CROWD), "{family}: services of the first table");
            let others =
                ["endpoints", "cluster-ips"].map(|set| nft::elements(node, family, set).unwrap().len());
            assert_eq!(others, [3 * usize::from(CROWD), usize::from(CROWD)], "{family}");
            return before;
        }
        before += 1;
        assert!(Instant::now() < deadline, "{family}: no rules");
    }
}

fn foreign_tables() {
    let mut stage = Stage::new();
    nft::load(&stage.sandbox.node, FOREIGN);
    let others = |stage: &Stage| {
        [["inet", "firewall"], ["ip", "kube-proxy-of-others"]].map(|[family, table]| {
            nft::run(&stage.sandbox.node, &["-a", "list", "table", family, table]).unwrap()
        })
    };
    let before = others(&stage);
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &["a"]);
    stage.start();
    assert_eq!(others(&stage), before, "after the start");
    stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, Family::V4), "b");
    assert_eq!(others(&stage), before, "after a change");
    for kill in [false, true] {
        stage.restart(kill);
        assert_eq!(others(&stage), before, "after a restart");
    }
    // Changes of others to their own tables are no damage to ours.
    nft::run(&stage.sandbox.node, &["add", "element", "inet", "firewall", "blocked", "{ 8888 }"]).unwrap();
    nft::run(&stage.sandbox.node, &["delete", "table", "ip", "kube-proxy-of-others"]).unwrap();
    stage.put_endpoints("web", Protocol::Tcp, &["a"]);
    stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, Family::V4), "a");
    assert_no_drift(&stage);
}

/// More than any receive buffer holds, in a table that is not ours: nothing is rewritten for it, and damage is still seen.
fn large_transaction_of_others() {
    let mut stage = start(Carrier::Nftables);
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
