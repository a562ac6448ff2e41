//! Counters of a service port's traffic: which there are, and what they are called in the kernel.
//!
//! They belong to the service port, not to its addresses: those come and go as map elements that lead to them,
//! and a rewrite of the table leaves them alone. So a counter only ever grows while its service port lives.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use model::{Destination, PortPlan, Protocol, ServicePlan};

use crate::element::{Data, Element};
use crate::render::destination_key;
use crate::sets::SetName;

/// A packet's direction, as conntrack numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the client to the service.
    Request = 0,
    /// From the service to the client.
    Reply = 1,
}

impl Direction {
    pub const BOTH: [Direction; 2] = [Direction::Request, Direction::Reply];
}

/// What a counter counts of its service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Meter {
    /// Packets and bytes of one direction.
    Traffic(Direction),
    /// First packets: connections, or flows of protocols that have none.
    Connections,
    /// Packets that were refused.
    Refused,
}

impl Meter {
    pub const ALL: [Meter; 4] = [
        Meter::Traffic(Direction::Request),
        Meter::Traffic(Direction::Reply),
        Meter::Connections,
        Meter::Refused,
    ];

    fn word(self) -> &'static str {
        match self {
            Meter::Traffic(Direction::Request) => "request",
            Meter::Traffic(Direction::Reply) => "reply",
            Meter::Connections => "connections",
            Meter::Refused => "refused",
        }
    }
}

/// Which counters every service port has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    #[default]
    Nothing,
    /// Refused packets alone, where something else counts the traffic.
    Refused,
    Everything,
}

impl Counting {
    pub(crate) fn meters(self) -> &'static [Meter] {
        match self {
            Counting::Nothing => &[],
            Counting::Refused => &[Meter::Refused],
            Counting::Everything => &Meter::ALL,
        }
    }
}

/// The name of a counter: `request/namespace/name/protocol/port`. The last part may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MeterName<'a> {
    pub meter: Meter,
    /// `namespace/name`
    pub service: &'a str,
    pub protocol: Protocol,
    pub port: &'a str,
}

/// `NFT_OBJ_MAXNAMELEN` without its NUL. What the API allows is shorter; manifests may say anything, and one
/// refused counter would refuse the transaction.
const LONGEST_NAME: usize = 255;

impl<'a> MeterName<'a> {
    /// How the kernel knows the counter; `None` if it would not take the name.
    fn of(meter: Meter, service: &'a str, port: &'a PortPlan) -> Option<String> {
        let name = MeterName { meter, service, protocol: port.protocol, port: &port.name }.to_string();
        (name.len() <= LONGEST_NAME && MeterName::parse(&name).is_some()).then_some(name)
    }

    /// `None` if it is not a name of ours.
    pub fn parse(name: &'a str) -> Option<MeterName<'a>> {
        let (word, rest) = name.split_once('/')?;
        let meter = Meter::ALL.into_iter().find(|meter| meter.word() == word)?;
        let (rest, port) = rest.rsplit_once('/')?;
        let (service, protocol) = rest.rsplit_once('/')?;
        let protocol = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
            .into_iter()
            .find(|known| known.to_string() == protocol)?;
        service.contains('/').then_some(MeterName { meter, service, protocol, port })
    }
}

impl fmt::Display for MeterName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MeterName { meter, service, protocol, port } = self;
        write!(f, "{}/{service}/{protocol}/{port}", meter.word())
    }
}

/// The counters of one service.
pub(crate) fn names(service: &str, plan: &ServicePlan, counting: Counting) -> BTreeSet<String> {
    let of_port = |port: &PortPlan| -> Vec<String> {
        counting.meters().iter().filter_map(|meter| MeterName::of(*meter, service, port)).collect()
    };
    plan.ports.iter().flat_map(|port| of_port(port)).collect()
}

/// The elements that lead from destinations of a service port to its counters. They do not depend on endpoints.
pub(crate) fn render(
    service: &str,
    port: &PortPlan,
    destinations: &[Destination],
    counting: Counting,
    out: &mut Vec<Element>,
) {
    for meter in counting.meters().iter().copied() {
        let Some(name) = MeterName::of(meter, service, port) else { continue };
        let name: Rc<str> = name.into();
        for destination in destinations {
            let (door, key) = destination_key(destination.at, port.protocol);
            let (set, key) = match meter {
                Meter::Traffic(direction) => (SetName::Traffic(door), key.direction(direction)),
                Meter::Connections => (SetName::Connections(door), key),
                Meter::Refused => (SetName::Refused(door), key),
            };
            out.push(Element { set, key, data: Data::Counter, label: Some(name.clone()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for (port, protocol) in [("http", Protocol::Tcp), ("", Protocol::Sctp)] {
            for meter in Meter::ALL {
                let name = MeterName { meter, service: "0ns/web", protocol, port };
                assert_eq!(MeterName::parse(&name.to_string()), Some(name));
            }
        }
        for other in ["", "request", "request/web/tcp/http", "other/ns/web/tcp/http", "reply/ns/web/icmp/"] {
            assert_eq!(MeterName::parse(other), None, "{other}");
        }
    }
}
