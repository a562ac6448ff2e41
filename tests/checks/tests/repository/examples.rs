//! The manifests of `examples/` are read without a complaint and lead to pods.

use std::collections::BTreeSet;

use cluster::manifests::ManifestSource;
use cluster::{ClusterState, Kind, Update};
use model::{Address, Family, NodeView, Routing, ServicePlan, Settings, Verdict};

const NODE: &str = "node-1";

fn examples() -> ClusterState {
    let loaded = ManifestSource::new(checks::root().join("examples/manifests")).load().unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let mut state = ClusterState::default();
    state.update(Update::Changes(loaded.changes));
    Kind::ALL.into_iter().for_each(|kind| state.mark_synced(kind));
    state
}

fn plan(state: &ClusterState, service: &str) -> ServicePlan {
    let found = state.service(service).unwrap_or_else(|| panic!("{service} is not in the examples"));
    let primary = state.node(NODE).map(|facts| facts.primary).unwrap_or_default();
    let node = NodeView { name: NODE.into(), primary, ..NodeView::default() };
    model::plan(found, &state.slices(service), &node, &Settings::default(), Family::V4)
}

fn leads_to_a_pod(routing: Routing) -> bool {
    let forwards = |verdict| matches!(verdict, Verdict::Forward(_));
    match routing {
        Routing::Same(verdict, _) => forwards(verdict),
        Routing::Split { outside, inside } => forwards(outside) && forwards(inside),
    }
}

#[test]
fn every_address_of_every_example_leads_to_a_pod() {
    let state = examples();
    assert!(state.is_complete() && state.counts().services >= 4);
    for service in state.services() {
        let plan = plan(&state, service);
        let destinations: Vec<_> = plan.ports.iter().flat_map(|port| &port.destinations).collect();
        assert!(!destinations.is_empty(), "{service} has no address");
        for destination in destinations {
            assert!(leads_to_a_pod(destination.routing), "{service}: {destination:?}");
        }
    }
}

#[test]
fn the_examples_show_the_features_they_are_there_for() {
    let state = examples();
    let is_node_port = |at: &Address| matches!(at, Address::NodePort(_));
    let web = plan(&state, "default/web");
    assert!(web.ports[0].destinations.iter().any(|destination| is_node_port(&destination.at)));
    let shop = plan(&state, "default/shop");
    let split = |routing| matches!(routing, Routing::Split { .. });
    assert!(shop.ports[0].destinations.iter().any(|destination| split(destination.routing)));
    assert!(plan(&state, "default/cart").ports[0].affinity_seconds.is_some());
    let dns = plan(&state, "kube-system/dns");
    let protocols: BTreeSet<_> = dns.ports.iter().map(|port| port.protocol.to_string()).collect();
    assert_eq!(protocols, BTreeSet::from(["tcp".into(), "udp".into()]));
}

#[test]
fn cluster_ips_lie_in_the_service_range_of_the_examples() {
    let state = examples();
    let ranges = state.service_cidrs();
    assert!(!ranges.is_empty() && state.node(NODE).is_some());
    for service in state.services() {
        let ip = plan(&state, service).cluster_ip.unwrap();
        assert!(ranges.iter().any(|range| range.contains(&ip)), "{service}: {ip} is outside of {ranges:?}");
    }
}
