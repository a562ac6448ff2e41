//! Objects, watches and lists as an apiserver writes them, to begin with.

use cluster::apiserver::Encoding;
use cluster::{Kind, objects};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Values that decide something, in any encoding.
pub(super) const VALUES: &[&str] = &[
    "10.96.0.10",
    "fd00:96::10",
    "::ffff:10.0.0.1",
    "0.0.0.0/0",
    "ClusterIP",
    "NodePort",
    "LoadBalancer",
    "ExternalName",
    "ClientIP",
    "Local",
    "Cluster",
    "None",
    "TCP",
    "UDP",
    "SCTP",
    "IPv4",
    "IPv6",
    "FQDN",
    "VIP",
    "Proxy",
    "ADDED",
    "MODIFIED",
    "DELETED",
    "BOOKMARK",
    "ERROR",
    "InternalIP",
    "kubernetes.io/service-name",
    "service.kubernetes.io/headless",
    "k8s.io/initial-events-end",
    "k8s\0",
];

/// The same, and the words of JSON around them.
pub(super) const WORDS: &[&str] = &[
    "\"metadata\":{",
    "\"name\":",
    "\"namespace\":",
    "\"labels\":{",
    "\"spec\":{",
    "\"status\":{",
    "\"clusterIP\":",
    "\"clusterIPs\":[",
    "\"ports\":[{",
    "\"port\":",
    "\"nodePort\":",
    "\"protocol\":",
    "\"endpoints\":[{",
    "\"addresses\":[",
    "\"addressType\":",
    "\"conditions\":{",
    "\"hints\":{",
    "\"creationTimestamp\":\"2026-01-02T03:04:05Z\"",
    "\"items\":[",
    "\"type\":",
    "\"object\":{",
    "\"IPv4\"",
    "\"10.96.0.10\"",
    "null",
    "true",
    "1e99",
    "-1",
    "\\ud800",
    "}",
    "]",
    "\n",
];

/// One of each kind, in the order of [`Kind::ALL`].
fn samples() -> [Value; 4] {
    let service = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "resourceVersion": "7", "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"app": "web"}, "annotations": {"k8s.io/initial-events-end": "true"},
        },
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10", "fd00:96::10"],
            "externalIPs": ["192.0.2.1"], "loadBalancerSourceRanges": ["198.51.100.0/24", "2001:db8::/32"],
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080}, {"name": "dns", "protocol": "UDP", "port": 53}],
            "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
            "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local", "healthCheckNodePort": 32000,
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.1", "ipMode": "VIP"}, {"hostname": "x"}]}},
    });
    let slice = json!({
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"},
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-02T03:04:05.678Z"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}, {"name": "dns", "protocol": "UDP", "port": 5353}],
        "endpoints": [
            {"addresses": ["10.244.1.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
             "nodeName": "node-1", "hints": {"forZones": [{"name": "a"}], "forNodes": [{"name": "node-1"}]}},
            {"addresses": ["10.244.1.2"]},
        ],
    });
    let node = json!({
        "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "a"}, "deletionTimestamp": "2026-01-02T03:04:05+01:00"},
        "spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"], "taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.50.2"}, {"type": "Hostname", "address": "n"}]},
    });
    let cidr =
        json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/12", "fd00:96::/108"]}});
    [service, slice, node, cidr]
}

fn spelled(kind: Kind, object: &Value, encoding: Encoding) -> Vec<u8> {
    match (encoding, kind) {
        (Encoding::Json, _) => object.to_string().into_bytes(),
        (Encoding::Protobuf, Kind::Service) => message::<objects::Service>(object),
        (Encoding::Protobuf, Kind::EndpointSlice) => message::<objects::EndpointSlice>(object),
        (Encoding::Protobuf, Kind::Node) => message::<objects::Node>(object),
        (Encoding::Protobuf, Kind::ServiceCidr) => message::<objects::ServiceCidr>(object),
    }
}

fn message<T: Message + DeserializeOwned>(object: &Value) -> Vec<u8> {
    serde_json::from_value::<T>(object.clone()).unwrap().encode_to_vec()
}

/// Each with its kind before it, and one that is a status.
pub(super) fn objects(encoding: Encoding) -> Vec<Vec<u8>> {
    let status = json!({"message": "gone", "reason": "Expired", "code": 410});
    let status = match encoding {
        Encoding::Json => status.to_string().into_bytes(),
        Encoding::Protobuf => [field(3, b"gone"), field(4, b"Expired"), vec![0x30, 0x9a, 3]].concat(),
    };
    let samples = samples().into_iter().zip(Kind::ALL).enumerate();
    let objects = samples
        .map(|(number, (object, kind))| [vec![number as u8], spelled(kind, &object, encoding)].concat());
    objects.chain([[vec![0], status].concat()]).collect()
}

/// How it is cut, for `super::objects`.
const CUT: [u8; 3] = [6, 0, 40];

pub(super) fn watches(encoding: Encoding) -> Vec<Vec<u8>> {
    let samples = samples().into_iter().zip(Kind::ALL).enumerate();
    let watches = samples.map(|(number, (object, kind))| {
        let event = |word: &str| event(word, kind, &object, encoding);
        [
            vec![number as u8],
            CUT.to_vec(),
            event("ADDED"),
            event("MODIFIED"),
            event("BOOKMARK"),
            event("DELETED"),
        ]
        .concat()
    });
    watches.collect()
}

fn event(word: &str, kind: Kind, object: &Value, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Json => format!("{}\n", json!({"type": word, "object": object})).into_bytes(),
        Encoding::Protobuf => {
            let raw = field(1, &envelope(&spelled(kind, object, encoding)));
            let event = [field(1, word.as_bytes()), field(2, &raw)].concat();
            [&(event.len() as u32).to_be_bytes()[..], &event].concat()
        }
    }
}

pub(super) fn lists(encoding: Encoding) -> Vec<Vec<u8>> {
    let samples = samples().into_iter().zip(Kind::ALL).enumerate();
    let lists = samples.map(|(number, (object, kind))| {
        let body = match encoding {
            Encoding::Json => {
                let metadata = json!({"resourceVersion": "9", "continue": "more"});
                json!({"metadata": metadata, "items": [object, object]}).to_string().into_bytes()
            }
            Encoding::Protobuf => {
                let metadata = [field(2, b"9"), field(3, b"more")].concat();
                let item = field(2, &spelled(kind, &object, encoding));
                envelope(&[field(1, &metadata), item.clone(), item].concat())
            }
        };
        [vec![number as u8], CUT.to_vec(), body].concat()
    });
    lists.collect()
}

fn envelope(raw: &[u8]) -> Vec<u8> {
    [b"k8s\0".to_vec(), field(1, &[field(1, b"v1"), field(2, b"Any")].concat()), field(2, raw)].concat()
}

fn field(number: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_key(number, WireType::LengthDelimited, &mut bytes);
    encode_varint(value.len() as u64, &mut bytes);
    bytes.extend_from_slice(value);
    bytes
}
