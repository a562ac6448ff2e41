//! Lists of services, and which of them have problems, are made in pieces.

use super::*;

/// Services with 50 ports at 31 addresses each, without endpoints.
fn broad(world: &mut World<Nftables<Simulator>>, count: u8) -> Vec<ServiceKey> {
    let keys: Vec<ServiceKey> = (0..count).map(|number| format!("tenant/broad-{number}").into()).collect();
    for (number, key) in (0..count).zip(&keys) {
        let ports = (1..=50).map(|at| port(&format!("p{at}"), Protocol::Tcp, at)).collect();
        let mut service = service(ports);
        service.cluster_ips = [[10, 96, 1, number].into()].into();
        service.external_ips = (0..30).map(|last| [192, 0, number, last].into()).collect();
        let key = ObjectKey { kind: Kind::Service, path: key.clone() };
        world.state.apply(Object { key, value: Value::Service(Box::new(service)) });
    }
    world.sync();
    keys
}

/// A tenant's services may have thousands of addresses each: an answer ends with the first of these, and goes on with the
/// next question.
#[test]
fn a_list_of_broad_services_is_answered_in_pieces() {
    let mut world = World::new();
    let keys = broad(&mut world, 12);
    let (judged, found) = judge(&keys, &world.state, &world.reconciler);
    let refuses = keys[..2].iter().cloned().map(Judged::Refuses);
    assert_eq!((judged, found), (2, refuses.collect()));
    let (described, rows) = describe(&keys, &world.state, &world.reconciler, &world.lanes);
    assert_eq!((described, rows.len()), (2, 2));
    let (found, rows) = world.served(async |asker| {
        (asker.problematic(&keys, usize::MAX).await.unwrap(), asker.service_rows(&keys).await.unwrap())
    });
    assert_eq!(found, keys);
    assert_eq!(rows.iter().map(|row| &row.service).collect::<Vec<_>>(), keys.iter().collect::<Vec<_>>());
}

/// Of hundreds of ports only the last is refused: everything else has endpoints.
#[test]
fn all_ports_of_a_service_are_judged() {
    let mut world = World::new();
    let ports =
        (1..=1_500).map(|at| ServicePort { name: format!("p{at:04}").into(), ..port("", Protocol::Tcp, at) });
    apply_service(&mut world.state, ports.collect());
    let offered = (1..1_500).map(|at| SlicePort {
        name: format!("p{at:04}").into(),
        protocol: Protocol::Tcp,
        port: 8080,
    });
    let slice = SliceRecord {
        service: "default/web".into(),
        family: Family::V4,
        ports: offered.collect(),
        endpoints: vec![endpoint(2)],
        triggered_ms: None,
    };
    let key = ObjectKey::new(Kind::EndpointSlice, "default", "web-1");
    world.state.apply(Object { key, value: Value::EndpointSlice(slice) });
    world.sync();
    let keys = [ServiceKey::from("default/web")];
    let (found, rows) = world.served(async |asker| {
        (asker.problematic(&keys, 1).await.unwrap(), asker.service_rows(&keys).await.unwrap())
    });
    assert_eq!(found, keys);
    let names: Vec<&str> = rows[0].ports.iter().map(|port| &*port.name).collect();
    assert_eq!((names.len(), names[49], names[50], rows[0].port_count), (51, "p0050", "p1500", 1_500));
    let ports = judge_ports(&keys[0], 50, &world.state, &world.reconciler);
    assert_eq!((ports.next, ports.ports.len()), (Some(50 + 2_000 / 3), 0), "an answer is bounded");
}

#[test]
fn every_one_of_the_first_endpoints_is_looked_at() {
    let mut world = World::new();
    fill(&mut world.state, 3);
    let mut other = service(vec![port("http", Protocol::Tcp, 80)]);
    other.cluster_ips = ["10.96.0.2".parse().unwrap()].into();
    other.external_ips = [].into();
    let key = ObjectKey::new(Kind::Service, "default", "other");
    world.state.apply(Object { key, value: Value::Service(Box::new(other)) });
    let at = |ip: &str| EndpointRecord { ip: ip.parse().unwrap(), ..endpoint(2) };
    apply_slice(&mut world.state, "web-1", ["10.95.0.1", "10.96.0.2", "10.244.0.2"].map(at).into());
    world.sync();
    let key = ServiceKey::from("default/web");
    let row = ServiceRow::of(&key, &world.state, &world.reconciler, &world.lanes).unwrap();
    assert_eq!(row.ports[0].dead_end.as_ref().map(|(ip, _)| ip.to_string()).as_deref(), Some("10.96.0.2"));
}
