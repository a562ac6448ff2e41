//! Sends commands to IPVS. One that finds what it wanted to bring about is content.

use std::fmt;

use kernel::ipvs::{Batch, Command, Error, Transport};

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

/// All commands are tried; the first failure is told.
pub(super) fn carry_out<T: Transport>(servers: &mut T, batch: &Batch) -> Result<(), SyncError> {
    if batch.is_empty() {
        return Ok(());
    }
    let mut second = Batch::new();
    let mut refused = None;
    for failure in servers.commit(batch)? {
        match batch.commands().get(failure.index) {
            // It may be draining, or somebody else's.
            Some(Command::NewService(server, settings)) if failure.is_there_already() => {
                second.set_service(*server, settings);
            }
            Some(Command::NewDestination(server, destination, weight)) if failure.is_there_already() => {
                second.set_destination(*server, *destination, *weight);
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
    refused.map_or(Ok(()), |refused| Err(SyncError::new(refused)))
}
