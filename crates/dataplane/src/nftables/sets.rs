//! Every set and map of the layout: its name, its declaration, and what an element in it means.

use std::borrow::Cow;

use kernel::nft::{self, SetFlags, VERDICT};
use model::Family;

/// How a destination is keyed: by address, protocol and port, or (node ports) by protocol and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Door {
    Vip,
    NodePort,
}

impl Door {
    pub(crate) const BOTH: [Door; 2] = [Door::Vip, Door::NodePort];
}

/// Identifies a set or map of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SetName {
    /// A live cluster IP.
    ClusterIps,
    /// The ServiceCIDRs, as intervals.
    ServiceCidrs,
    /// A node address that serves node ports.
    NodeportIps,
    /// Destination → class chain, for every client.
    Service(Door),
    /// Destination of policy Local → class chain, for clients from outside.
    Local(Door),
    /// The same destination for pods of this node and the node itself.
    Internal(Door),
    /// Destination and slot → endpoint, for the classes of `Service` and `Local`.
    Endpoints(Door),
    /// Destination and slot → endpoint, for the classes of `Internal`.
    InternalEndpoints(Door),
    /// Destinations with no usable endpoint anywhere.
    Reject(Door),
    /// Destinations of policy Local with no endpoint here.
    Drop(Door),
    /// Destinations whose connections pin their client.
    Affine(Door),
    /// Destination and endpoint that a pin of this timeout (seconds) may name.
    Members(Door, u32),
    /// Client and destination → endpoint; written by packets.
    Pins(Door),
    /// Load-balancer destinations with source ranges.
    Firewall,
    /// Destination and network address of an allowed source, of this prefix length.
    FirewallAllow(u8),
    /// Local endpoints as client of themselves.
    Hairpin,
    /// Destination and direction → counter of a service port's packets; only where traffic is counted.
    Traffic(Door),
    /// Destination → counter of a service port's new connections; only where traffic is counted.
    Connections(Door),
}

/// The sets that exist from the start; `Members` and `FirewallAllow` come on demand.
pub(crate) fn permanent() -> Vec<SetName> {
    use SetName::*;
    let mut all = vec![ClusterIps, ServiceCidrs, NodeportIps, Firewall, Hairpin];
    for door in Door::BOTH {
        all.extend([Service(door), Local(door), Internal(door), Endpoints(door), InternalEndpoints(door)]);
        all.extend([Reject(door), Drop(door), Affine(door), Pins(door)]);
    }
    all
}

/// The maps that exist beside these where traffic is counted.
pub(crate) fn counting() -> impl Iterator<Item = SetName> {
    Door::BOTH.into_iter().flat_map(|door| [SetName::Traffic(door), SetName::Connections(door)])
}

/// Names of the maps that packets write and that outlive a rewrite.
pub(crate) fn holds_pins(name: &str) -> bool {
    Door::BOTH.iter().any(|door| SetName::Pins(*door).name() == name)
}

