//! What each field of an object comes to mean, table by table.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::num::NonZeroU16;

use cluster::translate::{self, Flaws, Outcome, Skip, Translated};
use cluster::{NodeFacts, SliceRecord, Value, objects};
use model::{Family, Protocol, Service, TrafficPolicy};
use serde_json::{Value as Json, json};

/// A service with these fields of the spec besides a cluster IP.
fn service_json(spec: Json) -> Json {
    let mut full = json!({ "clusterIP": "10.96.0.1", "ports": [{ "port": 80 }] });
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": full })
}

fn translate_service(source: Json) -> Result<Translated, String> {
    let source: objects::Service = serde_json::from_value(source).unwrap();
    translate::service(source).map_err(|invalid| invalid.to_string())
}

fn service(source: Json) -> Service {
    match translate_service(source).unwrap().outcome {
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

fn translate_slice(source: Json) -> Result<Translated, String> {
    let source: objects::EndpointSlice = serde_json::from_value(source).unwrap();
    translate::endpoint_slice(source).map_err(|invalid| invalid.to_string())
}

fn slice(source: Json) -> SliceRecord {
    match translate_slice(source).unwrap().outcome {
        Outcome::Object(object) => match object.value {
            Value::EndpointSlice(slice) => slice,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn skip(translated: Result<Translated, String>) -> Option<Skip> {
    match translated.unwrap().outcome {
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

/// Left out and named; the rest of the service is as if they were not there.
#[test]
fn entries_of_services_that_cannot_be_used_are_left_out() {
    let ports = |port: Json| json!({ "ports": [port, { "port": 80 }] });
    for (spec, expected) in [
        (ports(json!({ "port": 70000 })), "spec.ports[0].port: 70000 is not a port (1-65535)"),
        (ports(json!({ "port": 0 })), "spec.ports[0].port: 0 is not a port (1-65535)"),
        (ports(json!({ "port": -1 })), "spec.ports[0].port: -1 is not a port (1-65535)"),
        (ports(json!({})), "spec.ports[0].port: 0 is not a port (1-65535)"),
        (
            ports(json!({ "port": 1, "protocol": "ICMP" })),
            "spec.ports[0].protocol: \"ICMP\" is not a protocol (TCP, UDP or SCTP)",
        ),
        (ports(json!({ "port": 80, "name": "first" })), "spec.ports[1]: tcp 80 is already spec.ports[0]"),
        (
            json!({ "clusterIPs": ["10.0.0", "10.96.0.1"] }),
            "spec.clusterIPs[0]: \"10.0.0\" is not an IP address",
        ),
        (json!({ "externalIPs": ["any"] }), "spec.externalIPs[0]: \"any\" is not an IP address"),
        (
            json!({ "externalIPs": ["127.0.0.1"] }),
            "spec.externalIPs[0]: \"127.0.0.1\" is not an address of a service",
        ),
        (json!({ "externalIPs": ["::"] }), "spec.externalIPs[0]: \"::\" is not an address of a service"),
    ] {
        let spec = service_json(spec);
        assert_eq!(flaws(spec.clone()).to_string(), expected);
        let service = service(spec);
        let left: Vec<u16> = service.ports.iter().map(|port| port.port).collect();
        assert_eq!((left, &*service.external_ips), (vec![80], &[][..]), "{expected}");
        assert_eq!(*service.cluster_ips, ["10.96.0.1".parse::<std::net::IpAddr>().unwrap()], "{expected}");
    }
    let mut balanced = service_json(json!({ "type": "LoadBalancer" }));
    balanced["status"] =
        json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113" }, { "ip": "203.0.113.2" }] } });
    let flaw = "status.loadBalancer.ingress[0].ip: \"203.0.113\" is not an IP address";
    assert_eq!(flaws(balanced.clone()).to_string(), flaw);
    assert_eq!(service(balanced.clone()).load_balancer_ips.len(), 1);
    balanced["status"]["loadBalancer"]["ingress"][0]["ip"] = json!("::1");
    let flaw = "status.loadBalancer.ingress[0].ip: \"::1\" is not an address of a service";
    assert_eq!(flaws(balanced.clone()).to_string(), flaw);
    assert_eq!(service(balanced).load_balancer_ips.len(), 1);
    let node_port = service_json(json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": 99999 }] }));
    let flaw = "spec.ports[0].nodePort: 99999 is not a port (1-65535)";
    assert_eq!(flaws(node_port.clone()).to_string(), flaw);
    assert_eq!(service(node_port).ports[0].node_port, None, "the port itself stays");
}

fn flaws(source: Json) -> Flaws {
    translate_service(source).unwrap().flaws
}

#[test]
fn many_entries_are_counted_and_few_are_named() {
    let ports: Vec<Json> = (0..5000).map(|_| json!({ "port": 70000 })).collect();
    let flaws = flaws(service_json(json!({ "ports": ports })));
    assert_eq!(flaws.count, 5000);
    let text = flaws.to_string();
    assert!(text.ends_with("; and 4997 more") && text.len() < 300, "{text}");
}

/// Clients that were to be kept out stay out.
#[test]
fn a_source_range_that_is_left_out_lets_nobody_else_in() {
    for (ranges, expected) in [
        (json!(["10/8"]), vec!["0.0.0.0/32", "::/128"]),
        (json!([""]), vec!["0.0.0.0/32", "::/128"]),
        (json!(["10.0.0.0/8", "11/8"]), vec!["10.0.0.0/8", "::/128"]),
        (json!(["10/8", "fd00::/8"]), vec!["fd00::/8", "0.0.0.0/32"]),
        (json!(["10/8", "fd00::/8", "11.0.0.0/8"]), vec!["fd00::/8", "11.0.0.0/8"]),
        (json!(["fd00::/8"]), vec!["fd00::/8"]),
        (json!([]), vec![]),
    ] {
        let service = service(service_json(json!({ "loadBalancerSourceRanges": ranges })));
        let got: Vec<String> = service.source_ranges.iter().map(ToString::to_string).collect();
        assert_eq!(got, expected, "{ranges}");
    }
}

#[test]
fn addresses_as_old_releases_stored_them() {
    let service = service(service_json(json!({
        "clusterIP": "010.096.000.001", "clusterIPs": ["010.096.000.001"], "externalIPs": ["::ffff:1.2.3.4"],
    })));
    assert_eq!(*service.cluster_ips, ["10.96.0.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(*service.external_ips, ["1.2.3.4".parse::<std::net::IpAddr>().unwrap()]);
}

#[test]
fn errors_of_services_name_the_field() {
    for (spec, expected) in [
        (json!({ "clusterIP": "10.0.0" }), "spec.clusterIP: \"10.0.0\" is not an IP address"),
        (json!({ "clusterIPs": ["10.0.0", "10.0"] }), "spec.clusterIPs[0]: \"10.0.0\" is not an IP address"),
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
        (json!({ "ready": false }), (false, true, false)),
        (json!({ "ready": false, "terminating": true }), (false, true, true)),
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
fn entries_of_slices_that_cannot_be_used_are_left_out() {
    let endpoints = |first: Json| json!({ "endpoints": [first, { "addresses": ["10.0.0.1"] }] });
    for (fields, expected) in [
        (endpoints(json!({ "addresses": [] })), "endpoints[0].addresses: is empty"),
        (
            endpoints(json!({ "addresses": ["fd00::1"] })),
            "endpoints[0].addresses[0]: fd00::1 is not of addressType IPv4",
        ),
        (
            endpoints(json!({ "addresses": ["web"] })),
            "endpoints[0].addresses[0]: \"web\" is not an IP address",
        ),
    ] {
        assert_eq!(translate_slice(slice_json(fields.clone())).unwrap().flaws.to_string(), expected);
        let endpoints = slice(slice_json(fields)).endpoints;
        assert_eq!(endpoints.len(), 1, "{expected}");
        assert_eq!(endpoints[0].ip.to_string(), "10.0.0.1");
    }
    for number in [0, 65536, 70000] {
        let fields = json!({ "ports": [{ "port": number }, { "port": 80 }] });
        let flaw = format!("ports[0].port: {number} is not a port (1-65535)");
        assert_eq!(translate_slice(slice_json(fields.clone())).unwrap().flaws.to_string(), flaw);
        let ports: Vec<u16> = slice(slice_json(fields)).ports.iter().map(|port| port.port).collect();
        assert_eq!(ports, [0, 80], "never used, and known to be there");
    }
    let invalid = translate_slice(slice_json(json!({ "addressType": "IPv5" }))).unwrap_err();
    assert_eq!(invalid, "addressType: \"IPv5\" is not one of IPv4, IPv6, FQDN");
}

fn facts(source: Json) -> NodeFacts {
    let source: objects::Node = serde_json::from_value(source).unwrap();
    match translate::node(source).unwrap().outcome {
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
    // The clock has a tick of some milliseconds: as many ports are measured in either case.
    let cost = |times: u16| {
        let sources: Vec<_> = (0..times).map(|_| source(30_000 / times)).collect();
        let started = now();
        sources.into_iter().for_each(|source| assert!(translate::service(source).is_ok()));
        now() - started
    };
    let best = |times| (0..5).map(|_| cost(times)).min().unwrap();
    let (small, large) = (best(10), best(1));
    // Quadratic work would cost ten times as much.
    assert!(large < 4 * small, "ten times 3,000 ports: {small} ns, 30,000: {large} ns");
}

/// An entry that cannot be used hides neither the others nor that the node is to go.
#[test]
fn entries_of_nodes_and_service_cidrs_that_cannot_be_used_are_left_out() {
    let source = json!({
        "metadata": { "name": "a" },
        "spec": {
            "podCIDRs": ["10.244.1.0", "10.244.1.0/24"],
            "taints": [{ "key": "ToBeDeletedByClusterAutoscaler" }],
        },
        "status": { "addresses": [
            { "type": "ExternalIP", "address": "" }, { "type": "InternalIP", "address": "node-a" },
            { "type": "InternalIP", "address": "192.168.0.9" },
        ] },
    });
    let translated = translate::node(serde_json::from_value(source.clone()).unwrap()).unwrap();
    assert_eq!(translated.flaws.count, 3);
    let facts = facts(source);
    assert_eq!(facts.primary, [Some("192.168.0.9".parse().unwrap()), None]);
    assert_eq!(*facts.pod_cidrs, ["10.244.1.0/24".parse::<ipnet::IpNet>().unwrap()]);
    assert!(!facts.eligible);

    let source = json!({ "metadata": { "name": "a" }, "spec": { "cidrs": ["10.96/16", "10.97.0.0/16"] } });
    let translated = translate::service_cidr(serde_json::from_value(source).unwrap()).unwrap();
    assert_eq!(translated.flaws.count, 1);
    let Outcome::Object(object) = translated.outcome else { panic!("skipped") };
    assert_eq!(object.value, Value::ServiceCidr(Box::new(["10.97.0.0/16".parse().unwrap()])));
}
