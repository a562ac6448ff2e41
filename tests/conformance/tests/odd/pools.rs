//! Values to draw from: few, so that objects collide often, and odd ones among them.

use serde_json::{Value, json};
use test_support::Dice;

use crate::scene;

/// Addresses that services claim from outside. Some are another's: the ordinary service's own cluster IP, cluster IPs
/// that the API hands out, addresses of nodes, pods and clients.
pub(crate) const CLAIMED: [&str; 18] = [
    "198.51.100.1",
    "198.51.100.2",
    "198.51.100.3",
    "203.0.113.1",
    "203.0.113.2",
    "2001:db8:100::1",
    "2001:db8:100::2",
    "2001:db8:113::1",
    scene::CANARY_V4,
    scene::CANARY_V6,
    "10.96.0.1",
    "10.96.0.100",
    "192.168.50.2",
    "192.168.60.9",
    "10.244.1.10",
    "240.0.0.1",
    "1.2.3.4",
    "fd00:50::2",
];

/// What only a status may name.
pub(crate) const BALANCED: [&str; 6] =
    ["0.0.0.0", "255.255.255.255", "224.0.0.1", "169.254.1.1", "::", "ff02::1"];

/// Some are no address at all; the API refuses those.
pub(crate) const ENDPOINTS_V4: [&str; 10] = [
    "10.244.1.10",
    "10.244.1.11",
    "10.244.2.10",
    "192.168.50.2",
    "192.168.50.3",
    "1.1.1.1",
    "240.0.0.1",
    "255.255.255.254",
    "10.96.0.1",
    "0.0.0.1",
];
pub(crate) const ENDPOINTS_V6: [&str; 7] = [
    "fd00:244:1::10",
    "fd00:244:1::11",
    "fd00:244:2::10",
    "fd00:50::2",
    "2001:db8::1",
    "64:ff9b::a00:1",
    "fd00:96::1",
];

pub(crate) const RANGES: [&str; 12] = [
    "192.168.60.9/32",
    " 192.168.60.0/24 ",
    "192.168.60.9/24",
    "0.0.0.0/0",
    "10.244.0.0/16",
    "255.255.255.255/32",
    "1.2.3.4/1",
    "fd00:60::/64",
    "\tfd00:60::9/128",
    "::/0",
    "2001:DB8::/32",
    "192.168.50.2/32",
];

pub(crate) const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
pub(crate) const PORTS: [u16; 9] = [1, 53, 80, 80, 81, 443, 8080, 10256, 65535];
pub(crate) const ZONES: [&str; 4] = ["zone-1", "zone-2", "zone-1.example.com", "z"];
pub(crate) const FAMILIES: [&[&str]; 4] = [&["IPv4"], &["IPv6"], &["IPv4", "IPv6"], &["IPv6", "IPv4"]];

/// Ports have names of at most 63 characters.
pub(crate) fn port_names() -> [String; 5] {
    ["".into(), "http".into(), "a".into(), "0-x9".into(), "p".repeat(63)]
}

/// Nothing or one of these.
pub(crate) fn perhaps(dice: &mut Dice, percent: u32, items: &[&str]) -> Value {
    if dice.chance(percent) { json!(dice.pick(items)) } else { Value::Null }
}

/// Up to so many, perhaps one of them twice.
pub(crate) fn several(dice: &mut Dice, most: u32, items: &[&str]) -> Vec<String> {
    (0..dice.below(most + 1)).map(|_| dice.pick(items).to_owned()).collect()
}

/// Leave out what is null: the API takes it, but not everywhere.
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, field)| !field.is_null());
            Value::Object(fields.map(|(name, field)| (name, without_nulls(field))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}
