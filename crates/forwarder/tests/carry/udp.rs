//! Flows of UDP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forwarder::Refused;
use kernel::netns::privileged_test;
use model::{Family, Protocol};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto};

use crate::node::{Node, at_node_port, deadline, pod, soon};

const PORT: u16 = 30_002;
/// The first port of clients, none of those that the kernel chooses.
const CLIENTS: u16 = 20_000;

fn bind(node: &Node, at: SocketAddr) -> UdpSocket {
    let socket = node.run(|| UdpSocket::bind(at)).unwrap();
    socket.set_read_timeout(Some(deadline())).unwrap();
    socket
}

fn client(node: &Node, number: u16) -> UdpSocket {
    client_of(node, PORT, number)
}

fn client_of(node: &Node, port: u16, number: u16) -> UdpSocket {
    let socket = bind(node, (Ipv4Addr::LOCALHOST, CLIENTS + number).into());
    socket.connect(at_node_port(port)).unwrap();
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

/// It is refused or answered before the deadline.
fn is_answered(client: &UdpSocket) -> bool {
    client.send(b"question").is_ok() && client.recv(&mut [0; 16]).is_ok()
}

/// The same for a client that may have to ask several times.
fn is_answered_at_last(client: &UdpSocket) -> bool {
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    soon(|| is_answered(client))
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
        clients.iter().for_each(|client| assert_eq!(client.send(b"question").unwrap(), 8));
        let counts = node.forwarder().shared.counts.of(Family::V4, Protocol::Udp);
        let refused = || counted(&node, Refused::Limit);
        assert!(soon(|| counts.opened.load(Ordering::Relaxed) + refused() == 60));
        assert_eq!(counts.open.load(Ordering::Relaxed), 50, "half for a service");
        assert_eq!(counts.ended_early.load(Ordering::Relaxed) + refused(), 10, "or in the place of others");
    });
}

/// The source port of a client's flow, which its endpoint tells.
fn flow_of(client: &UdpSocket) -> Option<[u8; 2]> {
    let mut port = [0; 2];
    (client.send(b"question").is_ok() && client.recv(&mut port).is_ok()).then_some(port)
}

#[test]
fn services_with_many_flows_take_none_from_others() {
    privileged_test(|| {
        let few = || kernel::sysctl::write("net/ipv4/ip_local_port_range", "40000 40199").unwrap();
        let mut node = Node::set_up(2, few);
        let [answering, silent] = [1, 2].map(|last| SocketAddr::new(pod(last), 53));
        let (endpoint, _unread) = (bind(&node, answering), bind(&node, silent));
        endpoint.set_read_timeout(None).unwrap();
        std::thread::spawn(move || {
            while let Ok((_, from)) = endpoint.recv_from(&mut [0; 16]) {
                endpoint.send_to(&from.port().to_be_bytes(), from).unwrap();
            }
        });
        // Each twelfth front belongs to the same thread, be they one, two, three or four.
        for port in PORT..=PORT + 24 {
            node.serve(Protocol::Udp, port, &[if port == PORT { answering } else { silent }]);
        }
        let quiet = [0, 1, 2].map(|number| client(&node, number));
        let flows = quiet.each_ref().map(|client| flow_of(client).unwrap());
        let crowds: Vec<UdpSocket> =
            (0..120).map(|n| client_of(&node, PORT + 12 * (n % 2 + 1), 10 + n)).collect();
        let crowd = || crowds.iter().for_each(|client| assert_eq!(client.send(b"question").unwrap(), 8));
        let start = Instant::now();
        // Long after the quiet ones were answered, which are the only ones by then that were silent for a while.
        while start.elapsed() < Duration::from_millis(500) {
            crowd();
        }
        let counts = node.forwarder().shared.counts.of(Family::V4, Protocol::Udp);
        assert!(soon(|| counts.open.load(Ordering::Relaxed) == 100 && counted(&node, Refused::Limit) > 0));
        for number in 200..210 {
            assert!(flow_of(&client(&node, number)).is_some(), "a new client, {number}");
            crowd();
        }
        assert_eq!(quiet.each_ref().map(|client| flow_of(client).unwrap()), flows, "they are kept");
    });
}

