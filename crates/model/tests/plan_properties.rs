//! What holds for the plan of every service, whatever its endpoints.

mod pools;
mod world;

use model::{
    AllowedSources, Family, FlowTarget, Masquerade, PlannedEndpoint, Pool, PortPlan, Role, Routing, Service,
    ServicePlan, ServicePort, StaleSet, TrafficPolicy, Verdict, stale_flows,
};
use proptest::prelude::*;
use world::{NODE, Slice, Spot, World, shuffled, world};

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::V4), Just(Family::V6)]
}

/// Every endpoint that offers the port in this family, with the number it listens on.
fn offered<'a>(world: &'a World, port: &PortPlan, family: Family) -> Vec<(&'a Spot, u16)> {
    let mut found = Vec::new();
    for slice in &world.slices {
        for at in slice.ports.iter().filter(|at| at.name == port.name && at.protocol == port.protocol) {
            let spots = slice.endpoints.iter().filter(|spot| Family::of(spot.ip) == family);
            found.extend(spots.filter(|spot| !spot.ip.is_unspecified()).map(|spot| (spot, at.port)));
        }
    }
    found
}

fn usable(spot: &Spot) -> bool {
    spot.ready || (spot.serving && spot.terminating)
}

fn verdicts(routing: Routing) -> Vec<Verdict> {
    match routing {
        Routing::Same(verdict, _) => vec![verdict],
        Routing::Split { outside, inside } => vec![outside, inside],
    }
}

fn check_pool(
    pool: &[PlannedEndpoint],
    offered: &[(&Spot, u16)],
    may_be_own_client: impl Fn(&Spot) -> bool,
) -> Result<(), TestCaseError> {
    prop_assert!(pool.is_sorted());
    prop_assert!(pool.windows(2).all(|two| (two[0].ip, two[0].port) != (two[1].ip, two[1].port)));
    for backend in pool {
        let fits = |spot: &Spot| may_be_own_client(spot) == backend.may_be_own_client;
        let known =
            |(spot, port): &(&Spot, u16)| spot.ip == backend.ip && *port == backend.port && fits(spot);
        prop_assert!(offered.iter().filter(|it| known(it)).any(|(spot, _)| usable(spot)), "{backend:?}");
    }
    Ok(())
}

fn check_port(world: &World, port: &PortPlan, family: Family) -> Result<(), TestCaseError> {
    let offered = offered(world, port, family);
    let any_usable = offered.iter().any(|(spot, _)| usable(spot));
    let any_ready = offered.iter().any(|(spot, _)| spot.ready);
    let is_split = port.destinations.iter().any(|d| matches!(d.routing, Routing::Split { .. }));
    check_pool(&port.cluster_pool, &offered, |spot| is_split || spot.node.is_none_or(|node| node == NODE))?;
    check_pool(&port.local_pool, &offered, |spot| spot.node == Some(NODE))?;
    prop_assert!(port.local_pool.iter().all(|backend| backend.may_be_own_client));
    let is_ready = |b: &PlannedEndpoint| offered.iter().any(|(s, p)| s.ready && s.ip == b.ip && *p == b.port);
    prop_assert!(!any_ready || port.cluster_pool.iter().all(is_ready));
    prop_assert!(port.local_pool.iter().all(is_ready) || !port.local_pool.iter().any(is_ready));

    prop_assert!(!port.destinations.is_empty());
    prop_assert!(port.destinations.is_sorted_by_key(|d| (d.role, d.at)));
    for pool in [Pool::Cluster, Pool::Local] {
        prop_assert!(port.pool(pool).is_empty() || port.uses(pool), "a pool nobody uses");
    }
    for destination in &port.destinations {
        for verdict in verdicts(destination.routing) {
            match verdict {
                Verdict::Forward(pool) => prop_assert!(!port.pool(pool).is_empty()),
                Verdict::Drop => prop_assert!(any_usable && port.local_pool.is_empty()),
                Verdict::Reject => prop_assert!(!any_usable),
            }
        }
        check_masquerade(world, destination.role, destination.routing)?;
        if let Some(AllowedSources { nets, .. }) = destination.allowed_sources.as_deref() {
            prop_assert_eq!(destination.role, Role::LoadBalancerIp);
            prop_assert!(!nets.is_empty() && nets.iter().all(|net| net.prefix_len() > 0));
            prop_assert!(nets.iter().all(|net| Family::of_net(net) == family && net.trunc() == *net));
            prop_assert!(nets.windows(2).all(|two| two[0] < two[1]));
        }
    }
    Ok(())
}

