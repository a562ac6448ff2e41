//! Services that wait for their turn: in order, each once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use model::ServiceKey;

/// After a refused piece a large service waits, each time twice as long: everything is rewritten for it.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// First in, first out; a service that waits already keeps its place.
#[derive(Default)]
pub(super) struct KeyQueue {
    order: VecDeque<ServiceKey>,
    members: HashSet<ServiceKey>,
}

impl KeyQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn contains(&self, service: &ServiceKey) -> bool {
        self.members.contains(service)
    }

    pub(super) fn push(&mut self, service: ServiceKey) {
        if self.members.insert(service.clone()) {
            self.order.push_back(service);
        }
    }

    pub(super) fn pop(&mut self) -> Option<ServiceKey> {
        let first = self.order.pop_front()?;
        self.members.remove(&first);
        Some(first)
    }

    pub(super) fn remove(&mut self, services: &HashSet<ServiceKey>) {
        if services.iter().any(|service| self.members.contains(service)) {
            self.members.retain(|service| !services.contains(service));
            self.order.retain(|service| !services.contains(service));
        }
    }

    fn iter(&self) -> impl Iterator<Item = &ServiceKey> {
        self.order.iter()
    }
}

/// Large services, which are written one at a time and piece by piece.
///
/// Those that are new and those that had a piece already take turns: a change that fits into one piece does not wait for
/// all of another tenant's, and one that needs many is not held up for ever by small ones.
#[derive(Default)]
pub(super) struct LargeQueue {
    fresh: KeyQueue,
    begun: KeyQueue,
    /// Whose turn it is, if there are both.
    is_turn_of_begun: bool,
    /// Those that changed since they began to wait.
    again: HashSet<ServiceKey>,
    /// How often a piece was refused, and until when the service waits for that.
    failures: HashMap<ServiceKey, (u32, Instant)>,
}

impl LargeQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.begun.is_empty()
    }

    pub(super) fn contains(&self, service: &ServiceKey) -> bool {
        self.fresh.contains(service) || self.begun.contains(service)
    }

    /// Everything is written. What was refused is not.
    pub(super) fn clear(&mut self) {
        let failures = std::mem::take(&mut self.failures);
        *self = LargeQueue { failures, ..LargeQueue::default() };
    }

    /// The first that need not wait after a failure.
    pub(super) fn next(&self, now: Instant) -> Option<ServiceKey> {
        let queues = match self.is_turn_of_begun {
            true => [&self.begun, &self.fresh],
            false => [&self.fresh, &self.begun],
        };
        let mut waiting = queues.into_iter().flat_map(KeyQueue::iter);
        waiting.find(|service| self.rest(service, now).is_zero()).cloned()
    }

    /// How long until there is one; `None` if none waits.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.fresh.iter().chain(self.begun.iter()).map(|service| self.rest(service, now)).min()
    }

    fn rest(&self, service: &ServiceKey, now: Instant) -> Duration {
        let until = self.failures.get(service).map(|(_, until)| until.saturating_duration_since(now));
        until.unwrap_or_default()
    }

    pub(super) fn failed(&mut self, service: &ServiceKey, now: Instant) -> Duration {
        let (times, until) = self.failures.entry(service.clone()).or_insert((0, now));
        let wait = (FIRST_RETRY * (1 << (*times).min(16))).min(LONGEST_RETRY);
        (*times, *until) = (*times + 1, now + wait);
        wait
    }

    pub(super) fn extend(&mut self, services: &[ServiceKey]) {
        for service in services.iter().filter(|service| !self.begun.contains(service)) {
            self.fresh.push(service.clone());
        }
    }

    /// What it is to become is planned when its turn comes, but not again before that is reached: a service that changes
    /// faster than it can be written would be planned for nothing.
    pub(super) fn changed(&mut self, service: ServiceKey) {
        if self.contains(&service) {
            self.again.insert(service);
        } else {
            self.fresh.push(service);
        }
    }

    /// A piece of this one is written.
    pub(super) fn took_turn(&mut self, service: &ServiceKey, is_unfinished: bool) {
        self.failures.remove(service);
        self.is_turn_of_begun = self.fresh.contains(service);
        let it = HashSet::from([service.clone()]);
        self.fresh.remove(&it);
        self.begun.remove(&it);
        if is_unfinished || self.again.remove(service) {
            self.begun.push(service.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<ServiceKey> {
        names.iter().map(|name| ServiceKey::from(*name)).collect()
    }

    /// Let services take turns until none waits: each needs as many pieces as are given.
    fn turns(queue: &mut LargeQueue, pieces: &mut HashMap<&str, u32>) -> Vec<String> {
        let mut order = Vec::new();
        while let Some(service) = queue.next(Instant::now()) {
            let left = pieces.get_mut(&*service).unwrap();
            *left -= 1;
            queue.took_turn(&service, *left > 0);
            order.push(service.to_string());
            assert!(order.len() < 100, "it never ends");
        }
        order
    }

    #[test]
    fn new_services_do_not_wait_for_all_of_one_that_is_begun() {
        let mut queue = LargeQueue::default();
        queue.extend(&keys(&["a"]));
        let mut pieces = HashMap::from([("a", 5), ("b", 1), ("c", 2)]);
        assert_eq!(queue.next(Instant::now()).as_deref(), Some("a"));
        queue.took_turn(&"a".into(), true);
        *pieces.get_mut("a").unwrap() -= 1;
        queue.extend(&keys(&["b", "c", "a"]));
        assert_eq!(turns(&mut queue, &mut pieces), ["a", "b", "a", "c", "a", "c", "a"]);
        assert!(queue.is_empty() && !queue.contains(&"a".into()));
    }

    #[test]
    fn one_that_changed_while_it_was_written_has_one_more_turn() {
        let mut queue = LargeQueue::default();
        queue.changed("a".into());
        queue.changed("a".into());
        queue.took_turn(&"a".into(), false);
        assert_eq!(queue.next(Instant::now()).as_deref(), Some("a"));
        queue.took_turn(&"a".into(), false);
        assert!(queue.is_empty());
    }

    #[test]
    fn one_that_was_refused_waits_longer_each_time_and_holds_nobody_up() {
        let (mut queue, now) = (LargeQueue::default(), Instant::now());
        queue.extend(&keys(&["a", "b"]));
        assert_eq!(queue.failed(&"a".into(), now), FIRST_RETRY);
        assert_eq!(queue.failed(&"a".into(), now), FIRST_RETRY * 2);
        assert_eq!(queue.next(now).as_deref(), Some("b"));
        queue.took_turn(&"b".into(), false);
        assert_eq!((queue.next(now), queue.wait(now)), (None, Some(FIRST_RETRY * 2)));
        queue.clear();
        queue.extend(&keys(&["a"]));
        assert_eq!(queue.next(now), None, "a rewrite does not forgive it");
        assert_eq!(queue.next(now + FIRST_RETRY * 2).as_deref(), Some("a"));
    }
}
