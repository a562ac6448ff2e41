//! Flows of UDP: one for each client of a front, with a socket of its own to the endpoint, until it is idle for too long.
//!
//! All services share the sockets that the rules lead to. Conntrack knows which one a client means and is asked when a flow
//! begins, and again when it was quiet for a while: the record may have ended meanwhile, and another client of the same
//! address and port begun a flow to another service.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kernel::conntrack::{Conntrack, ConntrackError, Tuple};
use model::{Family, Protocol};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, recvfrom, send, sendto};

use crate::counts::{Full, Refused, WIDEN_PORT_RANGE, limit_reached};
use crate::flows::{Flow, Flows, Place};
use crate::front::{Front, Means};
use crate::parked::Parked;
use crate::port::Port;
use crate::sockets;
use crate::tcp::BETWEEN_LOOKS;
use crate::token::Token;
use crate::unreachable::Messages;
use crate::worker::Worker;

/// Datagrams of one socket before others are looked at.
const AT_ONCE: usize = 64;
/// The largest there are.
const LARGEST: usize = 65_535;
/// Conntrack is asked again about a client that was quiet for so long. Records live for seconds at least, so only one that
/// another process deletes can be followed by one for another service sooner.
const SURE_FOR: Duration = Duration::from_millis(20);

/// Flows that are over soon after one another end together.
const BETWEEN_SWEEPS: Duration = Duration::from_millis(100);

/// What the kernel says if the endpoint or its node does not want datagrams.
fn tells_of_refusal(error: Errno) -> bool {
    matches!(
        error,
        Errno::CONNREFUSED
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::NOPROTOOPT
            | Errno::ACCESS
            | Errno::PERM
    )
}

/// Where a new flow finds room.
enum Room {
    Free,
    InPlaceOf(Place, Full),
}

pub(crate) struct Datagrams {
    flows: Flows,
    parked: Parked,
    conntrack: Option<Conntrack>,
    messages: Messages,
    buffer: Vec<u8>,
    next_sweep: Option<Instant>,
}

impl Datagrams {
    /// So many ports of ended flows are kept for a moment.
    pub(crate) fn new(parked: usize) -> Datagrams {
        Datagrams {
            flows: Flows::default(),
            parked: Parked::new(parked),
            conntrack: None,
            messages: Messages::default(),
            buffer: Vec::new(),
            next_sweep: None,
        }
    }

    pub(crate) fn next_sweep(&self) -> Option<Instant> {
        [self.next_sweep, self.parked.next()].into_iter().flatten().min()
    }

    /// Where a redirected client wanted to go; `None` if there is no record of it.
    fn original(
        &mut self,
        door: SocketAddr,
        client: SocketAddr,
    ) -> Result<Option<SocketAddr>, ConntrackError> {
        // After an error a new socket is opened, the next time.
        let mut conntrack = match self.conntrack.take() {
            Some(conntrack) => conntrack,
            None => Conntrack::open()?,
        };
        let reply = Tuple::new((door.ip(), door.port()), (client.ip(), client.port()));
        let flow = conntrack.find_by_reply(Protocol::Udp.number(), &reply)?;
        self.conntrack = Some(conntrack);
        Ok(flow.map(|flow| SocketAddr::new(flow.original.dst, flow.original.dport)))
    }
}

impl Worker {
    /// Datagrams of clients.
    pub(crate) fn receive(&mut self, id: u32, front: &Front) {
        let mut buffer = std::mem::take(&mut self.datagrams.buffer);
        buffer.resize(LARGEST, 0);
        for _ in 0..AT_ONCE {
            match recvfrom(&front.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((count, _, Some(client))) => {
                    if let Ok(client) = SocketAddr::try_from(client) {
                        self.forward(id, front, client, buffer.get(..count).unwrap_or_default());
                    }
                }
                Ok(_) => {}
                Err(Errno::AGAIN) => break,
                // What the kernel says of an earlier answer to a client that has gone.
                Err(_) => {}
            }
        }
        self.datagrams.buffer = buffer;
    }

    fn forward(&mut self, id: u32, front: &Front, client: SocketAddr, datagram: &[u8]) {
        let known = self.datagrams.flows.find(id, client);
        let flow = known.filter(|place| self.still_holds(*place, front));
        if let (None, Some(place)) = (flow, known) {
            self.end_flow(place);
        }
        let Some(place) = flow.or_else(|| self.begin_flow(id, front, client)) else { return };
        self.datagrams.flows.use_now(place, false, self.now);
        let Some(flow) = self.datagrams.flows.get(place) else { return };
        let mut sent = send(&flow.socket, datagram, SendFlags::NOSIGNAL);
        if sent == Err(Errno::MSGSIZE) {
            // A router has answered an earlier one; now the kernel knows and sends it in pieces.
            sent = send(&flow.socket, datagram, SendFlags::NOSIGNAL);
        }
        match sent {
            Ok(count) => self.count_bytes(front.family, 0, count),
            // The socket remembers what became of an earlier datagram. The flow is over, and the client may send this one
            // again.
            Err(error) if tells_of_refusal(error) => self.refuse_flow(place, front),
            // Datagrams may be lost.
            Err(_) => {}
        }
    }