impl SetName {
    pub(crate) fn name(self) -> Cow<'static, str> {
        use Door::{NodePort, Vip};
        use SetName::*;
        Cow::Borrowed(match self {
            ClusterIps => "cluster-ips",
            ServiceCidrs => "service-cidrs",
            NodeportIps => "nodeport-addresses",
            Service(Vip) => "service-ips",
            Service(NodePort) => "service-nodeports",
            Local(Vip) => "local-ips",
            Local(NodePort) => "local-nodeports",
            Internal(Vip) => "internal-ips",
            Internal(NodePort) => "internal-nodeports",
            Endpoints(Vip) => "endpoints",
            Endpoints(NodePort) => "nodeport-endpoints",
            InternalEndpoints(Vip) => "internal-endpoints",
            InternalEndpoints(NodePort) => "internal-nodeport-endpoints",
            Reject(Vip) => "no-endpoint-reject-ips",
            Reject(NodePort) => "no-endpoint-reject-nodeports",
            Drop(Vip) => "no-endpoint-drop-ips",
            Drop(NodePort) => "no-endpoint-drop-nodeports",
            Affine(Vip) => "pinned-ips",
            Affine(NodePort) => "pinned-nodeports",
            Pins(Vip) => "affinity",
            Pins(NodePort) => "nodeport-affinity",
            Firewall => "firewalled-ips",
            Hairpin => "hairpin-connections",
            Traffic(Vip) => "traffic-ips",
            Traffic(NodePort) => "traffic-nodeports",
            Connections(Vip) => "connections-ips",
            Connections(NodePort) => "connections-nodeports",
            Members(Vip, seconds) => return Cow::Owned(format!("pinned-endpoints-{seconds}")),
            Members(NodePort, seconds) => {
                return Cow::Owned(format!("pinned-nodeport-endpoints-{seconds}"));
            }
            FirewallAllow(length) => return Cow::Owned(format!("firewall-allow-{length}")),
        })
    }

    /// Declare the set. `name` is borrowed so that the declaration can be, too.
    pub(crate) fn declaration(self, family: Family, name: &str) -> nft::Set<'_> {
        let key = self.key(family);
        let set = nft::Set {
            name,
            key_type: type_number(&key),
            key_length: length(&key),
            data: self.data(family),
            flags: SetFlags::default(),
            size: 0,
            user_data: self.user_data(family),
        };
        match self {
            SetName::ServiceCidrs => {
                nft::Set { flags: SetFlags { interval: true, ..SetFlags::default() }, ..set }
            }
            SetName::Pins(_) => nft::Set {
                flags: SetFlags { timeout: true, dynamic: true, ..SetFlags::default() },
                size: MOST_PINS,
                ..set
            },
            SetName::Traffic(_) | SetName::Connections(_) => {
                nft::Set { flags: SetFlags { counters: true, ..SetFlags::default() }, ..set }
            }
            _ => set,
        }
    }

    fn key(self, family: Family) -> Vec<Type> {
        let address = Type::address(family);
        let destination = |door| match door {
            Door::Vip => vec![address, Type::Protocol, Type::Port],
            Door::NodePort => vec![Type::Protocol, Type::Port],
        };
        match self {
            SetName::ClusterIps | SetName::ServiceCidrs | SetName::NodeportIps => vec![address],
            SetName::Service(door) | SetName::Local(door) | SetName::Internal(door) => destination(door),
            SetName::Reject(door) | SetName::Drop(door) | SetName::Affine(door) => destination(door),
            SetName::Connections(door) => destination(door),
            SetName::Traffic(door) => [destination(door), vec![Type::Direction]].concat(),
            SetName::Firewall => destination(Door::Vip),
            SetName::Endpoints(door) | SetName::InternalEndpoints(door) => {
                [destination(door), vec![Type::Slot]].concat()
            }
            SetName::Members(door, _) => [destination(door), vec![address, Type::Port]].concat(),
            SetName::Pins(door) => [vec![address], destination(door)].concat(),
            SetName::FirewallAllow(_) => [destination(Door::Vip), vec![address]].concat(),
            SetName::Hairpin => vec![address, address, Type::Protocol, Type::Port],
        }
    }

    fn data(self, family: Family) -> Option<(u32, u32)> {
        match self {
            SetName::Service(_) | SetName::Local(_) | SetName::Internal(_) => Some((VERDICT, 0)),
            SetName::Endpoints(_) | SetName::InternalEndpoints(_) | SetName::Pins(_) => {
                let endpoint = [Type::address(family), Type::Port];
                Some((type_number(&endpoint), length(&endpoint)))
            }
            _ => None,
        }
    }

    fn user_data(self, family: Family) -> &'static [u8] {
        match self {
            SetName::Endpoints(door) | SetName::InternalEndpoints(door) => slot_typeof(door, family),
            _ => &[],
        }
    }
}

/// Room for pins; the kernel's own default for packet-written sets is 65535. When full, new clients go unpinned.
pub(crate) const MOST_PINS: u32 = 65536;

/// Parts of a key, with the numbers the nft tool knows them by.
#[derive(Clone, Copy)]
enum Type {
    Ipv4,
    Ipv6,
    Protocol,
    Port,
    /// Declared as `mark`: nft 1.0.2 aborts on an integer here, and later versions go by the typeof data.
    Slot,
    /// `ct_dir`
    Direction,
}

impl Type {
    fn address(family: Family) -> Type {
        match family {
            Family::V4 => Type::Ipv4,
            Family::V6 => Type::Ipv6,
        }
    }
}

fn type_number(parts: &[Type]) -> u32 {
    parts.iter().fold(0, |number, part| {
        number << 6
            | match part {
                Type::Ipv4 => 7,
                Type::Ipv6 => 8,
                Type::Protocol => 12,
                Type::Port => 13,
                Type::Slot => 19,
                Type::Direction => 27,
            }
    })
}

fn length(parts: &[Type]) -> u32 {
    parts.iter().map(|part| if matches!(part, Type::Ipv6) { 16 } else { 4 }).sum()
}

/// What makes nft print the slot maps as `typeof ... . numgen random mod 2 : ip daddr . th dport`.
fn slot_typeof(door: Door, family: Family) -> &'static [u8] {
    match (door, family) {
        (Door::Vip, Family::V4) => VIP_V4,
        (Door::Vip, Family::V6) => VIP_V6,
        (Door::NodePort, Family::V4) => NODEPORT_V4,
        (Door::NodePort, Family::V6) => NODEPORT_V6,
    }
}

