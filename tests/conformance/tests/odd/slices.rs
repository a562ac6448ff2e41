//! EndpointSlices of every shape, for services that are there and for others.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};
use test_support::Dice;
use test_support::directory::{NODE, OTHER_NODE};

use crate::annotations::adorn;
use crate::pools::{self, perhaps, without_nulls};
use crate::services;

pub(crate) const COUNT: u32 = 40;
/// As many as the API allows.
const FULL: u32 = 1_000;
const KINDS: [&str; 9] = ["IPv4", "IPv6", "IPv4", "IPv6", "IPv4", "IPv6", "IPv4", "IPv6", "FQDN"];

pub(crate) fn slice(dice: &mut Dice, number: u32) -> Value {
    let (namespace, service) = services::place(dice.below(services::COUNT));
    // It cannot be changed afterwards.
    let kind = KINDS[number as usize % KINDS.len()];
    let name = match number {
        0 => format!("{}.{}", "e".repeat(63), "f".repeat(63)),
        _ => format!("e-{number}"),
    };
    let label = match dice.below(20) {
        0 => Value::Null,
        1 => json!(""),
        2 => json!("nobody"),
        _ => json!(service),
    };
    let count = match dice.below(40) {
        0 => FULL,
        1 => 100,
        other => other % 7,
    };
    let mut object = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {
                "kubernetes.io/service-name": label,
                "endpointslice.kubernetes.io/managed-by": perhaps(dice, 50, &["example.com", "endpointslice-controller.k8s.io"]),
                "service.kubernetes.io/service-proxy-name": perhaps(dice, 5, &["other"]),
                "service.kubernetes.io/headless": perhaps(dice, 5, &[""]),
            },
        },
        "addressType": kind,
        "ports": ports(dice),
        "endpoints": (0..count).map(|at| endpoint(dice, kind, at, count)).collect::<Vec<_>>(),
    });
    adorn(dice, &mut object);
    without_nulls(object)
}

fn ports(dice: &mut Dice) -> Value {
    if dice.chance(8) {
        return Value::Null;
    }
    let names = pools::port_names();
    let count = if dice.chance(5) { 200 } else { dice.below(5) };
    let port = |at: u32| {
        let name = if count > 5 { json!(format!("p-{at}")) } else { json!(names[at as usize % names.len()]) };
        json!({
            "name": if count <= 5 && dice.chance(5) { Value::Null } else { name },
            "protocol": perhaps(dice, 95, &pools::PROTOCOLS),
            "port": if dice.chance(8) { Value::Null } else { json!(dice.pick(&pools::PORTS)) },
        })
    };
    (0..count).map(port).collect()
}

fn endpoint(dice: &mut Dice, kind: &str, at: u32, count: u32) -> Value {
    let address = |dice: &mut Dice| match kind {
        "FQDN" => "endpoint.example.com".to_owned(),
        "IPv4" if count > 10 => Ipv4Addr::from_bits(0x0a80_0000 + at).to_string(),
        "IPv4" => dice.pick(&pools::ENDPOINTS_V4).to_owned(),
        _ if count > 10 => Ipv6Addr::from_bits(0xfd00_0245 << 96 | u128::from(at)).to_string(),
        _ => dice.pick(&pools::ENDPOINTS_V6).to_owned(),
    };
    let addresses: Vec<String> = (0..1 + dice.below(12) / 10).map(|_| address(dice)).collect();
    let flag = |dice: &mut Dice| dice.pick(&[Value::Null, json!(true), json!(true), json!(false)]);
    json!({
        "addresses": addresses,
        "conditions": {"ready": flag(dice), "serving": flag(dice), "terminating": flag(dice)},
        "nodeName": perhaps(dice, 80, &[NODE, OTHER_NODE, "gone"]),
        "zone": perhaps(dice, 50, &pools::ZONES),
        "hostname": perhaps(dice, 10, &["host-1"]),
        "hints": hints(dice),
    })
}

fn hints(dice: &mut Dice) -> Value {
    let named = |dice: &mut Dice, names: &[&str]| -> Value {
        dice.some(names, 2).into_iter().map(|name| json!({"name": name})).collect()
    };
    match dice.below(5) {
        0 => json!({"forZones": named(dice, &pools::ZONES)}),
        1 => json!({"forNodes": named(dice, &[NODE, OTHER_NODE])}),
        2 => json!({}),
        _ => Value::Null,
    }
}
