//! What has no effect in manifests: misspelt field names, and slices without the label of a service.

use cluster::manifests::{RawDocument, api_version};
use cluster::objects::pairs::SERVICE_NAME;
use config::suggest::did_you_mean;
use serde_json::Value;

/// Kinds that are read. Others are none of this program's concern, unless they look like one of these.
const KINDS: [&str; 4] = ["Service", "EndpointSlice", "Node", "ServiceCIDR"];

/// Where names are known: the kind, the path, and the names that the API has there. `[]` is each item of a list.
const KNOWN: [(&str, &str, &[&str]); 11] = [
    ("Service", "", &["apiVersion", "kind", "metadata", "spec", "status"]),
    (
        "Service",
        "spec",
        &[
            "allocateLoadBalancerNodePorts",
            "clusterIP",
            "clusterIPs",
            "externalIPs",
            "externalName",
            "externalTrafficPolicy",
            "healthCheckNodePort",
            "internalTrafficPolicy",
            "ipFamilies",
            "ipFamilyPolicy",
            "loadBalancerClass",
            "loadBalancerIP",
            "loadBalancerSourceRanges",
            "ports",
            "publishNotReadyAddresses",
            "selector",
            "sessionAffinity",
            "sessionAffinityConfig",
            "trafficDistribution",
            "type",
        ],
    ),
    ("Service", "spec.ports[]", &["appProtocol", "name", "nodePort", "port", "protocol", "targetPort"]),
    ("Service", "status", &["conditions", "loadBalancer"]),
    ("Service", "status.loadBalancer.ingress[]", &["hostname", "ip", "ipMode", "ports"]),
    ("EndpointSlice", "", &["addressType", "apiVersion", "endpoints", "kind", "metadata", "ports"]),
    (
        "EndpointSlice",
        "endpoints[]",
        &[
            "addresses",
            "conditions",
            "deprecatedTopology",
            "hints",
            "hostname",
            "nodeName",
            "targetRef",
            "zone",
        ],
    ),
    ("EndpointSlice", "endpoints[].conditions", &["ready", "serving", "terminating"]),
    ("EndpointSlice", "endpoints[].hints", &["forNodes", "forZones"]),
    ("EndpointSlice", "ports[]", &["appProtocol", "name", "port", "protocol"]),
    ("ServiceCIDR", "", &["apiVersion", "kind", "metadata", "spec", "status"]),
];

/// A line for each.
pub(super) fn misspelt(document: &RawDocument) -> Vec<String> {
    let RawDocument { content, .. } = document;
    let (kind, place) = (kind(document), place(document));
    if !KINDS.contains(&kind) {
        let guess = did_you_mean("", kind, KINDS.into_iter());
        return if guess.is_empty() {
            Vec::new()
        } else {
            vec![format!("{place}: unknown kind {kind:?}{guess}")]
        };
    }
    if !is_of_its_group(document) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for (_, path, names) in KNOWN.iter().filter(|(of, ..)| *of == kind) {
        for value in values(content, path) {
            let given = value.as_object().into_iter().flatten().map(|(name, _)| name);
            for unknown in given.filter(|name| !names.contains(&name.as_str())) {
                let guess = did_you_mean("", unknown, names.iter().copied());
                let dot = if path.is_empty() { "" } else { "." };
                lines.push(format!("{place}: {path}{dot}{unknown}: unknown field, which is ignored{guess}"));
            }
        }
    }
    lines.sort();
    lines.dedup();
    lines
}

/// Objects that are passed over because they are written for another API.
pub(super) fn of_another_api(document: &RawDocument) -> Option<String> {
    let (given, place) = (given_version(document), place(document));
    if given == "v1" && kind(document) == "Endpoints" {
        return Some(format!("{place}: Endpoints are not read; write an EndpointSlice"));
    }
    // Others than Kubernetes have Services too; those are theirs.
    let group = group(given);
    let is_of_kubernetes = !group.contains('.') || group.ends_with(".k8s.io");
    let wanted = api_version(kind(document)).filter(|_| KINDS.contains(&kind(document)))?;
    (!given.is_empty() && is_of_kubernetes && !is_of_its_group(document))
        .then(|| format!("{place}: apiVersion {given:?} is not read; write {wanted}"))
}

