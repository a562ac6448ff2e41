//! The last syncs of both families, for those who look at the agent's page. A histogram forgets when something was.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use dataplane::Programmed;
use model::Family;

/// Syncs that are remembered, of both families together.
pub const MOST_REMEMBERED: usize = 60;

/// Shared between the sync loop, which adds, and the servers, which show. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RecentSyncs(Arc<Mutex<Ring>>);

#[derive(Clone, Debug, Default)]
struct Ring {
    total: u64,
    syncs: VecDeque<RecentSync>,
    programmed: [Option<Programmed>; 2],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentSync {
    pub family: Family,
    /// When it ended.
    pub ended: SystemTime,
    pub took: Duration,
    /// All rules were written.
    pub full: bool,
    /// `None` if it failed.
    pub written: Option<Written>,
}

impl RecentSync {
    fn is_empty(&self) -> bool {
        !self.full && self.written.is_some_and(|written| written.bytes == 0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub services: usize,
    pub bytes: usize,
}

/// What is remembered at one moment.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// Every sync so far.
    pub total: u64,
    /// The latest last.
    pub syncs: Vec<RecentSync>,
    /// By [`Family::index`]; `None` before the first sync.
    pub programmed: [Option<Programmed>; 2],
}

impl RecentSyncs {
    pub fn add(&self, sync: RecentSync) {
        self.with(|ring| {
            ring.total += 1;
            // Most changes concern one family; the other finds nothing to do.
            if sync.is_empty() {
                return;
            }
            if ring.syncs.len() == MOST_REMEMBERED {
                ring.syncs.pop_front();
            }
            ring.syncs.push_back(sync);
        });
    }

    pub(super) fn programmed(&self, family: Family, programmed: &Programmed) {
        self.with(|ring| ring.programmed[family.index()] = Some(*programmed));
    }

    /// How many there were so far: what is shown changes with it.
    pub fn total(&self) -> u64 {
        self.with(|ring| ring.total)
    }

    pub fn remembered(&self) -> Remembered {
        self.with(|ring| Remembered {
            total: ring.total,
            syncs: ring.syncs.iter().cloned().collect(),
            programmed: ring.programmed,
        })
    }

    fn with<T>(&self, action: impl FnOnce(&mut Ring) -> T) -> T {
        action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_are_remembered_and_all_are_counted() {
        let recent = RecentSyncs::default();
        let sync = |services, bytes| RecentSync {
            family: Family::V4,
            ended: SystemTime::UNIX_EPOCH,
            took: Duration::ZERO,
            full: false,
            written: Some(Written { services, bytes }),
        };
        (0..1000).for_each(|number| recent.add(sync(number, 1)));
        recent.add(sync(1, 0));
        let Remembered { total, syncs, .. } = recent.remembered();
        assert_eq!((total, syncs.len()), (1001, MOST_REMEMBERED));
        assert_eq!(syncs.last(), Some(&sync(999, 1)));
        assert_eq!(syncs.first(), Some(&sync(1000 - MOST_REMEMBERED, 1)));
    }
}