    /// Whether a flow goes on: its endpoint is still one, and its client still means the same service.
    fn still_holds(&mut self, place: Place, front: &Front) -> bool {
        let now = self.now;
        let Some(flow) = self.datagrams.flows.get(place) else { return false };
        let is_same = |port: Option<Arc<Port>>| port.is_some_and(|port| Arc::ptr_eq(&port, &flow.port));
        let directory = &self.shared.directory;
        let is_served = match front.means {
            Means::Original(_) => is_same(directory.find(Protocol::Udp, flow.to)),
            Means::NodePort(at) => {
                let found = directory.find_node_port(front.family, Protocol::Udp, at.port());
                is_same(found.map(|(port, _)| port))
            }
        };
        if !is_served || !flow.port.has(flow.pool, flow.endpoint) {
            return false;
        }
        let Means::Original(door) = front.means else { return true };
        if now.saturating_duration_since(flow.used) < SURE_FOR {
            return true;
        }
        let (client, to) = (flow.client, flow.to);
        self.datagrams.original(door, client).is_ok_and(|meant| meant == Some(to))
    }

    /// Where a new client of these doors wants to go. Without an answer its datagram is lost, and it may send another one.
    fn ask_original(&mut self, family: Family, door: SocketAddr, client: SocketAddr) -> Option<SocketAddr> {
        let why = match self.datagrams.original(door, client) {
            Ok(Some(to)) => return Some(to),
            Ok(None) => "it has no record of the client".to_owned(),
            Err(error) => error.to_string(),
        };
        self.shared.counts.of(family, Protocol::Udp).refuse(Refused::Unknown);
        if let Some(count) = self.shared.complaints.conntrack.note(self.now) {
            tracing::error!(
                %family, count, error = why,
                "Failed to find in conntrack which service UDP clients called; dropping their datagrams"
            );
        }
        None
    }

    /// Where there is room for one more flow of this port.
    fn find_room(&self, family: Family, port: &Arc<Port>) -> Option<Room> {
        let limit = self.shared.limits.of_protocol(Protocol::Udp);
        let Some(full) = limit_reached(self.shared.counts.open(Protocol::Udp), port, limit) else {
            return Some(Room::Free);
        };
        let ended = match full {
            Full::Port => self.datagrams.flows.dispensable(port, self.now),
            Full::All => self.datagrams.flows.of_the_largest(port, self.now),
        };
        if let Some(place) = ended {
            return Some(Room::InPlaceOf(place, full));
        }
        self.shared.counts.of(family, Protocol::Udp).refuse(Refused::Limit);
        if let Some(count) = self.shared.complaints.udp_limit.note(self.now) {
            let (reached, remedy) = (full.word(), self.shared.limits.remedy(Protocol::Udp));
            tracing::error!(
                service = %port.label, limit, count,
                "Too many open UDP flows {reached}; dropping datagrams of new clients. {remedy}"
            );
        }
        None
    }

    /// End a flow in whose place a new one of this family begins.
    fn end_early(&mut self, place: Place, full: Full, family: Family) {
        let Some(flow) = self.datagrams.flows.get(place) else { return };
        self.shared.counts.of(family, Protocol::Udp).ended_early.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.shared.complaints.crowd.note(self.now) {
            let limit = self.shared.limits.of_protocol(Protocol::Udp);
            let (reached, remedy) = (full.word(), self.shared.limits.remedy(Protocol::Udp));
            tracing::warn!(
                service = %flow.port.label, limit, count,
                "Too many open UDP flows {reached}; ending flows of this service early to make room for new clients. \
                 {remedy}"
            );
        }
        self.end_flow(place);
    }

    fn refuse_client(&mut self, front: &Front, client: SocketAddr, why: Refused) {
        self.shared.counts.of(front.family, Protocol::Udp).refuse(why);
        self.datagrams.messages.refuse(front.at(), client, self.now);
    }

