//! Where clients find a service, and who may come in.

use super::*;
use crate::fixtures::{ip, ips, port, ready, service};

fn found(plan: &PortPlan) -> Vec<(Role, Address)> {
    plan.destinations.iter().map(|destination| (destination.role, destination.at)).collect()
}

fn vip(text: &str, port: u16) -> Address {
    Address::Vip(ip(text), port)
}

#[test]
fn destinations_of_one_family_sorted_by_role_and_address() {
    let service = Service {
        ports: Box::new([port("", Protocol::Tcp, 80, 30080)]),
        external_ips: ips(&["198.51.100.9", "198.51.100.1", "2001:db8::9", "198.51.100.9", "0.0.0.0"]),
        load_balancer_ips: ips(&["2001:db8::8", "10.1.1.1"]),
        affinity_seconds: Some(60),
        ..service()
    };
    let plan = plan_v4(&service, &[]);
    assert_eq!((plan.cluster_ip, plan.ports[0].affinity_seconds), (Some(ip("10.96.0.1")), Some(60)));
    let wanted = [
        (Role::ClusterIp, vip("10.96.0.1", 80)),
        (Role::ExternalIp, vip("198.51.100.1", 80)),
        (Role::ExternalIp, vip("198.51.100.9", 80)),
        (Role::LoadBalancerIp, vip("10.1.1.1", 80)),
        (Role::NodePort, Address::NodePort(30080)),
    ];
    assert_eq!(found(&plan.ports[0]), wanted);
}

#[test]
fn external_ips_can_be_ignored() {
    let service = Service {
        external_ips: ips(&["198.51.100.1", "203.0.113.1", "10.96.0.1"]),
        load_balancer_ips: ips(&["203.0.113.1"]),
        ..service()
    };
    let settings = Settings { ignore_external_ips: true, ..Settings::default() };
    let plan = plan(&service, &[], &node(), &settings, Family::V4);
    let wanted = [(Role::ClusterIp, vip("10.96.0.1", 80)), (Role::LoadBalancerIp, vip("203.0.113.1", 80))];
    assert_eq!(found(&plan.ports[0]), wanted);
}

#[test]
fn one_address_of_several_roles() {
    let service = Service {
        external_ips: ips(&["10.96.0.1", "203.0.113.1", "198.51.100.1"]),
        load_balancer_ips: ips(&["203.0.113.1", "10.96.0.1"]),
        source_ranges: Box::new(["192.168.0.0/16".parse().unwrap()]),
        ..service()
    };
    let plan = plan_one(&service, &[ready("10.0.0.1")]);
    let wanted = [
        (Role::ClusterIp, vip("10.96.0.1", 80)),
        (Role::ExternalIp, vip("198.51.100.1", 80)),
        (Role::LoadBalancerIp, vip("203.0.113.1", 80)),
    ];
    assert_eq!(found(&plan), wanted);
    let guarded: Vec<_> = plan.destinations.iter().map(|d| d.allowed_sources.is_some()).collect();
    assert_eq!(guarded, [false, false, true]);
}

#[test]
fn a_family_without_cluster_ip_is_not_served() {
    let service = Service {
        cluster_ips: ips(&["fd00::1"]),
        ports: Box::new([port("", Protocol::Tcp, 80, 30080)]),
        external_ips: ips(&["198.51.100.1"]),
        load_balancer_ips: ips(&["203.0.113.1"]),
        affinity_seconds: Some(60),
        ..service()
    };
    let ports = http();
    assert_eq!(plan_v4(&service, &[slice(&ports, &[ready("10.0.0.1")])]), ServicePlan::default());
}

#[test]
fn of_two_ports_at_one_address_the_first_listed_has_it() {
    let service = Service {
        ports: Box::new([
            port("z", Protocol::Tcp, 80, 30080),
            port("a", Protocol::Tcp, 80, 30081),
            port("udp", Protocol::Udp, 80, 30080),
            port("twin", Protocol::Tcp, 80, 30080),
        ]),
        ..service()
    };
    let plan = plan_v4(&service, &[]);
    let ports: Vec<_> = plan.ports.iter().map(|port| (&*port.name, found(port))).collect();
    let (cluster, node_port) =
        ((Role::ClusterIp, vip("10.96.0.1", 80)), |n| (Role::NodePort, Address::NodePort(n)));
    let wanted = [
        ("a", vec![node_port(30081)]),
        ("udp", vec![cluster, node_port(30080)]),
        ("z", vec![cluster, node_port(30080)]),
    ];
    assert_eq!(ports, wanted);
}

