//! What marks what dirty, and that the order of arrival leaves no trace.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;

use cluster::{
    ChangeCount, ClusterState, EndpointRecord, Kind, NodeFacts, Object, ObjectKey, SliceRecord, Trigger,
    Value, objects, translate,
};
use model::{Family, Protocol, SlicePort};
use proptest::prelude::*;

fn service(name: &str, port: u16) -> Object {
    let source = serde_json::json!({
        "metadata": { "name": name },
        "spec": { "clusterIP": "10.96.0.1", "ports": [{ "port": port }] },
    });
    let source: objects::Service = serde_json::from_value(source).unwrap();
    match translate::service(source).unwrap().outcome {
        cluster::Outcome::Object(object) => object,
        other => panic!("{other:?}"),
    }
}

fn slice(name: &str, service: &str, last_octets: &[u8]) -> Object {
    let endpoint = |n: &u8| EndpointRecord {
        ip: std::net::Ipv4Addr::new(10, 0, 0, *n).into(),
        ready: true,
        serving: true,
        terminating: false,
        node: Some(format!("node-{n}").into()),
        hints: None,
    };
    let record = SliceRecord {
        service: format!("default/{service}").into(),
        family: Family::V4,
        ports: Box::new([SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 8080 }]),
        endpoints: last_octets.iter().map(endpoint).collect(),
        triggered_ms: Some(i64::from(last_octets.len() as u32)),
    };
    Object { key: ObjectKey::new(Kind::EndpointSlice, "default", name), value: Value::EndpointSlice(record) }
}

fn node(name: &str, zone: &str) -> Object {
    let facts = NodeFacts { zone: Some(zone.into()), ..NodeFacts::default() };
    Object { key: ObjectKey::new(Kind::Node, "", name), value: Value::Node(facts) }
}

fn cidr(name: &str, net: &str) -> Object {
    let cidrs = Box::new([net.parse().unwrap()]);
    Object { key: ObjectKey::new(Kind::ServiceCidr, "", name), value: Value::ServiceCidr(cidrs) }
}

/// Names of the dirty services, which count as done afterwards.
fn take_dirty(state: &mut ClusterState) -> Vec<String> {
    let dirty = state.take_dirty();
    dirty.services.iter().map(|key| key.strip_prefix("default/").unwrap().to_owned()).collect()
}

fn addresses(state: &ClusterState, service: &str) -> Vec<String> {
    let slices = state.slices(&format!("default/{service}"));
    slices.iter().flat_map(|slice| &slice.endpoints).map(|endpoint| endpoint.ip.to_string()).collect()
}

#[test]
fn only_real_changes_are_dirty() {
    let mut state = ClusterState::default();
    state.apply(service("web", 80));
    assert_eq!(take_dirty(&mut state), ["web"]);
    state.apply(service("web", 80));
    assert_eq!(take_dirty(&mut state), [""; 0]);
    state.apply(service("web", 81));
    assert_eq!(take_dirty(&mut state), ["web"]);
    state.apply(slice("web-1", "web", &[1, 2]));
    assert_eq!(take_dirty(&mut state), ["web"]);
    state.apply(slice("web-1", "web", &[1, 2]));
    assert_eq!(take_dirty(&mut state), [""; 0]);
    state.apply(slice("web-1", "web", &[1, 3]));
    assert_eq!(take_dirty(&mut state), ["web"]);
    state.delete(&ObjectKey::new(Kind::EndpointSlice, "default", "web-9"));
    assert_eq!(take_dirty(&mut state), [""; 0]);
    state.delete(&ObjectKey::new(Kind::EndpointSlice, "default", "web-1"));
    state.delete(&ObjectKey::new(Kind::Service, "default", "web"));
    assert_eq!(take_dirty(&mut state), ["web"]);
    assert_eq!(state.counts(), cluster::Counts::default());
}

#[test]
fn what_changed_is_handed_out_once_with_its_triggers() {
    let mut state = ClusterState::default();
    state.apply(service("web", 80));
    state.apply(slice("web-1", "web", &[1]));
    let trigger = |millis| Trigger { service: "default/web".into(), family: Family::V4, millis };
    assert_eq!(state.take_dirty().triggers, [trigger(1)]);
    assert!(!state.is_dirty());
    state.apply(service("api", 80));
    state.apply(slice("web-1", "web", &[1, 2]));
    let left = state.take_dirty();
    assert_eq!(left.services.iter().map(|key| &**key).collect::<Vec<_>>(), ["default/api", "default/web"]);
    assert_eq!(left.triggers, [trigger(2)]);
    assert_eq!(state.changes(), ChangeCount { services: 2, slices: 2 });
    assert!(!state.is_dirty());
}

#[test]
fn a_relabelled_slice_changes_both_services() {
    // Named after neither, after the first, after both: it must be found again each time.
    for name in ["endpoints", "web-1", "web-api-1"] {
        let mut state = ClusterState::default();
        state.apply(service("web", 80));
        state.apply(service("web-api", 80));
        state.apply(slice(name, "web", &[1]));
        take_dirty(&mut state);
        state.apply(slice(name, "web-api", &[1]));
        assert_eq!(take_dirty(&mut state), ["web", "web-api"], "{name}");
        assert_eq!(addresses(&state, "web"), [""; 0], "{name}");
        assert_eq!(addresses(&state, "web-api"), ["10.0.0.1"], "{name}");
        state.apply(slice(name, "web", &[1]));
        assert_eq!(addresses(&state, "web"), ["10.0.0.1"], "{name}");
        state.delete(&ObjectKey::new(Kind::EndpointSlice, "default", name));
        assert_eq!(state.counts().slices, 0, "{name}");
    }
}

