//! From one mode to another, and from one variant of the tools to the other, under traffic: the new rules are there before
//! the old ones go, and of those nothing is left.

use model::{Family, Protocol};
use scenarios::{Carrier, Case, Verdict, carrier, wait_until};

use super::super::nft;
use super::super::places::{at_cluster_ip, at_node_port};
use super::super::stage::{ENDPOINTS, From, SOON, Stage};
use super::super::traffic::Traffic;
use super::rig::await_that;
use super::rules::Rules;

const NODE_PORT: u16 = 30080;
const CLIENTS: u8 = 10;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let routes = [
        (
            "nftables to iptables-legacy and back",
            [Carrier::Nftables, Carrier::IptablesLegacy, Carrier::Nftables],
        ),
        ("nftables to iptables-nft and back", [Carrier::Nftables, Carrier::IptablesNft, Carrier::Nftables]),
        (
            "iptables-legacy to -nft and back",
            [Carrier::IptablesLegacy, Carrier::IptablesNft, Carrier::IptablesLegacy],
        ),
    ];
    let case = |(name, route): (&str, [Carrier; 3])| {
        Case::new(format!("{name} without a lost packet"), move || {
            travel(route);
            Verdict::Passed
        })
    };
    routes.into_iter().map(case).collect()
}

fn travel(route: [Carrier; 3]) {
    let mut stage = Stage::new();
    let ports = serde_json::json!([{"name": "main", "protocol": "TCP", "port": 80, "nodePort": NODE_PORT}]);
    let web = stage.service("web", 1, Protocol::Tcp).with("type", "NodePort").with("ports", ports);
    stage.folder.put_service(&web);
    stage.put_endpoints("web", Protocol::Tcp, &["a", "b", "c"]);
    let sticky = stage.service("sticky", 2, Protocol::Tcp).with("sessionAffinity", "ClientIP");
    stage.folder.put_service(&sticky);
    stage.put_endpoints("sticky", Protocol::Tcp, &ENDPOINTS);
    Family::BOTH.into_iter().for_each(|family| stage.add_clients(family, CLIENTS));
    start(&mut stage, route[0]);
    let pinned = Family::BOTH.map(|family| pins(&stage, family));
    let pairs = Family::BOTH.into_iter().flat_map(|family| {
        [
            (From::Guest, at_cluster_ip(1, family)),
            (From::Node, at_cluster_ip(1, family)),
            (From::Outside, at_node_port(NODE_PORT, family)),
        ]
    });
    let traffic = Traffic::start(&stage, &pairs.collect::<Vec<_>>());
    for step in route.windows(2) {
        let [from, to] = step else { continue };
        go_on(&traffic);
        stage.agent().stop().unwrap_or_else(|why| panic!("{why}"));
        remove_hint(&stage, *from);
        start(&mut stage, *to);
        let left = || left_behind(&stage, *from);
        assert!(await_that(SOON, || left().is_empty()), "of {from:?} are left {:?}\n{}", left(), stage.log());
        go_on(&traffic);
        // Both variants have the same lists of clients; mode nftables has others.
        if ![*from, *to].contains(&Carrier::Nftables) {
            assert_eq!(Family::BOTH.map(|family| pins(&stage, family)), pinned, "clients chose again");
        }
        // The new rules follow changes.
        stage.put_endpoints("web", Protocol::Tcp, if *to == route[0] { &["b", "c"] } else { &["a", "d"] });
        let pod = if *to == route[0] { "c" } else { "d" };
        for family in Family::BOTH {
            stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, family), pod);
        }
    }
    println!("{route:?}: {} connections", traffic.finish());
}

/// Where each client's next connection goes.
fn pins(stage: &Stage, family: Family) -> Vec<String> {
    let who = |client| stage.who(Protocol::Tcp, From::OutsideAs(client), at_cluster_ip(2, family));
    (0..CLIENTS).map(who).collect()
}

fn go_on(traffic: &Traffic) {
    let before = traffic.asked();
    assert!(wait_until(SOON, || traffic.asked() > before + 60), "traffic stands still");
}

fn start(stage: &mut Stage, carrier: Carrier) {
    carrier.prepare(&stage.sandbox.node, &stage.folder.lock()).unwrap();
    let flags = carrier.flags();
    stage.start_with(&flags.iter().map(String::as_str).collect::<Vec<_>>());
}

/// The kubelet moved too.
fn remove_hint(stage: &Stage, carrier: Carrier) {
    if carrier != Carrier::Nftables {
        let arguments = ["-t", "mangle", "-X", "KUBE-IPTABLES-HINT"];
        let tool = carrier.tool(false, "");
        carrier::run(&stage.sandbox.node, &stage.folder.lock(), &tool, &arguments, "").unwrap();
    }
}

/// What there is of a mode or variant.
fn left_behind(stage: &Stage, carrier: Carrier) -> Vec<String> {
    let node = &stage.sandbox.node;
    let in_family = |family: Family| -> Vec<String> {
        if carrier == Carrier::Nftables {
            return nft::table(node, family).map(|_| format!("{family}: the table")).into_iter().collect();
        }
        let save = carrier.tool(family == Family::V6, "-save");
        let rules = Rules::read(&carrier::run(node, &stage.folder.lock(), &save, &[], "").unwrap());
        let chains = ["nat", "filter"].into_iter().flat_map(|table| rules.names(table));
        // Any of ours; a kubelet has others.
        chains.filter(|name| name.starts_with("KUBE-")).map(|name| format!("{family}: {name}")).collect()
    };
    Family::BOTH.into_iter().flat_map(in_family).collect()
}
