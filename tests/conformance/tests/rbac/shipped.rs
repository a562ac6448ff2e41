//! Roles that must suffice.

use conformance_support::log::complaints;
use conformance_support::release;
use conformance_support::site::{Expect, SOON};
use serde_json::{Value, json};
use test_support::wait_until;

use crate::account;
use crate::court::{Court, Party};
use crate::events;
use crate::lacking::{LACKS, Lack};

/// `deploy/base/rbac.yaml`, applied as it is. Every right in it is one that is missed elsewhere in these tests.
pub(crate) fn ours(court: &Court) {
    let rights = account::rights();
    let known: Vec<(String, String)> =
        LACKS.iter().map(|lack| (lack.resource.to_owned(), lack.verb.to_owned())).collect();
    assert_eq!(rights, known, "rights that nobody misses, or that are not there");
    account::apply(court.api(), &account::shipped());
    work_as(&court.party("as-shipped", 60), "pointsman");
}

/// kubeadm binds the service account of its kube-proxy to the apiserver's own role.
pub(crate) fn upstream(court: &Court) {
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "kube-proxy", "namespace": "kube-system"},
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "kubeadm:node-proxier"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-proxier"},
        "subjects": [{"kind": "ServiceAccount", "name": "kube-proxy", "namespace": "kube-system"}],
    });
    account::apply(court.api(), &[account, binding]);
    work_as(&court.party("as-kubeadm", 62), "kube-proxy");
}

/// The role of an old release does not name what its API does not have.
fn is_there(lack: &Lack) -> bool {
    lack.resource != "servicecidrs" || release::has_service_cidrs()
}

/// Come up, follow, tell.
fn work_as(party: &Party<'_>, account: &str) {
    let may = |resource, verb| account::may(party.court.api(), account, (resource, verb));
    assert!(
        wait_until(SOON, || LACKS
            .iter()
            .filter(|lack| is_there(lack))
            .all(|lack| may(lack.resource, lack.verb))),
        "{account} lacks a right"
    );
    let agent = party.agent(account);
    party.expect_first(Expect::By(&["a"]));
    party.point_at("b");
    party.expect_first(Expect::By(&["b"]));
    party.create_second_service();
    party.expect_second(Expect::Refused);
    let found = wait_until(SOON, || !events::about(party, "Starting").is_empty());
    assert!(found, "no event:\n{}", agent.log());
    let default = events::about(party, "KubeProxyDefaultMode");
    assert_eq!(default.iter().map(|event| &event["type"]).collect::<Vec<_>>(), [&Value::from("Warning")]);
    let log = agent.log();
    let complaints = complaints(&log);
    assert!(complaints.is_empty(), "{complaints:#?}");
}
