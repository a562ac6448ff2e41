//! Everybody reaches whom they should, in both families, and is seen with the right address.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use kernel::netns::privileged_test;
use sandbox::probe::{self, Hold, Pulse, UdpFlow};
use sandbox::{Namespace, Outcome, Place, Sandbox, SandboxSpec, Server, address};

const TIMEOUT: Duration = Duration::from_secs(30);

fn world() -> Sandbox {
    Sandbox::new(&SandboxSpec::default()).unwrap()
}

/// At once, too: a datagram that is lost has no answer, and that TCP had to send a first packet again is counted.
fn answered(from: &Namespace, outcome: &Outcome, by: &str, seen_as: IpAddr) {
    assert_eq!((outcome.by(), outcome.seen_as()), (Some(by), Some(seen_as)), "{outcome:?}");
    let text = from.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap());
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    assert_eq!(
        columns.find(|(name, _)| *name == "TCPSynRetrans"),
        Some(("TCPSynRetrans", "0")),
        "{outcome:?}"
    );
}

/// Every namespace with the two addresses it is to be seen with by a pod.
fn everybody(world: &Sandbox) -> Vec<(&str, &Namespace, [IpAddr; 2])> {
    let mut all: Vec<(&str, &Namespace, [IpAddr; 2])> = vec![
        ("client", &world.client, [address::CLIENT_V4.into(), address::CLIENT_V6.into()]),
        ("node", &world.node, [address::NODE_V4.into(), address::NODE_V6.into()]),
    ];
    all.extend(world.pods().iter().map(|pod| (pod.name.as_str(), &pod.namespace, pod.addresses())));
    all
}

#[test]
fn everybody_reaches_every_pod_by_tcp_and_udp() {
    privileged_test(|| {
        let world = world();
        for pod in world.pods() {
            for (family, ip) in pod.addresses().into_iter().enumerate() {
                let tcp = Server::tcp(&pod.namespace, &pod.name, SocketAddr::new(ip, 80)).unwrap();
                let udp = Server::udp(&pod.namespace, &pod.name, SocketAddr::new(ip, 53)).unwrap();
                for (name, from, addresses) in everybody(&world) {
                    // The node has an address nearer to remote pods, and none nearer to local ones.
                    let seen_as = addresses[family];
                    println!("{name} to {} at {ip}", pod.name);
                    answered(from, &probe::tcp(from, None, tcp.address(), TIMEOUT), &pod.name, seen_as);
                    answered(from, &probe::udp(from, None, udp.address(), TIMEOUT), &pod.name, seen_as);
                }
                assert_eq!((tcp.answered(), udp.answered()), (5, 5));
            }
        }
    });
}

#[test]
fn everybody_reaches_a_pod_by_sctp() {
    privileged_test(|| {
        let world = world();
        let pod = world.pod("a").unwrap();
        for (family, ip) in pod.addresses().into_iter().enumerate() {
            let at = SocketAddr::new(ip, 3868);
            if let Err(error) = kernel::sctp::socket(at) {
                return println!("SKIPPED: this kernel has no SCTP: {error}");
            }
            let server = Server::sctp(&pod.namespace, "a", at).unwrap();
            for (name, from, addresses) in everybody(&world) {
                println!("{name} at {ip}");
                let source = addresses[family];
                let outcome = probe::sctp(from, Some(source), at, TIMEOUT);
                assert_eq!((outcome.by(), outcome.seen_as()), (Some("a"), Some(source)), "{outcome:?}");
            }
            assert_eq!(server.answered(), 5);
            drop(server);
            let outcome = probe::sctp(&world.client, None, at, TIMEOUT);
            assert_eq!(outcome, Outcome::Refused, "by an abort");
        }
    });
}

#[test]
fn both_addresses_of_the_node_are_reached_from_everywhere() {
    privileged_test(|| {
        let world = world();
        let own: [IpAddr; 4] = [
            address::NODE_V4.into(),
            address::NODE_V6.into(),
            address::NODE_OUTER_V4.into(),
            address::NODE_OUTER_V6.into(),
        ];
        for ip in own {
            let server = Server::tcp(&world.node, "node", SocketAddr::new(ip, 80)).unwrap();
            for (name, from, _) in everybody(&world) {
                let outcome = probe::tcp(from, None, server.address(), TIMEOUT);
                assert_eq!(outcome.by(), Some("node"), "{name} to {ip}: {outcome:?}");
            }
        }
    });
}

