//! How pods of this node are distinguished from other clients: they keep their addresses on the way to a cluster IP.

use conformance_support::site::Caller;
use model::Family;
use sandbox::address;
use test_support::directory::{address_of, node_addresses};

use crate::cluster::{Cluster, Spot, remote};

pub(crate) fn cluster_cidr(cluster: &Cluster) {
    let spot = cluster.spot("by-range");
    let whole = format!("--cluster-cidr={},{}", address::CLUSTER_V4, address::CLUSTER_V6);
    let mut agent = spot.agent(&[&whole]);
    expect_local(&spot, &["guest", "b"], &[]);
    agent.stop().unwrap();
    // The first addresses of the range only: `a` and `b`.
    let part = "--cluster-cidr=10.244.1.8/30,fd00:244:1::10/127";
    let _agent = spot.agent(&["--detect-local-mode=ClusterCIDR", part]);
    expect_local(&spot, &["b"], &["guest"]);
}

pub(crate) fn interface_prefix(cluster: &Cluster) {
    let spot = cluster.spot("by-interface");
    let mode = "--detect-local-mode=InterfaceNamePrefix";
    let mut agent = spot.agent(&[mode, "--pod-interface-name-prefix=pod-"]);
    expect_local(&spot, &["guest", "b"], &[]);
    agent.stop().unwrap();
    let _agent = spot.agent(&[mode, "--pod-interface-name-prefix=pod-g"]);
    expect_local(&spot, &["guest"], &["b"]);
}

/// The sandbox has no bridge; to the rules one is an interface with just this name.
pub(crate) fn bridge(cluster: &Cluster) {
    let spot = cluster.spot("by-bridge");
    let mode = "--detect-local-mode=BridgeInterface";
    let mut agent = spot.agent(&[mode, "--pod-bridge-interface=pod-guest"]);
    expect_local(&spot, &["guest"], &["b"]);
    agent.stop().unwrap();
    let _agent = spot.agent(&[mode, "--pod-bridge-interface=pod-gues"]);
    expect_local(&spot, &[], &["guest", "b"]);
}

fn expect_local(spot: &Spot<'_>, local: &[&'static str], other: &[&'static str]) {
    let nodes = node_addresses();
    for family in Family::BOTH {
        let to = remote(family);
        for pod in local {
            let own = address_of(pod, family);
            spot.site.expect_seen_as(Caller::Pod(pod), to, |ip| ip == own);
        }
        let strangers = other.iter().map(|pod| Caller::Pod(pod)).chain([Caller::Outside(None)]);
        strangers.for_each(|caller| spot.site.expect_seen_as(caller, to, |ip| nodes.contains(&ip)));
    }
}
