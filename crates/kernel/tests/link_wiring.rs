//! Veth pairs, addresses, routes, bridges and the address monitor, with real packets.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use kernel::link::{AddressMonitor, Links, Route, Veth, Wake};
use kernel::netns::{Namespace, privileged_test};
use kernel::sysctl;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A namespace in which IPv6 addresses are not checked first, which takes seconds.
fn namespace() -> Namespace {
    let namespace = Namespace::new().unwrap();
    namespace.run(|| sysctl::write("net/ipv6/conf/default/accept_dad", 0).unwrap());
    namespace
}

/// Two namespaces joined by `left` and `right`, both up.
fn pair() -> (Namespace, Namespace) {
    let (left, right) = (namespace(), namespace());
    let veth = Veth { name: "left", index: 100, peer_name: "right", peer_namespace: &right };
    left.run(|| {
        let mut links = Links::open().unwrap();
        links.create_veth(&veth).unwrap();
        links.set_up("left").unwrap();
    });
    right.run(|| Links::open().unwrap().set_up("right").unwrap());
    (left, right)
}

fn ready(ends: &[(&Namespace, &str)]) {
    for (namespace, name) in ends {
        namespace.run(|| Links::open().unwrap().await_ready(name, Duration::from_secs(5)).unwrap());
    }
}

/// Send a datagram across and say how long it took and from where it seemed to come.
fn send(from: &Namespace, to: &Namespace, at: IpAddr) -> (Duration, IpAddr) {
    let receiver = to.run(|| UdpSocket::bind((at, 0))).unwrap();
    let target = receiver.local_addr().unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let start = Instant::now();
    let any: IpAddr = if at.is_ipv4() { ip("0.0.0.0") } else { ip("::") };
    from.run(|| UdpSocket::bind((any, 0)).unwrap().send_to(b"x", target)).unwrap();
    let (_, source) = receiver.recv_from(&mut [0; 8]).unwrap();
    (start.elapsed(), source.ip())
}

#[test]
fn a_pair_carries_both_families_at_once() {
    privileged_test(|| {
        let (left, right) = pair();
        for (here, there) in [("10.1.0.1/24", "10.1.0.2/24"), ("fd00:1::1/64", "fd00:1::2/64")] {
            left.run(|| Links::open().unwrap().add_address("left", net(here)).unwrap());
            right.run(|| Links::open().unwrap().add_address("right", net(there)).unwrap());
            ready(&[(&left, "left"), (&right, "right")]);
            let (took, source) = send(&left, &right, net(there).addr());
            assert_eq!(source, net(here).addr());
            assert!(took < Duration::from_millis(500), "{took:?}");
        }
    });
}

#[test]
fn routes_lead_to_prefixes_and_gateways() {
    privileged_test(|| {
        let (left, right) = pair();
        left.run(|| {
            let mut links = Links::open().unwrap();
            links.add_address("left", net("10.9.0.1/32")).unwrap();
            links.add_route(&Route::direct(net("10.7.0.2/32"), "left")).unwrap();
            links.add_route(&Route::via(net("10.8.0.0/16"), ip("10.7.0.2"))).unwrap();
        });
        right.run(|| {
            let mut links = Links::open().unwrap();
            links.add_address("right", net("10.7.0.2/32")).unwrap();
            links.add_address("lo", net("10.8.3.4/32")).unwrap();
            links.add_route(&Route::onlink(net("0.0.0.0/0"), ip("10.9.0.1"), "right")).unwrap();
        });
        ready(&[(&left, "left"), (&right, "right")]);
        assert_eq!(send(&left, &right, ip("10.8.3.4")).1, ip("10.9.0.1"));
        // The way back prefers what the route says.
        right.run(|| {
            let mut links = Links::open().unwrap();
            links.add_route(&Route::direct(net("10.9.0.1/32"), "right").from(ip("10.8.3.4"))).unwrap();
        });
        assert_eq!(send(&right, &left, ip("10.9.0.1")).1, ip("10.8.3.4"));
        left.run(|| {
            let route = Route::via(net("10.8.0.0/16"), ip("10.7.0.2"));
            Links::open().unwrap().delete_route(&route).unwrap();
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let error = socket.send_to(b"x", "10.8.3.4:9").unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::NetworkUnreachable);
        });
    });
}

#[test]
fn a_bridge_joins_its_ports() {
    privileged_test(|| {
        let (left, right) = pair();
        let third = namespace();
        right.run(|| {
            let mut links = Links::open().unwrap();
            links.create_bridge("br").unwrap();
            let veth = Veth { name: "port", index: 100, peer_name: "third", peer_namespace: &third };
            links.create_veth(&veth).unwrap();
            for port in ["right", "port"] {
                links.enslave(port, "br").unwrap();
                links.set_up(port).unwrap();
            }
            links.set_up("br").unwrap();
        });
        third.run(|| {
            let mut links = Links::open().unwrap();
            links.set_up("third").unwrap();
            links.add_address("third", net("10.1.0.3/24")).unwrap();
        });
        left.run(|| Links::open().unwrap().add_address("left", net("10.1.0.1/24")).unwrap());
        ready(&[(&left, "left"), (&right, "right"), (&right, "port"), (&third, "third")]);
        assert_eq!(send(&left, &third, ip("10.1.0.3")).1, ip("10.1.0.1"));
    });
}