#[test]
fn the_client_calls_from_each_of_its_addresses() {
    privileged_test(|| {
        let world = world();
        let pod = world.pod("a").unwrap();
        let more: [IpAddr; 2] = ["192.0.2.77".parse().unwrap(), "2001:db8:77::1".parse().unwrap()];
        for address in more {
            world.add_client_address(address).unwrap();
        }
        let second = [address::CLIENT_SECOND_V4.into(), address::CLIENT_SECOND_V6.into()];
        for source in second.into_iter().chain(more) {
            let at = SocketAddr::new(pod.address_like(source), 0);
            let tcp = Server::tcp(&pod.namespace, "a", at).unwrap();
            let udp = Server::udp(&pod.namespace, "a", at).unwrap();
            answered(
                &world.client,
                &probe::tcp(&world.client, Some(source), tcp.address(), TIMEOUT),
                "a",
                source,
            );
            answered(
                &world.client,
                &probe::udp(&world.client, Some(source), udp.address(), TIMEOUT),
                "a",
                source,
            );
        }
    });
}

/// Service, external and load-balancer addresses enter the node: put one on its loopback and it answers.
#[test]
fn virtual_addresses_lead_to_the_node() {
    privileged_test(|| {
        let world = world();
        let ranges: [IpAddr; 6] = [
            address::SERVICES_V4.addr().into(),
            address::SERVICES_V6.addr().into(),
            address::EXTERNAL_V4.addr().into(),
            address::EXTERNAL_V6.addr().into(),
            address::LOAD_BALANCER_V4.addr().into(),
            address::LOAD_BALANCER_V6.addr().into(),
        ];
        for base in ranges {
            let ip: IpAddr = match base {
                IpAddr::V4(ip) => std::net::Ipv4Addr::from_bits(ip.to_bits() + 7).into(),
                IpAddr::V6(ip) => std::net::Ipv6Addr::from_bits(ip.to_bits() + 7).into(),
            };
            world.node.run(|| kernel::link::Links::open().unwrap().add_address("lo", ip.into()).unwrap());
            let server = Server::tcp(&world.node, "virtual", SocketAddr::new(ip, 80)).unwrap();
            for (name, from, _) in everybody(&world) {
                let outcome = probe::tcp(from, None, server.address(), TIMEOUT);
                assert_eq!(outcome.by(), Some("virtual"), "{name} to {ip}: {outcome:?}");
            }
        }
    });
}

/// What the node masquerades carries one of its own addresses, never the gateway's on a pod's link.
#[test]
fn masquerading_shows_an_address_of_the_node() {
    privileged_test(|| {
        let world = world();
        let mut nft = std::process::Command::new("nft");
        nft.args(["add table inet m; add chain inet m c { type nat hook postrouting priority srcnat; }; add rule inet m c masquerade"]);
        world.node.enter(&mut nft).unwrap();
        match nft.status() {
            Ok(status) => assert!(status.success()),
            Err(error) => return println!("SKIPPED: the nft tool cannot be run: {error}"),
        }
        for pod in world.pods() {
            for (ip, own) in pod.addresses().into_iter().zip([
                [address::NODE_V4.into(), address::NODE_OUTER_V4.into()],
                [IpAddr::from(address::NODE_V6), address::NODE_OUTER_V6.into()],
            ]) {
                let server = Server::tcp(&pod.namespace, &pod.name, SocketAddr::new(ip, 80)).unwrap();
                let outcome = probe::tcp(&world.client, None, server.address(), TIMEOUT);
                println!("{} {outcome:?}", pod.name);
                assert!(outcome.seen_as().is_some_and(|seen| own.contains(&seen)), "{outcome:?}");
            }
        }
    });
}

#[test]
fn a_closed_port_refuses_and_a_virtual_address_is_silent() {
    privileged_test(|| {
        let world = world();
        for ip in world.pod("a").unwrap().addresses() {
            // More than the kernel's default rate of ICMP errors.
            for _ in 0..20 {
                let at = SocketAddr::new(ip, 81);
                assert_eq!(probe::tcp(&world.client, None, at, TIMEOUT), Outcome::Refused);
                assert_eq!(probe::udp(&world.client, None, at, TIMEOUT), Outcome::Refused);
            }
        }
        let nobody = SocketAddr::new(address::SERVICES_V4.addr().into(), 80);
        let outcome = probe::tcp(&world.client, None, nobody, Duration::from_millis(50));
        assert_eq!(outcome, Outcome::TimedOut);
        let outcome = probe::udp(&world.client, None, nobody, Duration::from_millis(50));
        assert_eq!(outcome, Outcome::TimedOut);
    });
}

