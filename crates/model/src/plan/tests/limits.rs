//! What one service may ask for.

use super::*;
use crate::MOST_WEIGHT;
use crate::fixtures::{port, ready, service};

fn wide(ports: u16, endpoints: u32) -> ServicePlan {
    let name = |number: u16| format!("p{number:05}");
    let service = Service {
        ports: (1..=ports).map(|number| port(&name(number), Protocol::Tcp, number, 0)).collect(),
        ..service()
    };
    let offered: Vec<SlicePort> = (1..=ports)
        .map(|number| SlicePort { name: name(number).into(), protocol: Protocol::Tcp, port: 80 })
        .collect();
    let addresses: Vec<String> = (0..endpoints)
        .map(|number| std::net::Ipv4Addr::from_bits(0x0a00_0001 + number).to_string())
        .collect();
    let endpoints = addresses.iter().map(|address| ready(address)).collect();
    let slice = EndpointSlice { ports: &offered, endpoints };
    plan(&service, &[slice], &NodeView::default(), &Settings::default(), Family::V4)
}

#[test]
fn what_the_api_allows_in_one_piece_is_served_whole() {
    for (ports, endpoints) in [(20_000, 3), (1, 50_000), (100, 300)] {
        let plan = wide(ports, endpoints);
        assert_eq!(plan.excess, Excess::default(), "{ports} ports, {endpoints} endpoints");
        assert_eq!(plan.ports.len(), usize::from(ports));
    }
}

#[test]
fn ports_times_endpoints_are_bounded_and_what_is_left_out_is_counted() {
    let plan = wide(20_000, 1_000);
    assert!(plan.weight() <= MOST_WEIGHT, "{}", plan.weight());
    assert!(plan.weight() > MOST_WEIGHT - 3_000, "and no more is left out than has to be: {}", plan.weight());
    assert_eq!(plan.ports.len() + plan.excess.ports, 20_000);
    assert!(plan.ports.iter().all(|port| !port.cluster_pool.is_empty()), "who is served has endpoints");
}

#[test]
fn a_pool_that_is_too_large_is_served_in_part() {
    let plan = wide(1, 200_000);
    assert!(plan.weight() <= MOST_WEIGHT, "{}", plan.weight());
    let served = plan.ports[0].cluster_pool.len();
    assert!(served > 100_000);
    assert_eq!((plan.excess.ports, served + plan.excess.endpoints), (0, 200_000));
}