#[test]
fn a_new_list_drops_what_it_lacks() {
    let mut state = ClusterState::default();
    for name in ["a", "b", "c"] {
        state.apply(service(name, 80));
        state.apply(slice(&format!("{name}-1"), name, &[1]));
    }
    state.apply(slice("odd", "c", &[9]));
    take_dirty(&mut state);
    state.retain(Kind::Service, &HashSet::from(["default/a".into(), "default/b".into()]));
    assert_eq!(take_dirty(&mut state), ["c"]);
    assert!(state.service("default/c").is_none());
    assert_eq!(addresses(&state, "c"), ["10.0.0.1", "10.0.0.9"]);
    state.retain(Kind::EndpointSlice, &HashSet::from(["default/a-1".into()]));
    assert_eq!(take_dirty(&mut state), ["b", "c"]);
    assert_eq!(state.counts().slices, 1);
}

#[test]
fn nodes_mark_nothing() {
    let mut state = ClusterState::default();
    state.apply(service("web", 80));
    take_dirty(&mut state);
    state.apply(node("node-1", "z1"));
    assert!(!state.is_dirty(), "the planner knows its own node and compares");
    assert_eq!(state.node("node-1").unwrap().zone.as_deref(), Some("z1"));
    state.delete(&ObjectKey::new(Kind::Node, "", "node-1"));
    assert!(state.node("node-1").is_none());
}

#[test]
fn service_cidrs_touch_the_node_only() {
    let mut state = ClusterState::default();
    state.apply(service("web", 80));
    take_dirty(&mut state);
    state.apply(cidr("kubernetes", "10.96.0.0/16"));
    let dirty = state.take_dirty();
    assert!(dirty.node && dirty.services.is_empty());
    state.apply(cidr("kubernetes", "10.96.0.0/16"));
    assert!(!state.is_dirty());
    state.delete(&ObjectKey::new(Kind::ServiceCidr, "", "kubernetes"));
    assert!(state.take_dirty().node);
    assert!(state.service_cidrs().is_empty());
}

#[test]
fn complete_once_every_kind_is_in() {
    let mut state = ClusterState::default();
    for kind in Kind::ALL {
        assert!(!state.is_complete());
        state.mark_synced(kind);
    }
    assert!(state.is_complete());
}

#[derive(Clone, Debug)]
enum Step {
    Service(usize, u16),
    Slice(usize, usize, Vec<u8>),
    DeleteService(usize),
    DeleteSlice(usize),
}

/// Names that are prefixes of each other, so that slices are easily taken for another service's.
const SERVICES: [&str; 4] = ["a", "a-b", "a-b-c", "z"];
const SLICES: [&str; 6] = ["a-1", "a-b", "a-b-1", "a-b-c-1", "z-1", "odd"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..SERVICES.len(), 1_u16..4).prop_map(|(s, port)| Step::Service(s, port)),
        (0..SLICES.len(), 0..SERVICES.len(), prop::collection::vec(0_u8..4, 0..3))
            .prop_map(|(n, s, ips)| Step::Slice(n, s, ips)),
        (0..SERVICES.len()).prop_map(Step::DeleteService),
        (0..SLICES.len()).prop_map(Step::DeleteSlice),
    ]
}

fn view(state: &ClusterState) -> String {
    let mut keys: Vec<_> = SERVICES.iter().map(|name| format!("default/{name}")).collect();
    keys.sort();
    let of = |key: &String| format!("{key}: {:?} {:?}\n", state.service(key), state.slices(key));
    format!("{}{:?}", keys.iter().map(of).collect::<String>(), state.counts())
}

proptest! {
    #[test]
    fn history_leaves_no_trace(steps in prop::collection::vec(step(), 0..60), seed in any::<u64>()) {
        let mut state = ClusterState::default();
        let mut last: std::collections::BTreeMap<ObjectKey, Object> = Default::default();
        let mut seen = view(&state);
        for step in steps {
            let key = match step {
                Step::Service(s, port) => Err(service(SERVICES[s], port)),
                Step::Slice(n, s, ips) => Err(slice(SLICES[n], SERVICES[s], &ips)),
                Step::DeleteService(s) => Ok(ObjectKey::new(Kind::Service, "default", SERVICES[s])),
                Step::DeleteSlice(n) => Ok(ObjectKey::new(Kind::EndpointSlice, "default", SLICES[n])),
            };
            match key {
                Ok(key) => {
                    last.remove(&key);
                    state.delete(&key);
                }
                Err(object) => {
                    last.insert(object.key.clone(), object.clone());
                    state.apply(object);
                }
            }
            // Dirty exactly if something is to be seen of it.
            let dirty = state.take_dirty();
            let now = view(&state);
            prop_assert_eq!(dirty.is_empty(), now == seen);
            for (old, new) in seen.lines().zip(now.lines()) {
                let name = old.split(": ").next().unwrap_or_default();
                if name.starts_with("default/") {
                    prop_assert_eq!(old != new, dirty.services.iter().any(|key| **key == *name), "{}", name);
                }
            }
            seen = now;
        }
        let mut objects: Vec<Object> = last.into_values().collect();
        let turn = if objects.is_empty() { 0 } else { seed as usize % objects.len() };
        objects.rotate_left(turn);
        if seed % 2 == 0 {
            objects.reverse();
        }
        let mut fresh = ClusterState::default();
        objects.into_iter().for_each(|object| fresh.apply(object));
        prop_assert_eq!(view(&fresh), view(&state));
    }
}
