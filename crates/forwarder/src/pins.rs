//! Which client belongs to which endpoint of a port, for so many clients. Each question costs the same, however many there
//! are: the threads that carry traffic wait for one another here.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// So many clients of a port are remembered; more are led by their address alone.
const MOST: usize = 65_536;
/// Limit on pinned clients of all ports together.
const MOST_IN_ALL: usize = 1_048_576;
/// So many pins are looked at in one sweep of a port; nobody waits long for it.
const SWEPT: usize = 8_192;
/// So many pins are looked at to make room for a new one.
const LOOKED_AT: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) endpoint: SocketAddr,
    pub(crate) until: Instant,
}

#[derive(Default)]
pub(crate) struct Pins {
    by_client: HashMap<IpAddr, Pin>,
    /// Every client once: the one at the front is looked at next when there is no room.
    ring: VecDeque<IpAddr>,
    /// Of all ports.
    total: Arc<AtomicUsize>,
}

impl Drop for Pins {
    fn drop(&mut self) {
        self.total.fetch_sub(self.by_client.len(), Ordering::Relaxed);
    }
}

impl Pins {
    /// No pins yet; `total` counts those of all ports.
    pub(crate) fn among(total: Arc<AtomicUsize>) -> Pins {
        Pins { by_client: HashMap::new(), ring: VecDeque::new(), total }
    }

    /// Forget all; they are freed when the caller drops them.
    pub(crate) fn take(&mut self) -> Pins {
        std::mem::replace(self, Pins::among(self.total.clone()))
    }

    pub(crate) fn get(&self, client: IpAddr) -> Option<Pin> {
        self.by_client.get(&client).copied()
    }

    /// Pin a client, unless it has got a pin that is good meanwhile: that one is renewed. Returns its endpoint. One for which
    /// there is no room is not remembered.
    pub(crate) fn settle(
        &mut self,
        client: IpAddr,
        pin: Pin,
        now: Instant,
        is_good: impl Fn(&Pin) -> bool,
    ) -> SocketAddr {
        if let Some(known) = self.by_client.get_mut(&client) {
            let endpoint = if is_good(known) { known.endpoint } else { pin.endpoint };
            *known = Pin { endpoint, ..pin };
            return endpoint;
        }
        let is_full =
            |pins: &Pins| pins.by_client.len() >= MOST || pins.total.load(Ordering::Relaxed) >= MOST_IN_ALL;
        if is_full(self) {
            self.forget_among(LOOKED_AT, now);
        }
        if !is_full(self) {
            self.by_client.insert(client, pin);
            self.ring.push_back(client);
            self.total.fetch_add(1, Ordering::Relaxed);
        }
        pin.endpoint
    }

    /// The client's time with this endpoint is over.
    pub(crate) fn end(&mut self, client: IpAddr, endpoint: SocketAddr, now: Instant) {
        if let Some(pin) = self.by_client.get_mut(&client).filter(|pin| pin.endpoint == endpoint) {
            pin.until = now;
        }
    }

    /// Forget those whose time is over, in several sweeps where there are many.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.forget_among(SWEPT.min(self.ring.len()), now);
        if self.by_client.len() < self.by_client.capacity() / 4 {
            self.by_client.shrink_to_fit();
            self.ring.shrink_to_fit();
        }
    }

    /// Forget those whose time is over among the next few.
    fn forget_among(&mut self, count: usize, now: Instant) {
        for _ in 0..count {
            let Some(client) = self.ring.pop_front() else { return };
            match self.by_client.get(&client).is_some_and(|pin| pin.until > now) {
                true => self.ring.push_back(client),
                false => {
                    self.by_client.remove(&client);
                    self.total.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn client(number: usize) -> IpAddr {
        IpAddr::from(u32::try_from(number).unwrap().to_be_bytes())
    }

    fn settle(pins: &mut Pins, number: usize, now: Instant) {
        let pin = Pin { endpoint: ([10, 0, 0, 1], 80).into(), until: now + Duration::from_secs(10) };
        pins.settle(client(number), pin, now, |pin| pin.until > now);
        assert!(pins.by_client.len() <= MOST && pins.by_client.len() == pins.ring.len());
    }

    #[test]
    fn a_new_client_costs_little_where_there_is_no_room() {
        let (mut pins, start) = (Pins::default(), Instant::now());
        (0..MOST).for_each(|number| settle(&mut pins, number, start));
        let first: Vec<IpAddr> = pins.ring.iter().take(LOOKED_AT).copied().collect();
        settle(&mut pins, MOST, start);
        assert_eq!(pins.get(client(MOST)), None, "all others are still pinned");
        assert_eq!(pins.ring.iter().rev().take(LOOKED_AT).rev().copied().collect::<Vec<_>>(), first);

        let later = start + Duration::from_secs(10);
        settle(&mut pins, MOST, later);
        assert!(pins.get(client(MOST)).is_some());
        assert_eq!(pins.by_client.len(), MOST - LOOKED_AT + 1, "no more than these were looked at");
    }

    #[test]
    fn pins_that_are_over_go_among_those_that_last() {
        let (mut pins, start) = (Pins::default(), Instant::now());
        (0..MOST).for_each(|number| settle(&mut pins, number, start));
        let later = start + Duration::from_secs(5);
        (0..MOST).filter(|number| number % 2 == 0).for_each(|number| settle(&mut pins, number, later));
        let last = start + Duration::from_secs(12);
        (MOST..MOST + MOST / 2).for_each(|number| settle(&mut pins, number, last));
        assert!((MOST..MOST + MOST / 2).all(|number| pins.get(client(number)).is_some()));
        assert!((0..MOST).filter(|number| number % 2 == 0).all(|number| pins.get(client(number)).is_some()));
    }

    #[test]
    fn a_client_that_was_pinned_meanwhile_keeps_that_endpoint() {
        let (mut pins, now) = (Pins::default(), Instant::now());
        let until = now + Duration::from_secs(1);
        let [first, second] = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 80)));
        let mut settle =
            |endpoint, is_good| pins.settle(client(1), Pin { endpoint, until }, now, |_| is_good);
        assert_eq!(settle(first, true), first);
        assert_eq!(settle(second, true), first);
        assert_eq!(settle(second, false), second);
    }

    #[test]
    fn those_whose_time_is_over_are_swept_and_there_is_a_limit_for_all_ports() {
        let total = Arc::new(AtomicUsize::new(MOST_IN_ALL - 3));
        let (mut pins, mut others) = (Pins::among(total.clone()), Pins::among(total.clone()));
        let start = Instant::now();
        (0..2).for_each(|number| settle(&mut pins, number, start));
        (0..2).for_each(|number| settle(&mut others, number, start));
        assert_eq!((others.get(client(0)).is_some(), others.get(client(1))), (true, None));
        pins.sweep(start + Duration::from_secs(9));
        assert_eq!(pins.by_client.len(), 2);
        pins.sweep(start + Duration::from_secs(10));
        assert_eq!((pins.by_client.len(), pins.ring.len()), (0, 0));
        settle(&mut others, 1, start);
        assert!(others.get(client(1)).is_some(), "there is room again");
        drop((pins, others.take()));
        assert_eq!(total.load(Ordering::Relaxed), MOST_IN_ALL - 3);
    }
}
