use std::net::Ipv4Addr;

use model::{Family, Protocol, Service, SlicePort, TrafficPolicy};
use proptest::collection::{hash_set, vec};
use proptest::prelude::*;

use super::*;
use crate::{ClusterState, EndpointRecord, NodeFacts, SliceRecord};

/// An object of a kind; `version` makes it differ.
fn object(kind: Kind, number: u8, version: u8) -> Object {
    let ip = Ipv4Addr::new(10, 0, number, version).into();
    let value = match kind {
        Kind::Service => Value::Service(Box::new(Service {
            cluster_ips: [ip].into(),
            ports: Box::default(),
            external_ips: Box::default(),
            load_balancer_ips: Box::default(),
            source_ranges: Box::default(),
            affinity_seconds: None,
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            health_check_node_port: None,
            created: 0,
        })),
        Kind::EndpointSlice => Value::EndpointSlice(SliceRecord {
            // Some move from one service to another.
            service: format!("d/{}", (number + version) % 3).into(),
            family: Family::V4,
            ports: [SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 80 }].into(),
            endpoints: vec![EndpointRecord {
                ip,
                ready: true,
                serving: true,
                terminating: false,
                node: None,
                hints: None,
            }],
            triggered_ms: (version > 0).then_some(i64::from(version)),
        }),
        Kind::Node => Value::Node(NodeFacts { eligible: version.is_multiple_of(2), ..NodeFacts::default() }),
        Kind::ServiceCidr => Value::ServiceCidr([format!("10.{version}.0.0/16").parse().unwrap()].into()),
    };
    Object { key: key(kind, number), value }
}

fn key(kind: Kind, number: u8) -> ObjectKey {
    ObjectKey::new(kind, "d", &number.to_string())
}

fn kind() -> impl Strategy<Value = Kind> {
    proptest::sample::select(Kind::ALL.to_vec())
}

fn update() -> impl Strategy<Value = Update> {
    let change =
        (kind(), 0..4u8, 0..4u8, any::<bool>()).prop_map(|(kind, number, version, gone)| match gone {
            true => ObjectChange::Delete(key(kind, number)),
            false => ObjectChange::Apply(object(kind, number, version)),
        });
    let retain = (kind(), hash_set(0..4u8, 0..4)).prop_map(|(kind, listed)| {
        Update::Retain(kind, listed.into_iter().map(|number| key(kind, number).path).collect())
    });
    prop_oneof![
        6 => vec(change, 0..4).prop_map(Update::Changes),
        2 => retain,
        1 => kind().prop_map(Update::Synced),
    ]
}

/// All that a state knows, in words.
fn content(state: &ClusterState) -> String {
    let mut services: Vec<_> = state.services().collect();
    services.sort_unstable();
    let of = |key: &str| (state.service(key).cloned(), format!("{:?}", state.slices(key)));
    let services: Vec<_> = services.into_iter().map(|key| (key, of(key))).collect();
    let homeless: Vec<_> =
        (0..4).map(|number| format!("{:?}", state.slices(&format!("d/{number}")))).collect();
    let nodes: Vec<_> = (0..4).map(|number: u8| state.node(&number.to_string()).cloned()).collect();
    let cidrs = state.service_cidrs();
    format!("{services:?} {homeless:?} {nodes:?} {cidrs:?} {:?} {}", state.counts(), state.is_complete())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whenever it is read, the state is the one that hears everything directly has.
    #[test]
    fn a_backlog_loses_nothing_that_matters(steps in vec((update(), any::<bool>()), 0..30)) {
        let (mut direct, mut behind) = (ClusterState::default(), ClusterState::default());
        let mut backlog = Backlog::default();
        for (update, reads) in steps {
            direct.update(update.clone());
            backlog.add(update);
            if reads {
                backlog.take().into_iter().for_each(|update| behind.update(update));
                prop_assert!(backlog.is_empty());
                prop_assert_eq!(content(&direct), content(&behind));
            }
        }
        backlog.take().into_iter().for_each(|update| behind.update(update));
        prop_assert_eq!(content(&direct), content(&behind));
    }
}

#[test]
fn a_million_updates_of_ten_objects_are_ten() {
    let mut backlog = Backlog::default();
    for round in 0..100_000_u32 {
        let apply = |number| ObjectChange::Apply(object(Kind::Service, number, round as u8));
        backlog.add(Update::Changes((0..10).map(apply).collect()));
        backlog.add(Update::Retain(
            Kind::Service,
            (0..10).map(|number| key(Kind::Service, number).path).collect(),
        ));
    }
    assert_eq!(backlog.changes(), 10);
    let taken = backlog.take();
    assert_eq!(taken.len(), 2, "{taken:?}");
    assert!(backlog.take().is_empty());
}

/// What the second change waited for includes the first, and a deletion has no time of its own.
#[test]
fn the_earliest_trigger_counts() {
    let slice = |version| ObjectChange::Apply(object(Kind::EndpointSlice, 1, version));
    let triggers = |changes: Vec<ObjectChange>| {
        let (mut backlog, mut state) = (Backlog::default(), ClusterState::default());
        changes.into_iter().for_each(|change| backlog.add(Update::Changes(vec![change])));
        backlog.take().into_iter().for_each(|update| state.update(update));
        state.take_dirty().triggers.iter().map(|trigger| trigger.millis).collect::<Vec<i64>>()
    };
    assert_eq!(triggers(vec![slice(3), slice(2)]), [2]);
    assert_eq!(triggers(vec![slice(2), slice(3)]), [2]);
    assert_eq!(triggers(vec![slice(2), slice(0)]), [2]);
    let gone = ObjectChange::Delete(key(Kind::EndpointSlice, 1));
    assert_eq!(triggers(vec![slice(2), gone, slice(3)]), [3]);
}

#[test]
fn problems_are_kept_once_per_place() {
    let problem = |document, message: &str| ManifestProblem {
        file: "a.yaml".into(),
        document: Some(document),
        object: None,
        position: None,
        field: None,
        message: message.into(),
        consequence: None,
    };
    let mut backlog = Backlog::default();
    for round in 0..1000 {
        backlog.add(Update::Problems {
            new: vec![problem(1, &round.to_string())],
            solved: vec![problem(2, "x")],
        });
    }
    let Some(Update::Problems { new, solved }) = backlog.take().pop() else { panic!("problems") };
    assert_eq!((new.len(), solved.len()), (PROBLEMS_PER_PLACE, 1));
    assert_eq!(new.last(), Some(&problem(1, "999")));
    backlog.add(Update::Problems { new: vec![problem(1, "new")], solved: vec![] });
    backlog.add(Update::Problems { new: vec![], solved: vec![problem(1, "new")] });
    let Some(Update::Problems { new, solved }) = backlog.take().pop() else { panic!("problems") };
    assert_eq!((new.len(), solved.len()), (0, 1));
}
