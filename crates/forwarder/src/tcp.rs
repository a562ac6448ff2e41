//! Connections of TCP in a thread's hands: accepting, connecting, carrying on, closing.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use model::Protocol;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};

use crate::conn::{Conn, DIAL, Dial, MOST_TRIED, Progress, Stuck};
use crate::counts::{Count, MORE_PORTS, Refused, limit_reached};
use crate::front::Front;
use crate::sockets;
use crate::token::Token;
use crate::worker::Worker;

/// Connections that are accepted before others are carried on.
const AT_ONCE: usize = 64;
/// Less than the time after which a silent connection is probed; most connections do not last for so long.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_secs(60);

impl Worker {
    pub(crate) fn accept(&mut self, front: &Front) {
        // As many as came last time and one more: asking once too often costs as much as a connection.
        let expected = front.expected.load(Ordering::Relaxed);
        for turn in 0..=expected.min(AT_ONCE) {
            if self.is_paused() {
                return;
            }
            front.expected.store(turn + 1, Ordering::Relaxed);
            if !self.accept_one(front) {
                return front.expected.store(turn.saturating_sub(1), Ordering::Relaxed);
            }
        }
    }

    /// All who have come, before the door is closed.
    pub(crate) fn accept_all(&mut self, front: &Front) {
        for _ in 0..sockets::BACKLOG {
            if self.is_paused() || !self.accept_one(front) {
                return;
            }
        }
    }

