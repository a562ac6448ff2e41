//! Taking over from upstream's kube-proxy of the same mode: its rules become ours without a lost packet, clients with
//! affinity stay where they are, and nothing of it is left.

use model::{Family, Protocol};
use serde_json::json;
use test_support::{Carrier, Case};

use super::churn::assert_no_drift;
use super::places::at_cluster_ip;
use super::rig::{OfUpstream, every_mode};
use super::stage::{ENDPOINTS, From, Stage};
use super::traffic::Traffic;

const CLIENTS: u8 = 10;
const SERVICES: [OfUpstream; 2] = [
    OfUpstream { name: "plain", number: 2, has_affinity: false },
    OfUpstream { name: "web", number: 1, has_affinity: true },
];

pub(crate) fn cases() -> Vec<Case<'static>> {
    every_mode("upstream's rules are replaced without a lost packet, pins included", take_over)
}

/// Where each client's next connection to the service with affinity goes.
fn pins(stage: &Stage) -> [Vec<String>; 2] {
    let who = |client, family| stage.who(Protocol::Tcp, From::OutsideAs(client), at_cluster_ip(1, family));
    Family::BOTH.map(|family| (0..CLIENTS).map(|client| who(client, family)).collect())
}

fn take_over(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    for family in Family::BOTH {
        stage.add_clients(family, CLIENTS);
        stage.rig().write_as_upstream(&stage, family, &SERVICES);
    }
    for OfUpstream { name, number, has_affinity } in SERVICES {
        let mut service = stage.service(name, number, Protocol::Tcp);
        if has_affinity {
            service = service
                .with("sessionAffinity", "ClientIP")
                .with("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
        }
        stage.folder.put_service(&service);
        stage.put_endpoints(name, Protocol::Tcp, &ENDPOINTS);
    }
    let before = pins(&stage);
    assert_eq!(pins(&stage), before, "upstream's rules pin nobody");
    let pairs = Family::BOTH.into_iter().flat_map(|family| {
        [(From::Guest, at_cluster_ip(2, family)), (From::OutsideAs(0), at_cluster_ip(1, family))]
    });
    let traffic = Traffic::start(&stage, &pairs.collect::<Vec<_>>());
    traffic.go_on(40);
    stage.start();
    traffic.go_on(40);
    println!("{}: taking over from upstream: {} connections", carrier.name(), traffic.finish());
    // A process cannot read whom the kernel has pinned.
    assert!(carrier.is_a_process() || pins(&stage) == before, "pins were lost");
    for family in Family::BOTH {
        let left = stage.rig().left_of_upstream(&stage, family, &SERVICES);
        assert!(left.is_empty(), "{family}: of upstream are left {left:?}");
    }
    if carrier == Carrier::Ipvs {
        // There is no ServiceCIDR: the route to each service was there before upstream's address went.
        assert_no_drift(&stage);
    }
}
