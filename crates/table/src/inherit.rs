//! Taking clients' pins over from upstream's nftables table, which is about to be replaced by ours.
//!
//! Upstream keeps a set of client addresses per endpoint, named
//! `affinity-HASH-namespace/name/protocol/port__address/port` (an IPv6 address with dots for colons).

use std::collections::HashMap;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use kernel::nft::{self, Batch, ElementData, Transport};
use model::{Destination, Family, Protocol, Routing, ServiceKey, ServicePlan};

use crate::bytes::Fields;
use crate::layout::{TABLE, TableSetup};
use crate::pool::pin_seconds;
use crate::render::{destination_key, in_every_pool};
use crate::sets::{Door, SetName};

/// Upstream's record that a client goes to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InheritedPin {
    owner: Owner,
    client: IpAddr,
    left_ms: u64,
}

/// Whose pins a set of upstream holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    service: String,
    protocol: Protocol,
    port: String,
    endpoint: (IpAddr, u16),
}

/// Read every pin of upstream's table, the longest-lived first. What cannot be read is left out: a client
/// that changes its endpoint once is better than rules that wait.
pub fn read<T: Transport>(transport: &mut T, setup: &TableSetup) -> Vec<InheritedPin> {
    let mut pins = Vec::new();
    if let Err(error) = read_all(transport, setup, &mut pins) {
        tracing::warn!(
            family = %setup.family, %error, taken_over = pins.len(),
            "Failed to read all pins of the previous table; some clients change their endpoint"
        );
    }
    pins.sort_by_key(|pin| std::cmp::Reverse(pin.left_ms));
    pins
}

fn read_all<T: Transport>(
    transport: &mut T,
    setup: &TableSetup,
    pins: &mut Vec<InheritedPin>,
) -> Result<(), nft::Error> {
    let family = setup.nft_family();
    for set in transport.sets(family, TABLE)? {
        let Some(owner) = owner(&set, setup.family) else { continue };
        transport.dump_elements(family, TABLE, &set, &mut |element| {
            if let (Some(client), Some(left_ms)) = (address(element.key), element.expires_ms) {
                pins.push(InheritedPin { owner: owner.clone(), client, left_ms });
            }
        })?;
    }
    Ok(())
}

/// Pin the clients at every destination of their service that may send them to their endpoint.
pub(crate) fn write(
    batch: &mut Batch,
    pins: &[InheritedPin],
    plans: &HashMap<ServiceKey, ServicePlan>,
    most: u32,
) {
    let mut written: [HashSet<Fields>; 2] = Default::default();
    let mut rooms: HashMap<(&str, Protocol, &str), Vec<Room<'_>>> = HashMap::new();
    for InheritedPin { owner, client, left_ms } in pins {
        let Some(plan) = plans.get(&*owner.service) else { continue };
        let port = plan.port(&owner.port, owner.protocol);
        let Some(seconds) = port.and_then(|port| pin_seconds(port)) else { continue };
        let whose = (&*owner.service, owner.protocol, &*owner.port);
        // A service has many pins: what its pools hold is worked out once.
        for room in rooms.entry(whose).or_insert_with(|| Room::of(plan, owner)) {
            if !room.right.contains(&owner.endpoint) {
                continue;
            }
            let (door, at) = destination_key(room.destination.at, owner.protocol);
            let key = Fields::new().ip(*client).append(&at);
            let written = &mut written[door as usize];
            if written.len() < most as usize && written.insert(key) {
                add(batch, door, &key, owner.endpoint, *left_ms, u64::from(seconds) * 1000);
            }
        }
    }
}

type Endpoints = Rc<HashSet<(IpAddr, u16)>>;

/// A destination, and the endpoints that a pin of it may name whatever client it is of.
struct Room<'a> {
    destination: &'a Destination,
    right: Endpoints,
}

impl Room<'_> {
    fn of<'a>(plan: &'a ServicePlan, owner: &Owner) -> Vec<Room<'a>> {
        let Some(port) = plan.port(&owner.port, owner.protocol) else { return Vec::new() };
        let mut known: Vec<(Routing, Endpoints)> = Vec::new();
        let room = |destination: &'a Destination| {
            let found = known.iter().find(|(routing, _)| *routing == destination.routing);
            let right = found.map(|(_, right)| right.clone()).unwrap_or_else(|| {
                let right = Rc::new(in_every_pool(port, destination.routing));
                known.push((destination.routing, right.clone()));
                right
            });
            Room { destination, right }
        };
        port.destinations.iter().map(room).collect()
    }
}

fn add(batch: &mut Batch, door: Door, key: &Fields, to: (IpAddr, u16), left_ms: u64, lifetime_ms: u64) {
    let data = Fields::new().ip(to.0).port(to.1);
    let data = ElementData::Value(data.as_slice());
    let left_ms = left_ms.min(lifetime_ms);
    batch.add_timed_element(&SetName::Pins(door).name(), key.as_slice(), data, lifetime_ms, left_ms);
}

fn owner(set: &str, family: Family) -> Option<Owner> {
    let (_hash, rest) = set.strip_prefix("affinity-")?.split_once('-')?;
    let (service_port, endpoint) = rest.rsplit_once("__")?;
    let mut parts = service_port.split('/');
    let (namespace, name, protocol, port) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let protocol = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
        .into_iter()
        .find(|known| known.to_string() == protocol)?;
    let (ip, number) = endpoint.split_once('/')?;
    let ip: IpAddr = match family {
        Family::V4 => ip.parse::<Ipv4Addr>().ok()?.into(),
        Family::V6 => ip.replace('.', ":").parse::<Ipv6Addr>().ok()?.into(),
    };
    let endpoint = (ip, number.parse().ok()?);
    Some(Owner { service: format!("{namespace}/{name}"), protocol, port: port.to_owned(), endpoint })
}

fn address(key: &[u8]) -> Option<IpAddr> {
    match key.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(key).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(key).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_read_from_set_names() {
        let v4 = owner("affinity-5OJB2KTY-ns1/svc-1/tcp/p80__10.180.0.1/80", Family::V4).unwrap();
        assert_eq!(v4.service, "ns1/svc-1");
        assert_eq!((v4.protocol, v4.port.as_str()), (Protocol::Tcp, "p80"));
        assert_eq!(v4.endpoint, ("10.180.0.1".parse().unwrap(), 80));
        let v6 = owner("affinity-5OJB2KTY-ns1/svc1/udp/__fd00.10..1/53", Family::V6).unwrap();
        assert_eq!((v6.port.as_str(), v6.endpoint), ("", ("fd00:10::1".parse().unwrap(), 53)));
        for other in ["affinity", "pinned-ips", "pinned-endpoints-10800", "cluster-ips", "affinity-X-a/b__c"]
        {
            assert_eq!(owner(other, Family::V4), None, "{other}");
        }
    }
}
