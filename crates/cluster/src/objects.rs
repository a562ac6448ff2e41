//! Kubernetes objects as JSON and YAML spell them, reduced to the fields the proxy reads.
//!
//! Unknown fields are ignored and an explicit `null` counts as absent, as the API has it. Numbers are
//! wide and strings free here; what they may hold is for [`crate::translate`] to say, which knows the field.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// `null` where a list, map or struct is expected: Go writes it for an empty slice.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(source: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(source).map(Option::unwrap_or_default)
}

/// What every object has.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Header {
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub metadata: Identity,
}

/// The part of the metadata that names an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Identity {
    pub name: Option<String>,
    pub namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub namespace: String,
    #[serde(deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    pub annotations: BTreeMap<String, String>,
    pub creation_timestamp: Option<String>,
    pub deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub spec: ServiceSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: ServiceStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    #[serde(rename = "type")]
    pub type_: Option<String>,
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    #[serde(rename = "clusterIPs", deserialize_with = "nullable")]
    pub cluster_ips: Vec<String>,
    #[serde(rename = "externalIPs", deserialize_with = "nullable")]
    pub external_ips: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<ServicePort>,
    #[serde(deserialize_with = "nullable")]
    pub load_balancer_source_ranges: Vec<String>,
    pub session_affinity: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub session_affinity_config: SessionAffinityConfig,
    pub internal_traffic_policy: Option<String>,
    pub external_traffic_policy: Option<String>,
    pub health_check_node_port: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    pub name: Option<String>,
    pub protocol: Option<String>,
    pub port: Option<i64>,
    pub node_port: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SessionAffinityConfig {
    #[serde(rename = "clientIP", deserialize_with = "nullable")]
    pub client_ip: ClientIpConfig,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIpConfig {
    pub timeout_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    #[serde(deserialize_with = "nullable")]
    pub load_balancer: LoadBalancerStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LoadBalancerStatus {
    #[serde(deserialize_with = "nullable")]
    pub ingress: Vec<LoadBalancerIngress>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerIngress {
    pub ip: Option<String>,
    pub ip_mode: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    pub address_type: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub endpoints: Vec<Endpoint>,
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<EndpointPort>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    #[serde(deserialize_with = "nullable")]
    pub addresses: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub conditions: EndpointConditions,
    pub node_name: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub hints: EndpointHints,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    pub ready: Option<bool>,
    pub serving: Option<bool>,
    pub terminating: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    #[serde(deserialize_with = "nullable")]
    pub for_zones: Vec<Named>,
    #[serde(deserialize_with = "nullable")]
    pub for_nodes: Vec<Named>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Named {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct EndpointPort {
    pub name: Option<String>,
    pub protocol: Option<String>,
    pub port: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub spec: NodeSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs", deserialize_with = "nullable")]
    pub pod_cidrs: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub taints: Vec<Taint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Taint {
    #[serde(deserialize_with = "nullable")]
    pub key: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    #[serde(deserialize_with = "nullable")]
    pub addresses: Vec<NodeAddress>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub type_: String,
    #[serde(deserialize_with = "nullable")]
    pub address: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub spec: ServiceCidrSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    #[serde(deserialize_with = "nullable")]
    pub cidrs: Vec<String>,
}
