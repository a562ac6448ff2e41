//! How much may be said about what tenants write: a burst, and then a line now and then. Pure: the caller
//! passes the time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many at once, and then one per `pace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub burst: u32,
    pub pace: Duration,
}

const PER_OBJECT: Rate = Rate { burst: 3, pace: Duration::from_secs(5 * 60) };
const PER_NAMESPACE: Rate = Rate { burst: 10, pace: Duration::from_secs(60) };
const ALTOGETHER: Rate = Rate { burst: 40, pace: Duration::from_secs(15) };

/// What is left of a [`Rate`].
#[derive(Debug)]
pub struct Allowance {
    rate: Rate,
    left: u32,
    /// When that was reckoned; `None`: nothing was taken yet.
    reckoned: Option<Instant>,
}

impl Allowance {
    pub fn new(rate: Rate) -> Allowance {
        Allowance { rate, left: rate.burst, reckoned: None }
    }

    /// Take one, if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        let is_there = self.has_some(now);
        self.left = self.left.saturating_sub(1);
        is_there
    }

    fn has_some(&mut self, now: Instant) -> bool {
        let reckoned = *self.reckoned.get_or_insert(now);
        let since = now.saturating_duration_since(reckoned);
        let earned = u32::try_from(since.as_nanos() / self.rate.pace.as_nanos().max(1)).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(earned).min(self.rate.burst);
        if self.is_full() {
            self.reckoned = Some(now);
        } else if let Some(counted) = reckoned.checked_add(self.rate.pace.saturating_mul(earned)) {
            self.reckoned = Some(counted);
        }
        self.left > 0
    }

    fn is_full(&self) -> bool {
        self.left == self.rate.burst
    }
}

/// An allowance of which neither one object nor one namespace can use up what the others need: each has a smaller one of
/// its own.
#[derive(Debug)]
pub struct SharedAllowance {
    all: Allowance,
    namespaces: Shares,
    objects: Shares,
}

impl Default for SharedAllowance {
    fn default() -> SharedAllowance {
        SharedAllowance {
            all: Allowance::new(ALTOGETHER),
            namespaces: Shares::new(PER_NAMESPACE),
            objects: Shares::new(PER_OBJECT),
        }
    }
}

impl SharedAllowance {
    /// Take one for the object `namespace/name`, if it, its namespace and all together have one left.
    pub fn take(&mut self, path: &Arc<str>, now: Instant) -> bool {
        let namespace = namespace_of(path);
        let is_there = self.all.has_some(now)
            && self.namespaces.has_some(namespace, now)
            && self.objects.has_some(path, now);
        if is_there {
            self.all.take(now);
            self.namespaces.take(namespace.into(), now);
            self.objects.take(path.clone(), now);
        }
        is_there
    }
}

/// Objects that belong to no namespace are one of their own.
pub(crate) fn namespace_of(path: &str) -> &str {
    path.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// Of many, only those who took something lately: no more than all together could take.
#[derive(Debug)]
struct Shares {
    rate: Rate,
    used: HashMap<Arc<str>, Allowance>,
}

impl Shares {
    fn new(rate: Rate) -> Shares {
        Shares { rate, used: HashMap::new() }
    }

    fn has_some(&mut self, whose: &str, now: Instant) -> bool {
        self.used.get_mut(whose).is_none_or(|allowance| allowance.has_some(now))
    }

    fn take(&mut self, whose: Arc<str>, now: Instant) {
        if !self.used.contains_key(&whose) {
            self.used.retain(|_, allowance| {
                allowance.has_some(now);
                !allowance.is_full()
            });
        }
        self.used.entry(whose).or_insert_with(|| Allowance::new(self.rate)).take(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(namespace: u32, name: u32) -> Arc<str> {
        format!("ns-{namespace}/{name}").into()
    }

    fn taken(shared: &mut SharedAllowance, path: &Arc<str>, now: Instant) -> u32 {
        (0..10).map(|_| u32::from(shared.take(path, now))).sum()
    }

    #[test]
    fn a_burst_and_then_one_per_pace() {
        let start = Instant::now();
        let mut allowance = Allowance::new(Rate { burst: 2, pace: Duration::from_secs(10) });
        let mut at = |seconds| allowance.take(start + Duration::from_secs(seconds));
        assert_eq!(
            [0, 0, 0, 9, 10, 10, 19, 20, 100, 100, 100].map(&mut at).map(u8::from),
            [1, 1, 0, 0, 1, 0, 0, 1, 1, 1, 0]
        );
    }

    #[test]
    fn no_object_uses_up_what_its_namespace_has_and_no_namespace_what_all_have() {
        let now = Instant::now();
        let mut shared = SharedAllowance::default();
        assert_eq!(taken(&mut shared, &object(0, 0), now), PER_OBJECT.burst);
        let others: u32 = (1..1000).map(|name| taken(&mut shared, &object(0, name), now)).sum();
        assert_eq!(others, PER_NAMESPACE.burst - PER_OBJECT.burst);
        assert!(shared.take(&object(1, 0), now));
        let others: u32 = (2..1000).map(|namespace| taken(&mut shared, &object(namespace, 0), now)).sum();
        assert_eq!(others, ALTOGETHER.burst - PER_NAMESPACE.burst - 1);
    }

    /// A tenant who asks without end still leaves a share to others.
    #[test]
    fn one_namespace_that_never_rests_leaves_others_their_share() {
        let start = Instant::now();
        let mut shared = SharedAllowance::default();
        for second in 0..3600 {
            let now = start + Duration::from_secs(second);
            (0..50).for_each(|name| assert!(taken(&mut shared, &object(0, name), now) <= PER_OBJECT.burst));
            assert!(second % 60 != 0 || shared.take(&object(1 + second as u32, 0), now), "{second}");
        }
        assert!(shared.objects.used.len() < 200, "{}", shared.objects.used.len());
    }
}
