//! The agent's own Node, and ServiceCIDRs.

use sandbox::address;
use serde_json::{Value, json};
use test_support::Dice;
use test_support::protobuf::raw_text;

use crate::pools::perhaps;

pub(crate) const RANGES: [&[&str]; 5] = [
    &["10.97.0.0/16"],
    &["10.96.128.0/24"],
    &["172.30.0.0/24", "fd00:97::/112"],
    &["fd00:98::/64"],
    &["198.51.100.0/28"],
];

pub(crate) fn range(number: usize, cidrs: &[&str]) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": format!("odd-{number}")}, "spec": {"cidrs": cidrs},
    })
}

/// A change of the Node; its addresses remain among whatever else.
pub(crate) fn patch(dice: &mut Dice) -> Value {
    match dice.below(5) {
        0 => json!({"metadata": {"labels": {
            "topology.kubernetes.io/zone": perhaps(dice, 80, &["zone-1", "zone-2", "", "z.z"]),
        }}}),
        1 => json!({"spec": {"taints": [
            {"key": "example.com/odd", "value": "", "effect": dice.pick(&["NoSchedule", "NoExecute"])},
        ]}}),
        2 => json!({"spec": {"taints": []}}),
        3 => json!({"metadata": {"annotations": {"example.com/odd": "x".repeat(100_000)}}}),
        _ => json!({"metadata": {"annotations": {"example.com/odd": raw_text(&[0xff])}}}),
    }
}

pub(crate) fn status(dice: &mut Dice) -> Value {
    let own = [address::NODE_V4.to_string(), address::NODE_V6.to_string()];
    let mut addresses: Vec<Value> =
        own.iter().map(|ip| json!({"type": "InternalIP", "address": ip})).collect();
    let others = [
        json!({"type": "Hostname", "address": "node-1.example.com"}),
        json!({"type": "ExternalIP", "address": "198.51.100.99"}),
        json!({"type": "InternalDNS", "address": ""}),
        json!({"type": "Unheard-of", "address": "2001:db8::99"}),
        json!({"type": "ExternalIP", "address": "not an address"}),
        json!({"type": "InternalIP", "address": "192.168.50.77"}),
    ];
    for other in dice.some(&others, 4) {
        let at = dice.below(addresses.len() as u32 + 1) as usize;
        addresses.insert(at, other);
    }
    json!({"status": {"addresses": addresses}})
}
