//! Mode userspace: the flat table of mode nftables leads clients to a forwarder in this process, which carries what they
//! send to an endpoint. `docs/userspace.md` describes it.

mod ground;
mod metrics;
mod mode;
mod node;
mod redirect;
mod refusals;
mod rules;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel::nft;
use model::{
    Change, Family, Fate, MasqueradeCause, NodePlan, Pool, Protocol, Refusal, ServiceKey, ServicePlan,
    UserspaceSettings,
};

use crate::backend::{Backend, Committed, Farewell, Setup, SyncError};
use crate::check_pace::Looks;
use crate::inspection::{Inspected, Look, Owner};
use crate::nftables::Nftables;
use crate::shortfall::Shortfall;
use forwarder::Directory;
use redirect::Doors;
use refusals::Refusals;
use rules::{ForwarderRules, own_mark};

pub(crate) use mode::MODE;

const NAME: &str = "userspace";
/// How often the route to the forwarder is looked at: it tells nobody when it goes.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// What the mode needs besides the table: somebody who listens, of this process or simulated.
pub trait Ground {
    /// Listen, if nobody does yet. Returns where, for the pool of policy Cluster and that of policy Local.
    fn open(&mut self, family: Family) -> Result<[SocketAddr; 2], SyncError>;

    /// Whether clients still get there.
    fn is_intact(&mut self, family: Family) -> bool;

    /// Settings, and the mark of what is sent to endpoints.
    fn configure(&mut self, settings: &UserspaceSettings, mark: u32);

    /// See [`Backend::farewell`].
    fn farewell(&self) -> Option<Farewell> {
        None
    }
}

/// The data plane over a real or simulated kernel.
pub struct Userspace<N, G> {
    rules: Nftables<N>,
    ground: G,
    directory: Arc<Directory>,
    /// Where the forwarder listens, once it does.
    doors: [Option<Doors>; 2],
    mark: u32,
    refused: [Refusals; 2],
}

impl<N: nft::Transport, G: Ground> Userspace<N, G> {
    pub fn new(rules: N, ground: G, setup: &Setup) -> Userspace<N, G> {
        Userspace::with(rules, ground, setup, Arc::default())
    }

    fn with(rules: N, mut ground: G, setup: &Setup, directory: Arc<Directory>) -> Userspace<N, G> {
        let mark = own_mark(setup.masquerade_mark);
        ground.configure(&setup.of_mode.userspace, mark);
        let mut rules = Nftables::new(rules, &setup.detector, setup.masquerade_mark);
        for family in Family::BOTH {
            rules.add(family, Arc::new(ForwarderRules { mark, address: ground::address(family) }));
        }
        Userspace { rules, ground, directory, doors: [None; 2], mark, refused: Default::default() }
    }

    /// The table, for tests that look from outside.
    pub fn rules(&mut self) -> &mut N {
        self.rules.transport()
    }

    /// Where the forwarder leads clients, for tests without one.
    pub fn leads(&self) -> Leads {
        Leads { directory: self.directory.clone(), doors: self.doors }
    }

    /// Where clients are led, if there are any services.
    fn open(&mut self, family: Family, has_services: bool) -> Result<Option<Doors>, SyncError> {
        if has_services || self.doors[family.index()].is_some() {
            self.doors[family.index()] = Some(self.ground.open(family)?);
        }
        Ok(self.doors[family.index()])
    }
}

impl<N: nft::Transport, G: Ground> Backend for Userspace<N, G> {
    fn base(&self) -> Option<&dyn Backend> {
        Some(&self.rules)
    }

    fn base_mut(&mut self) -> Option<&mut dyn Backend> {
        Some(&mut self.rules)
    }

