//! What happens to clients beyond the limit of connections. It is a process of its own: the limit follows from the open
//! files that it may have.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use forwarder::Refused;
use kernel::netns::privileged_test;
use model::{Family, Protocol};

#[allow(dead_code)]
#[path = "carry/node.rs"]
mod node;

use node::{Node, at_node_port, deadline, pod, soon};

const PORTS: [u16; 2] = [30_001, 30_002];

fn connect(node: &Node, port: u16) -> TcpStream {
    let client = node.run(|| TcpStream::connect(at_node_port(port))).unwrap();
    client.set_read_timeout(Some(deadline())).unwrap();
    client
}

/// Whether the endpoint says what it was told.
fn is_answered(mut client: &TcpStream) -> bool {
    let mut answer = [0; 5];
    client.write_all(b"hello").is_ok() && client.read_exact(&mut answer).is_ok() && answer == *b"hello"
}

#[test]
fn a_service_may_have_half_of_the_connections() {
    privileged_test(|| {
        kernel::process::limit_open_files(std::process::id(), 1_024).unwrap();
        let mut node = Node::new(1);
        let at = SocketAddr::new(pod(1), 80);
        let listener = node.run(|| TcpListener::bind(at)).unwrap();
        std::thread::spawn(move || {
            for peer in listener.incoming().flatten() {
                std::thread::spawn(move || std::io::copy(&mut &peer, &mut &peer));
            }
        });
        PORTS.iter().for_each(|port| node.serve(Protocol::Tcp, *port, &[at]));
        let shared = &node.forwarder().shared;
        let half = shared.limits.tcp / 2;
        let mut clients: Vec<TcpStream> = (0..half).map(|_| connect(&node, PORTS[0])).collect();
        assert!(clients.iter().all(is_answered));
        let refused = || shared.counts.of(Family::V4, Protocol::Tcp).refused(Refused::Limit);
        let how_it_ends = connect(&node, PORTS[0]).read(&mut [0; 1]).map_err(|error| error.kind());
        assert_eq!((how_it_ends, refused()), (Err(ErrorKind::ConnectionReset), 1));
        assert!(is_answered(&connect(&node, PORTS[1])), "another service");
        clients.pop();
        assert!(soon(|| is_answered(&connect(&node, PORTS[0]))), "there is room again");
    });
}