#[rustfmt::skip]
const VIP_V4: &[u8] = &[
    0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x01, 0x04, 0x00, 0x00, 0x00, 0x00, 0x03, 0x60, 0x00, 0x04, 0x0d, 0x00, 0x00, 0x00, 0x01, 0x58, 0x00, 0x14,
    0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04, 0x0c, 0x00, 0x00, 0x00, 0x01, 0x04, 0x0c, 0x00, 0x00, 0x00, 0x01, 0x0e, 0x00, 0x04,
    0x09, 0x00, 0x00, 0x00, 0x01, 0x06, 0x00, 0x04, 0x10, 0x00, 0x00, 0x00, 0x02, 0x14, 0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04,
    0x0b, 0x00, 0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x03, 0x1a, 0x00, 0x04, 0x17, 0x00, 0x00, 0x00, 0x01, 0x12, 0x00, 0x04, 0x01, 0x00,
    0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x02, 0x04, 0x00, 0x00, 0x00, 0x00, 0x04, 0x34, 0x00, 0x04, 0x0d, 0x00, 0x00, 0x00, 0x01, 0x2c,
    0x00, 0x14, 0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04, 0x0c, 0x00, 0x00, 0x00, 0x01, 0x04, 0x0c, 0x00, 0x00, 0x00, 0x01, 0x14,
    0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04, 0x0b, 0x00, 0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x06, 0x04, 0x00, 0x00,
    0x00, 0x00,
];

#[rustfmt::skip]
const VIP_V6: &[u8] = &[
    0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x01, 0x04, 0x00, 0x00, 0x00, 0x00, 0x03, 0x60, 0x00, 0x04, 0x0d, 0x00, 0x00, 0x00, 0x01, 0x58, 0x00, 0x14,
    0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04, 0x0d, 0x00, 0x00, 0x00, 0x01, 0x04, 0x09, 0x00, 0x00, 0x00, 0x01, 0x0e, 0x00, 0x04,
    0x09, 0x00, 0x00, 0x00, 0x01, 0x06, 0x00, 0x04, 0x10, 0x00, 0x00, 0x00, 0x02, 0x14, 0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04,
    0x0b, 0x00, 0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x03, 0x1a, 0x00, 0x04, 0x17, 0x00, 0x00, 0x00, 0x01, 0x12, 0x00, 0x04, 0x01, 0x00,
    0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x02, 0x04, 0x00, 0x00, 0x00, 0x00, 0x04, 0x34, 0x00, 0x04, 0x0d, 0x00, 0x00, 0x00, 0x01, 0x2c,
    0x00, 0x14, 0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04, 0x0d, 0x00, 0x00, 0x00, 0x01, 0x04, 0x09, 0x00, 0x00, 0x00, 0x01, 0x14,
    0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04, 0x0b, 0x00, 0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x06, 0x04, 0x00, 0x00,
    0x00, 0x00,
];

#[rustfmt::skip]
const NODEPORT_V4: &[u8] = &[
    0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x01, 0x04, 0x00, 0x00, 0x00, 0x00, 0x03, 0x4a, 0x00, 0x04, 0x0d, 0x00, 0x00, 0x00, 0x01, 0x42, 0x00, 0x0e,
    0x00, 0x04, 0x09, 0x00, 0x00, 0x00, 0x01, 0x06, 0x00, 0x04, 0x10, 0x00, 0x00, 0x00, 0x01, 0x14, 0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c,
    0x00, 0x04, 0x0b, 0x00, 0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x02, 0x1a, 0x00, 0x04, 0x17, 0x00, 0x00, 0x00, 0x01, 0x12, 0x00, 0x04,
    0x01, 0x00, 0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x02, 0x04, 0x00, 0x00, 0x00, 0x00, 0x04, 0x34, 0x00, 0x04, 0x0d, 0x00, 0x00, 0x00,
    0x01, 0x2c, 0x00, 0x14, 0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04, 0x0c, 0x00, 0x00, 0x00, 0x01, 0x04, 0x0c, 0x00, 0x00, 0x00,
    0x01, 0x14, 0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04, 0x0b, 0x00, 0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x06, 0x04,
    0x00, 0x00, 0x00, 0x00,
];

#[rustfmt::skip]
const NODEPORT_V6: &[u8] = &[
    0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x01, 0x04, 0x00, 0x00, 0x00, 0x00, 0x03, 0x4a, 0x00, 0x04, 0x0d, 0x00, 0x00, 0x00, 0x01, 0x42, 0x00, 0x0e,
    0x00, 0x04, 0x09, 0x00, 0x00, 0x00, 0x01, 0x06, 0x00, 0x04, 0x10, 0x00, 0x00, 0x00, 0x01, 0x14, 0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c,
    0x00, 0x04, 0x0b, 0x00, 0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x02, 0x1a, 0x00, 0x04, 0x17, 0x00, 0x00, 0x00, 0x01, 0x12, 0x00, 0x04,
    0x01, 0x00, 0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x02, 0x04, 0x00, 0x00, 0x00, 0x00, 0x04, 0x34, 0x00, 0x04, 0x0d, 0x00, 0x00, 0x00,
    0x01, 0x2c, 0x00, 0x14, 0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04, 0x0d, 0x00, 0x00, 0x00, 0x01, 0x04, 0x09, 0x00, 0x00, 0x00,
    0x01, 0x14, 0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x01, 0x0c, 0x00, 0x04, 0x0b, 0x00, 0x00, 0x00, 0x01, 0x04, 0x02, 0x00, 0x00, 0x00, 0x06, 0x04,
    0x00, 0x00, 0x00, 0x00,
];