    fn rewrite(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Result<Committed, SyncError> {
        let node = with_loopback(node);
        // Before anybody can call: the rules of the last agent lead to the listener.
        self.directory.replace(family, plans, &node);
        let doors = self.open(family, !plans.is_empty())?;
        let redirected =
            plans.iter().filter_map(|(service, plan)| Some((service.clone(), redirect::plan(plan, doors?))));
        let redirected: HashMap<ServiceKey, ServicePlan> = redirected.collect();
        self.refused[family.index()].replace(plans);
        self.rules.rewrite(family, &redirected, &node)
    }

    fn apply(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        let node = [node.0, node.1].map(with_loopback);
        self.directory.take_in(family, changes, &node[1]);
        let doors = self.open(family, changes.iter().any(|change| change.new.is_some()))?;
        let redirected: Vec<_> = changes
            .iter()
            .filter_map(|change| Some((change.service, redirect::change(change, doors?))))
            .filter(|(_, [old, new])| old != new)
            .collect();
        let led: Vec<Change<'_>> = redirected
            .iter()
            .map(|(service, [old, new])| Change { service, old: old.as_ref(), new: new.as_ref() })
            .collect();
        let committed = self.rules.apply(family, &led, (&node[0], &node[1]))?;
        self.directory.let_go(family, changes);
        let refused = &mut self.refused[family.index()];
        changes.iter().for_each(|change| refused.note(change.service, change.new));
        Ok(committed)
    }

    /// The table has no affinity here, so no change needs two steps.
    fn interim(&self, _: &Change<'_>) -> Option<ServicePlan> {
        None
    }

    fn doors(&self, family: Family) -> &[SocketAddr] {
        self.doors[family.index()].as_ref().map_or(&[], |doors| doors)
    }

    fn farewell(&self) -> Option<Farewell> {
        self.ground.farewell()
    }

    fn take_shortfalls(&mut self, family: Family) -> Vec<Shortfall> {
        self.refused[family.index()].take()
    }

    fn configure(&mut self, family: Family, setup: &Setup) -> bool {
        let mark = own_mark(setup.masquerade_mark);
        self.ground.configure(&setup.of_mode.userspace, mark);
        let is_other = std::mem::replace(&mut self.mark, mark) != mark;
        if is_other {
            for family in Family::BOTH {
                self.rules.add(family, Arc::new(ForwarderRules { mark, address: ground::address(family) }));
            }
        }
        // Another mark of ours comes with another one of masquerading.
        self.rules.configure(family, setup)
    }

    fn looks(&mut self, sync_period: Duration) -> Looks {
        Looks { usual: BETWEEN_LOOKS.min(sync_period), longest: sync_period }
    }

    fn damage_found(&self) -> &'static str {
        "Another process removed our table in nf_tables or the route to the forwarder"
    }

    fn is_intact(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> bool {
        let is_reached = self.doors[family.index()].is_none() || self.ground.is_intact(family);
        is_reached && self.rules.is_intact(family, plans, node)
    }

    fn fate(&self, protocol: Protocol, planned: Fate) -> Fate {
        match planned {
            Fate::Forward { .. } | Fate::Drop(Refusal::NoLocalEndpoints) if !forwarder::carries(protocol) => {
                Fate::Reject(Refusal::NotCarried)
            }
            Fate::Forward { pool, .. } => {
                Fate::Forward { pool, masquerade: Some(MasqueradeCause::OwnConnection) }
            }
            other => other,
        }
    }

    /// What leads clients to the forwarder; it remembers pins itself.
    fn inspect(&mut self, family: Family, inspected: &Inspected<'_>) -> Look {
        let node = with_loopback(inspected.node);
        let led = inspected.owner.zip(self.doors[family.index()]);
        let led = led.map(|(owner, doors)| (owner, redirect::redirected(owner.port, doors)));
        let owner = led.as_ref().and_then(|(owner, port)| {
            let destination = port.destinations.iter().find(|at| at.at == owner.destination.at)?;
            Some(Owner { service: owner.service, port, destination })
        });
        let inspected = Inspected { owner, client: None, node: &node, ..*inspected };
        self.rules.inspect(family, &inspected)
    }

    fn cleanup(&mut self, family: Family) -> Result<(), SyncError> {
        self.rules.cleanup(family)
    }
}

/// A client that calls a loopback address can be redirected to the forwarder, as on any other address of the node.
fn with_loopback(node: &NodePlan) -> NodePlan {
    let mut node = node.clone();
    node.nodeport_ips.extend(std::mem::take(&mut node.nodeport_listeners));
    node.nodeport_ips.sort_unstable();
    node
}

/// Where clients are led.
#[derive(Clone)]
pub struct Leads {
    directory: Arc<Directory>,
    doors: [Option<Doors>; 2],
}

impl Leads {
    /// The endpoint of a client that came in at `door` and meant `to`.
    pub fn lead(
        &self,
        protocol: Protocol,
        door: SocketAddr,
        to: SocketAddr,
        client: IpAddr,
    ) -> Option<SocketAddr> {
        let doors = self.doors[Family::of(to.ip()).index()]?;
        let pool = Pool::BOTH.into_iter().find(|pool| doors[*pool as usize] == door)?;
        self.directory.find(protocol, to)?.pick(pool, client, &[], Instant::now())
    }

    /// All that the forwarder knows, in words and in order.
    pub fn describe(&self) -> Vec<String> {
        self.directory.describe()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/userspace_order.rs"]
mod tests;
