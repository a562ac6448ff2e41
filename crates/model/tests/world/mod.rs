//! Random services with endpoints: few names and addresses, so that everything collides often.

#![allow(clippy::unwrap_used)] // Strategies are tests too, but clippy sees no #[test] on them.

use std::net::IpAddr;

use model::{
    Endpoint, EndpointSlice, Family, Hints, NodeView, Protocol, Service, ServicePlan, ServicePort, Settings,
    SlicePort, TrafficPolicy,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::subsequence;

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) service: Service,
    pub(crate) slices: Vec<Slice>,
    pub(crate) masquerade_all: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) ports: Vec<SlicePort>,
    pub(crate) endpoints: Vec<Spot>,
}

/// An endpoint that owns what it refers to.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) ip: IpAddr,
    pub(crate) ready: bool,
    pub(crate) serving: bool,
    pub(crate) terminating: bool,
    pub(crate) node: Option<&'static str>,
    pub(crate) hints: Option<Hints>,
}

pub(crate) const NODE: &str = "n1";

impl World {
    pub(crate) fn plan(&self, family: Family) -> ServicePlan {
        let slices: Vec<_> = self.slices.iter().map(|slice| slice.view(&slice.ports)).collect();
        self.plan_of(&slices, family)
    }

    /// The plan with other slices.
    pub(crate) fn plan_of(&self, slices: &[EndpointSlice<'_>], family: Family) -> ServicePlan {
        let node = NodeView {
            name: NODE.into(),
            zone: Some("z1".into()),
            primary: ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse().ok()),
            addresses: Vec::new(),
        };
        let settings = Settings { masquerade_all: self.masquerade_all, ..Settings::default() };
        model::plan(&self.service, slices, &node, &settings, family)
    }
}

impl Slice {
    /// Its endpoints, at these ports.
    pub(crate) fn view<'a>(&'a self, ports: &'a [SlicePort]) -> EndpointSlice<'a> {
        EndpointSlice { ports, endpoints: self.endpoints.iter().map(Spot::view).collect() }
    }
}

impl Spot {
    fn view(&self) -> Endpoint<'_> {
        let Spot { ip, ready, serving, terminating, node, ref hints } = *self;
        Endpoint { ip, ready, serving, terminating, node, hints: hints.as_ref() }
    }
}

pub(crate) fn protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp), Just(Protocol::Sctp)]
}

pub(crate) fn world() -> impl Strategy<Value = World> {
    (service(), vec(slice(), 0..4), any::<bool>()).prop_map(|(service, slices, masquerade_all)| World {
        service,
        slices,
        masquerade_all,
    })
}

/// The same world with slices, endpoints and ports in another order.
pub(crate) fn shuffled(world: World) -> impl Strategy<Value = World> {
    let World { service, slices, masquerade_all } = world;
    let slices: Vec<_> = slices
        .into_iter()
        .map(|slice| (Just(slice.ports).prop_shuffle(), Just(slice.endpoints).prop_shuffle()))
        .collect();
    let ports = Just(service.ports.to_vec()).prop_shuffle();
    (Just(service), ports, slices).prop_flat_map(move |(service, ports, slices)| {
        let service = Service { ports: ports.into(), ..service };
        let slices: Vec<_> =
            slices.into_iter().map(|(ports, endpoints)| Slice { ports, endpoints }).collect();
        Just(slices).prop_shuffle().prop_map(move |slices| World {
            service: service.clone(),
            slices,
            masquerade_all,
        })
    })
}

fn service() -> impl Strategy<Value = Service> {
    let policy = || prop_oneof![Just(TrafficPolicy::Cluster), Just(TrafficPolicy::Local)];
    let outside = ["198.51.100.1", "198.51.100.2", "10.96.0.1", "2001:db8::5", "fd00::1"];
    let ranges = ["10.0.0.0/8", "192.0.2.0/24", "0.0.0.0/0", "2001:db8::/32"];
    let text = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
    (
        subsequence(text(&["10.96.0.1", "fd00::1"]), 1..=2),
        subsequence(ports(), 0..=4),
        subsequence(text(&outside), 0..=3),
        subsequence(text(&outside), 0..=3),
        subsequence(ranges.map(|net| net.parse().unwrap()).to_vec(), 0..=3),
        (policy(), policy(), option::of(1..100u32)),
    )
        .prop_map(|(cluster_ips, ports, external, balancers, ranges, (internal, outer, affinity))| {
            Service {
                cluster_ips: cluster_ips.into(),
                ports: ports.into(),
                external_ips: external.into(),
                load_balancer_ips: balancers.into(),
                source_ranges: ranges.into(),
                affinity_seconds: affinity,
                internal_policy: internal,
                external_policy: outer,
                health_check_node_port: None,
                created: 0,
            }
        })
}

/// No two of them at one address: of such twins the first listed wins, which is a matter of order.
fn ports() -> Vec<ServicePort> {
    let port = |name: &str, protocol, port, node_port: u16| ServicePort {
        name: name.into(),
        protocol,
        port,
        node_port: node_port.try_into().ok(),
    };
    vec![
        port("a", Protocol::Tcp, 80, 30080),
        port("b", Protocol::Udp, 80, 30080),
        port("c", Protocol::Udp, 53, 0),
        port("d", Protocol::Sctp, 80, 30081),
    ]
}

fn slice() -> impl Strategy<Value = Slice> {
    let names = prop_oneof![Just("a"), Just("b"), Just("c"), Just("d")];
    let port = (names, protocol(), 8080..8082u16);
    let port = port.prop_map(|(name, protocol, port)| SlicePort { name: name.into(), protocol, port });
    (vec(port, 0..6), vec(spot(), 0..6)).prop_map(|(ports, endpoints)| Slice { ports, endpoints })
}

fn spot() -> impl Strategy<Value = Spot> {
    let ips = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "0.0.0.0", "fd00::a", "fd00::b"];
    let ip = proptest::sample::select(ips.map(|ip| ip.parse().unwrap()).to_vec());
    let names = |names: [&'static str; 2]| {
        subsequence(names.to_vec(), 0..=2).prop_map(|names| names.into_iter().map(Box::from).collect())
    };
    let hints = (names(["z1", "z2"]), names([NODE, "n2"])).prop_map(|(zones, nodes)| Hints { zones, nodes });
    let node = option::of(prop_oneof![Just(NODE), Just("n2")]);
    (ip, any::<[bool; 3]>(), node, option::weighted(0.8, hints)).prop_map(
        |(ip, [ready, serving, terminating], node, hints)| Spot {
            ip,
            ready,
            serving,
            terminating,
            node,
            hints,
        },
    )
}
