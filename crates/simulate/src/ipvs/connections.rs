//! The connections IPVS knows, and the clients that are bound to a destination.

use std::collections::HashMap;
use std::net::IpAddr;

use kernel::ipvs::{Destination, VirtualServer, flags};

use super::Simulator;
use super::schedule::{self, Caller, Load};

/// What IPVS makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// No virtual server has it.
    NotTaken,
    To(Destination),
    /// There is a server but no destination for a new connection: the client gets an ICMP error.
    Refused,
    /// Its destination was deleted.
    Vanished,
}

/// A client's connection to a server.
type Key = (VirtualServer, IpAddr, u16);

#[derive(Clone, Debug, Default)]
pub(super) struct Connections {
    known: HashMap<Key, Connection>,
    /// Clients bound to a destination.
    bound: HashMap<(VirtualServer, IpAddr), Bond>,
    /// Bonds that others replaced. They bind nobody, but the kernel counts them until their connections end.
    replaced: Vec<(VirtualServer, IpAddr, Destination)>,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    to: Destination,
    /// Established, and neither side has ended it.
    active: bool,
    /// The destination was deleted.
    orphaned: bool,
}

#[derive(Clone, Copy, Debug)]
struct Bond {
    to: Destination,
    seconds: u32,
    expires_at: u64,
    orphaned: bool,
}

impl Connections {
    pub(super) fn load(&self, server: VirtualServer, at: Destination) -> Load {
        let mut load = Load::default();
        for (key, connection) in &self.known {
            if key.0 == server && connection.to == at && !connection.orphaned {
                *(if connection.active { &mut load.active } else { &mut load.inactive }) += 1;
            }
        }
        load
    }

    pub(super) fn bound_to(&self, server: VirtualServer, at: Destination) -> u32 {
        let bound =
            self.bound.iter().filter(|(key, bond)| key.0 == server && bond.to == at && !bond.orphaned);
        let replaced = self.replaced.iter().filter(|(of, client, to)| {
            let live = |key: &Key| key.0 == server && key.1 == *client;
            (*of, *to) == (server, at) && self.known.iter().any(|(key, one)| live(key) && one.to == at)
        });
        u32::try_from(bound.count() + replaced.count()).unwrap_or(u32::MAX)
    }

    fn bind(&mut self, server: VirtualServer, client: IpAddr, bond: Bond) {
        let before = self.bound.insert((server, client), bond);
        if let Some(before) = before.filter(|before| before.to != bond.to) {
            self.replaced.push((server, client, before.to));
        }
    }

    /// The destination was deleted.
    pub(super) fn release(&mut self, server: VirtualServer, gone: Destination) {
        self.orphan(server, gone, true);
    }

    /// The destination was added again: what is left of its connections goes on.
    pub(super) fn restore(&mut self, server: VirtualServer, back: Destination) {
        self.orphan(server, back, false);
    }

    fn orphan(&mut self, server: VirtualServer, at: Destination, orphaned: bool) {
        for (key, connection) in &mut self.known {
            if key.0 == server && connection.to == at {
                connection.orphaned = orphaned;
            }
        }
        for (key, bond) in &mut self.bound {
            if key.0 == server && bond.to == at {
                bond.orphaned = orphaned;
            }
        }
    }

    /// A bond does not end while a connection of its client lives.
    pub(super) fn expire(&mut self, now: u64) {
        let known = &self.known;
        self.bound.retain(|(server, client), bond| {
            let lives = known.keys().any(|(of, from, _)| of == server && from == client);
            if bond.expires_at <= now && lives {
                bond.expires_at = now + u64::from(bond.seconds) * 1000;
            }
            bond.expires_at > now
        });
    }
}

impl Simulator {
    /// Take a packet of a client to a server: find its connection or, for the first packet of one, make it.
    pub fn take(&mut self, server: VirtualServer, client: IpAddr, port: u16, first: bool) -> Choice {
        let key = (server, client, port);
        if let Some(connection) = self.connections.known.get(&key).copied() {
            return self.known_connection(key, connection);
        }
        if !self.servers.contains_key(&server) || !first {
            return Choice::NotTaken;
        }
        let Some(to) = self.destination_for(server, client, port) else { return Choice::Refused };
        self.connections.known.insert(key, Connection { to, active: false, orphaned: false });
        self.count(server, to, true);
        Choice::To(to)
    }

    fn known_connection(&mut self, key: Key, connection: Connection) -> Choice {
        if connection.orphaned {
            if self.sysctls.expire_nodest_conn {
                self.connections.known.remove(&key);
            }
            return Choice::Vanished;
        }
        self.count(key.0, connection.to, false);
        Choice::To(connection.to)
    }

    fn destination_for(&mut self, server: VirtualServer, client: IpAddr, port: u16) -> Option<Destination> {
        let caller = Caller { address: client, port, called: server.address };
        let found = self.servers.get_mut(&server)?;
        let persistent = found.settings.flags & flags::PERSISTENT != 0;
        let bond = self.connections.bound.get(&(server, client)).filter(|_| persistent);
        let expires = self.sysctls.expire_quiescent_template;
        let usable = |bond: &&Bond| {
            let real = found.real(bond.to).filter(|_| !bond.orphaned);
            real.is_some_and(|real| real.weight > 0 || !expires)
        };
        let kept = bond.filter(usable).map(|bond| bond.to);
        let connections = &self.connections;
        let to = kept.or_else(|| schedule::choose(found, caller, |at| connections.load(server, at)))?;
        if persistent {
            let seconds = found.settings.persistence_timeout;
            let expires_at = self.now + u64::from(seconds) * 1000;
            self.connections.bind(server, client, Bond { to, seconds, expires_at, orphaned: false });
        }
        Some(to)
    }

    fn count(&mut self, server: VirtualServer, to: Destination, new: bool) {
        let Some(found) = self.servers.get_mut(&server) else { return };
        let real = found.pool.iter_mut().find(|real| real.at == to).map(|real| &mut real.statistics);
        for statistics in [Some(&mut found.statistics), real].into_iter().flatten() {
            statistics.connections += u64::from(new);
            statistics.in_packets += 1;
        }
    }

    /// Where the client's connection goes, if it is known.
    pub fn endpoint(&self, server: VirtualServer, client: IpAddr, port: u16) -> Option<Destination> {
        self.connections.known.get(&(server, client, port)).map(|connection| connection.to)
    }

    /// The server answered: a TCP or SCTP connection is established. UDP ones never count as active.
    pub fn establish(&mut self, server: VirtualServer, client: IpAddr, port: u16) {
        if let Some(connection) = self.connections.known.get_mut(&(server, client, port)) {
            connection.active = server.protocol != kernel::ipvs::Protocol::Udp;
        }
    }

    /// The connection ended, or its time is up. `false` if it was not known.
    pub fn end(&mut self, server: VirtualServer, client: IpAddr, port: u16) -> bool {
        self.connections.known.remove(&(server, client, port)).is_some()
    }
    /// Every connection ended.
    pub fn end_all(&mut self) {
        self.connections.known.clear();
    }
}
