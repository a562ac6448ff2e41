//! Endpoints at rest: 12 bytes for an IPv4 endpoint, 24 for IPv6, everything textual interned.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use model::{Endpoint, EndpointSlice, Family, Hints, SlicePort};

use crate::intern::{Id, Interner};
use crate::{EndpointRecord, SliceRecord};

/// The texts all packed slices of a state refer to.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    nodes: Interner<str>,
    ports: Interner<[SlicePort]>,
    hints: Interner<Hints>,
}

/// One EndpointSlice. Two slices packed against the same [`Texts`] are equal exactly if their contents are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PackedSlice {
    /// Without the namespace, which is the service's.
    pub(crate) name: Box<str>,
    endpoints: Endpoints,
    ports: Option<Id>,
}

#[derive(Debug, PartialEq, Eq)]
enum Endpoints {
    V4(Box<[Packed<[u8; 4]>]>),
    V6(Box<[Packed<[u8; 16]>]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed<A> {
    address: A,
    node: Option<Id>,
    /// Conditions in the lowest bits, the id of the hints (0: none) above them.
    hints_and_conditions: u32,
}

const READY: u32 = 1;
const SERVING: u32 = 2;
const TERMINATING: u32 = 4;
const CONDITION_BITS: u32 = 3;

impl Texts {
    pub(crate) fn pack(&mut self, name: &str, record: &SliceRecord) -> PackedSlice {
        let ports = self.ports.acquire(&record.ports, || Arc::from(&*record.ports));
        PackedSlice { name: name.into(), endpoints: self.pack_endpoints(&record.endpoints), ports }
    }

    fn pack_endpoints(&mut self, records: &[EndpointRecord]) -> Endpoints {
        let v6 = matches!(records.first(), Some(EndpointRecord { ip: IpAddr::V6(_), .. }));
        if v6 {
            let of_family = records.iter().filter_map(|record| match record.ip {
                IpAddr::V6(ip) => Some((ip.octets(), record)),
                IpAddr::V4(_) => None,
            });
            Endpoints::V6(of_family.map(|(address, record)| self.pack_one(address, record)).collect())
        } else {
            let of_family = records.iter().filter_map(|record| match record.ip {
                IpAddr::V4(ip) => Some((ip.octets(), record)),
                IpAddr::V6(_) => None,
            });
            Endpoints::V4(of_family.map(|(address, record)| self.pack_one(address, record)).collect())
        }
    }

    fn pack_one<A>(&mut self, address: A, record: &EndpointRecord) -> Packed<A> {
        let node = record.node.as_deref().and_then(|node| self.nodes.acquire(node, || node.into()));
        let hints =
            record.hints.as_ref().and_then(|hints| self.hints.acquire(hints, || Arc::new(hints.clone())));
        let flag = |on: bool, bit: u32| if on { bit } else { 0 };
        let conditions =
            flag(record.ready, READY) | flag(record.serving, SERVING) | flag(record.terminating, TERMINATING);
        Packed {
            address,
            node,
            hints_and_conditions: hints.map_or(0, Id::get) << CONDITION_BITS | conditions,
        }
    }

    /// Give back what the slice held.
    pub(crate) fn release(&mut self, slice: &PackedSlice) {
        if let Some(ports) = slice.ports {
            self.ports.release(ports);
        }
        match &slice.endpoints {
            Endpoints::V4(endpoints) => endpoints.iter().for_each(|packed| self.release_one(packed)),
            Endpoints::V6(endpoints) => endpoints.iter().for_each(|packed| self.release_one(packed)),
        }
    }

    fn release_one<A>(&mut self, packed: &Packed<A>) {
        if let Some(node) = packed.node {
            self.nodes.release(node);
        }
        if let Some(hints) = packed.hints_id() {
            self.hints.release(hints);
        }
    }

    /// How many ports a slice has.
    pub(crate) fn port_count(&self, slice: &PackedSlice) -> usize {
        slice.ports.and_then(|id| self.ports.get(id)).map_or(0, <[SlicePort]>::len)
    }

    /// The slice as the model sees it.
    pub(crate) fn view(&self, slice: &PackedSlice) -> EndpointSlice<'_> {
        let endpoints = match &slice.endpoints {
            Endpoints::V4(endpoints) => endpoints
                .iter()
                .map(|packed| self.view_one(Ipv4Addr::from(packed.address).into(), packed))
                .collect(),
            Endpoints::V6(endpoints) => endpoints
                .iter()
                .map(|packed| self.view_one(Ipv6Addr::from(packed.address).into(), packed))
                .collect(),
        };
        EndpointSlice { ports: slice.ports.and_then(|id| self.ports.get(id)).unwrap_or_default(), endpoints }
    }

    fn view_one<A>(&self, ip: IpAddr, packed: &Packed<A>) -> Endpoint<'_> {
        let is = |bit: u32| packed.hints_and_conditions & bit != 0;
        Endpoint {
            ip,
            ready: is(READY),
            serving: is(SERVING),
            terminating: is(TERMINATING),
            node: packed.node.and_then(|id| self.nodes.get(id)),
            hints: packed.hints_id().and_then(|id| self.hints.get(id)),
        }
    }

    #[cfg(test)]
    pub(crate) fn sizes(&self) -> [usize; 3] {
        [self.nodes.len(), self.ports.len(), self.hints.len()]
    }
}

impl<A> Packed<A> {
    fn hints_id(&self) -> Option<Id> {
        Id::new(self.hints_and_conditions >> CONDITION_BITS)
    }
}

impl PackedSlice {
    pub(crate) fn family(&self) -> Family {
        match &self.endpoints {
            Endpoints::V4(_) => Family::V4,
            Endpoints::V6(_) => Family::V6,
        }
    }

    pub(crate) fn endpoint_count(&self) -> usize {
        match &self.endpoints {
            Endpoints::V4(endpoints) => endpoints.len(),
            Endpoints::V6(endpoints) => endpoints.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_small() {
        assert_eq!(size_of::<Packed<[u8; 4]>>(), 12);
        assert_eq!(size_of::<Packed<[u8; 16]>>(), 24);
    }
}