#[test]
fn load_balancer_source_ranges() {
    // What it shows, ranges, wanted for IPv4.
    type Case<'a> = (&'a str, &'a [&'a str], Option<&'a [&'a str]>);
    let cases: [Case<'_>; 8] = [
        ("none", &[], None),
        (
            "sorted, truncated, unique",
            &["172.16.0.0/12", "10.9.8.7/8", "10.0.0.0/8"],
            Some(&["10.0.0.0/8", "172.16.0.0/12"]),
        ),
        ("a /0 admits all", &["10.0.0.0/8", "0.0.0.0/0"], None),
        ("any address with /0 too", &["1.2.3.4/0"], None),
        ("the other family only", &["fd00::/8"], None),
        ("the other family's /0", &["10.0.0.0/8", "::/0"], Some(&["10.0.0.0/8"])),
        (
            "the node may come as the balancer",
            &["192.0.2.0/24"],
            Some(&["192.0.2.0/24", "203.0.113.1/32", "203.0.113.2/32"]),
        ),
        (
            "once, if a range is the balancer's address",
            &["192.0.2.0/24", "203.0.113.1/32", "203.0.113.2/32"],
            Some(&["192.0.2.0/24", "203.0.113.1/32", "203.0.113.2/32"]),
        ),
    ];
    for (what, ranges, wanted) in cases {
        let service = Service {
            ports: Box::new([port("", Protocol::Tcp, 80, 30080)]),
            external_ips: ips(&["198.51.100.1"]),
            load_balancer_ips: ips(&["203.0.113.2", "203.0.113.1", "2001:db8::7"]),
            source_ranges: ranges.iter().map(|net| net.parse().unwrap()).collect(),
            ..service()
        };
        for destination in plan_one(&service, &[ready("10.0.0.1")]).destinations {
            let wanted = wanted.filter(|_| destination.role == Role::LoadBalancerIp);
            assert_eq!(
                destination.allowed_sources.is_some(),
                wanted.is_some(),
                "{what}: {:?}",
                destination.role
            );
            let wanted = wanted.unwrap_or_default().iter().map(|net| net.parse().unwrap());
            let wanted: Vec<IpNet> = wanted.collect();
            assert_eq!(destination.sources().collect::<Vec<_>>(), wanted, "{what}: {:?}", destination.role);
        }
    }
}

/// Each admitted to each would be a number squared.
#[test]
fn of_many_balancer_addresses_each_admits_itself() {
    let addresses = |count: u8| (1..=count).map(|last| IpAddr::from([203, 0, 113, last])).collect();
    let range: IpNet = "192.0.2.0/24".parse().unwrap();
    for (count, each) in [(32, 33), (33, 2), (250, 2)] {
        let service =
            Service { load_balancer_ips: addresses(count), source_ranges: Box::new([range]), ..service() };
        let plan = plan_one(&service, &[ready("10.0.0.1")]);
        let guarded = plan.destinations.iter().filter(|at| at.role == Role::LoadBalancerIp);
        for destination in guarded {
            let sources: Vec<IpNet> = destination.sources().collect();
            let Address::Vip(own, _) = destination.at else { panic!("{destination:?}") };
            assert_eq!((sources.len(), sources[0]), (each, range), "{count} addresses");
            assert!(sources.contains(&IpNet::from(own)), "{count} addresses");
        }
    }
}

#[test]
fn an_ipv6_balancer_is_admitted_with_its_full_length() {
    let service = Service {
        load_balancer_ips: ips(&["2001:db8:1::7", "203.0.113.1"]),
        source_ranges: Box::new(["2001:db8::/64".parse().unwrap()]),
        ..service()
    };
    let plan = plan(&service, &[], &node(), &Settings::default(), Family::V6);
    let allowed: Vec<IpNet> = plan.ports[0].destinations[1].sources().collect();
    assert_eq!(allowed, ["2001:db8::/64".parse().unwrap(), "2001:db8:1::7/128".parse::<IpNet>().unwrap()]);
}

#[test]
fn what_others_own_is_given_up_together_with_its_pool() {
    let service = Service {
        ports: Box::new([port("", Protocol::Tcp, 80, 30080), port("other", Protocol::Udp, 81, 0)]),
        internal_policy: TrafficPolicy::Local,
        ..service()
    };
    let here = crate::fixtures::on("n1", ready("10.0.0.1"));
    let ports = http();
    let whole = plan_v4(&service, &[slice(&ports, &[here])]);
    assert_eq!(whole.wanted().count(), 3);

    let mut same = whole.clone();
    same.retain(|_, _| true);
    assert_eq!(same, whole);

    let mut less = whole.clone();
    less.retain(|protocol, at| protocol == Protocol::Tcp && at != Address::NodePort(30080));
    assert_eq!(less.wanted().collect::<Vec<_>>(), [(Protocol::Tcp, vip("10.96.0.1", 80), Role::ClusterIp)]);
    assert_eq!((tails(&less.ports[0].cluster_pool), tails(&less.ports[0].local_pool)), (vec![], vec![1]));
    assert_eq!(less.cluster_ip, whole.cluster_ip);
}
