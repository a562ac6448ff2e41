//! What one service may ask for.

use super::*;
use crate::MOST_WEIGHT;
use crate::fixtures::{ips, on, port, ready, service, terminating};
use crate::plan::limit::MOST_READ;

fn name(number: u16) -> String {
    format!("p{number:05}")
}

fn service_of(ports: u16) -> Service {
    let ports = (1..=ports).map(|number| port(&name(number), Protocol::Tcp, number, 0)).collect();
    Service { ports, ..service() }
}

fn wide(ports: u16, endpoints: u32) -> ServicePlan {
    wide_of(service_of(ports), endpoints)
}

fn wide_of(service: Service, endpoints: u32) -> ServicePlan {
    let offer = |port: &ServicePort| slice_port(&port.name, port.protocol, 80);
    let offered: Vec<SlicePort> = service.ports.iter().map(offer).collect();
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
    assert_eq!(plan.ports.len() + plan.excess.ports as usize, 20_000);
    assert!(plan.ports.iter().all(|port| !port.cluster_pool.is_empty()), "who is served has endpoints");
}

#[test]
fn a_pool_that_is_too_large_is_served_in_part() {
    let plan = wide(1, 200_000);
    assert!(plan.weight() <= MOST_WEIGHT, "{}", plan.weight());
    let served = plan.ports[0].cluster_pool.len();
    assert!(served > 100_000);
    assert_eq!((plan.excess.ports, served + plan.excess.endpoints as usize), (0, 200_000));
}

/// A pool that stood once for all addresses is copied for each when little of it is left.
#[test]
fn what_is_cut_of_the_last_port_fits_as_it_is_copied_then() {
    let external_ips = (1..=30).map(|n| IpAddr::from([198, 51, 100, n])).collect();
    let plan = wide_of(Service { external_ips, ..service_of(40) }, 4_950);
    assert!(plan.weight() <= MOST_WEIGHT, "{}", plan.weight());
    let sizes: Vec<usize> = plan.ports.iter().map(|port| port.cluster_pool.len()).collect();
    assert_eq!(sizes, [vec![4_950; 30], vec![1]].concat());
    assert_eq!(plan.excess, Excess { ports: 9, endpoints: 4_949 });
}

/// Thirteen slices, and each port is offered by others of them: what is left for this node is nothing, but all of it has
/// to be looked at.
#[test]
fn endpoints_in_ever_different_combinations_are_read_up_to_a_limit() {
    const PORTS: u16 = 8_000;
    let lists = (0..13).map(|bit| {
        let offered = (1..=PORTS).filter(move |number| number >> bit & 1 == 1);
        offered.map(|number| slice_port(&name(number), Protocol::Tcp, 80)).collect::<Vec<_>>()
    });
    let lists: Vec<_> = lists.collect();
    let of_slice = |slice: u32| {
        let addresses =
            (0..1_000).map(move |n| std::net::Ipv4Addr::from_bits(0x0a00_0001 + slice * 1_000 + n));
        addresses.map(|address| on("other", ready(&address.to_string()))).collect::<Vec<_>>()
    };
    let slices: Vec<_> = lists
        .iter()
        .zip(0..)
        .map(|(ports, slice)| EndpointSlice { ports, endpoints: of_slice(slice) })
        .collect();
    let service = Service { internal_policy: TrafficPolicy::Local, ..service_of(PORTS) };
    let plan = plan_v4(&service, &slices);

    assert!(plan.excess.ports > 0);
    assert_eq!(plan.ports.len() + plan.excess.ports as usize, usize::from(PORTS));
    let slices_of = |port: &PortPlan| port.name[1..].parse::<u16>().unwrap().count_ones() as usize;
    let combined = plan.ports.iter().map(|port| slices_of(port)).filter(|slices| *slices > 1);
    let read = 1_000 * combined.sum::<usize>();
    assert!((MOST_READ..MOST_READ + 13_000).contains(&read), "{read}");
    assert!(plan.port(&name(4096), Protocol::Tcp).is_some(), "one slice alone is read anyway");
}

/// What the kernel holds: a small pool once for each address that leads to it, a large one once.
#[test]
fn pools_are_weighed_as_they_are_copied() {
    let endpoints = |count: u32| {
        let addresses = (0..count).map(|n| std::net::Ipv4Addr::from_bits(0x0a00_0001 + n));
        addresses.map(|address| on("n1", ready(&address.to_string()))).collect::<Vec<_>>()
    };
    let service = |addresses: u8| Service {
        external_ips: (1..addresses).map(|n| IpAddr::from([198, 51, 100, n])).collect(),
        ..service()
    };
    // Addresses, endpoints, whether the pool is shared.
    for (addresses, count, is_shared) in
        [(1, 256, false), (1, 257, true), (2, 300, true), (16, 256, false), (17, 240, false), (17, 241, true)]
    {
        let plan = plan_one(&service(addresses), &endpoints(count));
        assert_eq!(plan.shares_pools(), is_shared, "{addresses} addresses, {count} endpoints");
        let (addresses, count) = (usize::from(addresses), plan.cluster_pool.len());
        let copies = if is_shared { 1 } else { addresses };
        assert_eq!(plan.weight(), 3 * addresses + 2 * count * copies);
    }

    // Only the cluster IP leads to the pool of policy Local, and only the others to that of policy Cluster.
    let inside = Service { internal_policy: TrafficPolicy::Local, ..service(31) };
    let plan = plan_one(&inside, &endpoints(136));
    assert!(!plan.shares_pools());
    assert_eq!(plan.weight(), 3 * 31 + 2 * 136 * (30 + 1));
    let plan = plan_one(&inside, &endpoints(137));
    assert!(plan.shares_pools(), "both or none");
    assert_eq!(plan.weight(), 3 * 31 + 2 * (137 + 137));

    // An address whose clients are split leads to both.
    let split =
        Service { external_policy: TrafficPolicy::Local, external_ips: ips(&["198.51.100.1"]), ..service(1) };
    let plan = plan_one(&split, &[ready("10.0.0.1"), on("n1", ready("10.0.0.2")), terminating("10.0.0.3")]);
    assert_eq!(plan.weight(), 3 * 2 + 2 * (2 * 2 + 1));
}
