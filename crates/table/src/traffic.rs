//! Reading the counters of service ports back. Not for the sync: tens of thousands take a tenth of a second.

use std::collections::{BTreeMap, BTreeSet};

use kernel::nft::{CounterReading, Error, Transport};
use model::{Family, Protocol};

use crate::layout::{TABLE, TableSetup};
use crate::meter::{Direction, Meter, MeterName};

/// How often counters are read again because a commit fell into the reading. What one reading leaves out, the
/// others have: they are put together.
const ATTEMPTS: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePortName {
    /// `namespace/name`
    pub service: Box<str>,
    /// Empty if it has none.
    pub port: Box<str>,
    pub protocol: Protocol,
}

/// What was counted of one service port and family, since its counters were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortTraffic {
    pub requests: Count,
    pub replies: Count,
    pub connections: u64,
    /// Packets.
    pub refused: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

/// What the kernel has counted; empty where traffic is not counted.
pub fn read_traffic<T: Transport>(
    transport: &mut T,
    family: Family,
) -> Result<BTreeMap<ServicePortName, PortTraffic>, Error> {
    let mut found: BTreeMap<ServicePortName, PortTraffic> = BTreeMap::new();
    read(transport, family, &mut |counter| {
        let Some(name) = MeterName::parse(counter.name) else { return };
        let MeterName { meter, service, protocol, port } = name;
        let key = ServicePortName { service: service.into(), port: port.into(), protocol };
        let traffic = found.entry(key).or_default();
        let count = Count { packets: counter.packets, bytes: counter.bytes };
        match meter {
            Meter::Traffic(Direction::Request) => traffic.requests = count,
            Meter::Traffic(Direction::Reply) => traffic.replies = count,
            Meter::Connections => traffic.connections = count.packets,
            Meter::Refused => traffic.refused = count.packets,
        }
    })?;
    Ok(found)
}

/// The names of all counters in the table.
pub fn counter_names<T: Transport>(transport: &mut T, setup: &TableSetup) -> Result<BTreeSet<String>, Error> {
    let mut names = BTreeSet::new();
    read(transport, setup.family, &mut |counter| {
        names.insert(counter.name.to_owned());
    })?;
    Ok(names)
}

fn read<T: Transport>(
    transport: &mut T,
    family: Family,
    each: &mut dyn FnMut(CounterReading<'_>),
) -> Result<(), Error> {
    let family = match family {
        Family::V4 => kernel::nft::TableFamily::Ip,
        Family::V6 => kernel::nft::TableFamily::Ip6,
    };
    for _ in 0..ATTEMPTS {
        match transport.counters(family, TABLE, each) {
            Err(Error::Interrupted { .. }) => {}
            other => return other,
        }
    }
    Ok(())
}