fn check_masquerade(world: &World, role: Role, routing: Routing) -> Result<(), TestCaseError> {
    let policy = world.service.external_policy;
    match (role, routing) {
        (Role::ClusterIp, Routing::Same(_, masquerade)) => {
            prop_assert_eq!(masquerade == Masquerade::Everyone, world.masquerade_all);
        }
        (Role::ClusterIp, Routing::Split { .. }) => prop_assert!(false, "a cluster IP has no outside"),
        (_, Routing::Same(Verdict::Forward(pool), masquerade)) => {
            prop_assert_eq!((policy, pool), (TrafficPolicy::Cluster, Pool::Cluster));
            prop_assert_eq!(masquerade, Masquerade::Everyone);
        }
        (_, Routing::Same(..)) => {}
        (_, Routing::Split { .. }) => prop_assert_eq!(policy, TrafficPolicy::Local),
    }
    Ok(())
}

/// Every destination that forwards, with what it forwards to.
fn reachable(plan: &ServicePlan) -> Vec<(model::Protocol, model::Address, Vec<PlannedEndpoint>)> {
    let mut found = Vec::new();
    for port in &plan.ports {
        for destination in &port.destinations {
            let pools =
                [Pool::Cluster, Pool::Local].into_iter().filter(|p| destination.routing.forwards_to(*p));
            let backends: Vec<_> = pools.flat_map(|pool| port.pool(pool)).copied().collect();
            found.push((port.protocol, destination.at, backends));
        }
    }
    found
}

/// The world as one port sees it: nothing but what bears its name and protocol, a slice for each offer.
fn alone(world: &World, port: &ServicePort) -> World {
    let mut slices = Vec::new();
    for slice in &world.slices {
        let offers = slice.ports.iter().filter(|at| at.name == port.name && at.protocol == port.protocol);
        slices.extend(offers.map(|at| Slice { ports: vec![at.clone()], endpoints: slice.endpoints.clone() }));
    }
    let service = Service { ports: [port.clone()].into(), ..world.service.clone() };
    World { service, slices, masquerade_all: world.masquerade_all }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_keeps_its_promises(world in world(), family in family()) {
        let plan = world.plan(family);
        prop_assert_eq!(plan.cluster_ip, world.service.cluster_ip(family));
        prop_assert!(plan.cluster_ip.is_some() || plan == ServicePlan::default());
        let mut wanted: Vec<_> = plan.wanted().map(|(protocol, at, _)| (protocol, at)).collect();
        wanted.sort_unstable();
        prop_assert!(wanted.windows(2).all(|two| two[0] != two[1]), "an address twice");
        for port in &plan.ports {
            check_port(&world, port, family)?;
        }
    }

    #[test]
    fn a_port_is_planned_as_if_it_were_alone(world in world(), family in family()) {
        let plan = world.plan(family);
        for port in &world.service.ports {
            let alone = alone(&world, port).plan(family);
            prop_assert_eq!(plan.port(&port.name, port.protocol), alone.ports.first());
        }
        prop_assert_eq!(plan.port("absent", model::Protocol::Tcp), None);
    }

    #[test]
    fn order_does_not_matter(
        (world, other) in world().prop_flat_map(|world| (Just(world.clone()), shuffled(world))),
        family in family(),
    ) {
        prop_assert_eq!(world.plan(family), other.plan(family));
    }

    #[test]
    fn stale_flows_spare_the_living_and_find_the_dead(
        old in proptest::option::of(world()), new in proptest::option::of(world()), family in family(),
    ) {
        let [old, new] = [old, new].map(|world| world.map(|world| world.plan(family)));
        let found: StaleSet = stale_flows(old.as_ref(), new.as_ref()).into_iter().collect();
        let [before, after] = [&old, &new].map(|plan| plan.as_ref().map(reachable).unwrap_or_default());
        let stale = |protocol, at, backend: &PlannedEndpoint| {
            let (ip, port) = match at {
                model::Address::Vip(ip, port) => (ip, port),
                model::Address::NodePort(port) => ("192.0.2.1".parse().unwrap(), port),
            };
            let flows = found.lookup(protocol, ip, port, |_| true);
            flows.is_some_and(|flows| flows.is_stale(FlowTarget::Endpoint(backend.ip, backend.port)))
        };
        for (protocol, at, backends) in &after {
            prop_assert!(backends.iter().all(|backend| !stale(*protocol, *at, backend)));
        }
        for (protocol, at, backends) in &before {
            let now = after.iter().find(|(p, a, _)| (p, a) == (protocol, at));
            let live = |b: &&PlannedEndpoint| now.is_some_and(|(.., now)| now.iter().any(|n| (n.ip, n.port) == (b.ip, b.port)));
            prop_assert!(backends.iter().filter(|b| !live(b)).all(|backend| stale(*protocol, *at, backend)));
        }
    }
}
