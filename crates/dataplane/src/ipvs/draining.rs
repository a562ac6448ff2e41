//! Destinations that take no new connections and stay until those they have end, within bounds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kernel::ipvs::{Batch, Destination, DumpedDestination, VirtualServer};

/// So many drain at once; beyond that, what goes is deleted, and its connections end.
const MOST: usize = 10_000;
/// A connection that lives longer than this after its endpoint has gone is ended.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);
/// Virtual servers that are looked at in one go.
pub(super) const AT_ONCE: usize = 64;
/// Destinations that are read in one go, those in use included, and then those of the last server.
pub(super) const READ_AT_ONCE: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct Draining {
    servers: BTreeMap<VirtualServer, Server>,
    count: usize,
    /// The last that was looked at.
    last: Option<VirtualServer>,
    /// What drained before everything was listed again, while the list is gone through: it keeps its time.
    before: BTreeMap<(VirtualServer, Destination), Instant>,
}

#[derive(Debug, Default)]
struct Server {
    destinations: BTreeMap<Destination, Instant>,
    /// Nothing but what drains is left of it: it goes with the last of them.
    is_retired: bool,
}

impl Draining {
    /// Whether the destination may drain: there is room for it.
    pub(super) fn take_in(&mut self, server: VirtualServer, destination: Destination, now: Instant) -> bool {
        if self.holds(server, &destination) {
            return true;
        }
        if self.count >= MOST {
            return false;
        }
        let until = self.before.remove(&(server, destination)).unwrap_or(now + LONGEST);
        self.servers.entry(server).or_default().destinations.insert(destination, until);
        self.count += 1;
        true
    }

    /// The destination is in use again, or gone. Returns whether it was draining.
    pub(super) fn release(&mut self, server: VirtualServer, destination: &Destination) -> bool {
        let Some(entry) = self.servers.get_mut(&server) else { return false };
        let was_there = entry.destinations.remove(destination).is_some();
        self.count -= usize::from(was_there);
        if entry.destinations.is_empty() && !entry.is_retired {
            self.servers.remove(&server);
        }
        was_there
    }

    /// The server leads nowhere any more. Returns whether something of it drains: then it stays until that has ended.
    pub(super) fn retire(&mut self, server: VirtualServer) -> bool {
        match self.servers.get_mut(&server) {
            Some(entry) => {
                entry.is_retired = true;
                true
            }
            None => false,
        }
    }

    /// The server is in use (again).
    pub(super) fn revive(&mut self, server: VirtualServer) {
        if let Some(entry) = self.servers.get_mut(&server) {
            entry.is_retired = false;
        }
    }

    /// All servers are about to be listed, and what drains is taken in again.
    pub(super) fn begin_again(&mut self) {
        // A list that could not be read to its end has left some.
        let mut before = std::mem::take(&mut self.before);
        for (server, entry) in std::mem::take(&mut self.servers) {
            before.extend(entry.destinations.into_iter().map(|(at, until)| ((server, at), until)));
        }
        *self = Draining { before, ..Draining::default() };
    }

    /// All servers were listed. What drains again later has its full time.
    pub(super) fn all_listed(&mut self) {
        self.before.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Whether something of the server drains.
    pub(super) fn has(&self, server: VirtualServer) -> bool {
        self.servers.contains_key(&server)
    }

    pub(super) fn holds(&self, server: VirtualServer, destination: &Destination) -> bool {
        self.servers.get(&server).is_some_and(|entry| entry.destinations.contains_key(destination))
    }

    /// The next few servers to look at, in turn.
    pub(super) fn next(&self) -> Vec<VirtualServer> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let (after, until) = match self.last {
            Some(last) => (Excluded(last), Included(last)),
            None => (Unbounded, Unbounded),
        };
        let rest = self.servers.range((after, Unbounded));
        let again = self.servers.range((Unbounded, until)).filter(|_| self.last.is_some());
        rest.chain(again).take(AT_ONCE).map(|(server, _)| *server).collect()
    }

    /// It is the turn of those behind it.
    pub(super) fn looks_at(&mut self, server: VirtualServer) {
        self.last = Some(server);
    }

    /// What has ended, now that the kernel has shown what the server has, and the commands that remove it. To be
    /// forgotten when they are carried out.
    pub(super) fn ended(
        &self,
        server: VirtualServer,
        found: &[DumpedDestination],
        now: Instant,
        batch: &mut Batch,
    ) -> Vec<Destination> {
        let Some(entry) = self.servers.get(&server) else { return Vec::new() };
        let mut ended = Vec::new();
        let found: BTreeMap<Destination, &DumpedDestination> =
            found.iter().map(|one| (one.destination, one)).collect();
        for (destination, until) in &entry.destinations {
            match found.get(destination) {
                Some(found) if found.active + found.inactive > 0 && *until > now => continue,
                Some(_) => {
                    batch.delete_destination(server, *destination);
                }
                None => {}
            }
            ended.push(*destination);
        }
        if ended.len() == entry.destinations.len() && entry.is_retired {
            batch.delete_service(server);
        }
        ended
    }

    /// They are gone.
    pub(super) fn forget(&mut self, server: VirtualServer, ended: &[Destination]) {
        let Some(entry) = self.servers.get_mut(&server) else { return };
        let before = entry.destinations.len();
        ended.iter().for_each(|destination| {
            entry.destinations.remove(destination);
        });
        self.count -= before - entry.destinations.len();
        if entry.destinations.is_empty() {
            self.servers.remove(&server);
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ipvs_draining.rs"]
mod tests;