#[test]
fn addresses_are_listed_with_what_decides_their_use() {
    privileged_test(|| {
        let (left, _right) = pair();
        let listed = left.run(|| {
            let mut links = Links::open().unwrap();
            for address in ["10.1.0.1/24", "169.254.1.1/32", "fd00:1::1/64"] {
                links.add_address("left", net(address)).unwrap();
            }
            links.addresses().unwrap()
        });
        let find = |text: &str| *listed.iter().find(|a| a.net == net(text)).unwrap();
        assert!(find("10.1.0.1/24").is_global() && find("fd00:1::1/64").is_global());
        assert!(!find("169.254.1.1/32").is_global() && !find("127.0.0.1/8").is_global());
        assert!(!find("fd00:1::1/64").is_tentative() && !find("fd00:1::1/64").is_deprecated());
        assert_eq!(find("10.1.0.1/24").index, 100);
        assert_eq!(find("::1/128").index, 1);
    });
}

#[test]
fn errors_name_the_object_and_the_reason() {
    privileged_test(|| {
        Namespace::new().unwrap().run(|| {
            let mut links = Links::open().unwrap();
            let absent = links.add_address("eth7", net("10.0.0.1/24")).unwrap_err();
            assert!(absent.to_string().starts_with("adding address 10.0.0.1/24 to eth7: "), "{absent}");
            links.add_address("lo", net("10.0.0.1/24")).unwrap();
            let twice = links.add_address("lo", net("10.0.0.1/24")).unwrap_err();
            assert_eq!(twice.errno(), Some(17), "{twice}");
            assert!(twice.to_string().starts_with("adding address 10.0.0.1/24 to lo: "), "{twice}");
            let route = links.add_route(&Route::via(net("10.5.0.0/16"), ip("192.0.2.1"))).unwrap_err();
            assert!(route.to_string().starts_with("adding route to 10.5.0.0/16 via 192.0.2.1: "), "{route}");
        });
    });
}

#[test]
fn a_link_runs_only_while_both_ends_are_up() {
    privileged_test(|| {
        let (left, right) = (namespace(), namespace());
        let veth = Veth { name: "left", index: 100, peer_name: "right", peer_namespace: &right };
        let error = left.run(|| {
            let mut links = Links::open().unwrap();
            links.create_veth(&veth).unwrap();
            links.set_up("left").unwrap();
            links.await_ready("left", Duration::from_millis(20)).unwrap_err()
        });
        assert!(error.to_string().starts_with("left carries no packets"), "{error}");
    });
}

#[test]
fn deleting_one_end_deletes_the_other() {
    privileged_test(|| {
        let (left, right) = pair();
        left.run(|| Links::open().unwrap().delete("left").unwrap());
        let rest = right.run(|| Links::open().unwrap().links().unwrap());
        assert_eq!(rest.len(), 1, "{rest:?}");
    });
}

#[test]
fn the_monitor_wakes_for_addresses_and_only_then() {
    privileged_test(|| {
        Namespace::new().unwrap().run(|| {
            let mut monitor = AddressMonitor::open().unwrap();
            let mut links = Links::open().unwrap();
            assert_eq!(monitor.wait(Duration::ZERO).unwrap(), Wake::Quiet);
            for address in ["10.1.0.1/24", "fd00:1::1/64"] {
                links.add_address("lo", net(address)).unwrap();
                assert_eq!(monitor.wait(Duration::from_secs(5)).unwrap(), Wake::Changed, "{address}");
                links.delete_address("lo", net(address)).unwrap();
                assert_eq!(monitor.wait(Duration::from_secs(5)).unwrap(), Wake::Changed, "{address}");
            }
            assert_eq!(monitor.wait(Duration::ZERO).unwrap(), Wake::Quiet);
        });
    });
}

#[test]
fn the_monitor_tells_of_an_overrun() {
    privileged_test(|| {
        Namespace::new().unwrap().run(|| {
            let mut monitor = AddressMonitor::open().unwrap();
            let mut links = Links::open().unwrap();
            for _ in 0..2000 {
                links.add_address("lo", net("10.1.0.1/24")).unwrap();
                links.delete_address("lo", net("10.1.0.1/24")).unwrap();
            }
            assert_eq!(monitor.wait(Duration::from_secs(5)).unwrap(), Wake::Overrun);
            assert_eq!(monitor.wait(Duration::ZERO).unwrap(), Wake::Quiet);
        });
    });
}
