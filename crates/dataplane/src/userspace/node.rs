//! The forwarder of this process, and the way to it on this node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Family, Pool, Protocol, UserspaceSettings};

use super::{Doors, Ground, ground};
use crate::backend::{Farewell, SyncError};
use forwarder::{Forwarder, Means};

pub(super) struct Node {
    forwarder: Forwarder,
    doors: [Option<Doors>; 2],
    drain: Duration,
}

impl Node {
    pub(super) fn new(forwarder: Forwarder) -> Node {
        Node { forwarder, doors: [None; 2], drain: Duration::ZERO }
    }

    fn listen(&self, family: Family) -> std::io::Result<Doors> {
        let mut failure = None;
        for doors in ground::candidates(family) {
            match (self.listen_at(doors), &failure) {
                (Ok(()), None) => return Ok(doors),
                (Ok(()), Some(error)) => {
                    let at = doors[0];
                    tracing::warn!(%family, %at, %error, "The default port is in use; using another one");
                    return Ok(doors);
                }
                (Err(error), _) if error.kind() == std::io::ErrorKind::AddrInUse => failure = Some(error),
                (Err(error), _) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into()))
    }

    fn listen_at(&self, doors: Doors) -> std::io::Result<()> {
        let both = [Protocol::Tcp, Protocol::Udp];
        let wanted = both.into_iter().flat_map(|protocol| Pool::BOTH.map(|pool| (protocol, pool)));
        let wanted: Vec<_> =
            wanted.map(|(protocol, pool)| (protocol, pool, Means::Original(doors[pool as usize]))).collect();
        self.forwarder.open_shared(&wanted)
    }
}

impl Ground for Node {
    fn open(&mut self, family: Family) -> Result<Doors, SyncError> {
        ground::lay(family)?;
        match self.doors[family.index()] {
            Some(doors) => Ok(doors),
            None => {
                let doors = self.listen(family).map_err(SyncError::new)?;
                self.doors[family.index()] = Some(doors);
                Ok(doors)
            }
        }
    }

    fn is_intact(&mut self, family: Family) -> bool {
        ground::is_laid(family)
    }

    fn configure(&mut self, settings: &UserspaceSettings, mark: u32) {
        self.drain = settings.drain;
        self.forwarder.shared.set_mark(mark);
        self.forwarder.shared.set_udp_idle(settings.udp_idle);
    }

    fn farewell(&self) -> Option<Farewell> {
        let ending = self.forwarder.ending.clone();
        Some(Box::new(move |deadline| ending.by(deadline)))
    }
}

/// The agent stops. It has said farewell already, unless it could not start a thread for it.
impl Drop for Node {
    fn drop(&mut self) {
        self.forwarder.ending.by(Instant::now() + self.drain);
    }
}

impl Node {
    pub(super) fn shared(&self) -> Arc<forwarder::Shared> {
        self.forwarder.shared.clone()
    }
}
