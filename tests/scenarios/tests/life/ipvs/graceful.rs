//! Endpoints that go: their connections live on until they end, and new ones go elsewhere.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use model::{Family, Protocol};
use sandbox::probe::{Hold, Pulse};
use test_support::{Carrier, Case, wait_until};

use super::super::affinity;
use super::super::places::{PORT, at_cluster_ip, at_node_port, external_ip};
use super::super::stage::{From, POD_PORT, SOON, Stage, answer};
use super::{NODE_PORT, case, start};

pub(super) fn cases() -> Vec<Case<'static>> {
    vec![
        case("a connection to a removed endpoint goes on until it ends, also over a restart", drains),
        case("an endpoint that comes back while it drains takes connections again", comes_back),
        case("connections of a removed service go on until they end", outlives_its_service),
        case("clients with affinity leave an endpoint that drains", pinned),
    ]
}

fn hold(stage: &Stage, to: SocketAddr) -> Hold {
    let hold = Hold::open(stage.namespace(From::Outside), None, to, answer());
    hold.unwrap_or_else(|outcome| panic!("{to}: {outcome:?}"))
}

fn hold_all(stage: &Stage) -> Vec<(SocketAddr, Hold)> {
    everywhere().into_iter().map(|to| (to, hold(stage, to))).collect()
}

fn assert_alive(held: &mut [(SocketAddr, Hold)], after: &str) {
    for (to, hold) in held {
        let pulse = hold.ping(answer());
        assert!(matches!(pulse, Pulse::Alive(_)), "{to} at {}, after {after}: {pulse:?}", hold.by());
    }
}

/// Every address of the service.
fn everywhere() -> Vec<SocketAddr> {
    let all = Family::BOTH.map(|family| {
        let external = SocketAddr::new(external_ip(family), PORT);
        [at_cluster_ip(1, family), at_node_port(NODE_PORT, family), external]
    });
    all.concat()
}

/// Whether a destination is still there, with whatever weight.
fn weight(stage: &Stage, at: SocketAddr, pod: &str) -> Option<u32> {
    let endpoint = SocketAddr::new(stage.address(pod, Family::of(at.ip())), POD_PORT);
    let servers = stage.servers(Family::of(at.ip()));
    servers.get(&("-t".to_owned(), at))?.weights.get(&endpoint).copied()
}

fn await_weight(stage: &Stage, at: SocketAddr, pod: &str, wanted: Option<u32>, when: &str) {
    let found = || weight(stage, at, pod);
    let is_so = wait_until(SOON, || found() == wanted);
    assert!(is_so, "{pod} of {at}, {when}: {:?}, not {wanted:?}\n{}", found(), stage.log());
}

/// New connections are answered by others than the pod.
fn assert_avoided(stage: &Stage, pod: &str, when: &str) {
    for to in everywhere() {
        let by: BTreeSet<String> = (0..4).map(|_| stage.who(Protocol::Tcp, From::Outside, to)).collect();
        assert!(!by.contains(pod), "{to}, {when}: {by:?}");
    }
}

fn drains(carrier: Carrier) {
    let mut stage = start(carrier, &["a"], &[]);
    let mut held = hold_all(&stage);
    stage.put_endpoints("web", Protocol::Tcp, &["b", "c"]);
    stage.await_pools(1, &["b", "c"]);
    let await_all = |stage: &Stage, wanted, when: &str| {
        everywhere().into_iter().for_each(|to| await_weight(stage, to, "a", wanted, when));
    };
    await_all(&stage, Some(0), "after its removal");
    assert_alive(&mut held, "the removal of its endpoint");
    assert_avoided(&stage, "a", "after its removal");
    for kill in [false, true] {
        stage.restart(kill);
        await_all(&stage, Some(0), "after a restart");
        assert_alive(&mut held, "a restart");
        assert_avoided(&stage, "a", "after a restart");
    }
    drop(held);
    // IPVS remembers a closed connection for two minutes, in case that packets of it are still on their way.
    await_all(&stage, None, "after its connections have ended");
}

fn comes_back(carrier: Carrier) {
    let stage = start(carrier, &["a"], &[]);
    let mut held = hold_all(&stage);
    for _ in 0..3 {
        stage.put_endpoints("web", Protocol::Tcp, &["b"]);
        stage.await_pools(1, &["b"]);
        assert_alive(&mut held, "the removal of its endpoint");
        stage.put_endpoints("web", Protocol::Tcp, &["a"]);
        stage.await_pools(1, &["a"]);
        for to in everywhere() {
            stage.await_answer(Protocol::Tcp, From::Outside, to, "a");
        }
        assert_alive(&mut held, "the return of its endpoint");
    }
}

fn outlives_its_service(carrier: Carrier) {
    let stage = start(carrier, &["a"], &[]);
    let mut held = hold_all(&stage);
    stage.folder.remove("slices-web");
    stage.await_pools(1, &[]);
    assert_alive(&mut held, "the removal of all endpoints");
    for to in everywhere() {
        assert!(wait_until(SOON, || stage.tcp(From::Outside, to).by().is_none()), "{to} still answers");
    }
    stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    for to in everywhere() {
        stage.await_answer(Protocol::Tcp, From::Outside, to, "b");
    }
    assert_alive(&mut held, "the return of other endpoints");
}

/// The kernel's entry for a pinned client must not keep it where nobody new is to go.
fn pinned(carrier: Carrier) {
    let stage = affinity::start_with(carrier, Protocol::Tcp, 10800);
    for family in Family::BOTH {
        let to = at_cluster_ip(1, family);
        let first = affinity::ask_all_of(&stage, Protocol::Tcp, to);
        let rest: Vec<&str> = ["a", "b", "c", "d", "e"].into_iter().filter(|pod| *pod != first[0]).collect();
        // It must still be draining when its clients ask again.
        let namespace = stage.namespace(From::OutsideAs(0));
        let mut held = Hold::open(namespace, From::OutsideAs(0).source(to), to, answer()).unwrap();
        assert_eq!(held.by(), first[0], "a pinned client went elsewhere");
        stage.put_endpoints("web", Protocol::Tcp, &rest);
        stage.await_pool(1, family, &rest);
        assert_eq!(weight(&stage, to, &first[0]), Some(0));
        let second = affinity::ask_all_of(&stage, Protocol::Tcp, to);
        for (before, after) in first.iter().zip(&second) {
            assert!(*after != first[0] && (before == after || *before == first[0]), "{first:?}, {second:?}");
        }
        assert_eq!(affinity::ask_all_of(&stage, Protocol::Tcp, to), second, "clients choose again");
        assert!(matches!(held.ping(answer()), Pulse::Alive(_)), "the connection ended");
        stage.put_endpoints("web", Protocol::Tcp, &["a", "b", "c", "d", "e"]);
        stage.await_pools(1, &["a", "b", "c", "d", "e"]);
    }
}
