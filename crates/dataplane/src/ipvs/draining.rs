//! Destinations that take no new connections and stay until those they have end, within bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kernel::ipvs::{Batch, Destination, DumpedDestination, VirtualServer};

/// So many drain at once; beyond that, what goes is deleted, and its connections end.
const MOST: usize = 10_000;
/// A connection that lives longer than this after its endpoint has gone is ended.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);
/// Virtual servers that are looked at in one go.
pub(super) const AT_ONCE: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Draining {
    servers: BTreeMap<VirtualServer, Server>,
    count: usize,
    /// The last that was looked at.
    last: Option<VirtualServer>,
    /// What drained before everything was listed again: it keeps its time.
    before: BTreeMap<VirtualServer, Server>,
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
        let before = self.before.get(&server).and_then(|entry| entry.destinations.get(&destination));
        let until = before.copied().unwrap_or(now + LONGEST);
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
        let before = std::mem::take(&mut self.servers);
        *self = Draining { before, ..Draining::default() };
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
    pub(super) fn next(&mut self) -> Vec<VirtualServer> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = self.last.map_or(Unbounded, Excluded);
        let mut due: BTreeSet<VirtualServer> =
            self.servers.range((from, Unbounded)).take(AT_ONCE).map(|(server, _)| *server).collect();
        self.last = if due.len() < AT_ONCE { None } else { due.last().copied() };
        due.extend(self.servers.keys().take(AT_ONCE - due.len()));
        due.into_iter().collect()
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
mod tests {
    use super::*;
    use kernel::ipvs::{Command, Protocol, Statistics};
    use std::net::{IpAddr, Ipv4Addr};

    fn server(port: u16) -> VirtualServer {
        VirtualServer { address: Ipv4Addr::new(10, 96, 0, 1).into(), protocol: Protocol::Tcp, port }
    }

    fn endpoint(last: u8) -> Destination {
        Destination { address: IpAddr::from([10, 0, 0, last]), port: 80 }
    }

    fn found(destination: Destination, active: u32) -> DumpedDestination {
        let statistics = Statistics::default();
        DumpedDestination {
            destination,
            weight: 0,
            masquerading: true,
            active,
            inactive: 0,
            persistent: 0,
            statistics,
        }
    }

    /// What has ended goes.
    fn collect(draining: &mut Draining, found: &[DumpedDestination], now: Instant) -> Vec<Command> {
        let mut batch = Batch::new();
        let ended = draining.ended(server(80), found, now, &mut batch);
        let before = draining.len();
        let mut again = Batch::new();
        assert_eq!(draining.ended(server(80), found, now, &mut again), ended);
        assert_eq!((draining.len(), &again), (before, &batch), "nothing is lost before it is carried out");
        draining.forget(server(80), &ended);
        batch.commands().to_vec()
    }

    #[test]
    fn a_destination_goes_with_its_last_connection_and_a_retired_server_with_its_last_destination() {
        let (mut draining, now) = (Draining::default(), Instant::now());
        assert!(
            draining.take_in(server(80), endpoint(1), now) && draining.take_in(server(80), endpoint(2), now)
        );
        assert!(draining.retire(server(80)));
        let commands = collect(&mut draining, &[found(endpoint(1), 3), found(endpoint(2), 0)], now);
        assert_eq!(commands, [Command::DeleteDestination(server(80), endpoint(2))]);
        let commands = collect(&mut draining, &[found(endpoint(1), 0)], now);
        let last = [Command::DeleteDestination(server(80), endpoint(1)), Command::DeleteService(server(80))];
        assert_eq!(commands, last);
        assert_eq!(draining.len(), 0);
    }

    #[test]
    fn draining_is_bounded_in_time_and_number() {
        let (mut draining, now) = (Draining::default(), Instant::now());
        draining.take_in(server(80), endpoint(1), now);
        assert_eq!(collect(&mut draining, &[found(endpoint(1), 1)], now + LONGEST).len(), 1);
        for port in 1..=MOST as u16 {
            assert!(draining.take_in(server(port), endpoint(1), now));
        }
        assert!(!draining.take_in(server(60_000), endpoint(1), now));
        assert_eq!(draining.len(), MOST);
    }

    #[test]
    fn what_is_listed_again_keeps_its_time() {
        let (mut draining, now) = (Draining::default(), Instant::now());
        draining.take_in(server(80), endpoint(1), now);
        draining.begin_again();
        assert_eq!(draining.len(), 0);
        draining.take_in(server(80), endpoint(1), now + LONGEST / 2);
        let mut batch = Batch::new();
        draining.ended(server(80), &[found(endpoint(1), 1)], now + LONGEST, &mut batch);
        assert_eq!(batch.len(), 1);
    }

    #[test]
    fn servers_are_looked_at_in_turn() {
        let (mut draining, now) = (Draining::default(), Instant::now());
        for port in 1..=100 {
            draining.take_in(server(port), endpoint(1), now);
        }
        let mut seen: BTreeSet<VirtualServer> = draining.next().into_iter().collect();
        assert_eq!(seen.len(), AT_ONCE);
        seen.extend(draining.next());
        assert_eq!(seen.len(), 100);
    }
}
