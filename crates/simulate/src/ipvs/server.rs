//! A virtual server with its destinations, in the order in which the kernel keeps them.

use kernel::ipvs::{Destination, Settings, Statistics};

use super::schedule::Memory;

#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) settings: Settings,
    /// The one added last is the first.
    pub(super) pool: Vec<Real>,
    /// What its scheduler remembers.
    pub(super) memory: Memory,
    pub(super) statistics: Statistics,
}

/// A destination.
#[derive(Clone, Debug)]
pub(super) struct Real {
    pub(super) at: Destination,
    pub(super) weight: u32,
    pub(super) statistics: Statistics,
}

impl Server {
    pub(super) fn new(settings: Settings) -> Server {
        Server { settings, pool: Vec::new(), memory: Memory::default(), statistics: Statistics::default() }
    }

    pub(super) fn real(&self, at: Destination) -> Option<&Real> {
        self.pool.iter().find(|real| real.at == at)
    }

    pub(super) fn set_weight(&mut self, at: Destination, weight: u32) -> bool {
        let Some(real) = self.pool.iter_mut().find(|real| real.at == at) else { return false };
        real.weight = weight;
        self.memory.pool_changed(&self.pool);
        true
    }

    pub(super) fn add(&mut self, at: Destination, weight: u32) {
        self.pool.insert(0, Real { at, weight, statistics: Statistics::default() });
        self.memory.pool_changed(&self.pool);
    }

    pub(super) fn remove(&mut self, at: Destination) -> bool {
        let Some(place) = self.pool.iter().position(|real| real.at == at) else { return false };
        let before = place.checked_sub(1).and_then(|place| self.pool.get(place)).map(|real| real.at);
        self.pool.remove(place);
        self.memory.removed(at, before);
        self.memory.pool_changed(&self.pool);
        true
    }
}
