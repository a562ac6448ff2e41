//! From this mode to another one: what is on its way, and what is left.

use std::net::SocketAddr;

use model::{Family, Protocol};
use sandbox::probe::{Hold, Pulse, UdpFlow};
use test_support::{Carrier, Case, ServiceManifest, wait_until};

use super::super::places::{PORT, at_cluster_ip, at_node_port, cluster_ip};
use super::super::stage::{From, SOON, Stage, answer};
use super::case;

const NODE_PORT: u16 = 30053;

pub(super) fn cases() -> Vec<Case<'static>> {
    vec![case("a change to mode nftables lets connections end and UDP flows go on", parting)]
}

fn service(name: &str, number: u8, protocol: Protocol) -> ServiceManifest {
    let ips = Family::BOTH.map(|family| cluster_ip(number, family));
    let node_port = NODE_PORT + u16::from(number);
    ServiceManifest::new(name, &ips).with("type", "NodePort").port("main", protocol, PORT, node_port)
}

fn places(number: u8) -> Vec<(From, SocketAddr)> {
    let of = |family| {
        let node_port = at_node_port(NODE_PORT + u16::from(number), family);
        [
            (From::Guest, at_cluster_ip(number, family)),
            (From::Node, at_cluster_ip(number, family)),
            (From::Outside, node_port),
        ]
    };
    Family::BOTH.map(of).concat()
}

fn open_flow(stage: &Stage, from: From, to: SocketAddr) -> UdpFlow {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    UdpFlow::open(stage.namespace(from), any.parse().unwrap(), to).unwrap()
}

fn parting(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    for (name, number, protocol) in [("web", 1, Protocol::Tcp), ("dns", 2, Protocol::Udp)] {
        stage.folder.put_service(&service(name, number, protocol));
        stage.put_endpoints(name, protocol, &["a"]);
    }
    stage.start();
    // The node's own, too: were they to come from the address that they call, which is local in this mode, they would get no
    // answers in another one.
    let flows: Vec<(From, SocketAddr, UdpFlow)> =
        places(2).into_iter().map(|(from, to)| (from, to, open_flow(&stage, from, to))).collect();
    for (from, to, flow) in &flows {
        let came = wait_until(SOON, || flow.ask(answer()).by() == Some("a"));
        assert!(came, "{from:?} to {to}");
    }
    let open = |(from, to)| (to, Hold::open(stage.namespace(from), None, to, answer()).unwrap());
    let mut held: Vec<(SocketAddr, Hold)> = places(1).into_iter().map(open).collect();
    stage.agent().stop().unwrap();
    stage.carrier = Carrier::Nftables;
    stage.start();
    // The servers wait for what is open.
    for (to, hold) in &mut held {
        let pulse = hold.ping(answer());
        assert!(matches!(pulse, Pulse::Alive(_)), "{to}, while the other mode is in place: {pulse:?}");
    }
    drop(held);
    let servers = || stage.ipvsadm("-S -n");
    assert!(wait_until(SOON, || servers().trim().is_empty()), "{}\n{}", servers(), stage.log());
    for (from, to, flow) in &flows {
        let came = wait_until(SOON, || flow.ask(answer()).by() == Some("a"));
        assert!(came, "{from:?} to {to}: the flow gets no answers\n{}", stage.log());
    }
    for (from, to) in places(1) {
        assert_eq!(stage.who(Protocol::Tcp, from, to), "a");
    }
}
