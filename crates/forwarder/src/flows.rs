//! The UDP flows of a thread: found by client, and in the order in which they fell silent, those of all service ports and
//! those of each. So it is known at once which flow to end where there are too many, and which service port has the most.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Family, Pool};

use crate::port::Port;
use crate::queues::{Links, Queue};
use crate::slab::Slab;

/// After so long hardly anybody waits for an answer any more, and few clients that were answered go on.
const LONG: Duration = Duration::from_secs(2);
/// A client that was answered more recently may be in the middle of something.
const SHORT: Duration = Duration::from_millis(100);
/// So many of the ports with the most flows are asked for one that nobody is likely to need.
const ASKED: usize = 8;

pub(crate) struct Flow {
    pub(crate) front: u32,
    pub(crate) client: SocketAddr,
    /// Where the client sends to.
    pub(crate) to: SocketAddr,
    pub(crate) endpoint: SocketAddr,
    pub(crate) socket: OwnedFd,
    pub(crate) port: Arc<Port>,
    pub(crate) pool: Pool,
    pub(crate) family: Family,
    /// Something came last, from either side.
    pub(crate) used: Instant,
    pub(crate) is_answered: bool,
}

/// Where a flow stands, and how often the place was used.
pub(crate) type Place = (u32, u16);

/// The longest silent first: those without an answer, and the others.
type Silent = [Queue; 2];

/// Of a service port.
#[derive(Default)]
struct Own {
    silent: Silent,
    count: usize,
}

#[derive(Default)]
pub(crate) struct Flows {
    slab: Slab<Flow>,
    by_client: HashMap<(u32, SocketAddr), Place>,
    all: (Links, Silent),
    of_ports: (Links, HashMap<usize, Own>),
    /// The service ports in the order of how many flows they have.
    by_size: BTreeSet<(usize, usize)>,
}

impl Flows {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    pub(crate) fn find(&self, front: u32, client: SocketAddr) -> Option<Place> {
        self.by_client.get(&(front, client)).copied()
    }

    pub(crate) fn get(&self, (index, age): Place) -> Option<&Flow> {
        self.slab.get(index, age)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, &Flow)> {
        self.slab.iter().map(|(index, age, flow)| ((index, age), flow))
    }

    pub(crate) fn insert(&mut self, flow: Flow) -> Place {
        let (key, port, is_answered) = ((flow.front, flow.client), name(&flow.port), flow.is_answered);
        let place = self.slab.insert(flow);
        self.by_client.insert(key, place);
        self.resize(port, |count| count + 1);
        self.queue(place.0, port, is_answered);
        place
    }

    pub(crate) fn remove(&mut self, (index, age): Place) -> Option<Flow> {
        let flow = self.slab.remove(index, age)?;
        self.by_client.remove(&(flow.front, flow.client));
        let port = name(&flow.port);
        self.unqueue(index, port, flow.is_answered);
        self.resize(port, |count| count.saturating_sub(1));
        if self.by_client.is_empty() {
            // A crowd that is gone leaves no memory behind.
            *self = Flows { slab: std::mem::take(&mut self.slab), ..Flows::default() };
        }
        Some(flow)
    }

    /// Something has come. Returns whether it is the first answer.
    pub(crate) fn use_now(&mut self, (index, age): Place, is_answer: bool, now: Instant) -> bool {
        let Some(flow) = self.slab.get_mut(index, age) else { return false };
        let was_answered = flow.is_answered;
        flow.is_answered |= is_answer;
        flow.used = now;
        let (port, is_answered) = (name(&flow.port), flow.is_answered);
        self.unqueue(index, port, was_answered);
        self.queue(index, port, is_answered);
        is_answered && !was_answered
    }

    /// The flow that has been silent for longest.
    pub(crate) fn longest_silent(&self) -> Option<(Place, Instant)> {
        self.longest_silent_in(&self.all.1)
    }

    /// The flow to end for a new one of this port: one that nobody is likely to need, and the longest silent of them. `None`
    /// if all are in use: ending one would only move the trouble, and if each new client ended the flow of another one
    /// before its answer, nobody would get any.
    pub(crate) fn dispensable(&self, port: &Arc<Port>, now: Instant) -> Option<Place> {
        self.unneeded(self.of_ports.1.get(&name(port))?, now)
    }

