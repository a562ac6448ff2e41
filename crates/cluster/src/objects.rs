//! Kubernetes objects as JSON, YAML and protobuf spell them, reduced to the fields the proxy reads.
//!
//! Unknown fields are ignored and an explicit `null` counts as absent, as the API has it. Numbers are
//! wide and texts are free here, UTF-8 or not; what they may hold is for [`crate::translate`] to say, which knows the field.
//! (On the wire an `int32` reads as an `int64`: negative numbers are sign-extended to ten bytes.)

pub mod pairs;
mod text;

use serde::{Deserialize, Deserializer};

pub use pairs::Pairs;
pub use text::{Text, shown};

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

/// Absent, `null` and empty are one. An unreadable time still counts as one: what is being deleted is.
fn timestamp<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(source)?.filter(|text| !text.is_empty());
    let seconds = |text: &str| crate::timestamp::parse_millis(text).unwrap_or(0).div_euclid(1_000);
    Ok(text.map(|text| Timestamp { seconds: seconds(&text) }))
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
    #[serde(deserialize_with = "text::text")]
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Text,
    #[serde(deserialize_with = "text::text")]
    #[prost(bytes = "bytes", tag = "3")]
    pub namespace: Text,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "11")]
    pub labels: Pairs,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "12")]
    pub annotations: Pairs,
    #[serde(deserialize_with = "text::text")]
    #[prost(bytes = "bytes", tag = "6")]
    pub resource_version: Text,
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
    #[serde(rename = "type", deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub type_: Option<Text>,
    #[serde(rename = "clusterIP", deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub cluster_ip: Option<Text>,
    #[serde(rename = "clusterIPs", deserialize_with = "text::list")]
    #[prost(bytes = "bytes", repeated, tag = "18")]
    pub cluster_ips: Vec<Text>,
    #[serde(rename = "externalIPs", deserialize_with = "text::list")]
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub external_ips: Vec<Text>,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, repeated, tag = "1")]
    pub ports: Vec<ServicePort>,
    #[serde(deserialize_with = "text::list")]
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub load_balancer_source_ranges: Vec<Text>,
    #[serde(deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub session_affinity: Option<Text>,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "14")]
    pub session_affinity_config: SessionAffinityConfig,
    #[serde(deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "22")]
    pub internal_traffic_policy: Option<Text>,
    #[serde(deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "11")]
    pub external_traffic_policy: Option<Text>,
    #[prost(int64, optional, tag = "12")]
    pub health_check_node_port: Option<i64>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    #[serde(deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub name: Option<Text>,
    #[serde(deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub protocol: Option<Text>,
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
    #[serde(deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub ip: Option<Text>,
    #[serde(deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub ip_mode: Option<Text>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "1")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub address_type: Option<Text>,
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
    #[serde(deserialize_with = "text::list")]
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub addresses: Vec<Text>,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, required, tag = "2")]
    pub conditions: EndpointConditions,
    #[serde(deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub node_name: Option<Text>,
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
    #[serde(deserialize_with = "text::text")]
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Text,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct EndpointPort {
    #[serde(deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub name: Option<Text>,
    #[serde(deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub protocol: Option<Text>,
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
    #[serde(rename = "podCIDR", deserialize_with = "text::optional")]
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub pod_cidr: Option<Text>,
    #[serde(rename = "podCIDRs", deserialize_with = "text::list")]
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub pod_cidrs: Vec<Text>,
    #[serde(deserialize_with = "nullable")]
    #[prost(message, repeated, tag = "5")]
    pub taints: Vec<Taint>,
}

#[derive(Clone, PartialEq, Deserialize, prost::Message)]
#[serde(default)]
pub struct Taint {
    #[serde(deserialize_with = "text::text")]
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Text,
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
    #[serde(rename = "type", deserialize_with = "text::text")]
    #[prost(bytes = "bytes", tag = "1")]
    pub type_: Text,
    #[serde(deserialize_with = "text::text")]
    #[prost(bytes = "bytes", tag = "2")]
    pub address: Text,
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
    #[serde(deserialize_with = "text::list")]
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub cidrs: Vec<Text>,
}
