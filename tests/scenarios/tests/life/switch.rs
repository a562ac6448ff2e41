//! From one mode to another, and from one variant of the tools to the other, under traffic: the new rules are there before
//! the old ones go, and of those nothing is left.

use model::{Family, Protocol};
use test_support::{Carrier, Case, Verdict, wait_until};

use super::places::{at_cluster_ip, at_node_port};
use super::rig;
use super::stage::{ENDPOINTS, From, SOON, Stage};
use super::traffic::Traffic;

const NODE_PORT: u16 = 30080;
const CLIENTS: u8 = 10;

/// From each to each other and back.
pub(crate) fn cases() -> Vec<Case<'static>> {
    let pairs = Carrier::ALL
        .into_iter()
        .enumerate()
        .flat_map(|(place, from)| Carrier::ALL.into_iter().skip(place + 1).map(move |to| [from, to]));
    let case = |[from, to]: [Carrier; 2]| {
        let name = format!("{} to {} and back without a lost packet", from.name(), to.name());
        Case::new(name, move || match rig::obstacle(from).or_else(|| rig::obstacle(to)) {
            Some(why) => Verdict::Skipped(why),
            None => {
                travel([from, to, from]);
                Verdict::Passed
            }
        })
    };
    pairs.map(case).collect()
}

fn travel(route: [Carrier; 3]) {
    let mut stage = Stage::of(route[0]);
    let ports = serde_json::json!([{"name": "main", "protocol": "TCP", "port": 80, "nodePort": NODE_PORT}]);
    let web = stage.service("web", 1, Protocol::Tcp).with("type", "NodePort").with("ports", ports);
    stage.folder.put_service(&web);
    stage.put_endpoints("web", Protocol::Tcp, &["a", "b", "c"]);
    let sticky = stage.service("sticky", 2, Protocol::Tcp).with("sessionAffinity", "ClientIP");
    stage.folder.put_service(&sticky);
    stage.put_endpoints("sticky", Protocol::Tcp, &ENDPOINTS);
    Family::BOTH.into_iter().for_each(|family| stage.add_clients(family, CLIENTS));
    stage.start();
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
        traffic.go_on(60);
        stage.agent().stop().unwrap_or_else(|why| panic!("{why}"));
        // The kubelet moved too.
        from.unprepare(&stage.sandbox.node, &stage.folder.lock()).unwrap();
        to.prepare(&stage.sandbox.node, &stage.folder.lock()).unwrap();
        stage.carrier = *to;
        stage.start();
        // With the eyes of the old one.
        stage.carrier = *from;
        let is_gone = wait_until(SOON, || stage.rules().concat().is_empty());
        assert!(is_gone, "of {from:?} are left {:?}\n{}", stage.rules(), stage.log());
        stage.carrier = *to;
        traffic.go_on(60);
        // Variants of the tools have the same lists of clients; another mode has others.
        if from.mode() == to.mode() {
            assert_eq!(Family::BOTH.map(|family| pins(&stage, family)), pinned, "clients chose again");
        }
        // The new rules follow changes.
        stage.put_endpoints("web", Protocol::Tcp, if *to == route[0] { &["b", "c"] } else { &["a", "d"] });
        let pod = if *to == route[0] { "c" } else { "d" };
        for family in Family::BOTH {
            stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, family), pod);
        }
    }
    println!("{route:?}: {} connections", traffic.finish_after(&route, 2));
}

/// Where each client's next connection goes.
fn pins(stage: &Stage, family: Family) -> Vec<String> {
    let who = |client| stage.who(Protocol::Tcp, From::OutsideAs(client), at_cluster_ip(2, family));
    (0..CLIENTS).map(who).collect()
}