    /// Whether there may be more.
    fn accept_one(&mut self, front: &Front) -> bool {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match acceptfrom_with(&front.socket, flags) {
            Ok((client, Some(from))) => {
                if let Ok(from) = SocketAddr::try_from(from) {
                    self.take_in(front, client, from);
                }
                true
            }
            Ok((_, None)) => true,
            Err(Errno::AGAIN) => false,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                self.pause();
                false
            }
            // The client has gone meanwhile.
            Err(_) => true,
        }
    }

    fn count(&self, front: &Front) -> &Count {
        self.shared.counts.of(front.family, front.protocol)
    }

    fn take_in(&mut self, front: &Front, client: OwnedFd, from: SocketAddr) {
        let (port, pool) = match front.find(&self.shared.directory, &client) {
            Ok(Some((port, Some(pool)))) => (port, pool),
            Ok(Some((_, None))) => {
                self.count(front).refuse(Refused::Endpoints);
                return sockets::reset_on_close(&client);
            }
            Ok(None) => return self.refuse_unknown(front, &client, "no service has this address"),
            Err(error) => return self.refuse_unknown(front, &client, &error.to_string()),
        };
        let limit = self.shared.limits.of_protocol(Protocol::Tcp);
        if let Some(reached) = limit_reached(self.shared.counts.open(Protocol::Tcp), &port, limit) {
            self.count(front).refuse(Refused::Limit);
            if let Some(count) = self.shared.complaints.tcp_limit.note(self.now) {
                let (reached, remedy) = (reached.word(), self.shared.limits.remedy(Protocol::Tcp));
                tracing::error!(
                    service = %port.label, limit, count,
                    "Too many open connections {reached}; turning new ones away. {remedy}"
                );
            }
            return sockets::reset_on_close(&client);
        }
        let count = self.count(front);
        count.open.fetch_add(1, Ordering::Relaxed);
        count.opened.fetch_add(1, Ordering::Relaxed);
        port.open.fetch_add(1, Ordering::Relaxed);
        let dial = Dial { pool, client: from.ip(), tried: Vec::new(), since: self.now };
        self.next_look.get_or_insert(self.now + BETWEEN_LOOKS);
        let mut conn = Conn::new(client, port, front.family, dial);
        let is_there = conn.read_early(&mut self.tools).is_ok();
        let (index, age) = self.conns.insert(conn);
        match is_there {
            true => self.dial_next(index, age),
            false => self.close(index, age, true),
        }
    }

    /// It is not known what the client wants.
    fn refuse_unknown(&mut self, front: &Front, client: &OwnedFd, error: &str) {
        self.count(front).refuse(Refused::Unknown);
        if let Some(count) = self.shared.complaints.unknown.note(self.now) {
            let called = front.called(client).unwrap_or_else(|_| front.at());
            tracing::warn!(%called, count, error, "Failed to find the service of a connection; resetting it");
        }
        sockets::reset_on_close(client);
    }

    /// Try the next endpoint; without one the client is turned away.
    pub(crate) fn dial_next(&mut self, index: u32, age: u16) {
        let (mark, now) = (self.shared.mark(), self.now);
        let mut is_short_of_ports = false;
        loop {
            let Some(conn) = self.conns.get_mut(index, age) else { return };
            let Some(dial) = &mut conn.dial else { return };
            let picked = conn.port.pick(dial.pool, dial.client, &dial.tried, now);
            let Some(at) = picked.filter(|_| dial.tried.len() < MOST_TRIED) else {
                let why = if is_short_of_ports { Refused::Ports } else { Refused::Endpoints };
                return self.turn_away(index, age, why);
            };
            dial.tried.push(at);
            dial.since = now;
            match conn.dial(at, mark).and_then(|()| conn.greet(&mut self.tools)) {
                Ok(is_open) => {
                    if is_open {
                        conn.port.trust(at);
                    }
                    return self.dialing(index, age, is_open);
                }
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // It is not the endpoint's fault, and the client can wait.
                    if let Some(dial) = &mut conn.dial {
                        dial.tried.pop();
                    }
                    self.waiting.push((index, age));
                    return self.pause();
                }
                // All ports are in use for this endpoint, and it may work well; another one has as many.
                Err(Errno::ADDRNOTAVAIL | Errno::AGAIN) => {
                    conn.endpoint = None;
                    is_short_of_ports = true;
                }
                Err(_) => {
                    conn.endpoint = None;
                    conn.port.suspect(at, now);
                    let family = conn.family;
                    self.failed_dial(family);
                }
            }
        }
    }

    /// The endpoint is being tried, or has been reached at once.
    fn dialing(&mut self, index: u32, age: u16, is_open: bool) {
        let Some(conn) = self.conns.get_mut(index, age) else { return };
        let Some(endpoint) = &conn.endpoint else { return };
        let watched = match is_open {
            true => watch(&self.epoll, endpoint, (index, age, true), LITTLE)
                .and_then(|()| watch(&self.epoll, &conn.client, (index, age, false), LITTLE)),
            false => watch(&self.epoll, endpoint, (index, age, true), ALL),
        };
        match watched {
            Ok(()) if is_open => self.carry_on(index, age),
            Ok(()) => self.dials.push_back((self.now + DIAL, index, age)),
            Err(_) => self.turn_away(index, age, Refused::Descriptors),
        }
    }

    fn failed_dial(&self, family: model::Family) {
        self.shared.counts.of(family, Protocol::Tcp).failed_dials.fetch_add(1, Ordering::Relaxed);
    }

    /// The attempt that began so long ago is over, unless it has succeeded or another one has begun.
    pub(crate) fn dial_timed_out(&mut self, until: Instant, index: u32, age: u16) {
        let Some(conn) = self.conns.get_mut(index, age) else { return };
        let Some(dial) = conn.dial.as_ref().filter(|dial| dial.since + DIAL <= until) else { return };
        if let Some(at) = dial.tried.last().copied() {
            conn.port.suspect(at, self.now);
        }
        conn.endpoint = None;
        let family = conn.family;
        self.failed_dial(family);
        self.dial_next(index, age);
    }

    fn turn_away(&mut self, index: u32, age: u16, why: Refused) {
        let Some(conn) = self.conns.get_mut(index, age) else { return };
        self.shared.counts.of(conn.family, Protocol::Tcp).refuse(why);
        if why == Refused::Endpoints
            && let Some(count) = self.shared.complaints.endpoints.note(self.now)
        {
            let tried = conn.dial.as_ref().map_or(0, |dial| dial.tried.len());
            tracing::warn!(
                service = %conn.port.label, tried, count,
                "No endpoint accepted the connection; closing it. Are the endpoints up?"
            );
        }
        if why == Refused::Ports
            && let Some(count) = self.shared.complaints.tcp_ports.note(self.now)
        {
            tracing::error!(
                service = %conn.port.label, count,
                "No local port is free for connections to the endpoints; closing the client's. {MORE_PORTS}"
            );
        }
        self.close(index, age, true);
    }

    pub(crate) fn conn_event(&mut self, index: u32, age: u16, is_endpoint: bool, flags: EventFlags) {
        let Some(conn) = self.conns.get_mut(index, age) else { return };
        if conn.dial.is_some() {
            if is_endpoint {
                self.dialed(index, age, flags);
            }
            return;
        }
        conn.heard(is_endpoint, flags);
        if !conn.is_queued {
            self.carry_on(index, age);
        }
    }

    /// The endpoint that is being tried has answered.
    fn dialed(&mut self, index: u32, age: u16, flags: EventFlags) {
        let Some(conn) = self.conns.get_mut(index, age) else { return };
        let may_have_failed = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if may_have_failed && conn.outcome().is_err() {
            if let Some(at) = conn.dial.as_ref().and_then(|dial| dial.tried.last()) {
                conn.port.suspect(*at, self.now);
            }
            conn.endpoint = None;
            let family = conn.family;
            self.failed_dial(family);
            return self.dial_next(index, age);
        }
        if let Some(at) = conn.dial.as_ref().and_then(|dial| dial.tried.last()) {
            conn.port.trust(*at);
        }
        conn.opened(flags);
        if watch(&self.epoll, &conn.client, (index, age, false), LITTLE).is_err() {
            return self.turn_away(index, age, Refused::Descriptors);
        }
        self.carry_on(index, age);
    }

    pub(crate) fn take_turn(&mut self, index: u32, age: u16) {
        if let Some(conn) = self.conns.get_mut(index, age) {
            conn.is_queued = false;
            self.carry_on(index, age);
        }
    }

    fn carry_on(&mut self, index: u32, age: u16) {
        let Some(conn) = self.conns.get_mut(index, age) else { return };
        let progress = conn.pump(&mut self.tools);
        if matches!(progress, Progress::Waits | Progress::HadItsTurn) {
            let failed = conn.want_room().any(|(is_endpoint, socket)| {
                epoll::modify(&self.epoll, socket, data((index, age, is_endpoint)), ALL).is_err()
            });
            if failed {
                return self.close(index, age, true);
            }
        }
        match progress {
            Progress::Waits => {}
            Progress::HadItsTurn => {
                conn.is_queued = true;
                self.queue.push_back((index, age));
            }
            Progress::Over => self.close(index, age, false),
            Progress::Broken => self.close(index, age, true),
        }
    }

    /// Connections that have lasted until now may last for long; those that cannot end by themselves are ended.
    pub(crate) fn look_at_lasting(&mut self) {
        if self.next_look.is_none_or(|at| at > self.now) {
            return;
        }
        self.shared.directory.sweep_pins(self.now);
        let (mut abandoned, mut blocked) = (Vec::new(), 0);
        for (index, age, conn) in self.conns.iter_mut().filter(|(_, _, conn)| conn.dial.is_none()) {
            if !std::mem::replace(&mut conn.is_kept_alive, true) {
                // It fails only for one that has ended.
                let _ = conn.endpoint.as_ref().map(sockets::keep_alive);
            }
            match conn.look() {
                Some(Stuck::Abandoned) => abandoned.push((index, age)),
                Some(Stuck::Blocked { by_endpoint }) => {
                    blocked += 1;
                    if blocked == 1 && self.shared.complaints.blocked.note(self.now).is_some() {
                        let client = rustix::net::getpeername(&conn.client).ok().flatten();
                        let client = client.and_then(|client| SocketAddr::try_from(client).ok());
                        let who = if by_endpoint { "endpoint" } else { "client" };
                        tracing::warn!(
                            service = %conn.port.label, client = client.map(tracing::field::display),
                            "The {who} of a connection has read nothing for a minute; keeping it open; for the count, \
                             see pointsman_userspace_blocked_connections"
                        );
                    }
                }
                None => {}
            }
        }
        self.shared.counts.blocked.fetch_add(blocked, Ordering::Relaxed);
        self.shared
            .counts
            .blocked
            .fetch_sub(std::mem::replace(&mut self.blocked, blocked), Ordering::Relaxed);
        abandoned.into_iter().for_each(|(index, age)| self.close(index, age, true));
        self.next_look = (!self.conns.is_empty()).then_some(self.now + BETWEEN_LOOKS);
    }

    /// The thread ends.
    pub(crate) fn close_all(&mut self) {
        let open: Vec<(u32, u16)> = self.conns.iter().map(|(index, age, _)| (index, age)).collect();
        open.into_iter().for_each(|(index, age)| self.close(index, age, true));
    }

    fn close(&mut self, index: u32, age: u16, is_broken: bool) {
        let Some(conn) = self.conns.remove(index, age) else { return };
        let count = self.shared.counts.of(conn.family, Protocol::Tcp);
        count.open.fetch_sub(1, Ordering::Relaxed);
        conn.port.open.fetch_sub(1, Ordering::Relaxed);
        for (total, bytes) in count.bytes.iter().zip(conn.bytes()) {
            total.fetch_add(bytes, Ordering::Relaxed);
        }
        conn.close(is_broken, &mut self.tools);
    }
}

/// Told once for each change: fewer calls than asking repeatedly.
const ALL: EventFlags = LITTLE.union(EventFlags::OUT);
/// While there is room.
const LITTLE: EventFlags =
    EventFlags::IN.union(EventFlags::PRI).union(EventFlags::RDHUP).union(EventFlags::ET);

/// Of a connection, and whether it is about its endpoint's side.
fn data((index, age, is_endpoint): (u32, u16, bool)) -> EventData {
    EventData::new_u64(Token::Conn { index, age, is_endpoint }.pack())
}

fn watch(epoll: &OwnedFd, socket: &OwnedFd, side: (u32, u16, bool), flags: EventFlags) -> Result<(), Errno> {
    epoll::add(epoll, socket, data(side), flags)
}
