//! A transport that remembers how long its commits took, to tell the kernel's share from ours.

use std::time::{Duration, Instant};

use kernel::nft::{Batch, CommitError, Connection, Layer, Transport};

pub(crate) struct Timed {
    connection: Connection,
    in_commits: Duration,
}

impl Timed {
    pub(crate) fn open() -> std::io::Result<Timed> {
        Ok(Timed { connection: Connection::open()?, in_commits: Duration::ZERO })
    }

    pub(crate) fn port(&self) -> u32 {
        self.connection.port()
    }

    /// The time spent in commits since this was asked last.
    pub(crate) fn take(&mut self) -> Duration {
        std::mem::take(&mut self.in_commits)
    }
}

impl Layer for Timed {
    type Inner = Connection;

    fn inner(&mut self) -> &mut Connection {
        &mut self.connection
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        let started = Instant::now();
        let result = self.connection.commit(batch);
        self.in_commits += started.elapsed();
        result
    }
}
