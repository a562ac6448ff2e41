//! Who is sent where: policies, rejection, silence, masquerade.

use super::*;
use crate::fixtures::{ips, on, port, ready, service, terminating};
use Masquerade::{Everyone, Outsiders};
use Pool::{Cluster, Local};
use Routing::{Same, Split};
use Verdict::{Drop, Forward, Reject};

const AWAY: &[&str] = &["n2"];
const BOTH: &[&str] = &["n1", "n2"];
const NONE: &[&str] = &[];

/// A service with every kind of address.
fn exposed(internal: TrafficPolicy, external: TrafficPolicy) -> Service {
    Service {
        ports: Box::new([port("", Protocol::Tcp, 80, 30080)]),
        external_ips: ips(&["198.51.100.1"]),
        load_balancer_ips: ips(&["203.0.113.1"]),
        internal_policy: internal,
        external_policy: external,
        ..service()
    }
}

fn plan_on(service: &Service, nodes: &[&str]) -> PortPlan {
    let address = |i| format!("10.0.0.{}", i + 1);
    let endpoints: Vec<_> = nodes.iter().enumerate().map(|(i, node)| on(node, ready(&address(i)))).collect();
    plan_one(service, &endpoints)
}

#[test]
fn cluster_ip_by_internal_policy() {
    let cases = [
        (TrafficPolicy::Cluster, BOTH, Forward(Cluster)),
        (TrafficPolicy::Cluster, AWAY, Forward(Cluster)),
        (TrafficPolicy::Cluster, NONE, Reject),
        (TrafficPolicy::Local, BOTH, Forward(Local)),
        (TrafficPolicy::Local, AWAY, Drop),
        (TrafficPolicy::Local, NONE, Reject),
    ];
    for (internal, nodes, verdict) in cases {
        for external in [TrafficPolicy::Cluster, TrafficPolicy::Local] {
            for service in [
                exposed(internal, external),
                Service { internal_policy: internal, external_policy: external, ..service() },
            ] {
                let plan = plan_on(&service, nodes);
                let destination = &plan.destinations[0];
                assert_eq!(destination.role, Role::ClusterIp);
                assert_eq!(
                    destination.routing,
                    Same(verdict, Outsiders),
                    "{internal:?} {external:?} {nodes:?}"
                );
            }
        }
    }
}

#[test]
fn external_addresses_by_external_policy() {
    let cases = [
        (TrafficPolicy::Cluster, BOTH, Same(Forward(Cluster), Everyone)),
        (TrafficPolicy::Cluster, AWAY, Same(Forward(Cluster), Everyone)),
        (TrafficPolicy::Cluster, NONE, Same(Reject, Everyone)),
        (TrafficPolicy::Local, BOTH, Split { outside: Forward(Local), inside: Forward(Cluster) }),
        (TrafficPolicy::Local, AWAY, Split { outside: Drop, inside: Forward(Cluster) }),
        (TrafficPolicy::Local, NONE, Same(Reject, Outsiders)),
    ];
    for (external, nodes, routing) in cases {
        for internal in [TrafficPolicy::Cluster, TrafficPolicy::Local] {
            let plan = plan_on(&exposed(internal, external), nodes);
            let roles: Vec<_> = plan.destinations[1..].iter().map(|d| d.role).collect();
            assert_eq!(roles, [Role::ExternalIp, Role::LoadBalancerIp, Role::NodePort]);
            for destination in &plan.destinations[1..] {
                assert_eq!(destination.routing, routing, "{internal:?} {external:?} {nodes:?}");
            }
        }
    }
}

#[test]
fn each_way_in_alone_is_enough_for_the_short_circuit() {
    let local = exposed(TrafficPolicy::Local, TrafficPolicy::Local);
    let bare = || Service {
        ports: Box::new([port("", Protocol::Tcp, 80, 0)]),
        external_ips: ips(&[]),
        load_balancer_ips: ips(&[]),
        ..local.clone()
    };
    let ways = [
        Service { ports: local.ports.clone(), ..bare() },
        Service { external_ips: local.external_ips.clone(), ..bare() },
        Service { load_balancer_ips: local.load_balancer_ips.clone(), ..bare() },
    ];
    for service in ways {
        let plan = plan_on(&service, AWAY);
        assert_eq!(tails(&plan.cluster_pool), [1]);
        assert_eq!(plan.destinations[1].routing, Split { outside: Drop, inside: Forward(Cluster) });
    }
}

#[test]
fn a_pool_nobody_uses_stays_empty() {
    use TrafficPolicy::{Cluster as C, Local as L};
    // Internal, external policy, exposed; wanted sizes of the pools.
    let cases = [
        (C, C, false, 2, 0),
        (C, L, false, 2, 0),
        (L, C, false, 0, 1),
        (L, L, false, 0, 1),
        (C, C, true, 2, 0),
        (C, L, true, 2, 1),
        (L, C, true, 2, 1),
        (L, L, true, 2, 1),
    ];
    for (internal, external, out, cluster, local) in cases {
        let service = match out {
            true => exposed(internal, external),
            false => Service { internal_policy: internal, external_policy: external, ..service() },
        };
        let plan = plan_on(&service, BOTH);
        let sizes = (plan.cluster_pool.len(), plan.local_pool.len());
        assert_eq!(sizes, (cluster, local), "{internal:?} {external:?} exposed {out}");
    }
}

#[test]
fn a_dying_endpoint_elsewhere_is_still_an_endpoint() {
    let service = exposed(TrafficPolicy::Local, TrafficPolicy::Local);
    let plan = plan_one(&service, &[on("n2", terminating("10.0.0.1"))]);
    assert_eq!(plan.destinations[0].routing, Same(Drop, Outsiders));
    assert_eq!(plan.destinations[1].routing, Split { outside: Drop, inside: Forward(Cluster) });
}

#[test]
fn masquerade_all_concerns_cluster_ips() {
    let ports = http();
    let slices = [slice(&ports, &[on("n1", ready("10.0.0.1"))])];
    let service = exposed(TrafficPolicy::Cluster, TrafficPolicy::Local);
    let plan = plan(
        &service,
        &slices,
        &node(),
        &Settings { masquerade_all: true, ..Settings::default() },
        Family::V4,
    );
    let routings: Vec<_> = plan.ports[0].destinations.iter().map(|d| d.routing).collect();
    let split = Split { outside: Forward(Local), inside: Forward(Cluster) };
    assert_eq!(routings, [Same(Forward(Cluster), Everyone), split, split, split]);
}

#[test]
fn endpoints_that_may_come_as_their_own_clients() {
    use TrafficPolicy::{Cluster as C, Local as L};
    let endpoints = [on("n1", ready("10.0.0.1")), on("n2", ready("10.0.0.2")), ready("10.0.0.3")];
    let cases = [
        (service(), [true, false, true], "here, elsewhere, who knows"),
        (exposed(C, C), [true, false, true], "who comes from elsewhere is masqueraded"),
        (exposed(C, L), [true; 3], "pods of other nodes may be short-circuited"),
        (exposed(L, L), [true; 3], "whatever holds inside"),
    ];
    for (service, wanted, why) in cases {
        let plan = plan_one(&service, &endpoints);
        let own: Vec<_> = plan.cluster_pool.iter().map(|backend| backend.may_be_own_client).collect();
        assert_eq!(own, wanted, "{why}");
        assert!(plan.local_pool.iter().all(|backend| backend.may_be_own_client));
    }
}
