//! What the API refuses of the world's services, in its own words, and what is sent instead.

use serde_json::Value;

/// One kind of refusal.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub name: &'static str,
    /// Part of the API's message.
    pub words: &'static str,
    /// For how many services of the world it says so.
    pub services: usize,
    pub(super) amend: fn(&mut Value),
}

pub const RULES: &[Rule] = &[
    Rule {
        name: "a service of type ClusterIP has no node ports",
        words: "may not be used when `type` is 'ClusterIP'",
        services: 18,
        amend: drop_node_ports,
    },
    Rule {
        name: "a service of type ExternalName has no cluster IPs",
        words: "may not be set for ExternalName services",
        services: 1,
        amend: |service| drop_fields(service, &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]),
    },
    Rule {
        name: "only a service of type LoadBalancer has balancer IPs",
        words: "may only be used when `spec.type` is 'LoadBalancer'",
        services: 2,
        amend: |service| service["status"]["loadBalancer"]["ingress"] = Value::Array(Vec::new()),
    },
    Rule {
        name: "a headless service is no LoadBalancer",
        words: "may not be set to 'None' for LoadBalancer services",
        services: 1,
        amend: |service| service["spec"]["type"] = "ClusterIP".into(),
    },
];

fn drop_node_ports(service: &mut Value) {
    for port in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
        port.as_object_mut().map(|port| port.remove("nodePort"));
    }
}

fn drop_fields(service: &mut Value, fields: &[&str]) {
    if let Some(spec) = service["spec"].as_object_mut() {
        spec.retain(|field, _| !fields.contains(&&**field));
    }
}
