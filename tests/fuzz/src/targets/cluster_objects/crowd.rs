//! Rarely an object has so many of something that the data plane treats it otherwise: endpoints around the 256 up to which
//! pools are copied for each address, addresses whose copies are more than 4,096, ports that make a service so large that
//! it is changed in pieces. A crowd is made from few bytes, so that inputs stay short.

use std::ops::Range;

use serde_json::{Value, json};

use super::{PROTOCOLS, TARGET_PORTS, endpoint};
use crate::choices::Choices;

const ENDPOINTS: Range<usize> = 240..320;
const ADDRESSES: Range<usize> = 10..200;
const PORTS: Range<usize> = 40..296;

pub(super) enum Count {
    Few(usize),
    Crowd,
}

impl Count {
    /// Below `few`, or once in 256 times a crowd.
    pub(super) fn any(choices: &mut Choices<'_>, few: usize) -> Count {
        match choices.byte() {
            u8::MAX => Count::Crowd,
            byte => Count::Few(usize::from(byte) % few),
        }
    }
}

fn count(choices: &mut Choices<'_>, range: Range<usize>) -> Range<usize> {
    0..range.start + choices.below(range.len())
}

pub(super) fn addresses(choices: &mut Choices<'_>) -> Vec<String> {
    let is_v6 = choices.chance(128);
    let at = |number| if is_v6 { format!("fd00:51::{number:x}") } else { format!("198.51.100.{number}") };
    count(choices, ADDRESSES).map(at).collect()
}

/// Ports of a service; those of a slice bear the same names.
pub(super) fn ports(choices: &mut Choices<'_>, has_node_ports: bool) -> Vec<Value> {
    let node_port = |number: usize| if has_node_ports { 31_000 + number } else { 0 };
    let port = |number| {
        let (name, protocol) = name_and_protocol(number);
        json!({"name": name, "protocol": protocol, "port": 2_000 + number, "nodePort": node_port(number)})
    };
    count(choices, PORTS).map(port).collect()
}

pub(super) fn slice_ports(choices: &mut Choices<'_>) -> Vec<Value> {
    let target = choices.pick(&TARGET_PORTS);
    let port = |number| {
        let (name, protocol) = name_and_protocol(number);
        json!({"name": name, "protocol": protocol, "port": target})
    };
    count(choices, PORTS).map(port).collect()
}

fn name_and_protocol(number: usize) -> (String, &'static str) {
    (format!("q-{number}"), PROTOCOLS[number % PROTOCOLS.len()])
}

/// Three kinds of endpoints in turn; now and then so many that two such slices make a pool that is changed in pieces.
pub(super) fn endpoints(choices: &mut Choices<'_>, is_v6: bool) -> Vec<Value> {
    let kinds = [0; 3].map(|number| endpoint(choices, is_v6, number));
    let at = |number: usize| match is_v6 {
        true => format!("fd00:244:4::{number:x}"),
        false => format!("10.244.{}.{}", 4 + number / 256, number % 256),
    };
    let one_of = |number: usize| {
        let mut endpoint = kinds[number % kinds.len()].clone();
        endpoint["addresses"] = json!([at(number)]);
        endpoint
    };
    let times = choices.pick(&[1, 1, 1, 3]);
    let count = times * count(choices, ENDPOINTS).len();
    (0..count).map(one_of).collect()
}
