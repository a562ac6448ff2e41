//! Every set and map of the layout: its name, its declaration, and what an element in it means.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use kernel::nft::{self, SetFlags, VERDICT};
use model::Family;

use crate::meter::Counting;
use crate::pool::PoolId;
use crate::user_data::{own_slot_typeof, slot_typeof};

/// How a destination is keyed: by address, protocol and port, or (node ports) by protocol and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Door {
    Vip,
    NodePort,
}

impl Door {
    pub const BOTH: [Door; 2] = [Door::Vip, Door::NodePort];
}

/// Identifies a set or map of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetName {
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
    /// Destinations whose connections pin their client → the chain that does it.
    Affine(Door),
    /// Destination and endpoint that a pin may name.
    Members(Door),
    /// Slot → endpoint, for a port with a pool of its own.
    Pool(PoolId),
    /// The endpoints of such a pool, where pins may name them.
    PoolMembers(PoolId),
    /// Client and destination → endpoint; written by packets.
    Pins(Door),
    /// Load-balancer destinations with source ranges.
    Firewall,
    /// Destination and network address of an allowed source, of this prefix length.
    FirewallAllow(u8),
    /// Local endpoints as client of themselves.
    Hairpin,
    /// Destinations that IPVS serves and whose clients are all masqueraded.
    Masquerade(Door),
    /// External and load-balancer destinations that IPVS serves.
    Ipvs,
    /// An address of the node, whether or not it serves node ports; only where IPVS picks endpoints.
    NodeIps,
    /// Destination and direction → counter of a service port's packets; only where traffic is counted.
    Traffic(Door),
    /// Destination → counter of a service port's new connections; only where traffic is counted.
    Connections(Door),
    /// Destination → counter of a service port's refused packets; only where traffic is counted.
    Refused(Door),
}

/// The sets that exist from the start; `FirewallAllow` and what belongs to a pool come on demand.
pub(crate) fn permanent() -> Vec<SetName> {
    use SetName::*;
    let mut all = vec![ClusterIps, ServiceCidrs, NodeportIps, Firewall, Hairpin];
    for door in Door::BOTH {
        all.extend([Service(door), Local(door), Internal(door), Endpoints(door), InternalEndpoints(door)]);
        all.extend([Reject(door), Drop(door), Affine(door), Members(door), Pins(door)]);
    }
    all
}

/// The sets that exist beside these where IPVS picks endpoints.
pub(crate) fn beside_ipvs() -> [SetName; 4] {
    let [vips, ports] = Door::BOTH.map(SetName::Masquerade);
    [SetName::Ipvs, SetName::NodeIps, vips, ports]
}

/// The maps that exist beside these where traffic is counted.
pub(crate) fn counting(what: Counting) -> impl Iterator<Item = SetName> {
    let maps: &[fn(Door) -> SetName] = match what {
        Counting::Nothing => &[],
        Counting::Refused => &[SetName::Refused],
        Counting::Everything => &[SetName::Traffic, SetName::Connections, SetName::Refused],
    };
    Door::BOTH.into_iter().flat_map(|door| maps.iter().map(move |map| map(door)))
}

/// Names of the maps that packets write and that outlive a rewrite.
pub(crate) fn holds_pins(name: &str) -> bool {
    Door::BOTH.iter().any(|door| SetName::Pins(*door).name() == name)
}

