//! Services of every shape.

use std::iter;

use serde_json::{Value, json};
use test_support::Dice;

use crate::annotations::adorn;
use crate::pools::{self, perhaps, several, without_nulls};

pub(crate) const COUNT: u32 = 16;

/// Where a service is: some namespaces and names are as long as the API allows.
pub(crate) fn place(number: u32) -> (String, String) {
    let namespace = if number.is_multiple_of(5) { long_namespace() } else { "default".to_owned() };
    let name = match number {
        0 => "s".repeat(63),
        1 => "a--b".to_owned(),
        _ => format!("s-{number}"),
    };
    (namespace, name)
}

pub(crate) fn long_namespace() -> String {
    "n".repeat(63)
}

pub(crate) fn service(dice: &mut Dice, number: u32) -> Value {
    let (namespace, name) = place(number);
    let kind =
        dice.pick(&["ClusterIP", "ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer", "ExternalName"]);
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": name, "labels": labels(dice)},
        "spec": spec(dice, kind),
    });
    if kind == "ClusterIP" && dice.chance(20) {
        object["spec"]["clusterIP"] = "None".into();
    } else if kind != "ExternalName" && dice.chance(15) {
        object["spec"]["clusterIP"] = format!("10.96.0.{}", 100 + number).into();
        object["spec"]["ipFamilies"] = json!(["IPv4"]);
        object["spec"]["ipFamilyPolicy"] = "SingleStack".into();
    }
    adorn(dice, &mut object);
    without_nulls(object)
}

fn spec(dice: &mut Dice, kind: &str) -> Value {
    let mut spec = json!({"type": kind, "ports": ports(dice, kind)});
    if kind == "ExternalName" {
        spec["externalName"] = dice.pick(&["example.com", "10.0.0.1", "a.b."]).into();
        return spec;
    }
    if dice.chance(70) {
        let families = dice.pick(&pools::FAMILIES);
        spec["ipFamilies"] = json!(families);
        let policies: &[&str] = match families.len() {
            1 => &["SingleStack", "PreferDualStack", "RequireDualStack"],
            _ => &["RequireDualStack", "PreferDualStack"],
        };
        spec["ipFamilyPolicy"] = dice.pick(policies).into();
    }
    spec["externalIPs"] = json!(several(dice, 4, &pools::CLAIMED));
    affinity(dice, &mut spec);
    spec["internalTrafficPolicy"] = perhaps(dice, 40, &["Cluster", "Local"]);
    spec["trafficDistribution"] = perhaps(dice, 20, &["PreferClose", "PreferSameNode", "PreferSameZone"]);
    spec["publishNotReadyAddresses"] = dice.chance(10).into();
    if kind != "ClusterIP" {
        spec["externalTrafficPolicy"] = perhaps(dice, 60, &["Cluster", "Local"]);
    }
    if kind == "LoadBalancer" {
        spec["loadBalancerSourceRanges"] = json!(several(dice, 3, &pools::RANGES));
        spec["allocateLoadBalancerNodePorts"] = dice.chance(70).into();
        spec["loadBalancerClass"] = perhaps(dice, 20, &["example.com/class"]);
    }
    spec
}

fn affinity(dice: &mut Dice, spec: &mut Value) {
    if !dice.chance(35) {
        return;
    }
    spec["sessionAffinity"] = "ClientIP".into();
    // The last two are refused.
    let seconds = dice.pick(&[1, 2, 60, 10_799, 10_800, 86_400, 77, 4_242, 0, -1]);
    if dice.chance(80) {
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": seconds}});
    }
}

fn ports(dice: &mut Dice, kind: &str) -> Vec<Value> {
    let count = match dice.below(20) {
        0 => 200,
        1 => 20,
        other => other % 4 + 1,
    };
    let names = pools::port_names();
    let numbers = iter::repeat_with(|| dice.pick(&pools::PORTS)).take(4).collect::<Vec<u16>>();
    let mut taken = Vec::new();
    let mut ports = Vec::new();
    for at in 0..count {
        let protocol = dice.pick(&pools::PROTOCOLS);
        let port = if count > 4 { 1_000 + at as u16 } else { numbers[at as usize] };
        let name = match names.get(at as usize) {
            Some(name) if count <= 4 && !(name.is_empty() && count > 1) => name.clone(),
            _ => format!("p-{at}"),
        };
        if taken.contains(&(protocol, port)) {
            continue;
        }
        taken.push((protocol, port));
        let target = if dice.chance(50) { json!("web") } else { json!(dice.pick(&[1, 8080, 65_535])) };
        let node_port = (kind != "ClusterIP" && dice.chance(10)).then(|| 30_000 + dice.below(8));
        ports.push(json!({
            "name": name, "protocol": protocol, "port": port, "targetPort": target, "nodePort": node_port,
            "appProtocol": perhaps(dice, 10, &["kubernetes.io/h2c", "HTTP"]),
        }));
    }
    ports
}

/// Two of them take the service away from this proxy.
fn labels(dice: &mut Dice) -> Value {
    match dice.below(12) {
        0 => json!({"service.kubernetes.io/service-proxy-name": dice.pick(&["other", ""])}),
        1 => json!({"service.kubernetes.io/headless": dice.pick(&["", "false"])}),
        2 => json!({"app": "x".repeat(63), "example.com/A_b-c.d": ""}),
        _ => json!({}),
    }
}

/// A change of the service that is there.
pub(crate) fn patch(dice: &mut Dice) -> Value {
    let spec = |value: Value| json!({"spec": value});
    match dice.below(9) {
        0 => spec(
            json!({"type": "ExternalName", "externalName": "example.com", "clusterIP": "", "clusterIPs": null}),
        ),
        1 => spec(json!({"type": dice.pick(&["ClusterIP", "NodePort", "LoadBalancer"])})),
        2 => spec(json!({"externalIPs": several(dice, 6, &pools::CLAIMED)})),
        3 => spec(json!({"ports": ports(dice, "LoadBalancer")})),
        4 => json!({"metadata": {"labels": {
            "service.kubernetes.io/service-proxy-name": perhaps(dice, 50, &["other"]),
            "service.kubernetes.io/headless": perhaps(dice, 30, &[""]),
        }}}),
        5 => {
            json!({"metadata": {"finalizers": if dice.chance(30) { json!(["example.com/hold"]) } else { json!([]) }}})
        }
        6 => {
            let mut part = json!({"sessionAffinity": "None"});
            affinity(dice, &mut part);
            spec(part)
        }
        7 => spec(json!({"ipFamilyPolicy": dice.pick(&["SingleStack", "RequireDualStack"])})),
        _ => spec(json!({"externalTrafficPolicy": dice.pick(&["Local", "Cluster"])})),
    }
}

/// What a balancer says of its addresses.
pub(crate) fn status(dice: &mut Dice) -> Value {
    let ingress: Vec<Value> = (0..dice.below(4))
        .map(|_| match dice.below(6) {
            0 => json!({"hostname": "lb.example.com"}),
            1 => json!({"ip": dice.pick(&pools::BALANCED), "ipMode": "VIP"}),
            2 => json!({"ip": dice.pick(&pools::CLAIMED), "ipMode": "Proxy"}),
            3 => json!({"ip": dice.pick(&pools::CLAIMED), "hostname": "lb.example.com"}),
            _ => json!({"ip": dice.pick(&pools::CLAIMED), "ipMode": "VIP", "ports": [
                {"port": 80, "protocol": "TCP", "error": "BalancerIsTired"}
            ]}),
        })
        .collect();
    json!({"status": {"loadBalancer": {"ingress": ingress}}})
}
