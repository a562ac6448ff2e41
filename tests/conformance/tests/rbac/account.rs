//! Service accounts and roles, made from what is shipped.

use std::path::Path;

use conformance_support::{Api, paths};
use serde_json::{Value, json};

pub(crate) const ACCOUNTS: &str = "/api/v1/namespaces/kube-system/serviceaccounts";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// The account, the role and the binding that we ship.
pub(crate) fn shipped() -> [Value; 3] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/base/rbac.yaml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let documents: Vec<Value> =
        text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
    let kinds: Vec<&str> = documents.iter().filter_map(|document| document["kind"].as_str()).collect();
    assert_eq!(kinds, ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]);
    documents.try_into().unwrap()
}

/// The same under another name.
pub(crate) fn create_like_shipped(api: &Api, name: &str) {
    let [mut account, mut role, mut binding] = shipped();
    for object in [&mut account, &mut role, &mut binding] {
        object["metadata"]["name"] = name.into();
    }
    binding["roleRef"]["name"] = name.into();
    binding["subjects"][0]["name"] = name.into();
    apply(api, &[account, role, binding]);
}

pub(crate) fn apply(api: &Api, objects: &[Value]) {
    for object in objects {
        api.apply(&paths::object(object), object).unwrap();
    }
}

pub(crate) fn set_rules(api: &Api, role: &str, rules: &Value) {
    api.patch(&format!("{ROLES}/{role}"), &json!({"rules": rules})).unwrap();
}

/// The shipped rules without one verb on one resource.
pub(crate) fn rules_without(resource: &str, verb: &str) -> Value {
    let [_, role, _] = shipped();
    let (mut rules, mut found) = (Vec::new(), 0);
    for rule in role["rules"].as_array().unwrap() {
        for of in rule["resources"].as_array().unwrap() {
            let mut rule = rule.clone();
            rule["resources"] = json!([of]);
            let verbs = rule["verbs"].as_array_mut().unwrap();
            let before = verbs.len();
            verbs.retain(|of_rule| of != resource || of_rule != verb);
            found += before - verbs.len();
            rules.push(rule);
        }
    }
    assert_eq!(found, 1, "{verb} on {resource} in {role:#}");
    json!(rules)
}

/// Every resource and verb that the role names.
pub(crate) fn rights() -> Vec<(String, String)> {
    let [_, role, _] = shipped();
    let words = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let rules = role["rules"].as_array().unwrap().iter();
    rules
        .flat_map(|rule| {
            let verbs = words(&rule["verbs"]);
            words(&rule["resources"])
                .into_iter()
                .flat_map(move |resource| verbs.clone().into_iter().map(move |verb| (resource.clone(), verb)))
        })
        .collect()
}

/// What the server's authorizer says of an account; it learns of roles a little later.
pub(crate) fn may(api: &Api, account: &str, (resource, verb): (&str, &str)) -> bool {
    let group = match resource {
        "endpointslices" => "discovery.k8s.io",
        "servicecidrs" => "networking.k8s.io",
        "events" => "events.k8s.io",
        _ => "",
    };
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:serviceaccount:kube-system:{account}"),
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {"group": group, "resource": resource, "verb": verb},
        },
    });
    let answer = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).unwrap();
    answer.pointer("/status/allowed") == Some(&Value::Bool(true))
}
