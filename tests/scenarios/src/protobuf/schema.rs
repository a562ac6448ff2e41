//! The field numbers of the kinds we write, as Kubernetes publishes them.

/// A field: its name in JSON, its number, and how its value is written. A list in JSON is the field several times.
#[derive(Debug)]
pub(super) struct Field(pub(super) &'static str, pub(super) u64, pub(super) Shape);

#[derive(Debug)]
pub(super) enum Shape {
    /// A text, a number or a truth value, as the JSON has it.
    Plain,
    Message(&'static [Field]),
    /// From text to text.
    Map,
    /// A target port.
    NumberOrName,
}

use Shape::{Map, Message, NumberOrName, Plain};

type Fields = &'static [Field];

pub(super) fn of_kind(kind: &str) -> Option<Fields> {
    match kind {
        "Service" => Some(SERVICE),
        "EndpointSlice" => Some(SLICE),
        "Node" => Some(NODE),
        "ServiceCIDR" => Some(SERVICE_CIDR),
        _ => None,
    }
}

const SERVICE: Fields = &[
    Field("metadata", 1, Message(METADATA)),
    Field("spec", 2, Message(SERVICE_SPEC)),
    Field("status", 3, Message(&[Field("loadBalancer", 1, Message(LOAD_BALANCER))])),
];

const SLICE: Fields = &[
    Field("metadata", 1, Message(METADATA)),
    Field("endpoints", 2, Message(ENDPOINT)),
    Field("ports", 3, Message(ENDPOINT_PORT)),
    Field("addressType", 4, Plain),
];

const NODE: Fields = &[
    Field("metadata", 1, Message(METADATA)),
    Field("spec", 2, Message(NODE_SPEC)),
    Field("status", 3, Message(&[Field("addresses", 5, Message(NODE_ADDRESS))])),
];

const SERVICE_CIDR: Fields =
    &[Field("metadata", 1, Message(METADATA)), Field("spec", 2, Message(&[Field("cidrs", 1, Plain)]))];

pub(super) const METADATA: Fields = &[
    Field("name", 1, Plain),
    Field("generateName", 2, Plain),
    Field("namespace", 3, Plain),
    Field("uid", 5, Plain),
    Field("resourceVersion", 6, Plain),
    Field("labels", 11, Map),
    Field("annotations", 12, Map),
    Field("finalizers", 14, Plain),
];

const SERVICE_SPEC: Fields = &[
    Field("ports", 1, Message(SERVICE_PORT)),
    Field("selector", 2, Map),
    Field("clusterIP", 3, Plain),
    Field("type", 4, Plain),
    Field("externalIPs", 5, Plain),
    Field("sessionAffinity", 7, Plain),
    Field("loadBalancerIP", 8, Plain),
    Field("loadBalancerSourceRanges", 9, Plain),
    Field("externalName", 10, Plain),
    Field("externalTrafficPolicy", 11, Plain),
    Field("healthCheckNodePort", 12, Plain),
    Field("publishNotReadyAddresses", 13, Plain),
    Field("sessionAffinityConfig", 14, Message(AFFINITY)),
    Field("ipFamilyPolicy", 17, Plain),
    Field("clusterIPs", 18, Plain),
    Field("ipFamilies", 19, Plain),
    Field("allocateLoadBalancerNodePorts", 20, Plain),
    Field("loadBalancerClass", 21, Plain),
    Field("internalTrafficPolicy", 22, Plain),
    Field("trafficDistribution", 23, Plain),
];

const AFFINITY: Fields = &[Field("clientIP", 1, Message(&[Field("timeoutSeconds", 1, Plain)]))];

pub(super) const SERVICE_PORT: Fields = &[
    Field("name", 1, Plain),
    Field("protocol", 2, Plain),
    Field("port", 3, Plain),
    Field("targetPort", 4, NumberOrName),
    Field("nodePort", 5, Plain),
    Field("appProtocol", 6, Plain),
];

const LOAD_BALANCER: Fields = &[Field("ingress", 1, Message(INGRESS))];
const INGRESS: Fields = &[Field("ip", 1, Plain), Field("hostname", 2, Plain), Field("ipMode", 3, Plain)];

pub(super) const ENDPOINT: Fields = &[
    Field("addresses", 1, Plain),
    Field("conditions", 2, Message(CONDITIONS)),
    Field("hostname", 3, Plain),
    Field("nodeName", 6, Plain),
    Field("zone", 7, Plain),
    Field("hints", 8, Message(HINTS)),
];

const CONDITIONS: Fields =
    &[Field("ready", 1, Plain), Field("serving", 2, Plain), Field("terminating", 3, Plain)];
const HINTS: Fields = &[Field("forZones", 1, Message(NAMED)), Field("forNodes", 2, Message(NAMED))];
const NAMED: Fields = &[Field("name", 1, Plain)];

const ENDPOINT_PORT: Fields = &[
    Field("name", 1, Plain),
    Field("protocol", 2, Plain),
    Field("port", 3, Plain),
    Field("appProtocol", 4, Plain),
];

const NODE_SPEC: Fields =
    &[Field("podCIDR", 1, Plain), Field("taints", 5, Message(TAINT)), Field("podCIDRs", 7, Plain)];
const TAINT: Fields = &[Field("key", 1, Plain), Field("value", 2, Plain), Field("effect", 3, Plain)];
const NODE_ADDRESS: Fields = &[Field("type", 1, Plain), Field("address", 2, Plain)];
