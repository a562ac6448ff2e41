//! What services need besides elements: chains, sets and rules that come with the first that asks for them, are counted,
//! and go some time after the last.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use model::ServicePlan;

use crate::class::{Class, Draw, Kind};
use crate::counting_rules;
use crate::layout::TableSetup;
use crate::meter::Counting;
use crate::pinning::{Members, Pinning, writing_chain};
use crate::pool::PoolId;
use crate::render::{RenderedPort, Route};
use crate::sets::{Door, SetName, counting};

/// So many unused ones may stay: sizes of pools come and go, and a new chain costs more than an idle one.
const MOST_IDLE: usize = 32;
/// Pool sizes whose chain exists from the start, so that ordinary scaling needs no new chain.
const CLASSES_UP_FRONT: u32 = 16;

/// The order is one in which they can be made: what others lead to comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Demand {
    /// A prefix length of source ranges. There are few, and they are never collected: their rules share a chain.
    PrefixLength(u8),
    /// The chains that write pins of so many seconds.
    Timeout(u32),
    /// The map of a pool of a port's own.
    Pool(PoolId),
    /// The set of its endpoints, for pins.
    PoolMembers(PoolId),
    /// How far the class is from drawing, and its chain.
    Class(u8, Class),
    /// The chain that pins clients of a port with its own pools.
    Pinning(Pinning),
}

impl Demand {
    fn is_collected(self) -> bool {
        !matches!(self, Demand::PrefixLength(_))
    }

    fn class(class: Class) -> Demand {
        let steps = std::iter::successors(Some(class), Class::next).count();
        Demand::Class(steps as u8, class)
    }

    pub(crate) fn sets(self) -> Vec<SetName> {
        match self {
            Demand::PrefixLength(length) => vec![SetName::FirewallAllow(length)],
            Demand::Pool(pool) => vec![SetName::Pool(pool)],
            Demand::PoolMembers(pool) => vec![SetName::PoolMembers(pool)],
            Demand::Timeout(_) | Demand::Class(..) | Demand::Pinning(_) => Vec::new(),
        }
    }

    /// In the order in which they can be deleted.
    pub(crate) fn chains(self) -> Vec<String> {
        match self {
            Demand::Class(_, class) => vec![class.name()],
            Demand::Pinning(pinning) => vec![pinning.chain()],
            Demand::Timeout(seconds) => {
                let pin = |door| Pinning { door, seconds, members: Members::Common }.chain();
                let write = |door| writing_chain(door, seconds);
                Door::BOTH.map(pin).into_iter().chain(Door::BOTH.map(write)).collect()
            }
            Demand::PrefixLength(_) | Demand::Pool(_) | Demand::PoolMembers(_) => Vec::new(),
        }
    }
}

/// What one port asks for, each once.
pub(crate) fn of_port(rendered: &RenderedPort<'_>) -> BTreeSet<Demand> {
    let mut demands = BTreeSet::new();
    for destination in &rendered.port.destinations {
        for route in rendered.routes(destination) {
            let Route::Forward { class, .. } = route else { continue };
            demands.extend(std::iter::successors(Some(class), Class::next).map(Demand::class));
            if let Draw::Own(pool) = class.draw {
                demands.insert(Demand::Pool(pool));
            }
        }
        if let Some(pinning) = rendered.pinning(destination) {
            demands.insert(Demand::Timeout(pinning.seconds));
            demands.extend(pinning.pools().map(Demand::PoolMembers));
            if pinning.members != Members::Common {
                demands.insert(Demand::Pinning(pinning));
            }
        }
        demands.extend(destination.sources().map(|net| Demand::PrefixLength(net.prefix_len())));
    }
    demands
}

/// Who asks for what, and what of it is there.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    /// How many ports ask for it; what is no longer asked for is still there.
    users: BTreeMap<Demand, usize>,
    idle: usize,
}

impl Declared {
    /// The chains that are there from the start stay.
    pub(crate) fn up_front() -> Declared {
        let mut declared = Declared::default();
        for size in 1..=CLASSES_UP_FRONT {
            let class = Class::new(Door::Vip, Kind::Plain, false, Draw::Common(size));
            declared.ask(Demand::class(class));
        }
        declared
    }

    /// One more port asks for it. Returns whether it has to be made.
    pub(crate) fn ask(&mut self, demand: Demand) -> bool {
        match self.users.get_mut(&demand) {
            None => {
                self.users.insert(demand, 1);
                true
            }
            Some(users) => {
                self.idle -= usize::from(*users == 0 && demand.is_collected());
                *users += 1;
                false
            }
        }
    }

    /// One port less asks for it.
    pub(crate) fn leave(&mut self, demand: Demand) {
        if let Some(users) = self.users.get_mut(&demand)
            && *users > 0
        {
            *users -= 1;
            self.idle += usize::from(*users == 0 && demand.is_collected());
        }
    }

    /// What is unused, once that is much; the last made comes first. It counts as deleted from now on.
    pub(crate) fn collect(&mut self) -> Vec<Demand> {
        if self.idle <= MOST_IDLE {
            return Vec::new();
        }
        let is_idle = |demand: &Demand, users: usize| users == 0 && demand.is_collected();
        let idle: Vec<Demand> = self
            .users
            .iter()
            .rev()
            .filter(|(demand, users)| is_idle(demand, **users))
            .map(|(d, _)| *d)
            .collect();
        self.users.retain(|demand, users| !is_idle(demand, *users));
        self.idle = 0;
        idle
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Demand> {
        self.users.keys().copied()
    }

    pub(crate) fn has_timeouts(&self) -> bool {
        self.iter().any(|demand| matches!(demand, Demand::Timeout(_)))
    }

    /// The names of all sets there will be.
    pub(crate) fn sets(&self, setup: &TableSetup) -> HashSet<String> {
        let on_demand = self.iter().flat_map(Demand::sets);
        let counting = counting(setup.counting);
        setup.permanent_sets().chain(on_demand).chain(counting).map(|set| set.name().into_owned()).collect()
    }

    /// The names of the chains that come on demand.
    pub(crate) fn chains(&self, counting: Counting) -> HashSet<String> {
        let is_counted = counting == Counting::Everything;
        let counting = counting_rules::CHAINS.iter().filter(|_| is_counted).map(|name| (*name).to_owned());
        self.iter().flat_map(Demand::chains).chain(counting).collect()
    }
}

/// What every port of a plan asks for.
pub(crate) fn ask_for_plan(declared: &mut Declared, setup: &TableSetup, service: &str, plan: &ServicePlan) {
    for port in &plan.ports {
        let rendered = RenderedPort::new(service, port, setup);
        for demand in of_port(&rendered) {
            declared.ask(demand);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More prefix lengths than may be idle: a tenant can have written each once.
    #[test]
    fn prefix_lengths_that_nobody_uses_do_not_hasten_the_end_of_others() {
        let mut declared = Declared::default();
        for length in 1..=64 {
            declared.ask(Demand::PrefixLength(length));
            declared.leave(Demand::PrefixLength(length));
        }
        declared.ask(Demand::Timeout(10));
        declared.leave(Demand::Timeout(10));
        assert_eq!(declared.collect(), []);
        for seconds in 0..=MOST_IDLE as u32 {
            declared.ask(Demand::Timeout(seconds));
            declared.leave(Demand::Timeout(seconds));
        }
        assert_eq!(declared.collect().len(), MOST_IDLE + 1);
        assert_eq!(declared.iter().count(), 64, "their rules share a chain");
    }
}
