//! What goes wrong around the forwarder: it says so, not too often, and others notice nothing.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use kernel::conntrack::{Conntrack, Filter, Flow, Tuple, status};
use kernel::process::limit_open_files;
use model::{Family, Protocol};
use sandbox::probe::{self, Hold, Pulse};
use test_support::{Carrier, Case, EndpointManifest, ServiceManifest, SliceManifest, let_pass, wait_until};

use super::super::places::{PORT, at_cluster_ip, cluster_ip};
use super::super::rig::in_mode;
use super::super::stage::{From, GUEST, NODE, POD_PORT, PROMPT, SOON, Stage, answer};
use super::super::traffic::sent_again;
use super::{case, peers};

const OPEN: &str = "pointsman_userspace_open_connections{ip_family=\"IPv4\",protocol=\"tcp\"}";
/// Where nobody is.
const UNUSED: Ipv4Addr = Ipv4Addr::new(12, 255, 255, 255);
/// The usual port of the forwarder.
const DOOR: u16 = 20_850;

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("out of descriptors, new connections wait", out_of_descriptors),
        case("another process has the usual ports", usual_ports_taken),
        in_mode(Carrier::Nftables, "a node port that is taken on localhost is served once it is free", taken),
        case("a service or endpoint at the forwarder's own address harms nobody", own_address),
        case("an endpoint that never answers keeps nobody else", never_answers),
        case("clients that never read keep nobody else", never_read),
        case("a client port is used for two services in turn", one_port),
        case("a record that another process deletes leads nobody astray", deleted_record),
        case("while conntrack has no room, open connections go on and new ones wait", full_conntrack),
    ]
}

/// Service 1 is answered by `a`, the other one by the process that listens in the pod of the guest.
fn start(carrier: Carrier) -> Stage {
    let mut stage = Stage::of(carrier);
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &["a"]);
    stage.folder.put_service(&stage.service("odd", 2, Protocol::Tcp));
    stage.put_endpoints_at("odd", Protocol::Tcp, stage.addresses(GUEST));
    stage.start_with(&[PROMPT]);
    stage
}

fn assert_served(stage: &Stage, when: &str) {
    for family in Family::BOTH {
        let outcome = stage.tcp(From::Guest, at_cluster_ip(1, family));
        assert_eq!(outcome.by(), Some("a"), "{when}: {family}: {outcome:?}\n{}", stage.log());
    }
}

fn await_quiet(stage: &mut Stage) {
    let is_quiet = wait_until(SOON, || stage.metric(OPEN) == Some(0.0));
    assert!(is_quiet, "{:?} are open\n{}", stage.metric(OPEN), stage.log());
}

fn out_of_descriptors(carrier: Carrier) {
    let mut stage = start(carrier);
    let to = at_cluster_ip(1, Family::V4);
    let mut hold = Hold::open(stage.namespace(From::Guest), None, to, answer()).unwrap();
    let process = stage.agent().process();
    let used = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count() as u64;
    limit_open_files(process, used + 8).unwrap();
    // The kernel accepts them in the place of the agent.
    let crowd: Vec<_> = (0..40).map(|_| peers::connect(stage.namespace(From::Guest), to)).collect();
    stage.await_said("Out of file descriptors; new connections wait");
    assert!(matches!(hold.ping(answer()), Pulse::Alive(_)), "{}", stage.log());
    let_pass(Duration::from_secs(2));
    let lines = stage.log().matches("Out of file descriptors").count();
    assert_eq!(lines, 1, "it is said again within a minute\n{}", stage.log());
    drop(crowd);
    stage.await_answer(Protocol::Tcp, From::Guest, to, "a");
    // The rest of the agent works as before.
    stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    stage.await_answer(Protocol::Tcp, From::Guest, to, "b");
    assert!(matches!(hold.ping(answer()), Pulse::Alive(_)), "{}", stage.log());
}

