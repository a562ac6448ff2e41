//! Endpoints of a port that could not be reached: they are passed over for a while, longer each time, if there is another.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long an endpoint is passed over the first time.
pub(crate) const FIRST: Duration = Duration::from_secs(5);
/// The longest delay. An endpoint that was not retried for this long after its delay starts over with [`FIRST`].
const LONGEST: Duration = Duration::from_secs(60);
/// So many of a port: all of a node that has died, in a large service.
const MOST: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Suspects {
    /// Threads look at the last state while another one writes the next.
    known: RwLock<Arc<HashMap<SocketAddr, Suspect>>>,
    are_there: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    until: Instant,
    delay: Duration,
}

/// Those that are passed over at a time.
pub(crate) struct Avoided(Option<Arc<HashMap<SocketAddr, Suspect>>>, Instant);

impl Avoided {
    pub(crate) fn contains(&self, endpoint: &SocketAddr) -> bool {
        let suspect = self.0.as_ref().and_then(|known| known.get(endpoint));
        suspect.is_some_and(|suspect| suspect.until > self.1)
    }
}

impl Suspects {
    pub(crate) fn at(&self, now: Instant) -> Avoided {
        if !self.are_there.load(Ordering::Relaxed) {
            return Avoided(None, now);
        }
        Avoided(Some(self.known.read().unwrap_or_else(PoisonError::into_inner).clone()), now)
    }

    pub(crate) fn add(&self, endpoint: SocketAddr, now: Instant) {
        self.change(|known| {
            if known.len() >= MOST {
                known.retain(|_, suspect| suspect.until > now);
            }
            let delay = match known.get(&endpoint) {
                // Others had begun to try it as well.
                Some(suspect) if suspect.until > now => return,
                Some(suspect) if suspect.until + LONGEST > now => (suspect.delay * 2).min(LONGEST),
                Some(_) => FIRST,
                None if known.len() >= MOST => return,
                None => FIRST,
            };
            known.insert(endpoint, Suspect { until: now + delay, delay });
        });
    }

    /// It has been reached.
    pub(crate) fn clear(&self, endpoint: SocketAddr) {
        if self.at(Instant::now()).0.is_some_and(|known| known.contains_key(&endpoint)) {
            self.change(|known| {
                known.remove(&endpoint);
            });
        }
    }

    /// Forget all but these.
    pub(crate) fn retain(&self, is_kept: impl Fn(&SocketAddr) -> bool) {
        if self.are_there.load(Ordering::Relaxed) {
            self.change(|known| known.retain(|endpoint, _| is_kept(endpoint)));
        }
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<SocketAddr, Suspect>)) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let known = Arc::make_mut(&mut known);
        change(known);
        self.are_there.store(!known.is_empty(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: usize) -> SocketAddr {
        let [_, _, high, low] = u32::try_from(number).unwrap().to_be_bytes();
        ([10, 0, high, low], 80).into()
    }

    #[test]
    fn one_that_fails_again_is_passed_over_for_longer() {
        let (suspects, mut now) = (Suspects::default(), Instant::now());
        for delay in [5, 10, 20, 40, 60, 60] {
            suspects.add(at(1), now);
            suspects.add(at(1), now);
            now += Duration::from_secs(delay);
            assert!(suspects.at(now - Duration::from_millis(1)).contains(&at(1)), "{delay}");
            assert!(!suspects.at(now).contains(&at(1)), "{delay}");
        }
        suspects.clear(at(1));
        assert!(suspects.at(now).0.is_none(), "it costs nothing any more");
        suspects.add(at(1), now);
        assert!(!suspects.at(now + FIRST).contains(&at(1)), "it began from the first");
    }

    #[test]
    fn many_are_remembered_but_not_all() {
        let (suspects, now) = (Suspects::default(), Instant::now());
        (0..MOST + 1).for_each(|number| suspects.add(at(number), now));
        assert_eq!((0..MOST + 1).filter(|number| suspects.at(now).contains(&at(*number))).count(), MOST);
        suspects.add(at(MOST), now + FIRST);
        assert!(suspects.at(now + FIRST).contains(&at(MOST)), "those that are over make room");
        suspects.retain(|_| false);
        assert!(suspects.at(now).0.is_none());
    }
}
