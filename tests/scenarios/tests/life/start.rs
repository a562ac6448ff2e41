//! Starting and stopping: nothing half-written, nothing of others touched, nothing taken away.

use std::time::{Duration, Instant};

use model::{Family, Protocol};
use sandbox::Namespace;
use scenarios::{Case, wait_until};

use super::case;
use super::churn::{assert_no_drift, crowd_member};
use super::nft;
use super::places::at_cluster_ip;
use super::stage::{From, SOON, Stage, at_load, list};
use super::traffic::Traffic;

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
        case("SIGTERM ends the agent within a second and leaves the rules", terminate),
        case("tables of others are left alone", foreign_tables),
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
    let deadline = Instant::now() + SOON;
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

fn terminate() {
    let mut stage = Stage::new();
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
    stage.start();
    let before = Family::BOTH.map(|family| nft::table(&stage.sandbox.node, family).unwrap());
    let pairs = Family::BOTH.map(|family| (From::Guest, at_cluster_ip(1, family)));
    let traffic = Traffic::start(&stage, &pairs);
    let asked = Instant::now();
    let status = stage.agent().stop().unwrap();
    let took = asked.elapsed();
    assert!(status.success(), "{status}\n{}", stage.log());
    assert!(took < at_load(Duration::from_secs(1)), "{took:?}");
    let so_far = traffic.asked();
    assert!(wait_until(SOON, || traffic.asked() > so_far + 200));
    traffic.finish();
    let after = Family::BOTH.map(|family| nft::table(&stage.sandbox.node, family).unwrap());
    assert_eq!(before, after, "the rules changed when the agent ended");
    println!("SIGTERM: ended after {took:?}");
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
