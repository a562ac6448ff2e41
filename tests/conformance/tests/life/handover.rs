//! From our agent to upstream's kube-proxy and back, both in nftables mode, under traffic.

use conformance_support::log::end_of;
use conformance_support::{Service, paths};
use serde_json::json;

use crate::world::World;

pub(crate) fn there_and_back(world: &mut World) {
    let (steady, full) = (Service::tcp("steady-handover", 61), Service::tcp("full-handover", 62));
    world.create(steady, "a");
    world.create(full, "a");
    use_every_set(world, full);

    let mut ours = world.agent("handover-from");
    world.await_answer(steady, "a");
    world.await_answer(full, "a");
    let traffic = world.traffic(steady);
    traffic.go_on(50);
    ours.stop().unwrap();

    let mut upstream = world.upstream();
    traffic.go_on(50);
    world.point_at(steady, "b");
    world.await_answer(steady, "b");
    world.point_at(full, "b");
    world.await_answer(full, "b");
    let log = upstream.log();
    assert!(!log.contains("sync failed"), "upstream cannot write over our rules:\n{}", end_of(&log));
    upstream.stop().unwrap();

    let ours = world.agent("handover-to");
    traffic.go_on(50);
    world.point_at(steady, "a");
    world.await_answer(steady, "a");
    let asked = traffic.finish();
    println!("{asked} connections during two handovers, none failed");
    drop(ours);
    world.delete(steady);
    world.delete(full);
}

/// Affinity, node ports, a load balancer and its source ranges: the more of our sets are in use, the more there is
/// to collide with.
pub(crate) fn use_every_set(world: &World, service: Service<'_>) {
    let path = format!("{}/{}", paths::SERVICES, service.name);
    let spec = json!({
        "type": "LoadBalancer", "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local",
        "externalIPs": ["198.51.100.77"], "loadBalancerSourceRanges": ["192.168.0.0/16"],
    });
    world.api().patch(&path, &json!({ "spec": spec })).unwrap();
    let ingress = json!({"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.77"}]}}});
    world.api().patch_status(&path, &ingress).unwrap();
}
