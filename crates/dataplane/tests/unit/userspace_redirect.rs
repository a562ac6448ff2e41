//! Unit tests of `userspace/redirect`.

use model::{Address, Protocol, Role, ServiceKey};

use super::*;

fn port(name: &str, number: u16, endpoints: &[u8]) -> Arc<PortPlan> {
    let endpoint =
        |last: &u8| PlannedEndpoint { ip: [10, 0, 0, *last].into(), port: 80, may_be_own_client: false };
    let at = Destination {
        at: Address::Vip([10, 96, 0, 1].into(), number),
        role: Role::ClusterIp,
        routing: Routing::Same(Verdict::Forward(Pool::Cluster), Masquerade::Outsiders),
        allowed_sources: None,
    };
    Arc::new(PortPlan {
        name: name.into(),
        protocol: Protocol::Tcp,
        affinity_seconds: None,
        cluster_pool: endpoints.iter().map(endpoint).collect(),
        local_pool: Box::default(),
        destinations: [at].into(),
    })
}

fn service(ports: Vec<Arc<PortPlan>>) -> ServicePlan {
    ServicePlan { cluster_ip: None, health_check_port: None, ports: ports.into(), excess: Default::default() }
}

#[test]
fn only_ports_that_the_table_serves_otherwise_are_redirected_again() {
    let doors = ["169.254.84.85:20850", "169.254.84.85:20851"].map(|door| door.parse().unwrap());
    let same = port("a", 80, &[1]);
    let old = service(vec![same.clone(), port("b", 81, &[1]), port("c", 82, &[1])]);
    let new = service(vec![same, port("b", 81, &[1, 2]), port("d", 83, &[1])]);
    let key = ServiceKey::from("default/web");
    let [before, after] = change(&Change { service: &key, old: Some(&old), new: Some(&new) }, doors);
    let names = |plan: Option<ServicePlan>| -> Vec<String> {
        plan.unwrap().ports.iter().map(|port| port.name.to_string()).collect()
    };
    // Of `a` nothing changed, and of `b` nothing that the table knows.
    assert_eq!((names(before), names(after)), (vec!["c".to_owned()], vec!["d".to_owned()]));
    let [before, after] = change(&Change { service: &key, old: None, new: Some(&new) }, doors);
    assert_eq!((before, after.unwrap().ports.len()), (None, 3));
}

#[test]
fn a_port_that_is_not_carried_is_rejected_whatever_was_planned() {
    let doors = ["169.254.84.85:20850", "169.254.84.85:20851"].map(|door| door.parse().unwrap());
    let all = Verdict::Forward(Pool::Cluster);
    let here = Verdict::Forward(Pool::Local);
    let routings = [
        Routing::Same(all, Masquerade::Everyone),
        Routing::Same(Verdict::Drop, Masquerade::Outsiders),
        Routing::Same(Verdict::Reject, Masquerade::Outsiders),
        Routing::Split { outside: here, inside: all },
        Routing::Split { outside: Verdict::Drop, inside: all },
    ];
    for routing in routings {
        let planned = port("a", 80, &[1]);
        let at = Destination { routing, ..planned.destinations[0].clone() };
        let planned = PortPlan { protocol: Protocol::Sctp, destinations: [at].into(), ..(*planned).clone() };
        let redirected = redirected(&planned, doors);
        assert_eq!(redirected.destinations[0].routing, REFUSED, "{routing:?}");
        assert_eq!(redirected.cluster_pool.len() + redirected.local_pool.len(), 0, "{routing:?}");
    }
}
