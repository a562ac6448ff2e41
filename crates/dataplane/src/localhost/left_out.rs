//! Node ports for which there is no listener because there are too many, and the services that go without. Pure.

use std::collections::{BTreeMap, HashMap};

use model::ServiceKey;

use super::listeners::Key;
use crate::shortfall::Shortfalls;

const LEFT_OUT: &str = "Too many node ports are served on loopback addresses; those of this service are served on other \
                        addresses only";

/// Of one family.
pub(super) struct LeftOut {
    pub(super) keys: BTreeMap<Key, ServiceKey>,
    /// How many of each service.
    counts: HashMap<ServiceKey, usize>,
    pub(super) shortfalls: Shortfalls,
}

impl LeftOut {
    pub(super) fn new() -> LeftOut {
        LeftOut { keys: BTreeMap::new(), counts: HashMap::new(), shortfalls: Shortfalls::new(LEFT_OUT) }
    }

    pub(super) fn insert(&mut self, key: Key, service: &ServiceKey) {
        *self.counts.entry(service.clone()).or_default() += 1;
        self.shortfalls.begin(service);
        if let Some(before) = self.keys.insert(key, service.clone()) {
            self.count_down(&before);
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(service) = self.keys.remove(key) {
            self.count_down(&service);
        }
    }

    pub(super) fn pop_first(&mut self) -> Option<(Key, ServiceKey)> {
        let (key, service) = self.keys.pop_first()?;
        self.count_down(&service);
        Some((key, service))
    }

    fn count_down(&mut self, service: &ServiceKey) {
        let Some(count) = self.counts.get_mut(service) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.counts.remove(service);
            self.shortfalls.end(service);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use model::Protocol;

    use super::*;

    fn key(port: u16) -> Key {
        (Protocol::Tcp, SocketAddr::from(([127, 0, 0, 1], port)))
    }

    #[test]
    fn a_service_goes_without_until_its_last_port_has_a_listener() {
        let (mut left_out, web) = (LeftOut::new(), ServiceKey::from("default/web"));
        let mut news = |change: &dyn Fn(&mut LeftOut)| {
            change(&mut left_out);
            let news = left_out.shortfalls.take();
            news.iter().map(|shortfall| shortfall.is_over).collect::<Vec<bool>>()
        };
        assert_eq!(news(&|ports| ports.insert(key(1), &web)), vec![false]);
        assert_eq!(news(&|ports| ports.insert(key(2), &web)), Vec::<bool>::new());
        assert_eq!(news(&|ports| ports.insert(key(2), &web)), Vec::<bool>::new(), "again");
        assert_eq!(news(&|ports| ports.remove(&key(1))), Vec::<bool>::new());
        assert_eq!(news(&|ports| ports.remove(&key(2))), vec![true]);
        assert_eq!((left_out.keys.len(), left_out.counts.len()), (0, 0));
    }

    #[test]
    fn a_port_that_another_service_has_now_is_its_own() {
        let mut left_out = LeftOut::new();
        left_out.insert(key(1), &"default/old".into());
        left_out.insert(key(1), &"default/new".into());
        assert_eq!(left_out.counts.len(), 1);
        assert_eq!(left_out.pop_first(), Some((key(1), "default/new".into())));
        assert_eq!((left_out.pop_first(), left_out.counts.len()), (None, 0));
    }
}