/// A tenant may write both: rules for that address would meet the clients of all services on the node, and an endpoint there
/// would lead the forwarder to itself without end.
fn own_address(carrier: Carrier) {
    let mut stage = start(carrier);
    let evil = ServiceManifest::new("evil", &Family::BOTH.map(|family| cluster_ip(3, family)));
    let evil = evil.external_ips(&forwarder::ADDRESSES);
    stage.folder.put_service(&evil.port("main", Protocol::Tcp, DOOR, 0).port("udp", Protocol::Udp, DOOR, 0));
    stage.await_said("is the one at which kube-proxy itself listens");
    for family in Family::BOTH {
        for from in [From::Node, From::Guest, From::Outside] {
            assert_eq!(stage.who(Protocol::Tcp, from, at_cluster_ip(1, family)), "a", "{family} {from:?}");
        }
    }
    let slice = |family: Family| {
        let endpoint = EndpointManifest::new(forwarder::ADDRESSES[family.index()], NODE);
        let slice = SliceManifest::new("evil", "own", family).endpoint(&endpoint);
        slice.port("main", Protocol::Tcp, DOOR).port("udp", Protocol::Udp, DOOR)
    };
    Family::BOTH.iter().for_each(|family| stage.folder.put_slice(&slice(*family)));
    stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    stage.await_answer(Protocol::Tcp, From::Node, at_cluster_ip(1, Family::V4), "b");
    for family in Family::BOTH {
        stage.await_answer(Protocol::Tcp, From::Node, at_cluster_ip(1, family), "b");
        let to = SocketAddr::new(cluster_ip(3, family), DOOR);
        assert_eq!(stage.tcp(From::Guest, to).by(), None, "{family}");
    }
    let opened = "pointsman_userspace_connections_total{ip_family=\"IPv4\",protocol=\"tcp\"}";
    let count = stage.metric(opened).unwrap();
    assert!(count < 200.0, "{count} connections were opened\n{}", stage.log());
}

fn usual_ports_taken(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &["a"]);
    let _taken = peers::listen(&stage.sandbox.node, DOOR);
    stage.start_with(&[PROMPT]);
    stage.await_said("The default port is in use");
    stage.await_said("Mode userspace copies all traffic through kube-proxy");
    assert_served(&stage, "at other ports");
}

fn taken(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    let ports = [30081, 30082];
    for (number, port) in (1..).zip(ports) {
        let name = format!("web-{number}");
        let ips = Family::BOTH.map(|family| cluster_ip(number, family));
        let service = ServiceManifest::new(&name, &ips).with("type", "NodePort");
        stage.folder.put_service(&service.port("main", Protocol::Tcp, PORT, port));
        stage.put_endpoints(&name, Protocol::Tcp, &["a"]);
    }
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = stage.sandbox.node.run(|| TcpListener::bind(at(ports[0]))).unwrap();
    stage.start_with(&[
        PROMPT,
        "--iptables-sync-period=1s",
        "--nodeport-addresses=localhost",
        "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true",
    ]);
    stage.await_answer(Protocol::Tcp, From::Node, at(ports[1]), "a");
    stage.await_said("Failed to serve a node port on a loopback address");
    let failures =
        "kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total{ip_family=\"IPv4\"}";
    let is_retried = wait_until(SOON, || stage.metric(failures).is_some_and(|count| count >= 3.0));
    assert!(is_retried, "{:?}\n{}", stage.metric(failures), stage.log());
    assert_eq!(stage.log().matches("Failed to serve a node port").count(), 1, "{}", stage.log());
    drop(listener);
    stage.await_answer(Protocol::Tcp, From::Node, at(ports[0]), "a");
}

fn never_answers(carrier: Carrier) {
    let mut stage = start(carrier);
    // The kernel accepts, and nobody ever reads or writes.
    let listener = peers::listen(stage.namespace(From::Guest), POD_PORT);
    let to = at_cluster_ip(2, Family::V4);
    let crowd: Vec<_> = (0..100).map(|_| peers::connect(stage.namespace(From::Node), to)).collect();
    for mut stream in &crowd {
        std::io::Write::write_all(&mut stream, b"hello").unwrap();
    }
    let are_open = wait_until(SOON, || stage.metric(OPEN).is_some_and(|open| open >= 100.0));
    assert!(are_open, "{:?}\n{}", stage.metric(OPEN), stage.log());
    assert_served(&stage, "beside an endpoint that never answers");
    drop((crowd, listener));
    await_quiet(&mut stage);
}

fn never_read(carrier: Carrier) {
    let mut stage = start(carrier);
    peers::serve(stage.namespace(From::Guest), POD_PORT, peers::flood);
    let to = at_cluster_ip(2, Family::V4);
    let node = stage.namespace(From::Node);
    let crowd: Vec<_> = (0..100).map(|_| peers::connect(node, to)).collect();
    assert_served(&stage, "beside clients that never read");
    // Another client of the same service gets as much as it wants.
    let mut reader = peers::connect(node, to);
    std::io::Read::read_exact(&mut reader, &mut vec![0; 32 * 1024 * 1024]).unwrap();
    drop((crowd, reader));
    await_quiet(&mut stage);
    assert!(!stage.log().contains("Too many open"), "{}", stage.log());
}

/// Two services of UDP, with an endpoint each.
fn start_datagrams(carrier: Carrier) -> Stage {
    let mut stage = Stage::of(carrier);
    for (number, pod) in [(1, "a"), (2, "b")] {
        let name = format!("dns-{number}");
        stage.folder.put_service(&stage.service(&name, number, Protocol::Udp));
        stage.put_endpoints(&name, Protocol::Udp, &[pod]);
    }
    stage.start_with(&[PROMPT]);
    stage
}

