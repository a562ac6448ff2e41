//! Flows of UDP.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use forwarder::Refused;
use kernel::netns::privileged_test;
use model::{Family, Protocol};

use crate::node::{Node, SOON, at_node_port, pod, soon};

const PORT: u16 = 30_002;
/// The first port of clients, none of those that the kernel chooses.
const CLIENTS: u16 = 20_000;

fn bind(node: &Node, at: SocketAddr) -> UdpSocket {
    let socket = node.run(|| UdpSocket::bind(at)).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket
}

fn client(node: &Node, number: u16) -> UdpSocket {
    let socket = bind(node, (Ipv4Addr::LOCALHOST, CLIENTS + number).into());
    socket.connect(at_node_port(PORT)).unwrap();
    socket
}

/// An endpoint that says to each what it has said.
fn echo(node: &Node, at: SocketAddr) {
    let socket = node.run(|| UdpSocket::bind(at)).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(&buffer[..count], from).unwrap();
        }
    });
}

fn is_answered(client: &UdpSocket) -> bool {
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    client.send(b"question").is_ok() && client.recv(&mut [0; 16]).is_ok()
}

fn counted(node: &Node, why: Refused) -> u64 {
    node.forwarder().shared.counts.of(Family::V4, Protocol::Udp).refused(why)
}

/// Two hundred ports: one flow must not take a port that another program needs.
fn with_few_ports() -> Node {
    let few = || kernel::sysctl::write("net/ipv4/ip_local_port_range", "40000 40199").unwrap();
    let mut node = Node::set_up(1, few);
    let at = SocketAddr::new(pod(1), 53);
    echo(&node, at);
    node.serve(Protocol::Udp, PORT, &[at]);
    node
}

#[test]
fn flows_leave_ports_to_other_programs() {
    privileged_test(|| {
        let node = with_few_ports();
        assert_eq!(node.forwarder().shared.limits.udp, 100);
        let clients: Vec<UdpSocket> = (0..60).map(|number| client(&node, number)).collect();
        assert_eq!(clients.iter().filter(|client| is_answered(client)).count(), 50, "half for a service");
        assert_eq!(counted(&node, Refused::Limit), 10);
    });
}

#[test]
fn a_client_without_a_port_for_it_is_not_the_endpoints_fault() {
    privileged_test(|| {
        let node = with_few_ports();
        let others: Vec<UdpSocket> =
            (40_000..40_200).map(|port| bind(&node, (Ipv4Addr::UNSPECIFIED, port).into())).collect();
        let client = client(&node, 0);
        assert!(!is_answered(&client));
        assert_eq!((counted(&node, Refused::Ports), counted(&node, Refused::Endpoints)), (1, 0));
        drop(others);
        assert!(soon(|| is_answered(&client)));
    });
}
