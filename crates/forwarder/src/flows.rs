//! The UDP flows of a thread: found by client, and in the order in which they fell silent, those of all service ports and
//! those of each. So it is known at once which flow to end where there are too many.

use std::collections::HashMap;
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

#[derive(Default)]
pub(crate) struct Flows {
    slab: Slab<Flow>,
    by_client: HashMap<(u32, SocketAddr), Place>,
    all: (Links, Silent),
    of_ports: (Links, HashMap<usize, Silent>),
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
        self.queue(place.0, port, is_answered);
        place
    }

    pub(crate) fn remove(&mut self, (index, age): Place) -> Option<Flow> {
        let flow = self.slab.remove(index, age)?;
        self.by_client.remove(&(flow.front, flow.client));
        self.unqueue(index, name(&flow.port), flow.is_answered);
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
        let firsts = self.all.1.iter().filter_map(|queue| self.first(*queue));
        firsts.min_by_key(|(_, used)| *used)
    }

    /// The flow to end for a new one, of this port or of any: those that nobody is likely to need, and the longest silent of
    /// them. `None` if all are in use: ending one would only move the trouble, and if each new client ended the flow of
    /// another one before its answer, nobody would get any.
    pub(crate) fn dispensable(&self, of: Option<&Arc<Port>>, now: Instant) -> Option<Place> {
        let [unanswered, answered] = match of {
            Some(port) => *self.of_ports.1.get(&name(port))?,
            None => self.all.1,
        };
        let silent_for = |queue: Queue, least: Duration| {
            let found = self.first(queue);
            found.filter(|(_, used)| now.saturating_duration_since(*used) >= least).map(|(place, _)| place)
        };
        silent_for(answered, LONG)
            .or_else(|| silent_for(unanswered, LONG))
            .or_else(|| silent_for(answered, SHORT))
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
        of_port.push(&mut ports.entry(port).or_default()[kind], index);
    }

    fn unqueue(&mut self, index: u32, port: usize, is_answered: bool) {
        let (kind, (links, all), (of_port, ports)) =
            (usize::from(is_answered), &mut self.all, &mut self.of_ports);
        links.remove(&mut all[kind], index);
        let Some(queues) = ports.get_mut(&port) else { return };
        of_port.remove(&mut queues[kind], index);
        if *queues == Silent::default() {
            ports.remove(&port);
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
        assert_eq!(flows.dispensable(Some(&dns), start), None, "all are in use");
        assert_eq!(flows.dispensable(Some(&dns), soon), Some(early));
        flows.use_now(early, false, soon);
        assert_eq!(flows.dispensable(Some(&dns), soon), None);
        assert_eq!(flows.dispensable(Some(&dns), soon + SHORT), Some(late), "the other one went on");
        assert_eq!(flows.dispensable(Some(&dns), start + LONG), Some(waiting), "it waits in vain");
        assert_eq!(flows.dispensable(Some(&dns), soon + LONG), Some(late), "it has its answer");
        assert_eq!(flows.dispensable(Some(&other), start + LONG), Some(later));
        assert_eq!(flows.longest_silent(), Some((waiting, start)));
        assert!(flows.remove(waiting).is_some() && flows.remove(waiting).is_none());
        assert_eq!(flows.dispensable(None, start + LONG), Some(later));
        for place in [later, late, early] {
            flows.remove(place).unwrap();
        }
        assert!(flows.is_empty() && flows.of_ports.1.is_empty() && flows.longest_silent().is_none());
    }
}