#[test]
fn no_flow_ends_for_a_client_that_gets_none() {
    privileged_test(|| {
        let mut node = with_few_ports();
        for number in 0..50 {
            assert!(is_answered(&client(&node, number)), "{number}");
        }
        let shared = node.forwarder().shared.clone();
        let counts = || {
            let counts = shared.counts.of(Family::V4, Protocol::Udp);
            (counts.open.load(Ordering::Relaxed), counts.ended_early.load(Ordering::Relaxed))
        };
        assert_eq!(counts(), (50, 0), "half for a service");
        // No route leads there.
        let nowhere = SocketAddr::from(([192, 0, 2, 1], 53));
        for endpoints in [&[][..], &[nowhere]] {
            node.serve(Protocol::Udp, PORT, endpoints);
            let (before, start) = (counted(&node, Refused::Endpoints), Instant::now());
            let others = [100, 101, 102].map(|number| client(&node, number));
            // Long after the others were answered, so that any of them could go.
            while start.elapsed() < Duration::from_millis(300) {
                // Some hear that they are refused.
                others.iter().for_each(|client| drop(client.send(b"question")));
            }
            assert!(soon(|| counted(&node, Refused::Endpoints) > before));
            assert_eq!(counts(), (50, 0), "{endpoints:?}");
        }
    });
}

/// As the node's DNS clients do: each asks once, from a port of its own.
#[test]
fn clients_that_were_answered_make_room_for_others() {
    privileged_test(|| {
        // Silent clients count as done after a tenth of a second; until then 2,000 of them fit.
        let few = || kernel::sysctl::write("net/ipv4/ip_local_port_range", "52000 59999").unwrap();
        let mut node = Node::set_up(1, few);
        let at = SocketAddr::new(pod(1), 53);
        echo(&node, at);
        node.serve(Protocol::Udp, PORT, &[at]);
        assert_eq!(node.forwarder().shared.limits.udp, 4_000);
        for number in 0..10_000 {
            assert!(is_answered(&client(&node, number)), "{number}: {}", counted(&node, Refused::Limit));
        }
        let counts = node.forwarder().shared.counts.of(Family::V4, Protocol::Udp);
        assert_eq!((counted(&node, Refused::Limit), counted(&node, Refused::Ports)), (0, 0));
        assert_eq!(counts.open.load(Ordering::Relaxed), 2_000, "half for a service");
        assert_eq!(counts.ended_early.load(Ordering::Relaxed), 8_000);
    });
}

#[test]
fn a_client_without_a_port_for_it_is_not_the_endpoints_fault() {
    privileged_test(|| {
        let node = with_few_ports();
        let others: Vec<UdpSocket> =
            (40_000..40_200).map(|port| bind(&node, (Ipv4Addr::UNSPECIFIED, port).into())).collect();
        let client = client(&node, 0);
        client.send(b"question").unwrap();
        assert!(soon(|| counted(&node, Refused::Ports) == 1));
        assert_eq!(counted(&node, Refused::Endpoints), 0);
        drop(others);
        assert!(is_answered_at_last(&client));
    });
}

/// What a router says of a datagram from one address to another that was too large for it.
fn too_large(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend(600_u16.to_be_bytes());
    message.extend([0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    for at in [from, to] {
        let IpAddr::V4(ip) = at.ip() else { panic!("{at}") };
        message.extend(ip.octets());
    }
    [from, to].iter().for_each(|at| message.extend(at.port().to_be_bytes()));
    message.extend([0, 8, 0, 0]);
    let sum: u32 = message.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    message[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    message
}

#[test]
fn a_flow_goes_on_after_a_datagram_that_was_too_large() {
    privileged_test(|| {
        let mut node = Node::new(1);
        let at = SocketAddr::new(pod(1), 53);
        let endpoint = bind(&node, at);
        node.serve(Protocol::Udp, PORT, &[at]);
        let client = client(&node, 0);
        client.send(b"question").unwrap();
        let (_, flow) = endpoint.recv_from(&mut [0; 16]).unwrap();
        let router = node
            .run(|| rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP)))
            .unwrap();
        rustix::net::sendto(
            &router,
            &too_large(flow, at),
            SendFlags::empty(),
            &SocketAddr::new(flow.ip(), 0),
        )
        .unwrap();
        for _ in 0..10 {
            client.send(&[1; 1_000]).unwrap();
            assert_eq!(endpoint.recv_from(&mut [0; 1_024]).unwrap(), (1_000, flow));
            endpoint.send_to(b"answer", flow).unwrap();
            assert_eq!(client.recv(&mut [0; 16]).unwrap(), 6);
        }
        let counts = node.forwarder().shared.counts.of(Family::V4, Protocol::Udp);
        assert_eq!(counts.failed_dials.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_pinned_client_leaves_an_endpoint_that_refuses() {
    privileged_test(|| {
        let mut node = Node::new(4);
        let all: Vec<SocketAddr> = (1..=4).map(|last| SocketAddr::new(pod(last), 53)).collect();
        echo(&node, all[3]);
        node.serve_sticky(Protocol::Udp, PORT, &all, Some(3_600));
        for last in 1..=8 {
            let client = bind(&node, (Ipv4Addr::new(127, 0, 0, last), CLIENTS).into());
            client.connect(at_node_port(PORT)).unwrap();
            assert!(is_answered_at_last(&client), "{last}");
        }
    });
}
