//! Sends commands to IPVS. A command whose effect is already there is not an error.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

use kernel::ipvs::{Batch, Command, Destination, Error, Transport, VirtualServer};

use crate::backend::SyncError;

/// A command that the kernel refused, in words.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPVS: {}", self.0)
    }
}

impl std::error::Error for Refused {}

impl From<Error> for SyncError {
    fn from(error: Error) -> SyncError {
        SyncError::new(error)
    }
}

/// Addresses that the kernel does not take as destinations: the broadcast address of a network of the node, for example.
/// They are left out, so that nobody can stop the services of others with one. However many services have one, it is
/// remembered and told once.
#[derive(Debug, Default)]
pub(super) struct LeftOut(HashSet<IpAddr>);

/// So many are remembered. Beyond that, no missing destination is taken for damage: to write everything again would bring
/// none of them back.
const MOST_LEFT_OUT: usize = 1_000;

impl LeftOut {
    pub(super) fn covers(&self, destination: &Destination) -> bool {
        self.0.len() >= MOST_LEFT_OUT || self.0.contains(&destination.address)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn add(&mut self, unusable: &[(VirtualServer, Destination)]) {
        let mut new = unusable.to_vec();
        new.retain(|(_, destination)| !self.covers(destination));
        let Some((server, destination)) = new.first() else { return };
        tracing::warn!(
            %server, %destination, count = new.len(),
            "IPVS cannot send connections to this endpoint address; leaving the endpoint out"
        );
        let room = MOST_LEFT_OUT - self.0.len();
        self.0.extend(new.iter().map(|(_, destination)| destination.address).take(room));
    }
}

/// All commands are tried; the first failure is told.
pub(super) fn carry_out<T: Transport>(
    servers: &mut T,
    batch: &Batch,
    left_out: &mut LeftOut,
) -> Result<(), SyncError> {
    if batch.is_empty() {
        return Ok(());
    }
    let mut second = Batch::new();
    let mut refused = None;
    let mut unusable = Vec::new();
    for failure in servers.commit(batch)? {
        match batch.commands().get(failure.index) {
            // It may be draining, or somebody else's.
            Some(Command::NewService(server, settings)) if failure.is_there_already() => {
                second.set_service(*server, settings);
            }
            Some(Command::NewDestination(server, destination, weight)) if failure.is_there_already() => {
                second.set_destination(*server, *destination, *weight);
            }
            // It drained, and another process removed it, or a clean-up of ours of which only a part went well.
            Some(Command::SetDestination(server, destination, weight @ 1..)) if failure.is_not_there() => {
                second.new_destination(*server, *destination, *weight);
            }
            Some(Command::NewDestination(server, destination, _)) if failure.is_invalid() => {
                unusable.push((*server, *destination));
            }
            Some(
                Command::DeleteService(_) | Command::DeleteDestination(..) | Command::SetDestination(_, _, 0),
            ) if failure.is_not_there() => {}
            _ => refused = refused.or_else(|| Some(Refused(batch.explain(failure)))),
        }
    }
    if !second.is_empty() {
        for failure in servers.commit(&second)? {
            match second.commands().get(failure.index) {
                // It was left out when it was removed, too.
                Some(Command::NewDestination(server, destination, _)) if failure.is_invalid() => {
                    unusable.push((*server, *destination));
                }
                _ => refused = refused.or_else(|| Some(Refused(second.explain(failure)))),
            }
        }
    }
    left_out.add(&unusable);
    refused.map_or(Ok(()), |refused| Err(SyncError::new(refused)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::ipvs::Protocol;
    use std::net::Ipv4Addr;

    fn pair(port: u16, address: u32) -> (VirtualServer, Destination) {
        let server = VirtualServer { address: Ipv4Addr::LOCALHOST.into(), protocol: Protocol::Tcp, port };
        (server, Destination { address: Ipv4Addr::from_bits(address).into(), port: 80 })
    }

    #[test]
    fn an_address_that_many_services_have_takes_one_place() {
        let mut left_out = LeftOut::default();
        let many: Vec<_> = (0..5_000).map(|port| pair(port, 1)).collect();
        left_out.add(&many);
        assert_eq!(left_out.0.len(), 1);
        assert!(left_out.covers(&many[0].1) && !left_out.covers(&pair(1, 2).1));
    }

    #[test]
    fn where_there_is_no_room_nothing_that_is_missing_counts() {
        let mut left_out = LeftOut::default();
        left_out.add(&(0..2_000).map(|address| pair(1, address)).collect::<Vec<_>>());
        assert_eq!(left_out.0.len(), MOST_LEFT_OUT);
        assert!(left_out.covers(&pair(1, 5_000).1));
        left_out.clear();
        assert!(!left_out.covers(&pair(1, 5_000).1));
    }
}