    /// The flow to end for a new one of this port where those of all ports are too many: one of its own that was silent for
    /// long, else one of any port that was never answered and is, so that junk makes room for junk. Then it is one of the
    /// ports that have the most, so that the crowd of one service costs those with few clients nothing: one that nobody is
    /// likely to need, else one of this port if it has many as well, else the longest silent of the largest port, until this
    /// one has as many.
    pub(crate) fn of_the_largest(&self, port: &Arc<Port>, now: Instant) -> Option<Place> {
        let own = self.of_ports.1.get(&name(port));
        let [never_answered, _] = self.all.1;
        let idle =
            own.and_then(|own| self.idle(own, now)).or_else(|| self.silent_for(never_answered, LONG, now));
        if idle.is_some() {
            return idle;
        }
        let own = own.map_or(0, |own| own.count);
        let (most, largest) = *self.by_size.last()?;
        let are_many = |count: usize| count > own && count > most / 2;
        let large = self.by_size.iter().rev().take_while(|(count, _)| are_many(*count)).take(ASKED);
        let mut large = large.filter_map(|(_, port)| self.of_ports.1.get(port));
        let has_many = own >= most / 2;
        let unneeded = large
            .find_map(|port| self.unneeded(port, now))
            .or_else(|| self.dispensable(port, now).filter(|_| has_many));
        if unneeded.is_some() || most <= own + 1 {
            return unneeded;
        }
        self.longest_silent_in(&self.of_ports.1.get(&largest)?.silent).map(|(place, _)| place)
    }

    fn unneeded(&self, port: &Own, now: Instant) -> Option<Place> {
        let [_, answered] = port.silent;
        self.idle(port, now).or_else(|| self.silent_for(answered, SHORT, now))
    }

    fn idle(&self, port: &Own, now: Instant) -> Option<Place> {
        let [unanswered, answered] = port.silent;
        self.silent_for(answered, LONG, now).or_else(|| self.silent_for(unanswered, LONG, now))
    }

    fn silent_for(&self, queue: Queue, least: Duration, now: Instant) -> Option<Place> {
        let found = self.first(queue);
        found.filter(|(_, used)| now.saturating_duration_since(*used) >= least).map(|(place, _)| place)
    }

    fn longest_silent_in(&self, silent: &Silent) -> Option<(Place, Instant)> {
        let firsts = silent.iter().filter_map(|queue| self.first(*queue));
        firsts.min_by_key(|(_, used)| *used)
    }

    fn first(&self, queue: Queue) -> Option<(Place, Instant)> {
        let index = queue.first()?;
        let (age, flow) = self.slab.at(index)?;
        Some(((index, age), flow.used))
    }

    fn queue(&mut self, index: u32, port: usize, is_answered: bool) {
        let (kind, (links, all), (of_port, ports)) =
            (usize::from(is_answered), &mut self.all, &mut self.of_ports);
        links.push(&mut all[kind], index);
        of_port.push(&mut ports.entry(port).or_default().silent[kind], index);
    }

    fn unqueue(&mut self, index: u32, port: usize, is_answered: bool) {
        let (kind, (links, all), (of_port, ports)) =
            (usize::from(is_answered), &mut self.all, &mut self.of_ports);
        links.remove(&mut all[kind], index);
        let Some(own) = ports.get_mut(&port) else { return };
        of_port.remove(&mut own.silent[kind], index);
    }

    /// One more flow of this port, or one less.
    fn resize(&mut self, port: usize, resized: impl Fn(usize) -> usize) {
        let own = self.of_ports.1.entry(port).or_default();
        self.by_size.remove(&(own.count, port));
        own.count = resized(own.count);
        match own.count {
            0 => drop(self.of_ports.1.remove(&port)),
            count => drop(self.by_size.insert((count, port))),
        }
    }
}

