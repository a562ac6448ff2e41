//! What goes on when the process has no descriptors left. It is a process of its own: the limit is for all of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use forwarder::Refused;
use kernel::netns::privileged_test;
use model::{Family, Protocol};

#[allow(dead_code)]
#[path = "carry/node.rs"]
mod node;

use node::{Node, at_node_port, deadline, pod, soon};

const PORT: u16 = 30_002;

fn client(node: &Node) -> UdpSocket {
    let socket = node.run(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
    socket.connect(at_node_port(PORT)).unwrap();
    socket.set_read_timeout(Some(deadline())).unwrap();
    socket
}

fn is_answered(client: &UdpSocket) -> bool {
    client.send(b"question").is_ok() && client.recv(&mut [0; 16]).is_ok()
}

#[test]
fn open_udp_flows_go_on() {
    privileged_test(|| {
        let mut node = Node::new(1);
        let at = SocketAddr::new(pod(1), 53);
        let endpoint = node.run(|| UdpSocket::bind(at)).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((count, from)) = endpoint.recv_from(&mut buffer) {
                endpoint.send_to(&buffer[..count], from).unwrap();
            }
        });
        node.serve(Protocol::Udp, PORT, &[at]);
        let (first, others) = (client(&node), [0; 20].map(|_| client(&node)));
        assert!(is_answered(&first));
        let used = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        kernel::process::limit_open_files(std::process::id(), used).unwrap();
        for _ in 0..30 {
            // New ones are turned away repeatedly.
            for client in &others {
                client.send(b"question").unwrap();
            }
            assert!(is_answered(&first));
        }
        let counts = node.forwarder().shared.counts.of(Family::V4, Protocol::Udp);
        assert!(counts.refused(Refused::Descriptors) > 0);
        let [second, ..] = others;
        // The datagrams of new clients are dropped for a while.
        second.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(soon(|| is_answered(&second)));
    });
}
