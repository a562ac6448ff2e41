//! What RBAC does not permit.

use std::fs;

use conformance_support::log::{end_of, errors, lines};
use conformance_support::site::SOON;
use conformance_support::{Service, User};
use serde_json::{Value, json};
use test_support::wait_until;

use crate::world::{LIMITED, World};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const ROLE: &str = "almost-a-proxy";

/// A start without the right to see slices: the rules of the run before stay, and it heals by itself.
pub(crate) fn forbidden(world: &mut World) {
    let service = Service::tcp("rights", 41);
    world.create(service, "a");
    let kubeconfig = world.plane.folder().join("rights.kubeconfig");
    let become_user = |user: &str| {
        fs::copy(world.plane.kubeconfig(user).unwrap(), &kubeconfig).unwrap();
    };
    become_user(User::PROXY);
    let mut agent = world.agent_with("rights", &kubeconfig, &[]);
    world.await_answer(service, "a");
    agent.stop().unwrap();
    let traffic = world.traffic(service);

    world.api().create(ROLES, &role(&[])).unwrap();
    world.bind(LIMITED, ROLE);
    become_user(LIMITED);
    agent.launch().unwrap();
    let again = || {
        lines(&agent.log(), &["Still failing to list or watch the apiserver", "kind=\"EndpointSlice\""]).len()
    };
    assert!(wait_until(SOON, || again() >= 3), "{}", end_of(&agent.log()));
    traffic.go_on(20);
    let log = agent.log();
    let complaints = errors(&log);
    assert_eq!(complaints.len(), 1, "{complaints:#?}");
    for word in ["not permitted (403)", "endpointslices", LIMITED, "check the ClusterRole"] {
        assert!(complaints[0].contains(word), "no {word:?} in {}", complaints[0]);
    }
    assert_eq!(agent.probe("/readyz"), Some(503), "ready without slices");

    let path = format!("{ROLES}/{ROLE}");
    world.api().update(&path, &role(&["endpointslices"])).unwrap();
    agent.await_ready().unwrap_or_else(|why| panic!("{why}"));
    traffic.finish();
    world.point_at(service, "b");
    world.await_answer(service, "b");
}

fn role(slices: &[&str]) -> Value {
    let rule = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"]});
    let mut rules = vec![
        rule("", &["services", "nodes"]),
        rule("networking.k8s.io", &["servicecidrs"]),
        json!({"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]}),
    ];
    if !slices.is_empty() {
        rules.push(rule("discovery.k8s.io", slices));
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": rules,
    })
}
