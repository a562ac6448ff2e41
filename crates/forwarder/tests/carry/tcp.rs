//! Connections of TCP.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forwarder::Refused;
use kernel::netns::privileged_test;
use model::{Family, Protocol};
use rustix::net::{SendFlags, sockopt};

use crate::node::{Node, at_node_port, deadline, pod, soon};

const PORT: u16 = 30_001;

/// A connection through the forwarder: its client, and its endpoint.
fn open(node: &Node, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = node.run(|| TcpStream::connect(at_node_port(PORT))).unwrap();
    client.write_all(b"hello").unwrap();
    let (mut endpoint, _) = listener.accept().unwrap();
    for stream in [&client, &endpoint] {
        stream.set_read_timeout(Some(deadline())).unwrap();
        stream.set_write_timeout(Some(deadline())).unwrap();
    }
    endpoint.read_exact(&mut [0; 5]).unwrap();
    (client, endpoint)
}

fn node_with_endpoint() -> (Node, TcpListener) {
    let mut node = Node::new(1);
    let at = SocketAddr::new(pod(1), 80);
    let listener = node.run(|| TcpListener::bind(at)).unwrap();
    node.serve(Protocol::Tcp, PORT, &[at]);
    (node, listener)
}

#[test]
fn the_end_of_the_forwarder_is_no_end_of_a_transfer() {
    privileged_test(|| {
        let (mut node, listener) = node_with_endpoint();
        let (mut client, mut endpoint) = open(&node, &listener);
        endpoint.write_all(b"the first half").unwrap();
        client.read_exact(&mut [0; 14]).unwrap();
        drop(node.forwarder.take());
        let how_it_ends = |mut stream: TcpStream| stream.read(&mut [0; 1]).map_err(|error| error.kind());
        assert_eq!(how_it_ends(client), Err(ErrorKind::ConnectionReset), "the client");
        assert_eq!(how_it_ends(endpoint), Err(ErrorKind::ConnectionReset), "the endpoint");
    });
}

/// Who has the forwarder may be busy with a commit for longer than the process lives.
#[test]
fn connections_are_reset_at_the_deadline_although_nobody_drops_the_forwarder() {
    privileged_test(|| {
        let (node, listener) = node_with_endpoint();
        let (mut client, mut endpoint) = open(&node, &listener);
        let ending = node.forwarder().ending.clone();
        let drain = Duration::from_millis(500);
        let started = Instant::now();
        let end = std::thread::spawn(move || ending.by(started + drain));
        let how_it_ends = |stream: &mut TcpStream| stream.read(&mut [0; 1]).map_err(|error| error.kind());
        assert_eq!(how_it_ends(&mut client), Err(ErrorKind::ConnectionReset), "the client");
        assert!(started.elapsed() >= drain, "it might have ended by itself");
        assert_eq!(how_it_ends(&mut endpoint), Err(ErrorKind::ConnectionReset), "the endpoint");
        end.join().unwrap();
    });
}

/// The endpoint hangs: it answers the kernel's probes for ever.
#[test]
fn a_client_that_gives_up_an_upload_is_let_go() {
    privileged_test(|| {
        let (node, listener) = node_with_endpoint();
        let open_ones = || node.forwarder().shared.counts.open(Protocol::Tcp);
        let hung: Vec<_> = (0..5)
            .map(|_| {
                let (mut client, endpoint) = open(&node, &listener);
                client.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
                while client.write(&[7; 64 * 1024]).is_ok() {}
                sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
                endpoint
            })
            .collect();
        assert!(soon(|| open_ones() == 0), "{} are left", open_ones());
        drop(hung);
    });
}

/// `splice` stops at it, as it does at the end.
#[test]
fn nothing_is_lost_after_urgent_data() {
    privileged_test(|| {
        let (node, listener) = node_with_endpoint();
        for from_client in [true, false].repeat(5) {
            let (client, endpoint) = open(&node, &listener);
            let (mut sender, mut receiver) =
                if from_client { (client, endpoint) } else { (endpoint, client) };
            let bulk: Vec<u8> = (0..4_000_000_u32).map(|number| (number / 7) as u8).collect();
            let least = bulk.len() + 5_000;
            let (tell, came) = std::sync::mpsc::channel();
            let all = std::thread::spawn(move || {
                let (mut all, mut block) = (Vec::<u8>::new(), vec![0; 1 << 20]);
                loop {
                    match receiver.read(&mut block) {
                        Ok(0) => return all,
                        Ok(count) => all.extend(&block[..count]),
                        Err(error) => panic!("{} of {least} have come: {error}", all.len()),
                    }
                    if all.len() >= least {
                        tell.send(()).unwrap();
                    }
                }
            });
            sender.write_all(&bulk).unwrap();
            rustix::net::send(&sender, b"!", SendFlags::OOB).unwrap();
            sender.write_all(&bulk[..5_000]).unwrap();
            // It need not end for the rest to come.
            came.recv().unwrap();
            sender.shutdown(Shutdown::Write).unwrap();
            let all = all.join().unwrap();
            let after = all.len() - 5_000;
            assert!(all[..bulk.len()] == bulk && all[after..] == bulk[..5_000], "{from_client}: {after}");
            // The endpoint's may be read before its kernel has told of it.
            assert!(after == bulk.len() || all[bulk.len()..after] == *b"!", "{from_client}: {after}");
        }
    });
}

#[test]
fn an_endpoint_that_has_no_port_left_is_not_passed_over() {
    privileged_test(|| {
        let few = || {
            kernel::sysctl::write("net/ipv4/ip_local_port_range", "40000 40019").unwrap();
            kernel::sysctl::write("net/ipv4/tcp_tw_reuse", 0).unwrap();
        };
        let mut node = Node::set_up(1, few);
        let at = SocketAddr::new(pod(1), 80);
        let listener = node.run(|| TcpListener::bind(at)).unwrap();
        std::thread::spawn(move || listener.incoming().for_each(std::mem::forget));
        // Clients need ports as well, for each of two services.
        let services = [PORT, PORT + 1];
        services.iter().for_each(|port| node.serve(Protocol::Tcp, *port, &[at]));
        let count = || node.forwarder().shared.counts.of(Family::V4, Protocol::Tcp);
        let connect = |number: usize| node.run(|| TcpStream::connect(at_node_port(services[number % 2])));
        let clients: Vec<TcpStream> = (0..30).map(|number| connect(number).unwrap()).collect();
        assert!(soon(|| count().refused(Refused::Ports) > 0), "{} clients", clients.len());
        assert_eq!(
            (count().refused(Refused::Endpoints), count().failed_dials.load(Ordering::Relaxed)),
            (0, 0)
        );
    });
}