#[test]
fn a_held_connection_lives_until_its_server_ends() {
    privileged_test(|| {
        let world = world();
        let pod = world.pod("c").unwrap();
        for ip in pod.addresses() {
            let server = Server::tcp(&pod.namespace, "c", SocketAddr::new(ip, 80)).unwrap();
            let mut hold = Hold::open(&world.client, None, server.address(), TIMEOUT).unwrap();
            assert_eq!(hold.by(), "c");
            for _ in 0..3 {
                assert!(matches!(hold.ping(TIMEOUT), Pulse::Alive(_)));
            }
            drop(server);
            assert_eq!(hold.ping(TIMEOUT), Pulse::Closed);
            let again = Hold::open(&world.client, None, SocketAddr::new(ip, 80), TIMEOUT);
            assert_eq!(again.unwrap_err(), Outcome::Refused);
        }
    });
}

#[test]
fn a_udp_flow_keeps_its_port() {
    privileged_test(|| {
        let world = world();
        let pod = world.pod("a").unwrap();
        let server = Server::udp(&pod.namespace, "a", SocketAddr::new(pod.v4.into(), 53)).unwrap();
        let source = SocketAddr::new(address::CLIENT_V4.into(), 4444);
        let flow = UdpFlow::open(&world.client, source, server.address()).unwrap();
        assert_eq!(flow.source().unwrap(), source);
        for _ in 0..3 {
            answered(&world.client, &flow.ask(TIMEOUT), "a", source.ip());
        }
        drop(flow);
        let once = probe::udp_from(&world.client, source, server.address(), TIMEOUT);
        answered(&world.client, &once, "a", source.ip());
    });
}

#[test]
fn pods_come_and_go() {
    privileged_test(|| {
        let mut world = world();
        let first = world.add_pod(Place::Local, "d").unwrap().addresses();
        assert!(world.add_pod(Place::Remote, "d").is_err());
        world.remove_pod("d").unwrap();
        let at = SocketAddr::new(first[0], 80);
        let gone = probe::tcp(&world.pod("a").unwrap().namespace, None, at, Duration::from_millis(50));
        assert_eq!(gone.by(), None, "{gone:?}");
        let second = world.add_pod(Place::Local, "d").unwrap();
        assert_ne!(second.addresses(), first);
        let server = Server::tcp(&second.namespace, "d", SocketAddr::new(second.v6.into(), 80)).unwrap();
        let outcome = probe::tcp(&world.client, None, server.address(), TIMEOUT);
        assert_eq!(outcome.by(), Some("d"), "{outcome:?}");
    });
}

#[test]
fn curl_understands_a_server() {
    privileged_test(|| {
        let world = world();
        let pod = world.pod("a").unwrap();
        let _server = Server::tcp(&pod.namespace, "a", SocketAddr::new(pod.v6.into(), 80)).unwrap();
        let mut curl = std::process::Command::new("curl");
        curl.args(["-sS", "--max-time", "5", "--noproxy", "*", "-w", "%{http_code}"]);
        curl.arg(format!("http://[{}]/", pod.v6));
        world.client.enter(&mut curl).unwrap();
        match curl.output() {
            Ok(output) => {
                let wanted = format!("a {}\n200", address::CLIENT_V6);
                assert_eq!(String::from_utf8_lossy(&output.stdout), wanted, "{output:?}");
            }
            Err(error) => println!("SKIPPED: curl cannot be run: {error}"),
        }
    });
}

#[test]
fn hundreds_of_servers_fit_in_a_process() {
    privileged_test(|| {
        let world = world();
        let pod = world.pod("b").unwrap();
        let servers: Vec<Server> = (0..300)
            .map(|i| {
                let (name, at) = (format!("s{i}"), SocketAddr::new(pod.v4.into(), 9000 + i));
                Server::tcp(&pod.namespace, &name, at).unwrap()
            })
            .collect();
        for (i, server) in servers.iter().enumerate() {
            let outcome = probe::tcp(&world.client, None, server.address(), TIMEOUT);
            assert_eq!(outcome.by(), Some(format!("s{i}").as_str()), "{outcome:?}");
        }
    });
}
