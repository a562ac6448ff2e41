//! Node ports at 127.0.0.1: served where asked for, counted, and no way in for neighbours.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use kernel::sysctl;
use model::{Family, Protocol};
use sandbox::probe::UdpFlow;
use sandbox::{Namespace, Outcome, Server, address, probe};
use test_support::{Carrier, Case, ServiceManifest, wait_until};

use super::super::places::{PORT, at_node_port, cluster_ip};
use super::super::stage::{From, POD_PORT, SOON, Stage, answer};
use super::both;

const COUNTER: &str = "kubeproxy_iptables_localhost_nodeports_accepted_packets_total";
const ON: [&str; 2] = ["--iptables-localhost-nodeports=true", "--nodeport-addresses=all"];
/// Of a service for each policy and protocol.
const NODE_PORTS: [(Protocol, &str, u16); 4] = [
    (Protocol::Tcp, "Cluster", 30081),
    (Protocol::Udp, "Cluster", 30082),
    (Protocol::Tcp, "Local", 30083),
    (Protocol::Udp, "Local", 30084),
];

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = both("node ports at 127.0.0.1 are served and counted", served);
    cases.extend(both("node ports at 127.0.0.1 are refused where not asked for", not_served));
    cases.extend(both("neighbours do not come in to 127.0.0.1", martians));
    cases.extend(both("127.0.0.1 is routed, guarded and served together or not at all", together));
    cases
}

fn localhost(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)
}

fn with_services(carrier: Carrier) -> Stage {
    let stage = Stage::of(carrier);
    for (number, (protocol, policy, port)) in (1..).zip(NODE_PORTS) {
        let name = format!("{policy}-{protocol}").to_lowercase();
        let service = ServiceManifest::new(&name, &Family::BOTH.map(|family| cluster_ip(number, family)))
            .with("type", "NodePort")
            .with("externalTrafficPolicy", policy)
            .port("main", protocol, PORT, port);
        stage.folder.put_service(&service);
        // One here, one there.
        stage.put_endpoints(&name, protocol, &["a", "c"]);
    }
    stage
}

fn served(carrier: Carrier) {
    const QUESTIONS: usize = 8;
    let mut stage = with_services(carrier);
    stage.start_with(&ON);
    let route = || stage.sandbox.node.run(|| sysctl::read("net/ipv4/conf/all/route_localnet")).unwrap();
    assert_eq!(route(), "1", "{}", stage.log());
    let counted =
        |stage: &mut Stage| stage.metric(COUNTER).unwrap_or_else(|| panic!("no {COUNTER}\n{}", stage.log()));
    assert_eq!(counted(&mut stage), 0.0);
    let mut asked = 0.0;
    // Only a new flow is counted: none may get the port of one that conntrack still knows.
    let mut flows = Vec::new();
    for (protocol, policy, port) in NODE_PORTS {
        for _ in 0..QUESTIONS {
            let outcome = match protocol {
                Protocol::Udp => {
                    let flow = UdpFlow::open(&stage.sandbox.node, localhost(0), localhost(port)).unwrap();
                    let outcome = flow.ask(answer());
                    flows.push(flow);
                    outcome
                }
                _ => stage.ask(protocol, From::Node, localhost(port)),
            };
            let by =
                outcome.by().unwrap_or_else(|| panic!("{policy} {protocol}: {outcome:?}\n{}", stage.log()));
            // The node itself is asked from within, so that policy Local does not bind it.
            assert!(["a", "c"].contains(&by), "{policy} {protocol}: {by}");
            asked += 1.0;
        }
        // Other ways in are not counted.
        for (from, to) in [
            (From::Node, at_node_port(port, Family::V4)),
            (From::Outside, at_node_port(port, Family::V4)),
            (From::Node, at_node_port(port, Family::V6)),
        ] {
            let outcome = stage.ask(protocol, from, to);
            assert!(outcome.by().is_some(), "{from:?} to {to}, {policy} {protocol}: {outcome:?}");
        }
    }
    assert_eq!(counted(&mut stage), asked);
    // A restart goes on from there.
    stage.restart(false);
    assert_eq!(counted(&mut stage), asked);
}

fn not_served(carrier: Carrier) {
    let mut stage = with_services(carrier);
    stage.start_with(&["--nodeport-addresses=all"]);
    for (protocol, policy, port) in NODE_PORTS {
        let outcome = stage.ask(protocol, From::Node, localhost(port));
        assert_eq!(outcome, Outcome::Refused, "{policy} {protocol}");
        let outcome = stage.ask(protocol, From::Node, at_node_port(port, Family::V4));
        assert!(outcome.by().is_some(), "{policy} {protocol}: {outcome:?}");
    }
    let route = stage.sandbox.node.run(|| sysctl::read("net/ipv4/conf/all/route_localnet")).unwrap();
    assert_eq!(route, "0", "nobody asked for it");
}

