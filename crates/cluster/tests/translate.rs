//! What each field of an object comes to mean, table by table.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU16;

use cluster::translate::{self, Outcome, Skip};
use cluster::{NodeFacts, SliceRecord, Value, objects};
use model::{Family, Protocol, Service, TrafficPolicy};
use serde_json::{Value as Json, json};

/// A service with these fields of the spec besides a cluster IP.
fn service_json(spec: Json) -> Json {
    let mut full = json!({ "clusterIP": "10.96.0.1", "ports": [{ "port": 80 }] });
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": full })
}

fn translate_service(source: Json) -> Result<Outcome, String> {
    let source: objects::Service = serde_json::from_value(source).unwrap();
    translate::service(source).map_err(|invalid| invalid.to_string())
}

fn service(source: Json) -> Service {
    match translate_service(source).unwrap() {
        Outcome::Object(object) => match object.value {
            Value::Service(service) => *service,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn slice_json(fields: Json) -> Json {
    let mut full = json!({
        "metadata": { "name": "web-1", "namespace": "shop", "labels": { "kubernetes.io/service-name": "web" } },
        "addressType": "IPv4",
    });
    full.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    full
}

fn translate_slice(source: Json) -> Result<Outcome, String> {
    let source: objects::EndpointSlice = serde_json::from_value(source).unwrap();
    translate::endpoint_slice(source).map_err(|invalid| invalid.to_string())
}

fn slice(source: Json) -> SliceRecord {
    match translate_slice(source).unwrap() {
        Outcome::Object(object) => match object.value {
            Value::EndpointSlice(slice) => slice,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn skip(outcome: Result<Outcome, String>) -> Option<Skip> {
    match outcome.unwrap() {
        Outcome::Skipped(_, skip) => Some(skip),
        Outcome::Object(_) => None,
    }
}

#[test]
fn a_plain_service_gets_the_defaults() {
    let service = service(service_json(json!({})));
    assert_eq!(*service.cluster_ips, ["10.96.0.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(service.ports.len(), 1);
    assert_eq!(service.ports[0].protocol, Protocol::Tcp);
    assert_eq!(&*service.ports[0].name, "");
    assert_eq!(service.affinity_seconds, None);
    assert_eq!(service.internal_policy, TrafficPolicy::Cluster);
    assert_eq!(service.external_policy, TrafficPolicy::Cluster);
    assert_eq!(service.created, 0);
}

#[test]
fn services_that_are_not_proxied() {
    let labelled = |label: &str| {
        let mut source = service_json(json!({}));
        source["metadata"]["labels"] = json!({ label: "" });
        source
    };
    for (source, expected) in [
        (service_json(json!({})), None),
        (service_json(json!({ "clusterIP": "None" })), Some(Skip::Headless)),
        (service_json(json!({ "clusterIP": "None", "clusterIPs": ["None"] })), Some(Skip::Headless)),
        (service_json(json!({ "clusterIP": null, "clusterIPs": ["None"] })), Some(Skip::Headless)),
        (service_json(json!({ "clusterIP": "" })), Some(Skip::NoClusterIp)),
        (service_json(json!({ "clusterIP": null })), Some(Skip::NoClusterIp)),
        (service_json(json!({ "type": "ExternalName", "externalName": "x.org" })), Some(Skip::ExternalName)),
        (labelled("service.kubernetes.io/service-proxy-name"), Some(Skip::OtherProxy)),
        (labelled("service.kubernetes.io/headless"), Some(Skip::Headless)),
        (labelled("app"), None),
    ] {
        assert_eq!(skip(translate_service(source.clone())), expected, "{source}");
    }
}

#[test]
fn one_cluster_ip_a_family() {
    for (ips, expected) in [
        (json!(["10.0.0.1", "fd00::1"]), vec!["10.0.0.1", "fd00::1"]),
        (json!(["fd00::1", "10.0.0.1"]), vec!["fd00::1", "10.0.0.1"]),
        (json!(["10.0.0.1", "10.0.0.2"]), vec!["10.0.0.1"]),
    ] {
        let service = service(service_json(json!({ "clusterIPs": ips })));
        let got: Vec<String> = service.cluster_ips.iter().map(ToString::to_string).collect();
        assert_eq!(got, expected);
    }
}

#[test]
fn external_policy_needs_a_way_in_from_outside() {
    for (spec, expected) in [
        (json!({ "type": "ClusterIP" }), TrafficPolicy::Cluster),
        (json!({ "type": "ClusterIP", "externalIPs": ["1.2.3.4"] }), TrafficPolicy::Local),
        (json!({ "type": "NodePort" }), TrafficPolicy::Local),
        (json!({ "type": "LoadBalancer" }), TrafficPolicy::Local),
    ] {
        let mut source = service_json(spec);
        source["spec"]["externalTrafficPolicy"] = json!("Local");
        assert_eq!(service(source.clone()).external_policy, expected, "{source}");
    }
}

#[test]
fn type_decides_over_node_ports_and_balancer_addresses() {
    for (type_, node_port, balancer_ips, health_port) in [
        ("ClusterIP", None, 0, None),
        ("NodePort", NonZeroU16::new(30080), 0, None),
        ("LoadBalancer", NonZeroU16::new(30080), 1, NonZeroU16::new(30999)),
    ] {
        let mut source = service_json(json!({
            "type": type_, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30999,
            "ports": [{ "port": 80, "nodePort": 30080 }],
        }));
        source["status"] = json!({ "loadBalancer": { "ingress": [
            { "ip": "203.0.113.1" }, { "ip": "203.0.113.2", "ipMode": "Proxy" }, { "hostname": "lb.example" },
        ] } });
        let service = service(source);
        assert_eq!(service.ports[0].node_port, node_port, "{type_}");
        assert_eq!(service.load_balancer_ips.len(), balancer_ips, "{type_}");
        assert_eq!(service.health_check_node_port, health_port, "{type_}");
    }
}

#[test]
fn affinity_and_its_timeout() {
    let with_timeout = |seconds: i64| json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": seconds } } });
    for (spec, expected) in [
        (json!({ "sessionAffinity": "None" }), None),
        (json!({ "sessionAffinity": "ClientIP" }), Some(10_800)),
        (json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": null }), Some(10_800)),
        (with_timeout(60), Some(60)),
    ] {
        assert_eq!(service(service_json(spec.clone())).affinity_seconds, expected, "{spec}");
    }
}

#[test]
fn source_ranges_are_trimmed_and_masked() {
    let spec = json!({ "loadBalancerSourceRanges": [" 10.1.2.3/8 ", "fd00::1/16", "0.0.0.0/0"] });
    let ranges: Vec<String> =
        service(service_json(spec)).source_ranges.iter().map(ToString::to_string).collect();
    assert_eq!(ranges, ["10.0.0.0/8", "fd00::/16", "0.0.0.0/0"]);
}

#[test]
fn creation_time() {
    let mut source = service_json(json!({}));
    source["metadata"]["creationTimestamp"] = json!("2024-03-01T00:00:01Z");
    assert_eq!(service(source).created, 1_709_251_201);
}

#[test]
fn errors_of_services_name_the_field() {
    let ports = |port: Json| json!({ "ports": [{ "port": 80 }, port] });
    for (spec, expected) in [
        (ports(json!({ "port": 70000 })), "spec.ports[1].port: 70000 is not a port (1-65535)"),
        (ports(json!({ "port": 0 })), "spec.ports[1].port: 0 is not a port (1-65535)"),
        (ports(json!({ "port": -1 })), "spec.ports[1].port: -1 is not a port (1-65535)"),
        (ports(json!({})), "spec.ports[1].port: 0 is not a port (1-65535)"),
        (ports(json!({ "port": 80 })), "spec.ports[1]: tcp 80 is already spec.ports[0]"),
        (
            ports(json!({ "port": 1, "protocol": "ICMP" })),
            "spec.ports[1].protocol: \"ICMP\" is not a protocol (TCP, UDP or SCTP)",
        ),
        (
            ports(json!({ "port": 1, "nodePort": 99999 })),
            "spec.ports[1].nodePort: 99999 is not a port (1-65535)",
        ),
        (json!({ "clusterIP": "10.0.0" }), "spec.clusterIP: \"10.0.0\" is not an IP address"),
        (json!({ "clusterIP": "010.0.0.1" }), "spec.clusterIP: \"010.0.0.1\" is not an IP address"),
        (
            json!({ "externalIPs": ["::ffff:1.2.3.4"] }),
            "spec.externalIPs[0]: \"::ffff:1.2.3.4\" is an IPv4-mapped IPv6 address; write it as IPv4",
        ),
        (
            json!({ "loadBalancerSourceRanges": ["10.0.0.0/8", "10/8"] }),
            "spec.loadBalancerSourceRanges[1]: \"10/8\" is not a CIDR like 10.0.0.0/8",
        ),
        (
            json!({ "type": "Loadbalancer" }),
            "spec.type: \"Loadbalancer\" is not one of ClusterIP, NodePort, LoadBalancer, ExternalName",
        ),
        (
            json!({ "internalTrafficPolicy": "Near" }),
            "spec.internalTrafficPolicy: \"Near\" is not one of Cluster, Local",
        ),
        (
            json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 0 } } }),
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: 0 is not a time of 1 to 86400 seconds",
        ),
    ] {
        assert_eq!(translate_service(service_json(spec)).unwrap_err(), expected);
    }
    assert_eq!(translate_service(json!({})).unwrap_err(), "metadata.name: is missing");
}

#[test]
fn slices_that_are_ignored() {
    let labelled = |labels: Json| slice_json(json!({ "metadata": { "name": "web-1", "labels": labels } }));
    let service = "kubernetes.io/service-name";
    for (source, expected) in [
        (slice_json(json!({})), None),
        (slice_json(json!({ "addressType": "FQDN" })), Some(Skip::Fqdn)),
        (labelled(json!({})), Some(Skip::NoService)),
        (labelled(json!({ service: "" })), Some(Skip::NoService)),
        (labelled(json!({ service: "web", "service.kubernetes.io/headless": "" })), Some(Skip::Headless)),
        (
            labelled(json!({ service: "web", "service.kubernetes.io/service-proxy-name": "x" })),
            Some(Skip::OtherProxy),
        ),
    ] {
        assert_eq!(skip(translate_slice(source.clone())), expected, "{source}");
    }
}

#[test]
fn conditions_default_to_ready() {
    for (conditions, expected) in [
        (json!(null), (true, true, false)),
        (json!({}), (true, true, false)),
        (json!({ "ready": null, "serving": null, "terminating": null }), (true, true, false)),
        (json!({ "ready": false }), (false, false, false)),
        (json!({ "ready": false, "serving": true, "terminating": true }), (false, true, true)),
        (json!({ "ready": true, "serving": false }), (true, false, false)),
    ] {
        let source =
            slice_json(json!({ "endpoints": [{ "addresses": ["10.0.0.1"], "conditions": conditions }] }));
        let endpoint = &slice(source).endpoints[0];
        assert_eq!((endpoint.ready, endpoint.serving, endpoint.terminating), expected, "{conditions}");
    }
}

#[test]
fn a_slice_in_full() {
    let record = slice(slice_json(json!({
        "metadata": {
            "name": "web-1", "namespace": "shop", "labels": { "kubernetes.io/service-name": "web" },
            "annotations": { "endpoints.kubernetes.io/last-change-trigger-time": "2024-03-01T00:00:01.5Z" },
        },
        "ports": [
            { "name": "http", "port": 8080 }, { "name": null, "port": 53, "protocol": "UDP" }, { "name": "any", "port": null },
        ],
        "endpoints": [
            { "addresses": ["10.0.0.1", "10.0.0.9"], "nodeName": "a",
              "hints": { "forZones": [{ "name": "z2" }, { "name": "z1" }], "forNodes": [{ "name": "a" }] } },
            { "addresses": ["10.0.0.2"], "nodeName": "", "hints": { "forZones": null } },
        ],
    })));
    assert_eq!(&*record.service, "shop/web");
    assert_eq!(record.family, Family::V4);
    assert_eq!(record.triggered_ms, Some(1_709_251_201_500));
    let ports: Vec<_> = record.ports.iter().map(|port| (&*port.name, port.protocol, port.port)).collect();
    assert_eq!(ports, [("http", Protocol::Tcp, 8080), ("", Protocol::Udp, 53)]);
    assert_eq!(record.endpoints.len(), 2);
    let hints = record.endpoints[0].hints.as_ref().unwrap();
    assert_eq!((*hints.zones).to_vec(), vec!["z1".into(), "z2".into()] as Vec<Box<str>>);
    assert_eq!(record.endpoints[0].node.as_deref(), Some("a"));
    assert_eq!(record.endpoints[1].node, None);
    assert_eq!(record.endpoints[1].hints, None);
}

#[test]
fn errors_of_slices_name_the_field() {
    for (fields, expected) in [
        (json!({ "addressType": "IPv5" }), "addressType: \"IPv5\" is not one of IPv4, IPv6, FQDN"),
        (json!({ "endpoints": [{ "addresses": [] }] }), "endpoints[0].addresses: is empty"),
        (
            json!({ "endpoints": [{ "addresses": ["fd00::1"] }] }),
            "endpoints[0].addresses[0]: fd00::1 is not of addressType IPv4",
        ),
        (
            json!({ "endpoints": [{ "addresses": ["web"] }] }),
            "endpoints[0].addresses[0]: \"web\" is not an IP address",
        ),
        (json!({ "ports": [{ "port": 65536 }] }), "ports[0].port: 65536 is not a port (1-65535)"),
    ] {
        assert_eq!(translate_slice(slice_json(fields)).unwrap_err(), expected);
    }
}

fn facts(source: Json) -> NodeFacts {
    let source: objects::Node = serde_json::from_value(source).unwrap();
    match translate::node(source).unwrap() {
        Outcome::Object(object) => match object.value {
            Value::Node(facts) => facts,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_in_full() {
    let facts = facts(json!({
        "metadata": { "name": "a", "labels": { "topology.kubernetes.io/zone": "z1" } },
        "spec": { "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:1::/64"] },
        "status": { "addresses": [
            { "type": "ExternalIP", "address": "203.0.113.9" }, { "type": "Hostname", "address": "a" },
            { "type": "ExternalIP", "address": "2001:db8::9" },
            { "type": "InternalIP", "address": "192.168.0.9" }, { "type": "InternalIP", "address": "192.168.0.10" },
        ] },
    }));
    assert_eq!(facts.zone.as_deref(), Some("z1"));
    assert_eq!(facts.primary, [Some("192.168.0.9".parse().unwrap()), Some("2001:db8::9".parse().unwrap())]);
    assert_eq!(facts.pod_cidrs.len(), 2);
    assert!(facts.eligible);
}

#[test]
fn a_node_on_its_way_out_is_not_eligible() {
    let taint = json!({ "taints": [{ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" }] });
    assert!(!facts(json!({ "metadata": { "name": "a" }, "spec": taint })).eligible);
    assert!(
        !facts(json!({ "metadata": { "name": "a", "deletionTimestamp": "2024-03-01T00:00:01Z" } })).eligible
    );
}

/// The apiserver takes a service of 30,000 ports, and so do we, without comparing each with all others.
#[test]
fn cost_follows_the_number_of_ports() {
    let source = |count: u16| {
        let ports: Vec<Json> =
            (1..=count).map(|port| json!({ "name": format!("p{port}"), "port": port })).collect();
        serde_json::from_value::<objects::Service>(service_json(json!({ "ports": ports }))).unwrap()
    };
    // The time this thread has had of a processor: other work on the machine does not count.
    let now = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let cost = |count| {
        let source = source(count);
        let started = now();
        assert!(translate::service(source).is_ok());
        now() - started
    };
    let best = |count| (0..5).map(|_| cost(count)).min().unwrap();
    let (small, large) = (best(7_500), best(30_000));
    // Four times the size; quadratic work would cost sixteen times as much.
    assert!(large < 8 * small, "7,500 ports: {small} ns, 30,000: {large} ns");
}
