//! Another way to the apiserver while the agent runs.

use std::fs;

use conformance::log::Mark;
use conformance::site::{Caller, Expect};
use conformance::{Service, Traffic};
use model::{Family, Protocol};

use crate::pair::Pair;
use crate::watched::Watched;

const FOLLOWED: Service<'_> = Service::tcp("followed", 31);

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
    mark.await_line(&watched.agent, &["not used", "broken.kubeconfig"]);
    watched.await_event("ConfigurationRefused", "broken.kubeconfig");
    FOLLOWED.serve_by(pair.api(), &["a"]);
    programmed("a");
    traffic.go_on(20);
    traffic.finish();
}