    fn begin_flow(&mut self, id: u32, front: &Front, client: SocketAddr) -> Option<Place> {
        if self.is_paused() {
            self.shared.counts.of(front.family, Protocol::Udp).refuse(Refused::Descriptors);
            return None;
        }
        let directory = self.shared.directory.clone();
        let (to, meant) = match front.means {
            Means::Original(door) => {
                let to = self.ask_original(front.family, door, client)?;
                (to, directory.find(Protocol::Udp, to).map(|port| (port, Some(front.pool))))
            }
            Means::NodePort(at) => (at, directory.find_node_port(front.family, Protocol::Udp, at.port())),
        };
        let Some((port, pool)) = meant else {
            self.refuse_client(front, client, Refused::Unknown);
            return None;
        };
        // No flow ends for a client that gets none, and no client is pinned that finds no room.
        let Some(pool) = pool.filter(|pool| !port.is_empty(*pool)) else {
            self.refuse_client(front, client, Refused::Endpoints);
            return None;
        };
        let room = self.find_room(front.family, &port)?;
        let Some(endpoint) = port.pick(pool, client.ip(), &[], self.now) else {
            self.refuse_client(front, client, Refused::Endpoints);
            return None;
        };
        let count = self.shared.counts.of(front.family, Protocol::Udp);
        let socket = match sockets::dial_datagrams(endpoint, self.shared.mark()) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                count.refuse(Refused::Descriptors);
                self.pause();
                return None;
            }
            Err(Errno::AGAIN | Errno::ADDRINUSE) => {
                count.refuse(Refused::Ports);
                if let Some(count) = self.shared.complaints.udp_ports.note(self.now) {
                    tracing::error!(
                        service = %port.label, count,
                        "No UDP port of the node is free; dropping datagrams of new clients. {WIDEN_PORT_RANGE}"
                    );
                }
                return None;
            }
            Err(_) => {
                count.refuse(Refused::Endpoints);
                count.failed_dials.fetch_add(1, Ordering::Relaxed);
                return None;
            }
        };
        if let Room::InPlaceOf(place, full) = room {
            self.end_early(place, full, front.family);
        }
        let count = self.shared.counts.of(front.family, Protocol::Udp);
        count.open.fetch_add(1, Ordering::Relaxed);
        count.opened.fetch_add(1, Ordering::Relaxed);
        port.open.fetch_add(1, Ordering::Relaxed);
        let (family, used) = (front.family, self.now);
        let flow =
            Flow { front: id, client, to, endpoint, socket, port, pool, family, used, is_answered: false };
        let place @ (index, age) = self.datagrams.flows.insert(flow);
        let socket = &self.datagrams.flows.get(place)?.socket;
        let watched = rustix::event::epoll::add(
            &self.epoll,
            socket,
            rustix::event::epoll::EventData::new_u64(Token::Flow { index, age }.pack()),
            EventFlags::IN,
        );
        if watched.is_err() {
            self.end_flow(place);
            return None;
        }
        self.next_look.get_or_insert(self.now + BETWEEN_LOOKS);
        if self.datagrams.next_sweep.is_none() {
            self.datagrams.next_sweep = Some(self.now + self.shared.udp_idle());
        }
        Some(place)
    }

    /// Answers of an endpoint.
    pub(crate) fn flow_event(&mut self, index: u32, age: u16) {
        let Some(flow) = self.datagrams.flows.get((index, age)) else { return };
        if let Some(front) = self.front(flow.front) {
            self.answer((index, age), &front);
        }
    }

    fn answer(&mut self, place: Place, front: &Front) {
        let mut buffer = std::mem::take(&mut self.datagrams.buffer);
        buffer.resize(LARGEST, 0);
        for _ in 0..AT_ONCE {
            let Some(flow) = self.datagrams.flows.get(place) else { break };
            match recv(&flow.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((count, _)) => {
                    if !flow.is_answered {
                        flow.port.trust(flow.endpoint);
                    }
                    let client = flow.client;
                    self.datagrams.flows.use_now(place, true, self.now);
                    let answer = buffer.get(..count).unwrap_or_default();
                    match sendto(&front.socket, answer, SendFlags::NOSIGNAL, &client) {
                        Ok(count) => self.count_bytes(front.family, 1, count),
                        // Datagrams may be lost.
                        Err(_) => {
                            self.shared.counts.lost_answers[front.family.index()]
                                .fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(error) if tells_of_refusal(error) => {
                    self.refuse_flow(place, front);
                    break;
                }
                // Such as a datagram that was too large for a router. The kernel says each only once.
                Err(_) => {}
            }
        }
        self.datagrams.buffer = buffer;
    }

    fn count_bytes(&self, family: Family, way: usize, count: usize) {
        let counts = self.shared.counts.of(family, Protocol::Udp);
        counts.bytes[way].fetch_add(count as u64, Ordering::Relaxed);
    }

    /// The endpoint does not want it: the client learns it, and its next datagram goes to another one.
    fn refuse_flow(&mut self, place: Place, front: &Front) {
        let Some(flow) = self.datagrams.flows.get(place) else { return };
        flow.port.suspect(flow.endpoint, self.now);
        flow.port.unpin(flow.client.ip(), flow.endpoint, self.now);
        let client = flow.client;
        self.shared.counts.of(front.family, Protocol::Udp).failed_dials.fetch_add(1, Ordering::Relaxed);
        self.datagrams.messages.refuse(front.at(), client, self.now);
        self.end_flow(place);
    }

    fn end_flow(&mut self, place: Place) {
        let Some(flow) = self.datagrams.flows.remove(place) else { return };
        // It fails only if nobody listens to it, which is what is wanted.
        let _ = rustix::event::epoll::delete(&self.epoll, &flow.socket);
        self.shared.counts.of(flow.family, Protocol::Udp).open.fetch_sub(1, Ordering::Relaxed);
        flow.port.open.fetch_sub(1, Ordering::Relaxed);
        self.datagrams.parked.keep(flow.socket, flow.used, self.now);
        if self.datagrams.flows.is_empty() {
            self.datagrams.buffer = Vec::new();
        }
    }

    pub(crate) fn close_flows_of(&mut self, front: u32) {
        self.end_flows(|flow| flow.front == front);
    }

    pub(crate) fn end_all_flows(&mut self) {
        self.end_flows(|_| true);
    }

    pub(crate) fn sweep_flows(&mut self) {
        self.datagrams.parked.expire(self.now);
        if self.datagrams.next_sweep.is_none_or(|at| at > self.now) {
            return;
        }
        let (idle, now) = (self.shared.udp_idle(), self.now);
        let next = loop {
            match self.datagrams.flows.longest_silent() {
                Some((place, used)) if now.saturating_duration_since(used) >= idle => self.end_flow(place),
                next => break next,
            }
        };
        self.datagrams.next_sweep = next.map(|(_, used)| (used + idle).max(now + BETWEEN_SWEEPS));
    }

    fn end_flows(&mut self, is_over: impl Fn(&Flow) -> bool) {
        let over = self.datagrams.flows.iter().filter(|(_, flow)| is_over(flow));
        let over: Vec<Place> = over.map(|(place, _)| place).collect();
        over.into_iter().for_each(|place| self.end_flow(place));
    }
}

#[cfg(test)]
mod tests {
    use model::Pool;

    use super::*;
    use crate::Shared;
    use crate::worker::Inbox;

    /// There is no record in conntrack, or it may not be asked: which of them depends on who runs the test.
    #[test]
    fn datagrams_of_a_client_that_conntrack_does_not_tell_are_counted_and_said_once() {
        let (client, door) = ("127.0.0.1:9".parse().unwrap(), "127.0.0.1:0".parse().unwrap());
        let shared = Arc::new(Shared::new(crate::Limits::of(1024, 0, 28_232)));
        let mut worker = Worker::new(shared.clone(), Inbox::new().unwrap()).unwrap();
        let front = Front::open(Protocol::Udp, Pool::Cluster, Means::Original(door)).unwrap();
        (0..5).for_each(|_| worker.forward(0, &front, client, b"x"));
        assert_eq!(shared.counts.of(Family::V4, Protocol::Udp).refused(Refused::Unknown), 5);
        let next = worker.now + crate::complaints::INTERVAL;
        assert_eq!(
            shared.complaints.conntrack.note(next),
            Some(5),
            "the first was said, and this is another"
        );
    }

    #[test]
    fn what_tcp_lacks_is_not_said_of_flows() {
        let shared = Arc::new(Shared::new(crate::Limits::of(1024, 0, 28_232)));
        let worker = Worker::new(shared.clone(), Inbox::new().unwrap()).unwrap();
        let port = Arc::new(Port::new("default/dns".into(), Arc::default(), Arc::default()));
        port.open.store(shared.limits.udp, Ordering::Relaxed);
        let (complaints, next) = (&shared.complaints, worker.now + crate::complaints::INTERVAL);
        assert_eq!(complaints.tcp_limit.note(worker.now), Some(1));
        assert!(worker.find_room(Family::V4, &port).is_none());
        assert_eq!(complaints.udp_limit.note(worker.now), None, "it has been said");
        assert_eq!((complaints.udp_limit.note(next), complaints.tcp_limit.note(next)), (Some(2), Some(1)));
    }
}
