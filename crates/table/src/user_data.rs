//! What the nft tool needs beside a map to print its keys: `typeof` declarations, in the bytes that it stores itself.
//! They are attributes of one byte type and one byte length, with numbers in the byte order of the machine.

use std::sync::LazyLock;

use model::Family;

use crate::sets::Door;

// Attributes of a set, `nftnl_set` user data.
const KEY_BYTEORDER: u8 = 0;
const DATA_BYTEORDER: u8 = 1;
const KEY_TYPEOF: u8 = 3;
const DATA_TYPEOF: u8 = 4;
const DATA_INTERVAL: u8 = 6;

// Attributes of an expression, and nft's numbers of expressions.
const EXPRESSION: u8 = 0;
const DETAILS: u8 = 1;
const PAYLOAD: u32 = 7;
const META: u32 = 9;
const CONCATENATION: u32 = 13;
const NUMGEN: u32 = 23;

/// Of the slot maps of one family.
struct Declarations {
    vip: Vec<u8>,
    node_port: Vec<u8>,
    own: Vec<u8>,
}

/// There may be many maps with the same declaration.
static DECLARATIONS: LazyLock<[Declarations; 2]> = LazyLock::new(|| {
    Family::BOTH.map(|family| {
        let vip = concatenation(&[destination(family), l4_protocol(), destination_port(), slot()]);
        let node_port = concatenation(&[l4_protocol(), destination_port(), slot()]);
        Declarations {
            vip: map_to_endpoint(&vip, family),
            node_port: map_to_endpoint(&node_port, family),
            own: map_to_endpoint(&slot(), family),
        }
    })
});

/// What makes nft print the slot maps as `typeof ... . numgen random mod 2 : ip daddr . th dport`.
pub(crate) fn slot_typeof(door: Door, family: Family) -> &'static [u8] {
    let Declarations { vip, node_port, .. } = &DECLARATIONS[family.index()];
    match door {
        Door::Vip => vip,
        Door::NodePort => node_port,
    }
}

/// The same for a map whose key is the slot alone.
pub(crate) fn own_slot_typeof(family: Family) -> &'static [u8] {
    &DECLARATIONS[family.index()].own
}

fn map_to_endpoint(key: &[u8], family: Family) -> Vec<u8> {
    let endpoint = concatenation(&[destination(family), destination_port()]);
    [
        number(KEY_BYTEORDER, 0),
        number(DATA_BYTEORDER, 0),
        attribute(KEY_TYPEOF, key),
        attribute(DATA_TYPEOF, &endpoint),
        number(DATA_INTERVAL, 0),
    ]
    .concat()
}

/// `ip daddr` or `ip6 daddr`.
fn destination(family: Family) -> Vec<u8> {
    match family {
        Family::V4 => payload(12, 12),
        Family::V6 => payload(13, 9),
    }
}

/// `th dport`.
fn destination_port() -> Vec<u8> {
    payload(11, 2)
}

/// A field of a protocol, by nft's numbers of both.
fn payload(protocol: u32, field: u32) -> Vec<u8> {
    expression(PAYLOAD, &[number(0, protocol), number(1, field)])
}

/// `meta l4proto`.
fn l4_protocol() -> Vec<u8> {
    expression(META, &[number(0, 16)])
}

/// `numgen random mod 2`.
fn slot() -> Vec<u8> {
    let (kind, modulus, offset) = (number(0, 1), number(1, 2), number(2, 0));
    expression(NUMGEN, &[kind, modulus, offset])
}

fn concatenation(parts: &[Vec<u8>]) -> Vec<u8> {
    let parts: Vec<Vec<u8>> = (0..).zip(parts).map(|(index, part)| attribute(index, part)).collect();
    expression(CONCATENATION, &parts)
}

fn expression(kind: u32, details: &[Vec<u8>]) -> Vec<u8> {
    [number(EXPRESSION, kind), attribute(DETAILS, &details.concat())].concat()
}

fn number(kind: u8, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_ne_bytes())
}

/// None of ours is nearly as long as a length can say.
fn attribute(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, content.len() as u8];
    bytes.extend(content);
    bytes
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    /// As nft stores them for the same declarations.
    const HEAD: &str = "000400000000010400000000";
    const VIP_V4: &str = "036000040d00000001580014000407000000010c00040c00000001040c000000010e000409000000010600041000\
        00000214000407000000010c00040b000000010402000000031a0004170000000112000401000000010402000000020400000000";
    const NODEPORT: &str = "034a00040d0000000142000e00040900000001060004100000000114000407000000010c00040b000000010402\
        000000021a0004170000000112000401000000010402000000020400000000";
    const OWN: &str = "031a0004170000000112000401000000010402000000020400000000";
    const TO_V4: &str = "043400040d000000012c0014000407000000010c00040c00000001040c000000011400040700000001\
        0c00040b000000010402000000060400000000";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn declarations_are_those_of_nft() {
        // In IPv6 the protocol and the number of its field differ.
        let to_v6 = TO_V4.replace("0c00000001040c00", "0d00000001040900");
        let vip_v6 = VIP_V4.replace("0c00000001040c00", "0d00000001040900");
        assert_ne!((&*to_v6, &*vip_v6), (TO_V4, VIP_V4));
        for (family, vip, to) in [(Family::V4, VIP_V4, TO_V4), (Family::V6, &vip_v6, &to_v6)] {
            assert_eq!(hex(slot_typeof(Door::Vip, family)), format!("{HEAD}{vip}{to}"));
            assert_eq!(hex(slot_typeof(Door::NodePort, family)), format!("{HEAD}{NODEPORT}{to}"));
            assert_eq!(hex(own_slot_typeof(family)), format!("{HEAD}{OWN}{to}"));
        }
    }
}
