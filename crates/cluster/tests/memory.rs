//! How much a state of 10,000 services with 5 endpoints each weighs. Alone in its process, for the allocator counts all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cluster::{
    ClusterState, EndpointRecord, Kind, Object, ObjectKey, SliceRecord, Value, objects, translate,
};
use model::{Family, Protocol, SlicePort};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const SERVICES: usize = 10_000;
const ENDPOINTS: usize = 5;
const MOST_BYTES: usize = 4_000_000;

fn service(i: usize) -> Object {
    let source = serde_json::json!({
        "metadata": { "namespace": format!("team-{}", i % 50), "name": format!("service-{i}") },
        "spec": {
            "clusterIP": format!("10.96.{}.{}", i / 256, i % 256),
            "ports": [{ "name": "http", "port": 80 }]
        }
    });
    let source: objects::Service = serde_json::from_value(source).unwrap();
    match translate::service(source).unwrap().outcome {
        cluster::Outcome::Object(object) => object,
        other => panic!("{other:?}"),
    }
}

fn slice(i: usize) -> Object {
    let endpoint = |e: usize| EndpointRecord {
        ip: std::net::Ipv4Addr::from_bits(0x0a80_0000 + (i * ENDPOINTS + e) as u32).into(),
        ready: true,
        serving: true,
        terminating: false,
        node: Some(format!("node-{}", (i + e) % 1_000).into()),
        hints: None,
    };
    let record = SliceRecord {
        service: format!("team-{}/service-{i}", i % 50).into(),
        family: Family::V4,
        ports: Box::new([SlicePort { name: "http".into(), protocol: Protocol::Tcp, port: 8080 }]),
        endpoints: (0..ENDPOINTS).map(endpoint).collect(),
        triggered_ms: None,
    };
    let key = ObjectKey::new(Kind::EndpointSlice, &format!("team-{}", i % 50), &format!("service-{i}-x7k2p"));
    Object { key, value: Value::EndpointSlice(record) }
}

#[test]
fn ten_thousand_services_fit() {
    let before = ALLOCATOR.current_usage();
    let mut state = ClusterState::default();
    for i in 0..SERVICES {
        state.apply(service(i));
        state.apply(slice(i));
    }
    let dirty = state.take_dirty();
    assert_eq!(dirty.services.len(), SERVICES);
    drop(dirty);
    let bytes = ALLOCATOR.current_usage() - before;
    println!("{SERVICES} services x {ENDPOINTS} endpoints: {bytes} bytes");
    assert_eq!(state.counts().endpoints, SERVICES * ENDPOINTS);
    assert!(bytes <= MOST_BYTES, "{bytes} bytes");

    // Everything goes away again, node names included.
    for i in 0..SERVICES {
        state.delete(&service(i).key);
        state.delete(&slice(i).key);
    }
    drop(state.take_dirty());
    assert_eq!(state.counts().slices, 0);
}
