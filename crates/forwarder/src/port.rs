//! One service port as the forwarder sees it: its endpoints, whose turn it is, and which client belongs to which endpoint.

use std::fmt;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use model::{Pool, PortPlan};

use crate::is_own;
use crate::pins::{Pin, Pins};
use crate::suspects::Suspects;

pub struct Port {
    /// `namespace/name:port`
    pub label: Arc<str>,
    /// Connections and flows that are open.
    pub open: AtomicUsize,
    offer: RwLock<Arc<Offer>>,
    turn: [AtomicUsize; 2],
    pins: Mutex<Pins>,
    suspects: Suspects,
}

/// Where clients are led.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Each sorted.
    pools: [Box<[SocketAddr]>; 2],
    affinity: Option<Duration>,
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.label, self.offer())
    }
}

impl Port {
    /// Its pins count among those of other ports.
    pub(crate) fn new(label: Arc<str>, offer: Arc<Offer>, pins: Arc<AtomicUsize>) -> Port {
        Port {
            label,
            open: AtomicUsize::new(0),
            offer: RwLock::new(offer),
            turn: [AtomicUsize::new(0), AtomicUsize::new(0)],
            pins: Mutex::new(Pins::among(pins)),
            suspects: Suspects::default(),
        }
    }

    /// From now on clients are led there. They keep their endpoints as far as these are still among them.
    pub(crate) fn update(&self, offer: Arc<Offer>) {
        if offer.affinity.is_none() {
            // Nobody waits while they are freed.
            let pins = self.pins().take();
            drop(pins);
        }
        self.suspects.retain(|endpoint| offer.pools.iter().any(|pool| pool.binary_search(endpoint).is_ok()));
        *self.offer.write().unwrap_or_else(PoisonError::into_inner) = offer;
    }

    fn offer(&self) -> Arc<Offer> {
        self.offer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether clients may still be led to this endpoint.
    pub fn has(&self, pool: Pool, endpoint: SocketAddr) -> bool {
        self.offer().pools[pool as usize].binary_search(&endpoint).is_ok()
    }

    /// Whether there is no endpoint to lead clients to.
    pub(crate) fn is_empty(&self, pool: Pool) -> bool {
        self.offer().pools[pool as usize].is_empty()
    }

    /// The endpoint for a new connection of this client, none of those that were `tried`.
    pub fn pick(&self, pool: Pool, client: IpAddr, tried: &[SocketAddr], now: Instant) -> Option<SocketAddr> {
        let offer = self.offer();
        let endpoints = &offer.pools[pool as usize];
        let avoided = self.suspects.at(now);
        let is_open = |endpoint: &SocketAddr| !tried.contains(endpoint);
        let is_good = |endpoint: &SocketAddr| is_open(endpoint) && !avoided.contains(endpoint);
        if let Some(lasts) = offer.affinity {
            return self.pick_sticky((pool, endpoints), client, lasts, is_open, is_good, now);
        }
        self.next_in_turn(pool, endpoints, is_open, is_good)
    }

    /// The one whose turn it is.
    fn next_in_turn(
        &self,
        pool: Pool,
        endpoints: &[SocketAddr],
        is_open: impl Fn(&SocketAddr) -> bool,
        is_good: impl Fn(&SocketAddr) -> bool,
    ) -> Option<SocketAddr> {
        if endpoints.is_empty() {
            return None;
        }
        let turn = self.turn[pool as usize].fetch_add(1, Ordering::Relaxed);
        let mut in_turn = endpoints.iter().cycle().skip(turn % endpoints.len()).take(endpoints.len());
        let good = in_turn.clone().find(|endpoint| is_good(endpoint));
        good.or_else(|| in_turn.find(|endpoint| is_open(endpoint))).copied()
    }

    /// The endpoint that the client had. One whose time is over takes the next in turn, one that is new here the one that its
    /// address leads to: the same after a restart. That takes a while for many endpoints, so pins are not locked meanwhile.
    fn pick_sticky(
        &self,
        (pool, endpoints): (Pool, &[SocketAddr]),
        client: IpAddr,
        lasts: Duration,
        is_open: impl Fn(&SocketAddr) -> bool,
        is_good: impl Fn(&SocketAddr) -> bool,
        now: Instant,
    ) -> Option<SocketAddr> {
        let had = self.pins().get(client);
        let is_over = had.is_some_and(|pin| pin.until <= now);
        let is_pinned = |pin: &Pin| {
            pin.until > now && endpoints.binary_search(&pin.endpoint).is_ok() && is_open(&pin.endpoint)
        };
        let nearest = |usable: &dyn Fn(&SocketAddr) -> bool| {
            let usable = endpoints.iter().filter(|endpoint| usable(endpoint));
            usable.max_by_key(|endpoint| weight(client, endpoint)).copied()
        };
        let endpoint = match had.filter(is_pinned) {
            Some(pin) => pin.endpoint,
            None if is_over => self.next_in_turn(pool, endpoints, &is_open, &is_good)?,
            None => nearest(&is_good).or_else(|| nearest(&is_open))?,
        };
        let pin = Pin { endpoint, until: now + lasts };
        Some(self.pins().settle(client, pin, now, is_pinned))
    }

    /// Forget clients whose time is over.
    pub(crate) fn sweep_pins(&self, now: Instant) {
        self.pins().sweep(now);
    }

    /// The client's endpoint has refused it, so that it gets another one: its next datagrams would renew the pin.
    pub(crate) fn unpin(&self, client: IpAddr, endpoint: SocketAddr, now: Instant) {
        self.pins().end(client, endpoint, now);
    }

    /// The endpoint could not be reached.
    pub fn suspect(&self, endpoint: SocketAddr, now: Instant) {
        self.suspects.add(endpoint, now);
    }

    /// The endpoint has been reached.
    pub(crate) fn trust(&self, endpoint: SocketAddr) {
        self.suspects.clear(endpoint);
    }
}

impl Offer {
    pub(crate) fn of(plan: &PortPlan) -> Offer {
        let sorted = |pool| {
            // One that is the node's own loopback could be a listener of ours, as one at our own address is.
            let is_other = |ip: IpAddr| !ip.is_loopback() && !is_own(ip);
            let endpoints = plan.pool(pool).iter().filter(|endpoint| is_other(endpoint.ip));
            let mut endpoints: Vec<SocketAddr> =
                endpoints.map(|endpoint| SocketAddr::new(endpoint.ip, endpoint.port)).collect();
            endpoints.sort_unstable();
            endpoints.into_boxed_slice()
        };
        let affinity = plan.affinity_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        Offer { pools: Pool::BOTH.map(sorted), affinity }
    }
}

/// How much an endpoint suits a client: another number for each pair, and always the same one. An endpoint that comes or
/// goes moves only the clients that it takes or leaves.
fn weight(client: IpAddr, endpoint: &SocketAddr) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one((client, endpoint))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use model::{PlannedEndpoint, Protocol};