/// Nobody looks there: it only tells ports apart.
fn name(port: &Arc<Port>) -> usize {
    Arc::as_ptr(port).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port() -> Arc<Port> {
        Arc::new(Port::new("default/dns".into(), Arc::default(), Arc::default()))
    }

    fn add(flows: &mut Flows, port: &Arc<Port>, client: u16, used: Instant) -> Place {
        let at = SocketAddr::from(([10, 0, 0, 1], 53));
        flows.insert(Flow {
            front: 0,
            client: SocketAddr::from(([10, 9, 0, 1], client)),
            to: at,
            endpoint: at,
            socket: std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into(),
            port: port.clone(),
            pool: Pool::Cluster,
            family: Family::V4,
            used,
            is_answered: false,
        })
    }

    #[test]
    fn those_that_nobody_needs_are_ended_first() {
        let (mut flows, start, [dns, other]) = (Flows::default(), Instant::now(), [port(), port()]);
        let places = [1, 2, 3].map(|client| add(&mut flows, &dns, client, start));
        let [waiting, early, late] = places;
        let later = add(&mut flows, &other, 4, start);
        assert!(flows.use_now(early, true, start), "the first answer");
        assert!(!flows.use_now(early, true, start));
        let soon = start + SHORT;
        assert!(flows.use_now(late, true, soon));
        assert_eq!(flows.dispensable(&dns, start), None, "all are in use");
        assert_eq!(flows.dispensable(&dns, soon), Some(early));
        flows.use_now(early, false, soon);
        assert_eq!(flows.dispensable(&dns, soon), None);
        assert_eq!(flows.dispensable(&dns, soon + SHORT), Some(late), "the other one went on");
        assert_eq!(flows.dispensable(&dns, start + LONG), Some(waiting), "it waits in vain");
        assert_eq!(flows.dispensable(&dns, soon + LONG), Some(late), "it has its answer");
        assert_eq!(flows.dispensable(&other, start + LONG), Some(later));
        assert_eq!(flows.longest_silent(), Some((waiting, start)));
        assert!(flows.remove(waiting).is_some() && flows.remove(waiting).is_none());
        assert_eq!(flows.of_the_largest(&port(), start + LONG), Some(later), "nobody answers it");
        for place in [later, late, early] {
            flows.remove(place).unwrap();
        }
        assert!(
            flows.is_empty()
                && flows.of_ports.1.is_empty()
                && flows.by_size.is_empty()
                && flows.longest_silent().is_none()
        );
    }

    /// A service whose clients are many and all active keeps nobody else out, and takes nothing from those with few.
    #[test]
    fn the_port_with_the_most_flows_makes_room_for_others() {
        let (mut flows, start) = (Flows::default(), Instant::now());
        let [quiet, flood, crowd, new] = [port(), port(), port(), port()];
        let of_quiet = add(&mut flows, &quiet, 1, start);
        flows.use_now(of_quiet, true, start);
        let now = start + LONG;
        let of_flood = [2, 3, 4, 5, 6, 7].map(|client| add(&mut flows, &flood, client, now));
        let of_crowd = [8, 9, 10, 11].map(|client| add(&mut flows, &crowd, client, now));
        assert_eq!(flows.dispensable(&quiet, now), Some(of_quiet), "if anybody's, it would be this one");
        assert_eq!(flows.of_the_largest(&new, now), Some(of_flood[0]));
        assert_eq!(flows.of_the_largest(&crowd, now), Some(of_flood[0]), "it has less");
        assert_eq!(flows.of_the_largest(&flood, now), None, "its own are in use");
        flows.use_now(of_crowd[2], true, now);
        let soon = now + SHORT;
        assert_eq!(
            flows.of_the_largest(&new, soon),
            Some(of_crowd[2]),
            "it has many, too, and needs it less"
        );
        assert_eq!(flows.of_the_largest(&flood, soon), None, "the others have less");
        flows.use_now(of_flood[3], true, now);
        assert_eq!(flows.of_the_largest(&flood, soon), Some(of_flood[3]));
        assert_eq!(flows.of_the_largest(&crowd, soon), Some(of_flood[3]));
        // Nobody is the largest any more.
        for place in [of_flood[0], of_flood[3]] {
            flows.remove(place).unwrap();
        }
        flows.use_now(of_crowd[2], true, soon);
        assert_eq!(flows.of_the_largest(&crowd, soon), None);
        assert_eq!(flows.of_the_largest(&quiet, soon), Some(of_quiet), "its own before any in use");
        flows.use_now(of_quiet, false, soon);
        let ended = flows.of_the_largest(&quiet, soon).unwrap();
        assert!([&of_flood[..], &of_crowd].concat().contains(&ended), "it has few, and keeps them");
    }

    /// Each of the ports has a share of its own, but what they get is what they leave.
    #[test]
    fn junk_for_many_ports_ends_no_flow_in_use() {
        let (mut flows, start) = (Flows::default(), Instant::now());
        let (busy, junk, new) = (port(), [(); 10].map(|()| port()), port());
        let of_busy: Vec<Place> = (1..=40).map(|client| add(&mut flows, &busy, client, start)).collect();
        let of_junk = || junk.iter().cycle().take(60);
        for (port, client) in of_junk().zip(100..) {
            add(&mut flows, port, client, start);
        }
        let mut now = start + LONG;
        for (port, client) in of_junk().chain([&new]).zip(1_000..) {
            for place in &of_busy {
                flows.use_now(*place, true, now);
            }
            now += SHORT + SHORT;
            let ended = flows.of_the_largest(port, now).unwrap();
            assert!(!of_busy.contains(&ended), "{client}");
            flows.remove(ended).unwrap();
            add(&mut flows, port, client, now);
        }
    }
}
