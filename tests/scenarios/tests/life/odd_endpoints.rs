//! Endpoints that no apiserver would let through, but a manifest may have: packets pass them by, and `explain` says why.

use std::collections::BTreeMap;

use model::{Family, Protocol};
use serde_json::Value;
use test_support::{Carrier, Case, EndpointManifest, SliceManifest};

use super::places::at_cluster_ip;
use super::rig::every_mode;
use super::stage::{From, POD_PORT, Stage, list};

/// How often each client asks: one of four endpoints would be met.
const EACH: usize = 12;

pub(crate) fn cases() -> Vec<Case<'static>> {
    every_mode("endpoints of no use are passed by, and it is said why", passed_by)
}

/// One endpoint that can be used, and one of each kind that cannot.
fn slices(stage: &Stage, family: Family) -> [Value; 3] {
    let slice = |suffix: &str, name: &str, port: u16, ips: &[&str]| {
        let slice = SliceManifest::new("web", suffix, family).port(name, Protocol::Tcp, port);
        let endpoint = |ip: &&str| EndpointManifest::new(ip.parse().unwrap(), "node-1");
        ips.iter().map(endpoint).fold(slice, |slice, one| slice.endpoint(&one)).to_json()
    };
    let good = stage.address("a", family).to_string();
    let [multicast, zero, other] = match family {
        Family::V4 => ["224.0.0.6", "10.244.1.77", "10.244.1.78"],
        Family::V6 => ["ff02::6", "fd00:244:1::77", "fd00:244:1::78"],
    };
    [
        slice("1", "main", POD_PORT, &[&good, multicast]),
        slice("2", "main", 0, &[zero]),
        slice("3", "other", POD_PORT, &[other]),
    ]
}

fn passed_by(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    let all = Family::BOTH.into_iter().flat_map(|family| slices(&stage, family));
    stage.folder.put("slices-web", &list(all));
    stage.start();
    for family in Family::BOTH {
        let to = at_cluster_ip(1, family);
        for from in [From::Guest, From::Outside] {
            for _ in 0..EACH {
                assert_eq!(stage.who(Protocol::Tcp, from, to), "a", "{family}, {from:?}");
            }
        }
        let page = stage.agent().page(&format!("/pointsman/v1/explain?to=tcp:{to}")).unwrap();
        let page: Value = serde_json::from_str(&page).unwrap();
        assert_eq!(page["verdict"], "forward", "{page:#}");
        let known = page["explanations"][0]["clients"][0]["known"].as_array().cloned().unwrap_or_default();
        let mut whys: BTreeMap<String, usize> = BTreeMap::new();
        for one in &known {
            *whys.entry(one["why"].as_str().unwrap_or("used").to_owned()).or_default() += 1;
        }
        let wanted = ["badAddress", "badPort", "noSuchPort", "used"].map(|why| (why.to_owned(), 1));
        assert_eq!(whys, wanted.into(), "{family}: {known:#?}");
    }
}
