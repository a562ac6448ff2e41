//! Kubernetes objects as JSON, YAML and protobuf spell them, reduced to the fields the proxy reads.
//!
//! Unknown fields are ignored and an explicit `null` counts as absent, as the API has it. Numbers are
//! wide and strings free here; what they may hold is for [`crate::translate`] to say, which knows the field.
//! (On the wire an `int32` reads as an `int64`: negative numbers are sign-extended to ten bytes.)

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// `null` where a list, map or struct is expected: Go writes it for an empty slice.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(source: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(source).map(Option::unwrap_or_default)
}

/// A point in time: RFC 3339 in text, two numbers in protobuf.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Timestamp {
    /// Since the epoch.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
}

/// Absent, `null` and empty are one.
fn timestamp<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(source)?.filter(|text| !text.is_empty());
    let Some(text) = text else { return Ok(None) };
    let millis = crate::timestamp::parse_millis(&text)
        .ok_or_else(|| D::Error::custom(format!("{text:?} is not an RFC 3339 timestamp")))?;
    Ok(Some(Timestamp { seconds: millis.div_euclid(1_000) }))
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

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    #[serde(deserialize_with = "nullable")]
    #[prost(string, tag = "1")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[serde(deserialize_with = "nullable")]
    #[prost(btree_map = "string, string", tag = "11")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    #[prost(btree_map = "string, string", tag = "12")]
    pub annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    #[prost(string, tag = "6")]
    pub resource_version: String,
    #[serde(deserialize_with = "timestamp")]
    #[prost(message, optional, tag = "8")]
    pub creation_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "timestamp")]
    #[prost(message, optional, tag = "9")]
    pub deletion_timestamp: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct Service {
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "1")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "2")]
    pub spec: ServiceSpec,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "3")]
    pub status: ServiceStatus,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    #[serde(rename = "type")]
    #[prost(string, optional, tag = "4")]
    pub type_: Option<String>,
    #[serde(rename = "clusterIP")]
    #[prost(string, optional, tag = "3")]
    pub cluster_ip: Option<String>,
    #[serde(rename = "clusterIPs", deserialize_with = "nullable")]
    #[prost(string, repeated, tag = "18")]
    pub cluster_ips: Vec<String>,
    #[serde(rename = "externalIPs", deserialize_with = "nullable")]
    #[prost(string, repeated, tag = "5")]
    pub external_ips: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, repeated, tag = "1")]
    pub ports: Vec<ServicePort>,
    #[serde(deserialize_with = "nullable")]
    #[prost(string, repeated, tag = "9")]
    pub load_balancer_source_ranges: Vec<String>,
    #[prost(string, optional, tag = "7")]
    pub session_affinity: Option<String>,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "14")]
    pub session_affinity_config: SessionAffinityConfig,
    #[prost(string, optional, tag = "22")]
    pub internal_traffic_policy: Option<String>,
    #[prost(string, optional, tag = "11")]
    pub external_traffic_policy: Option<String>,
    #[prost(int64, optional, tag = "12")]
    pub health_check_node_port: Option<i64>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub protocol: Option<String>,
    #[prost(int64, optional, tag = "3")]
    pub port: Option<i64>,
    #[prost(int64, optional, tag = "5")]
    pub node_port: Option<i64>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct SessionAffinityConfig {
    #[serde(rename = "clientIP", deserialize_with = "nullable")]
    #[prost(message, required, tag = "1")]
    pub client_ip: ClientIpConfig,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIpConfig {
    #[prost(int64, optional, tag = "1")]
    pub timeout_seconds: Option<i64>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "1")]
    pub load_balancer: LoadBalancerStatus,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct LoadBalancerStatus {
    #[serde(deserialize_with = "nullable")]
    #[prost(message, repeated, tag = "1")]
    pub ingress: Vec<LoadBalancerIngress>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerIngress {
    #[prost(string, optional, tag = "1")]
    pub ip: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub ip_mode: Option<String>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "1")]
    pub metadata: Metadata,
    #[prost(string, optional, tag = "4")]
    pub address_type: Option<String>,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, repeated, tag = "2")]
    pub endpoints: Vec<Endpoint>,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, repeated, tag = "3")]
    pub ports: Vec<EndpointPort>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    #[serde(deserialize_with = "nullable")]
    #[prost(string, repeated, tag = "1")]
    pub addresses: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "2")]
    pub conditions: EndpointConditions,
    #[prost(string, optional, tag = "6")]
    pub node_name: Option<String>,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "8")]
    pub hints: EndpointHints,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct EndpointConditions {
    #[prost(bool, optional, tag = "1")]
    pub ready: Option<bool>,
    #[prost(bool, optional, tag = "2")]
    pub serving: Option<bool>,
    #[prost(bool, optional, tag = "3")]
    pub terminating: Option<bool>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    #[serde(deserialize_with = "nullable")]
    #[prost(message, repeated, tag = "1")]
    pub for_zones: Vec<Named>,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, repeated, tag = "2")]
    pub for_nodes: Vec<Named>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct Named {
    #[serde(deserialize_with = "nullable")]
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct EndpointPort {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub protocol: Option<String>,
    #[prost(int64, optional, tag = "3")]
    pub port: Option<i64>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct Node {
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "1")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "2")]
    pub spec: NodeSpec,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "3")]
    pub status: NodeStatus,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct NodeSpec {
    #[serde(rename = "podCIDR")]
    #[prost(string, optional, tag = "1")]
    pub pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs", deserialize_with = "nullable")]
    #[prost(string, repeated, tag = "7")]
    pub pod_cidrs: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, repeated, tag = "5")]
    pub taints: Vec<Taint>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct Taint {
    #[serde(deserialize_with = "nullable")]
    #[prost(string, tag = "1")]
    pub key: String,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct NodeStatus {
    #[serde(deserialize_with = "nullable")]
    #[prost(message, repeated, tag = "5")]
    pub addresses: Vec<NodeAddress>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct NodeAddress {
    #[serde(rename = "type", deserialize_with = "nullable")]
    #[prost(string, tag = "1")]
    pub type_: String,
    #[serde(deserialize_with = "nullable")]
    #[prost(string, tag = "2")]
    pub address: String,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct ServiceCidr {
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "1")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "2")]
    pub spec: ServiceCidrSpec,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct ServiceCidrSpec {
    #[serde(deserialize_with = "nullable")]
    #[prost(string, repeated, tag = "1")]
    pub cidrs: Vec<String>,
}
