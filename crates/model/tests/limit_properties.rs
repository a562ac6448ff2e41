//! Services around the most that one may have: what is served fits, and what is left out is counted.

use std::net::{IpAddr, Ipv4Addr};

use model::{
    Endpoint, EndpointSlice, Family, MOST_WEIGHT, NodeView, Pool, Protocol, Service, ServicePlan,
    ServicePort, Settings, SlicePort, TrafficPolicy,
};
use proptest::prelude::*;

/// A service of which every port has as much as every other.
#[derive(Clone, Copy, Debug)]
struct Size {
    ports: u16,
    addresses: u32,
    ranges: u32,
    endpoints: u32,
    /// One in so many is on this node.
    local: u32,
    policies: [TrafficPolicy; 2],
}

fn addresses(base: u32, count: u32) -> impl Iterator<Item = IpAddr> {
    (0..count).map(move |n| IpAddr::from(Ipv4Addr::from_bits(base + n)))
}

impl Size {
    fn plan(self) -> ServicePlan {
        let port = |number: u16| ServicePort {
            name: format!("p{number}").into(),
            protocol: Protocol::Tcp,
            port: number,
            node_port: None,
        };
        let service = Service {
            cluster_ips: [IpAddr::from([10, 96, 0, 1])].into(),
            ports: (1..=self.ports).map(port).collect(),
            external_ips: [].into(),
            load_balancer_ips: addresses(0xc633_0000, self.addresses).collect(),
            source_ranges: addresses(0xc000_0000, self.ranges).map(Into::into).collect(),
            affinity_seconds: None,
            internal_policy: self.policies[0],
            external_policy: self.policies[1],
            health_check_node_port: None,
            created: 0,
        };
        let offer =
            |port: &ServicePort| SlicePort { name: port.name.clone(), protocol: Protocol::Tcp, port: 80 };
        let offered: Vec<SlicePort> = service.ports.iter().map(offer).collect();
        let node_of = |n: u32| if n.is_multiple_of(self.local) { "here" } else { "elsewhere" };
        let endpoint = |(ip, n)| Endpoint {
            ip,
            ready: true,
            serving: true,
            terminating: false,
            node: Some(node_of(n)),
            hints: None,
        };
        let endpoints = addresses(0x0a00_0000, self.endpoints).zip(0..).map(endpoint).collect();
        let slice = EndpointSlice { ports: &offered, endpoints };
        let node = NodeView { name: "here".into(), ..NodeView::default() };
        model::plan(&service, &[slice], &node, &Settings::default(), Family::V4)
    }

    /// Places in the pools of one port.
    fn places(self) -> usize {
        let whole = Size { ports: 1, addresses: self.addresses.min(1), ranges: 0, ..self }.plan();
        whole.ports[0].cluster_pool.len() + whole.ports[0].local_pool.len()
    }
}

fn size() -> impl Strategy<Value = Size> {
    let policy = || prop_oneof![Just(TrafficPolicy::Cluster), Just(TrafficPolicy::Local)];
    let few_or_many = |few: u32, many: u32| prop_oneof![1..few, 1..many];
    (
        prop_oneof![1..20u16, 1..2_000u16],
        few_or_many(20, 400),
        0..20u32,
        few_or_many(300, 20_000),
        1..300u32,
        [policy(), policy()],
    )
        .prop_map(|(ports, addresses, ranges, endpoints, local, policies)| Size {
            ports,
            addresses: addresses - 1,
            ranges,
            endpoints,
            local,
            policies,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_served_fits_and_the_rest_is_counted(size in size()) {
        let plan = size.plan();
        prop_assert!(plan.weight() <= MOST_WEIGHT, "{}", plan.weight());
        prop_assert_eq!(plan.ports.len() + plan.excess.ports as usize, usize::from(size.ports));
        let served: usize = plan.ports.iter().map(|port| port.cluster_pool.len() + port.local_pool.len()).sum();
        prop_assert_eq!(served + plan.excess.endpoints as usize, plan.ports.len() * size.places());
        for (port, pool) in plan.ports.iter().flat_map(|port| Pool::BOTH.map(|pool| (port, pool))) {
            prop_assert_eq!(port.pool(pool).is_empty(), !port.uses(pool));
        }
        if !plan.excess.is_none() && plan.ports.len() > 1 {
            let heaviest = plan.ports.iter().map(|port| port.weight()).max().unwrap_or_default();
            prop_assert!(plan.weight() + heaviest > MOST_WEIGHT, "another port would have fitted");
        }
    }
}
