//! What goes wrong on a node is reported where operators look: at the Node and at the Service.

use std::net::{Ipv4Addr, TcpListener};

use conformance_support::Service;
use conformance_support::log::Mark;
use serde_json::{Value, json};

use crate::ask::PAGES;
use crate::pair::Pair;
use crate::watched::Watched;

const CHECKED: Service<'_> = Service::tcp("checked", 30);
const CHECK_PORT: u16 = 32100;

fn expect(event: &Value, kind: &str, regarding: &str, action: &str) {
    let told = ["/type", "/regarding/kind", "/action", "/reportingController"]
        .map(|field| event.pointer(field).and_then(Value::as_str).unwrap_or_default());
    assert_eq!(told, [kind, regarding, action, "kube-proxy"], "{event:#}");
}

pub(crate) fn configuration(pair: &Pair) {
    let watched = Watched::start(pair, "changing", &pair.kubeconfig, "", |_| ());
    watched.change(&pair.kubeconfig, "nodePortAddresses: [nowhere]\nclusterCIDR: 10.0.0.0/99");
    let event = watched.await_event("ConfigurationRefused", "nodePortAddresses");
    expect(&event, "Warning", "Node", "ReloadConfiguration");
    assert!(event["note"].as_str().unwrap().contains("clusterCIDR"), "every problem: {event:#}");
    watched.change(&pair.kubeconfig, "clusterCIDR: 10.0.0.0/8");
    let event = watched.await_event("ConfigurationChanged", "10.0.0.0/8");
    expect(&event, "Normal", "Node", "ReloadConfiguration");
}

pub(crate) fn metrics_port(pair: &Pair) {
    let mut other = None;
    let watched = Watched::start(pair, "crowded", &pair.kubeconfig, "", |site| {
        other = Some(site.node().run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, PAGES))).unwrap());
    });
    let event = watched.await_event("FailedToStartMetricServer", &PAGES.to_string());
    expect(&event, "Warning", "Node", "StartKubeProxy");
    let mark = Mark::now(&watched.agent);
    drop(other);
    mark.await_line(&watched.agent, &["Serving the metrics now", &PAGES.to_string()]);
    assert!(watched.agent.metrics().is_some());
}

pub(crate) fn health_check(pair: &Pair) {
    let manifest = CHECKED
        .manifest()
        .with("type", "LoadBalancer")
        .with("externalTrafficPolicy", "Local")
        .with("healthCheckNodePort", json!(CHECK_PORT));
    let mut other = None;
    let watched = Watched::start(pair, "occupied", &pair.kubeconfig, "", |site| {
        other = Some(site.node().run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, CHECK_PORT))).unwrap());
    });
    CHECKED.create_as(pair.api(), &manifest);
    CHECKED.serve_by(pair.api(), &["a"]);
    let event = watched.await_event_about(CHECKED.name, "FailedToStartServiceHealthcheck", "occupied");
    expect(&event, "Warning", "Service", "Listen");
    drop(other);
}