    fn plan(last: &[u8], affinity: Option<u32>) -> PortPlan {
        let endpoint =
            |last: &u8| PlannedEndpoint { ip: [10, 0, 0, *last].into(), port: 80, may_be_own_client: false };
        PortPlan {
            name: "".into(),
            protocol: Protocol::Tcp,
            affinity_seconds: affinity,
            cluster_pool: last.iter().map(endpoint).collect(),
            local_pool: Box::default(),
            destinations: Box::default(),
        }
    }

    fn offer(last: &[u8], affinity: Option<u32>) -> Arc<Offer> {
        Arc::new(Offer::of(&plan(last, affinity)))
    }

    fn port(last: &[u8], affinity: Option<u32>) -> Port {
        Port::new("default/web".into(), offer(last, affinity), Arc::default())
    }

    fn picked(port: &Port, client: u8, tried: &[SocketAddr], now: Instant) -> Option<u8> {
        let endpoint = port.pick(Pool::Cluster, [10, 9, 0, client].into(), tried, now)?;
        match endpoint.ip() {
            IpAddr::V4(ip) => Some(ip.octets()[3]),
            IpAddr::V6(_) => None,
        }
    }

    #[test]
    fn endpoints_take_turns_and_those_that_failed_are_passed_over() {
        let (port, now) = (port(&[1, 2, 3], None), Instant::now());
        let turns: Vec<_> = (0..6).map(|_| picked(&port, 9, &[], now).unwrap()).collect();
        assert_eq!(turns, [1, 2, 3, 1, 2, 3]);
        let second: SocketAddr = "10.0.0.2:80".parse().unwrap();
        assert_eq!(picked(&port, 9, &["10.0.0.1:80".parse().unwrap()], now), Some(2));
        port.suspect(second, now);
        assert_eq!(picked(&port, 9, &[], now), Some(3));
        assert!((0..6).all(|_| picked(&port, 9, &[], now) != Some(2)));
        assert!((0..3).any(|_| picked(&port, 9, &[], now + crate::suspects::FIRST) == Some(2)));
        let others = [1, 3].map(|last| SocketAddr::from(([10, 0, 0, last], 80)));
        assert_eq!(picked(&port, 9, &others, now), Some(2), "a suspect is better than nothing");
        let all = [1, 2, 3].map(|last| SocketAddr::from(([10, 0, 0, last], 80)));
        assert_eq!(picked(&port, 9, &all, now), None);
    }

    #[test]
    fn a_client_whose_time_is_over_takes_the_next_in_turn() {
        let (port, now) = (port(&[1, 2, 3], Some(10)), Instant::now());
        let first = picked(&port, 9, &[], now);
        assert_eq!(picked(&port, 9, &[], now + Duration::from_secs(9)), first);
        let mut later = now;
        let mut seen = BTreeSet::new();
        for _ in 0..3 {
            later += Duration::from_secs(30);
            let endpoint = picked(&port, 9, &[], later);
            assert_eq!(picked(&port, 9, &[], later), endpoint, "it keeps the new one");
            seen.insert(endpoint);
        }
        assert_eq!(seen.len(), 3, "{seen:?}");
    }

    #[test]
    fn a_client_keeps_its_endpoint_while_others_come_and_after_a_restart() {
        let (first, now) = (port(&[1, 2, 3], Some(10)), Instant::now());
        let clients: Vec<u8> = (0..64).collect();
        let before: Vec<_> = clients.iter().map(|client| picked(&first, *client, &[], now)).collect();
        for last in 1..=3 {
            let share = before.iter().filter(|endpoint| **endpoint == Some(last)).count();
            assert!(share > 8, "{last} has {share} of 64");
        }
        let restarted = port(&[1, 2, 3], Some(10));
        let after: Vec<_> = clients.iter().map(|client| picked(&restarted, *client, &[], now)).collect();
        assert_eq!(before, after);
        first.update(offer(&[1, 2, 3, 4], Some(10)));
        let grown: Vec<_> = clients.iter().map(|client| picked(&first, *client, &[], now)).collect();
        assert_eq!(before, grown);
        first.update(offer(&[1, 2, 4], Some(10)));
        for (client, endpoint) in clients.iter().zip(&before) {
            let now_at = picked(&first, *client, &[], now);
            assert!(now_at != Some(3) && (*endpoint == Some(3) || now_at == *endpoint));
        }
    }
}