impl SetName {
    pub fn name(self) -> Cow<'static, str> {
        use Door::{NodePort, Vip};
        use SetName::*;
        Cow::Borrowed(match self {
            ClusterIps => "cluster-ips",
            ServiceCidrs => "service-cidrs",
            NodeportIps => "nodeport-addresses",
            NodeIps => "node-addresses",
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
            Refused(Vip) => "refused-ips",
            Refused(NodePort) => "refused-nodeports",
            Masquerade(Vip) => "masquerade-ips",
            Masquerade(NodePort) => "masquerade-nodeports",
            Ipvs => "ipvs-ips",
            Members(Vip) => "pinned-endpoints",
            Members(NodePort) => "pinned-nodeport-endpoints",
            Pool(pool) => return Cow::Owned(pool.name()),
            PoolMembers(pool) => return Cow::Owned(format!("{}-members", pool.name())),
            FirewallAllow(length) => return Cow::Owned(format!("firewall-allow-{length}")),
        })
    }

    /// Declare the set. `name` is borrowed so that the declaration can be, too.
    pub fn declaration(self, family: Family, room_for_pins: u32, name: &str) -> nft::Set<'_> {
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
                size: room_for_pins,
                ..set
            },
            SetName::Traffic(_) | SetName::Connections(_) | SetName::Refused(_) => {
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
            SetName::ClusterIps | SetName::ServiceCidrs => vec![address],
            SetName::NodeportIps | SetName::NodeIps => vec![address],
            SetName::Service(door) | SetName::Local(door) | SetName::Internal(door) => destination(door),
            SetName::Reject(door) | SetName::Drop(door) | SetName::Affine(door) => destination(door),
            SetName::Connections(door) | SetName::Refused(door) => destination(door),
            SetName::Masquerade(door) => destination(door),
            SetName::Traffic(door) => [destination(door), vec![Type::Direction]].concat(),
            SetName::Firewall | SetName::Ipvs => destination(Door::Vip),
            SetName::Endpoints(door) | SetName::InternalEndpoints(door) => {
                [destination(door), vec![Type::Slot]].concat()
            }
            SetName::Members(door) => [destination(door), vec![address, Type::Port]].concat(),
            SetName::Pool(_) => vec![Type::Slot],
            SetName::PoolMembers(_) => vec![address, Type::Port],
            SetName::Pins(door) => [vec![address], destination(door)].concat(),
            SetName::FirewallAllow(_) => [destination(Door::Vip), vec![address]].concat(),
            SetName::Hairpin => vec![address, address, Type::Protocol, Type::Port],
        }
    }

    /// How its elements are keyed, if they are by destination.
    pub fn door(self) -> Option<Door> {
        use SetName::*;
        match self {
            Service(door)
            | Local(door)
            | Internal(door)
            | Endpoints(door)
            | InternalEndpoints(door)
            | Reject(door)
            | Drop(door)
            | Affine(door)
            | Members(door)
            | Masquerade(door)
            | Traffic(door)
            | Connections(door)
            | Refused(door) => Some(door),
            Firewall | FirewallAllow(_) | Ipvs => Some(Door::Vip),
            ClusterIps | ServiceCidrs | NodeIps | NodeportIps | Pool(_) | PoolMembers(_) | Pins(_)
            | Hairpin => None,
        }
    }

    /// A key as people read it.
    pub fn key_words(self, key: &[u8], family: Family) -> String {
        let mut rest = key;
        let mut words = Vec::new();
        for part in self.key(family) {
            let Some((bytes, behind)) = rest.split_at_checked(length(&[part]) as usize) else { break };
            words.push(part.words(bytes));
            rest = behind;
        }
        words.join(" . ")
    }

    fn data(self, family: Family) -> Option<(u32, u32)> {
        match self {
            SetName::Service(_) | SetName::Local(_) | SetName::Internal(_) | SetName::Affine(_) => {
                Some((VERDICT, 0))
            }
            SetName::Endpoints(_) | SetName::InternalEndpoints(_) | SetName::Pins(_) | SetName::Pool(_) => {
                let endpoint = [Type::address(family), Type::Port];
                Some((type_number(&endpoint), length(&endpoint)))
            }
            _ => None,
        }
    }

    fn user_data(self, family: Family) -> &'static [u8] {
        match self {
            SetName::Endpoints(door) | SetName::InternalEndpoints(door) => slot_typeof(door, family),
            SetName::Pool(_) => own_slot_typeof(family),
            _ => &[],
        }
    }
}

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
    fn words(self, bytes: &[u8]) -> String {
        let number = |bytes: &[u8]| bytes.first_chunk::<4>().map_or(0, |chunk| u32::from_ne_bytes(*chunk));
        match self {
            Type::Ipv4 => {
                bytes.first_chunk::<4>().map(|ip| Ipv4Addr::from(*ip).to_string()).unwrap_or_default()
            }
            Type::Ipv6 => {
                bytes.first_chunk::<16>().map(|ip| Ipv6Addr::from(*ip).to_string()).unwrap_or_default()
            }
            Type::Protocol => match bytes.first() {
                Some(6) => "tcp".to_owned(),
                Some(17) => "udp".to_owned(),
                Some(132) => "sctp".to_owned(),
                other => other.copied().unwrap_or_default().to_string(),
            },
            Type::Port => bytes.first_chunk::<2>().map_or(0, |port| u16::from_be_bytes(*port)).to_string(),
            Type::Slot | Type::Direction => number(bytes).to_string(),
        }
    }

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
