//! Sends commands to IPVS. A command whose effect is already there is not an error.

use std::collections::HashSet;
use std::fmt;

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

/// Destinations that the kernel does not take: a broadcast address of the node's network, for example. They are left out,
/// so that nobody can stop the services of others with one.
pub(super) type LeftOut = HashSet<(VirtualServer, Destination)>;

/// So many are remembered.
const MOST_LEFT_OUT: usize = 1_000;

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
        let failures = servers.commit(&second)?;
        refused = refused.or_else(|| failures.first().map(|failure| Refused(second.explain(*failure))));
    }
    if let Some((server, destination)) = unusable.first() {
        tracing::warn!(
            %server, %destination, count = unusable.len(),
            "IPVS cannot send connections to this endpoint address; leaving the endpoint out"
        );
        left_out.extend(unusable.into_iter().take(MOST_LEFT_OUT.saturating_sub(left_out.len())));
    }
    refused.map_or(Ok(()), |refused| Err(SyncError::new(refused)))
}