fn any(family: Family, port: u16) -> SocketAddr {
    let any = if family == Family::V4 { "0.0.0.0" } else { "::" };
    SocketAddr::new(any.parse().unwrap(), port)
}

fn one_port(carrier: Carrier) {
    let stage = start_datagrams(carrier);
    for family in Family::BOTH {
        for turn in 0..10 {
            for (number, pod) in [(1, "a"), (2, "b")] {
                let to = at_cluster_ip(number, family);
                let outcome = probe::udp_from(stage.namespace(From::Guest), any(family, 4_000), to, answer());
                assert_eq!(outcome.by(), Some(pod), "{family}, turn {turn}: {outcome:?}\n{}", stage.log());
            }
        }
    }
}

fn deleted_record(carrier: Carrier) {
    let stage = start_datagrams(carrier);
    for family in Family::BOTH {
        for turn in 0..5 {
            for (number, pod) in [(1, "a"), (2, "b")] {
                let to = at_cluster_ip(number, family);
                let outcome = probe::udp_from(stage.namespace(From::Guest), any(family, 4_001), to, answer());
                assert_eq!(outcome.by(), Some(pod), "{family}, turn {turn}: {outcome:?}\n{}", stage.log());
                let filter =
                    Filter { family: None, protocol: Some(Protocol::Udp.number()), unanswered: false };
                stage.sandbox.node.run(|| {
                    Conntrack::open().unwrap().delete_where(&filter, |_| true).unwrap();
                });
                // The forwarder asks again after a moment of silence.
                let_pass(Duration::from_millis(50));
            }
        }
    }
}

/// The kernel counts the records of each namespace alone, so nobody else notices.
fn full_conntrack(carrier: Carrier) {
    let mut stage = start(carrier);
    let to = at_cluster_ip(1, Family::V4);
    let mut hold = Hold::open(stage.namespace(From::Guest), None, to, answer()).unwrap();
    fill_conntrack(&stage);
    for _ in 0..3 {
        assert!(matches!(hold.ping(answer()), Pulse::Alive(_)), "{}", stage.log());
    }
    let guest = stage.namespace(From::Guest).try_clone().unwrap();
    let before = sent_again(&guest);
    let client = std::thread::spawn(move || probe::tcp(&guest, None, to, SOON));
    let tries_again = || sent_again(stage.namespace(From::Guest)) > before;
    assert!(wait_until(SOON, tries_again), "there was room for a connection\n{}", stage.log());
    empty_conntrack(&stage);
    let outcome = client.join().unwrap();
    assert_eq!(outcome.by(), Some("a"), "{outcome:?}\n{}", stage.log());
    assert!(matches!(hold.ping(answer()), Pulse::Alive(_)), "{}", stage.log());
    drop(hold);
    await_quiet(&mut stage);
}

/// A record that no packet belongs to.
fn unused_record(number: u32) -> Flow {
    let client = (Ipv4Addr::from_bits(0x0c00_0000 + number / 1_000).into(), 1_024 + (number % 1_000) as u16);
    let original = Tuple::new(client, (UNUSED.into(), 9));
    let flow = Flow::new(Protocol::Udp.number(), original, original.reversed());
    // The kernel does not make room by deleting it.
    Flow { status: status::ASSURED | status::SEEN_REPLY, ..flow }
}

/// Until the kernel refuses the next one.
fn fill_conntrack(stage: &Stage) {
    stage.sandbox.node.run(|| {
        let mut table = Conntrack::open().unwrap();
        let mut is_refused = |start| {
            let records: Vec<Flow> = (start..start + 128).map(unused_record).collect();
            table.insert(&records, Duration::from_secs(3600)).is_err()
        };
        assert!((0..8_000_000).step_by(128).any(&mut is_refused), "there is always room");
    });
}

fn empty_conntrack(stage: &Stage) {
    let filter = Filter { family: None, protocol: Some(Protocol::Udp.number()), unanswered: false };
    stage.sandbox.node.run(|| {
        let mut table = Conntrack::open().unwrap();
        table.delete_where(&filter, |flow| flow.original.dst == UNUSED).unwrap();
    });
}

/// Much data in both directions, with what `deploy/` allows and nothing else.
pub(crate) fn much(stage: &Stage) {
    peers::serve(stage.namespace(From::Guest), POD_PORT, peers::answer_much);
    stage.folder.put_service(&stage.service("much", 9, Protocol::Tcp));
    stage.put_endpoints_at("much", Protocol::Tcp, stage.addresses(GUEST));
    for family in Family::BOTH {
        let to = at_cluster_ip(9, family);
        let is_there = || stage.sandbox.node.run(|| std::net::TcpStream::connect(to)).is_ok();
        assert!(wait_until(SOON, is_there), "{to}\n{}", stage.log());
        peers::ask_for_much(&peers::connect(stage.namespace(From::Node), to));
    }
}
