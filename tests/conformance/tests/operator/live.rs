//! Another way to the apiserver, or to detect local traffic, while the agent runs.

use std::fs;

use conformance_support::log::Mark;
use conformance_support::site::{Caller, Expect};
use conformance_support::{Service, Traffic, paths};
use model::{Family, Protocol};
use serde_json::json;

use crate::pair::Pair;
use crate::watched::Watched;

const FOLLOWED: Service<'_> = Service::tcp("followed", 31);
const KEPT: Service<'_> = Service::tcp("kept", 32);

pub(crate) fn kubeconfig(pair: &Pair) {
    FOLLOWED.create(pair.api());
    FOLLOWED.serve_by(pair.api(), &["a"]);
    let watched = Watched::start(pair, "moving", &pair.kubeconfig, "", |_| ());
    let programmed = |pod: &str| {
        for family in Family::BOTH {
            watched.site.expect(Caller::Pod("guest"), Protocol::Tcp, FOLLOWED.at(family), Expect::By(&[pod]));
        }
    };
    programmed("a");
    let guest = &watched.site.ground.sandbox.pod("guest").unwrap().namespace;
    let traffic = Traffic::start(guest, Family::BOTH.map(|family| FOLLOWED.at(family)));

    // The same user by a certificate.
    watched.change(&pair.plane.kubeconfig_with_certificate().unwrap(), "");
    watched.await_event("ConfigurationChanged", "clientConnection.kubeconfig");
    FOLLOWED.serve_by(pair.api(), &["b"]);
    programmed("b");

    let broken = pair.plane.folder().join("broken.kubeconfig");
    fs::write(&broken, "clusters: [").unwrap();
    let mark = Mark::now(&watched.agent);
    watched.change(&broken, "");
    mark.await_line(&watched.agent, &["Refused the changed configuration", "broken.kubeconfig"]);
    watched.await_event("ConfigurationRefused", "broken.kubeconfig");
    FOLLOWED.serve_by(pair.api(), &["a"]);
    programmed("a");
    traffic.go_on(20);
    traffic.finish();
}

/// Changes are followed while the pod CIDRs of this node are waited for, and the probes tell the truth.
pub(crate) fn pod_cidrs(pair: &Pair) {
    KEPT.create(pair.api());
    KEPT.serve_by(pair.api(), &["a"]);
    let watched = Watched::start(pair, "ranging", &pair.kubeconfig, "", |_| ());
    let programmed = |pod: &str| {
        for family in Family::BOTH {
            watched.site.expect(Caller::Pod("guest"), Protocol::Tcp, KEPT.at(family), Expect::By(&[pod]));
        }
    };
    programmed("a");
    let mark = Mark::now(&watched.agent);
    watched.change(&pair.kubeconfig, "detectLocalMode: NodeCIDR");
    mark.await_line(&watched.agent, &["Keeping the previous node name", "pod CIDRs"]);
    KEPT.serve_by(pair.api(), &["b"]);
    programmed("b");
    assert_eq!(["/healthz", "/livez", "/readyz"].map(|path| watched.agent.probe(path)), [Some(200); 3]);
    let cidrs = json!(["10.244.9.0/24", "fd00:244:9::/64"]);
    let node = format!("{}/ranging", paths::NODES);
    pair.api().patch(&node, &json!({"spec": {"podCIDR": cidrs[0], "podCIDRs": cidrs}})).unwrap();
    mark.await_line(&watched.agent, &["Resolved: the changed node name and detection of local traffic"]);
    KEPT.serve_by(pair.api(), &["a"]);
    programmed("a");
}