fn is_of_its_group(document: &RawDocument) -> bool {
    let given = given_version(document);
    // Items of a list have none.
    given.is_empty() || api_version(kind(document)).is_some_and(|wanted| group(wanted) == group(given))
}

fn given_version(document: &RawDocument) -> &str {
    document.content["apiVersion"].as_str().unwrap_or_default()
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// An EndpointSlice that no service can use.
pub(super) fn without_service(document: &RawDocument) -> Option<String> {
    let (metadata, address_type) = (&document.content["metadata"], &document.content["addressType"]);
    let has = |label: &str| metadata["labels"].get(label).is_some_and(|value| value != "");
    let is_ours = kind(document) == "EndpointSlice" && is_of_its_group(document) && address_type != "FQDN";
    (is_ours && !has(SERVICE_NAME)).then(|| {
        format!(
            "{}: no label {SERVICE_NAME}, so no service uses it; add the label with the name of the service",
            place(document)
        )
    })
}

/// The name of a Service.
pub(super) fn service(document: &RawDocument) -> Option<String> {
    let metadata = |field: &str| document.content["metadata"][field].as_str().filter(|text| !text.is_empty());
    let namespace = metadata("namespace").unwrap_or("default");
    (kind(document) == "Service").then(|| format!("{namespace}/{}", metadata("name").unwrap_or_default()))
}

fn kind(document: &RawDocument) -> &str {
    document.content["kind"].as_str().unwrap_or_default()
}

fn place(document: &RawDocument) -> String {
    let RawDocument { file, number, content } = document;
    let name = content["metadata"]["name"].as_str().unwrap_or_default();
    format!("{}: document {number}: {} {name}", file.display(), kind(document))
}

fn values<'a>(content: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![content];
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (name, is_list) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
        let next = found.into_iter().map(|value| &value[name]);
        found = match is_list {
            true => next.filter_map(Value::as_array).flatten().collect(),
            false => next.collect(),
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn misspelt_names_are_found_and_foreign_kinds_left_alone() {
        let check = |content| misspelt(&RawDocument { file: "a.yaml".into(), number: 2, content });
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "anything": 1 },
            "spec": { "clusterIp": "10.96.0.1", "ports": [{ "port": 80 }, { "prot": 80 }], "selector": { "a": "b" } },
        });
        assert_eq!(
            check(service),
            [
                "a.yaml: document 2: Service web: spec.clusterIp: unknown field, which is ignored; did you mean clusterIP?",
                "a.yaml: document 2: Service web: spec.ports[].prot: unknown field, which is ignored; did you mean port?",
            ]
        );
        let slice = json!({ "kind": "EndpointSlice", "endpoints": [{ "conditions": { "raedy": true } }] });
        assert!(check(slice)[0].contains("endpoints[].conditions.raedy: unknown field"));
        let knative =
            json!({ "apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": { "template": {} } });
        assert_eq!(check(knative), Vec::<String>::new());
        assert_eq!(check(json!({ "kind": "Deployment", "spec": { "x": 1 } })), Vec::<String>::new());
        let kind = json!({ "kind": "Servce", "metadata": { "name": "x" } });
        assert!(check(kind)[0].ends_with("unknown kind \"Servce\"; did you mean Service?"));
    }

    #[test]
    fn objects_of_another_api_are_named_if_they_look_like_ours() {
        for (version, kind, said) in [
            ("v1", "EndpointSlice", Some("x: apiVersion \"v1\" is not read; write discovery.k8s.io/v1")),
            ("apps/v1", "Service", Some("x: apiVersion \"apps/v1\" is not read; write v1")),
            ("v1", "Endpoints", Some("x: Endpoints are not read; write an EndpointSlice")),
            ("v1", "Service", None),
            ("networking.k8s.io/v1beta1", "ServiceCIDR", None),
            ("serving.knative.dev/v1", "Service", None),
            ("apps/v1", "Deployment", None),
        ] {
            let content = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "x" } });
            let found = of_another_api(&RawDocument { file: "a.yaml".into(), number: 1, content });
            let wanted = said.map(|said| format!("a.yaml: document 1: {kind} {said}"));
            assert_eq!(found, wanted, "{version} {kind}");
        }
    }
}
