//! Many services, so that trees have grown and shrunk: each is found, and nothing else is.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use model::{NodePlan, NodePortAddresses, Planned, Protocol, Service, ServicePort, plan_node};
use simulate::{Host, Outcome, Rejection, Xorshift, walk};

use super::common::{ip, node, service};
use super::packets::packet;
use super::*;

/// Services by number; what a number's addresses, ports and endpoint are follows from it.
#[derive(Default)]
struct Many {
    services: BTreeMap<ServiceKey, u32>,
}

const FAMILIES: [Family; 2] = Family::BOTH;
const NUMBERS: u32 = 900;

fn name(number: u32) -> ServiceKey {
    format!("default/s{number}").as_str().into()
}

/// Spread over the range, as an apiserver allots addresses.
fn spread(number: u32) -> u32 {
    1 + number * 40_503 % 65_521
}

fn cluster_ip(number: u32, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from_bits(0x0a60_0000 + spread(number)).into(),
        Family::V6 => Ipv6Addr::from_bits(0xfd00_0096_u128 << 96 | u128::from(spread(number))).into(),
    }
}

fn external_ip(number: u32, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from_bits(0xc633_6400 + number).into(),
        // Few bits that differ, far from each other: the deepest trees.
        Family::V6 => {
            let bits = (0..12).filter(|bit| number >> bit & 1 == 1).map(|bit| 1_u128 << (8 * bit));
            Ipv6Addr::from_bits(0x2001_0db8_u128 << 96 | bits.sum::<u128>()).into()
        }
    }
}

fn endpoint(number: u32, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from_bits(0x0af4_0000 + number).into(),
        Family::V6 => Ipv6Addr::from_bits(0xfd00_0244_u128 << 96 | u128::from(number)).into(),
    }
}

fn node_port(number: u32) -> u16 {
    30_000 + u16::try_from(number).unwrap()
}

impl Planner for Many {
    fn plan(&self, key: &ServiceKey, family: Family) -> Option<Planned> {
        let number = *self.services.get(key)?;
        let port = ServicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 80,
            node_port: NonZeroU16::new(node_port(number)),
        };
        let service = Service {
            cluster_ips: FAMILIES.map(|family| cluster_ip(number, family)).into(),
            external_ips: FAMILIES.map(|family| external_ip(number, family)).into(),
            ports: [port].into(),
            ..service(1)
        };
        // Some have no endpoints and stand in the trees of those.
        let endpoints = (!number.is_multiple_of(7)).then(|| model::Endpoint {
            ip: endpoint(number, family),
            ready: true,
            serving: true,
            terminating: false,
            node: Some(if number.is_multiple_of(2) { "here" } else { "there" }),
            hints: None,
        });
        let ports = [model::SlicePort { name: "http".into(), protocol: Protocol::Tcp, port: 8080 }];
        let slice = model::EndpointSlice { ports: &ports, endpoints: endpoints.into_iter().collect() };
        let plan = model::plan(&service, &[slice], &node(), &model::Settings::default(), family);
        Some(Planned { plan, created: 0 })
    }

    fn services(&self) -> Vec<ServiceKey> {
        self.services.keys().cloned().collect()
    }

    fn node(&self, family: Family) -> NodePlan {
        let cidrs = ["10.96.0.0/16", "fd00:96::/112"].map(|net| net.parse().unwrap());
        plan_node(&node(), &NodePortAddresses::Primary, model::OnLoopback::Never, &cidrs, family)
    }
}

/// What becomes of a packet of a pod: the endpoint it meets, or how it is refused.
fn ask(reconciler: &mut Simulated, to: IpAddr, port: u16) -> Result<IpAddr, Outcome> {
    let family = Family::of(to);
    let client = endpoint(60_000, family).to_string();
    let host = Host::new([ip("192.168.50.2"), ip("fd00:50::2")]);
    let tables = reconciler.backend().tables(family).unwrap();
    let journey = walk(tables, &host, packet(&client, &to.to_string(), port), &mut |_| 0);
    journey.delivery().map(|delivery| delivery.to).ok_or(journey.outcome)
}

fn check(reconciler: &mut Simulated, many: &Many, number: u32, family: Family) {
    let node_ip = node().primary[family.index()].unwrap();
    let reset = Err(Outcome::Rejected(Rejection::TcpReset));
    let (cluster, external) = (cluster_ip(number, family), external_ip(number, family));
    let is_there = many.services.contains_key(&name(number));
    let served = match is_there {
        true if number.is_multiple_of(7) => reset,
        true => Ok(endpoint(number, family)),
        false => Ok(external),
    };
    let about = |what: &str| format!("{family} {number}, {what}");
    assert_eq!(ask(reconciler, external, 80), served, "{}", about("external IP"));
    let served_or = |other| if is_there { served } else { other };
    assert_eq!(ask(reconciler, node_ip, node_port(number)), served_or(Ok(node_ip)), "{}", about("node port"));
    assert_eq!(ask(reconciler, cluster, 80), served_or(Err(Outcome::Dropped)), "{}", about("cluster IP"));
    let other = if is_there { reset } else { Err(Outcome::Dropped) };
    assert_eq!(ask(reconciler, cluster, 81), other, "{}", about("another port of the cluster IP"));
}

#[test]
fn each_is_found_after_many_changes_and_the_others_are_not() {
    let (mut reconciler, mut many, mut random) = (reconciler(), Many::default(), Xorshift::new(1));
    for step in 0..8 {
        let changed: Vec<u32> =
            (0..if step % 4 == 0 { 400 } else { 9 }).map(|_| random.draw(NUMBERS)).collect();
        for number in &changed {
            match many.services.remove(&name(*number)) {
                Some(_) if step % 4 != 0 => {}
                _ => drop(many.services.insert(name(*number), *number)),
            }
        }
        let dirty: Vec<ServiceKey> = changed.iter().map(|number| name(*number)).collect();
        for family in FAMILIES {
            assert_eq!(reconciler.sync(family, &dirty, &many).unwrap().full, step == 0);
            (0..200).for_each(|_| check(&mut reconciler, &many, random.draw(NUMBERS), family));
        }
    }
    for family in FAMILIES {
        (0..NUMBERS).for_each(|number| check(&mut reconciler, &many, number, family));
    }
    assert_as_fresh(&mut reconciler, &many, "in the end");
}