/// `nodePortAddresses`, and whether node ports answer at 127.0.0.1 then.
const SELECTIONS: [(&str, bool); 9] = [
    ("all", true),
    ("primary", false),
    ("localhost", true),
    ("primary,localhost", true),
    // Beside the primary address a prefix of one family says nothing about the other.
    ("primary,::1/128", false),
    ("primary,0.0.0.0/0", true),
    ("10.0.0.0/8", false),
    ("0.0.0.0/0", true),
    ("::/0", true),
];

/// Routing without the guard opens the node's loopback to its neighbours; rules without routing lead nowhere.
fn together(carrier: Carrier) {
    const ROUTE: &str = "net/ipv4/conf/all/route_localnet";
    for (selection, is_served) in SELECTIONS {
        let mut stage = with_services(carrier);
        // Not beside the flags of the mode, which name addresses too.
        let flags = ["--proxy-mode=iptables", ON[0], &format!("--nodeport-addresses={selection}")];
        stage.start_exactly(&[], &flags).unwrap_or_else(|why| panic!("{why}"));
        let is_routed = stage.sandbox.node.run(|| sysctl::read(ROUTE)).unwrap() == "1";
        let rules = stage.tables(Family::V4);
        let guards = rules.chain("filter", "KUBE-FIREWALL").iter();
        let is_guarded = guards.filter(|rule| rule.contains("block incoming localnet")).count() == 1;
        let answers = stage.ask(Protocol::Tcp, From::Node, localhost(30081)).by().is_some();
        assert_eq!([is_routed, is_guarded, answers], [is_served; 3], "{selection}\n{}", stage.log());
    }
}

/// A neighbour who sends packets for 127.0.0.1 to the node. Where the node routes them, they would reach a server that
/// listens there and trusts that only the node itself can.
fn martians(carrier: Carrier) {
    let mut stage = with_services(carrier);
    let node = stage.sandbox.node.try_clone().unwrap();
    let _server = Server::tcp(&node, "secret", localhost(POD_PORT)).unwrap();
    let client = stage.sandbox.client.try_clone().unwrap();
    lead_localhost_to_node(&client);
    let ask = || {
        let source = Some(address::CLIENT_V4.into());
        probe::tcp(&client, source, localhost(POD_PORT), Duration::from_millis(500))
    };
    node.run(|| sysctl::write("net/ipv4/conf/all/route_localnet", 1)).unwrap();
    assert_eq!(ask().by(), Some("secret"), "nothing would be shown: {:?}", ask());
    // What a kubelet has in the chain, one of them the very rule.
    let own = "-p tcp -m tcp --dport 4015 -j DROP";
    let guard = "! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment \"block incoming localnet connections\" \
                 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP";
    stage.restore(
        Family::V4,
        &format!("*filter\n:KUBE-FIREWALL - [0:0]\n[5:300] -A KUBE-FIREWALL {own}\nCOMMIT\n"),
    );
    stage.start_with(&ON);
    let count = |stage: &Stage| {
        let rules = stage.tables(Family::V4);
        let chain = rules.chain("filter", "KUBE-FIREWALL").to_vec();
        let guards = chain.iter().filter(|rule| rule.contains("block incoming localnet")).count();
        (chain.iter().any(|rule| rule == own), guards)
    };
    assert_eq!(count(&stage), (true, 1), "{:?}", stage.tables(Family::V4).chain("filter", "KUBE-FIREWALL"));
    assert_eq!(ask(), Outcome::TimedOut);
    assert!(stage.ask(Protocol::Tcp, From::Node, localhost(30081)).by().is_some(), "the node itself may");
    // A kubelet that comes later finds its rule in place, and one that was first leaves us nothing to add.
    stage.agent().stop().unwrap();
    stage.run(Family::V4, "-t filter -F KUBE-FIREWALL");
    stage
        .restore(Family::V4, &format!("*filter\n-A KUBE-FIREWALL {guard}\n-A KUBE-FIREWALL {own}\nCOMMIT\n"));
    stage.agent().restart().unwrap();
    assert_eq!(count(&stage), (true, 1));
    assert_eq!(ask(), Outcome::TimedOut);
    // If it is removed, it comes back.
    stage.run(Family::V4, "-t filter -F KUBE-FIREWALL");
    assert!(wait_until(SOON, || count(&stage).1 == 1), "{}", stage.log());
    assert_eq!(ask(), Outcome::TimedOut);
}

/// The client has no localhost of its own any more; what is for it goes to the node.
fn lead_localhost_to_node(client: &Namespace) {
    client.run(|| sysctl::write("net/ipv4/conf/all/route_localnet", 1)).unwrap();
    let via = format!("127.0.0.0/8 via {}", address::NODE_OUTER_V4);
    for words in ["address delete 127.0.0.1/8 dev lo", &format!("route add {via}")] {
        let mut command = Command::new("ip");
        command.args(words.split(' '));
        client.enter(&mut command).unwrap();
        let output = command.output().unwrap();
        assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
