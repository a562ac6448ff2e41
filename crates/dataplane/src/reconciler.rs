//! Keeps the kernel equal to the plans: only dirty services are planned and committed; after a failure or a
//! change by somebody else nothing is assumed and everything is written anew.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use model::{
    Claims, ContestNews, Family, LocalDetector, NodePlan, ServiceKey, ServicePlan, StaleFlows, merge_stale,
    stale_flows,
};

use crate::backend::{Backend, Change, Committed, SyncError};
use crate::nftables::PinSweep;
use crate::programmed::Programmed;
use crate::slots::keep_order;

/// Where plans come from: the cluster state, seen through the model.
pub trait Planner {
    /// `None` if there is no such service.
    fn plan(&self, service: &ServiceKey, family: Family) -> Option<Planned>;
    /// Every service there is.
    fn services(&self) -> Vec<ServiceKey>;
    fn node(&self, family: Family) -> NodePlan;
}

#[derive(Clone, Debug, Default)]
pub struct Planned {
    pub plan: ServicePlan,
    /// Seconds since the epoch; settles who owns an address that two services claim.
    pub created: i64,
}

/// What a successful sync did.
#[derive(Debug, Default)]
pub struct Synced {
    pub full: bool,
    /// Services whose plan changed (all of them in a full sync).
    pub services: usize,
    pub committed: Committed,
    /// Recorded flows that must be forgotten now.
    pub stale: Vec<StaleFlows>,
    /// Pins that have lost their endpoint: to be found beside the sync thread, and then forgotten. Tell
    /// [`Reconciler::swept`] of it afterwards.
    pub sweeps: Vec<PinSweep>,
    pub phases: Phases,
}

/// Where the time of a sync went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Deciding where packets go.
    pub plan: Duration,
    /// Turning that into what differs in the kernel.
    pub render: Duration,
    /// The kernel: the transaction, with what has to be read before and swept after it.
    pub commit: Duration,
}

impl Phases {
    fn new(started: Instant, planned: Instant, committed: &Committed) -> Phases {
        let commit = planned.elapsed().saturating_sub(committed.rendering);
        Phases { plan: planned - started, render: committed.rendering, commit }
    }
}

/// What the kernel holds, as far as we know.
enum Applied {
    /// Nothing is known: at the start, after a failed commit, or when somebody else changed the rules.
    Unknown,
    Known(Box<Known>),
}

struct Known {
    plans: HashMap<ServiceKey, ServicePlan>,
    node: NodePlan,
    programmed: Programmed,
}

struct FamilyState {
    applied: Applied,
    /// The plans of before a loss of trust: they still tell which flows become stale.
    remembered: HashMap<ServiceKey, ServicePlan>,
    /// Flows that become stale with the next successful rewrite.
    pending_stale: Vec<StaleFlows>,
    claims: Claims,
    /// Services that go without affinity until a sweep is done.
    unpinned: HashSet<ServiceKey>,
    /// Those of them that took their first step in the sync under way.
    stepping: Vec<ServiceKey>,
}

pub struct Reconciler<B> {
    backend: B,
    families: [FamilyState; 2],
}

impl<B: Backend> Reconciler<B> {
    pub fn new(backend: B) -> Reconciler<B> {
        let families = Family::BOTH.map(|family| FamilyState {
            applied: Applied::Unknown,
            remembered: HashMap::new(),
            pending_stale: Vec::new(),
            claims: Claims::new(family),
            unpinned: HashSet::new(),
            stepping: Vec::new(),
        });
        Reconciler { backend, families }
    }

    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Somebody else changed the rules: write everything anew at the next sync.
    pub fn distrust(&mut self, family: Family) {
        self.families[family.index()].forget();
    }

    /// How traffic of this node's pods is recognised from now on. That stands in rules, not in elements: a family
    /// that it is new to is written anew. Returns whether there is one.
    pub fn detect_local(&mut self, detector: &LocalDetector) -> bool {
        self.alter(|backend, family| backend.detect_local(family, detector))
    }

    /// The same for the mark of packets to masquerade.
    pub fn masquerade_by(&mut self, mark: u32) -> bool {
        self.alter(|backend, family| backend.masquerade_by(family, mark))
    }

    /// The same for packets that conntrack finds invalid.
    pub fn drop_invalid(&mut self, drop: bool) -> bool {
        self.alter(|backend, family| backend.drop_invalid(family, drop))
    }

    fn alter(&mut self, mut change: impl FnMut(&mut B, Family) -> bool) -> bool {
        let changed = Family::BOTH.map(|family| {
            let changed = change(&mut self.backend, family);
            if changed {
                self.distrust(family);
            }
            changed
        });
        changed.contains(&true)
    }

    /// The periodic check: distrust the kernel's rules if they are gone. Returns whether they are.
    pub fn check(&mut self, family: Family) -> bool {
        let damaged = match &self.families[family.index()].applied {
            Applied::Unknown => false,
            Applied::Known(known) => !self.backend.is_intact(family, &known.plans, &known.node),
        };
        if damaged {
            self.distrust(family);
        }
        damaged
    }

    /// Whether the next sync of the family writes everything.
    pub fn is_unknown(&self, family: Family) -> bool {
        matches!(self.families[family.index()].applied, Applied::Unknown)
    }

    /// What the kernel holds, as far as we know; `None` if nothing is known.
    pub fn programmed(&self, family: Family) -> Option<Programmed> {
        match &self.families[family.index()].applied {
            Applied::Unknown => None,
            Applied::Known(known) => Some(known.programmed),
        }
    }

    /// What changed about addresses that several services want, since this was last asked.
    pub fn contest_news(&mut self, family: Family) -> Option<ContestNews> {
        self.families[family.index()].claims.news()
    }

    /// Bring the kernel up to date with the dirty services (or with all of them, if nothing is known).
    /// After an error the kernel's rules are as they were, and the next call writes everything.
    pub fn sync(
        &mut self,
        family: Family,
        dirty: &[ServiceKey],
        planner: &dyn Planner,
    ) -> Result<Synced, SyncError> {
        let state = &mut self.families[family.index()];
        let result = match std::mem::replace(&mut state.applied, Applied::Unknown) {
            Applied::Unknown => rewrite(&mut self.backend, state, family, planner),
            Applied::Known(known) => update(&mut self.backend, state, *known, family, dirty, planner),
        };
        let (known, mut synced) = result?;
        self.families[family.index()].applied = Applied::Known(Box::new(known));
        synced.sweeps = self.backend.take_sweeps(family);
        let stepping = std::mem::take(&mut self.families[family.index()].stepping);
        if !stepping.is_empty() {
            // It may be that nobody was pinned where a pin could be wrong.
            let mut last = synced.sweeps.pop().unwrap_or_else(|| PinSweep::of_nothing(family));
            last.awaited_by = stepping;
            synced.sweeps.push(last);
        }
        Ok(synced)
    }

    /// The same for those who have no thread to sweep beside: with all sweeps done, and the second steps after them.
    pub fn sync_and_sweep(
        &mut self,
        family: Family,
        dirty: &[ServiceKey],
        planner: &dyn Planner,
    ) -> Result<Synced, SyncError> {
        let mut synced = self.sync(family, dirty, planner)?;
        for sweep in std::mem::take(&mut synced.sweeps) {
            self.backend.sweep(&sweep)?;
            let waiting = self.swept(family, &sweep);
            if !waiting.is_empty() {
                self.sync(family, &waiting, planner)?;
            }
        }
        Ok(synced)
    }

    /// The pins of a sweep are gone. Returns the services that waited for it: they have to be planned once more.
    pub fn swept(&mut self, family: Family, sweep: &PinSweep) -> Vec<ServiceKey> {
        let unpinned = &mut self.families[family.index()].unpinned;
        sweep.awaited_by.iter().filter(|service| unpinned.remove(*service)).cloned().collect()
    }
}

impl FamilyState {
    fn forget(&mut self) {
        if let Applied::Known(known) = std::mem::replace(&mut self.applied, Applied::Unknown) {
            self.remembered = known.plans;
        }
    }
}

fn rewrite<B: Backend>(
    backend: &mut B,
    state: &mut FamilyState,
    family: Family,
    planner: &dyn Planner,
) -> Result<(Known, Synced), SyncError> {
    let started = Instant::now();
    // Whatever pins there are, the rewrite looks at each.
    state.unpinned.clear();
    state.stepping.clear();
    settle_claims(state, family, planner);
    let plans = plan_all(state, family, planner);
    let node = planner.node(family);
    let planned = Instant::now();
    match backend.rewrite(family, &plans, &node) {
        Ok(committed) => {
            let stale = std::mem::take(&mut state.pending_stale);
            let phases = Phases::new(started, planned, &committed);
            let mut programmed = Programmed { elements: committed.elements, ..Programmed::default() };
            plans.values().for_each(|plan| programmed.add(plan));
            let synced =
                Synced { full: true, services: plans.len(), committed, stale, phases, ..Synced::default() };
            Ok((Known { plans, node, programmed }, synced))
        }
        Err(error) => {
            // It may have been carried out in part, so what it left stale counts; but each destination once, however
            // long this goes on.
            state.pending_stale = merge_stale(std::mem::take(&mut state.pending_stale));
            state.remembered = plans;
            Err(error)
        }
    }
}

/// Hear every service before any is planned: who owns an address is settled between all of them. The plans
/// are thrown away at once, because keeping old and new ones of all services doubles the memory.
fn settle_claims(state: &mut FamilyState, family: Family, planner: &dyn Planner) {
    let services = planner.services();
    let present: HashSet<&ServiceKey> = services.iter().collect();
    for gone in state.claims.services().iter().filter(|service| !present.contains(service)) {
        state.claims.remove(gone);
    }
    for service in &services {
        let planned = planner.plan(service, family).unwrap_or_default();
        state.claims.update(service, planned.created, planned.plan.wanted());
    }
}

/// New plans of all services. What they leave stale waits for the commit, and what was remembered is used up.
fn plan_all(
    state: &mut FamilyState,
    family: Family,
    planner: &dyn Planner,
) -> HashMap<ServiceKey, ServicePlan> {
    let mut remembered = std::mem::take(&mut state.remembered);
    let waiting = state.pending_stale.len();
    let services = planner.services();
    let mut plans = HashMap::with_capacity(services.len());
    for service in services {
        let Some(planned) = planner.plan(&service, family).filter(asks_something) else { continue };
        let mut plan = planned.plan;
        plan.retain(|protocol, at| state.claims.owns(&service, protocol, at));
        let old = remembered.remove(&service);
        if let Some(old) = &old {
            keep_order(old, &mut plan);
        }
        state.pending_stale.extend(stale_flows(old.as_ref(), Some(&plan)));
        plans.insert(service, plan);
    }
    let gone = remembered.values().flat_map(|old| stale_flows(Some(old), None));
    // An address that changed its owner ends for one service before it begins for the other.
    state.pending_stale.splice(waiting..waiting, gone);
    plans.shrink_to_fit();
    plans
}

fn update<B: Backend>(
    backend: &mut B,
    state: &mut FamilyState,
    mut known: Known,
    family: Family,
    dirty: &[ServiceKey],
    planner: &dyn Planner,
) -> Result<(Known, Synced), SyncError> {
    let started = Instant::now();
    let mut fresh = plan_dirty(state, &known, family, dirty, planner);
    take_steps(backend, state, &known, &mut fresh);
    let node = planner.node(family);
    let changes: Vec<Change<'_>> = fresh
        .iter()
        .map(|(service, new)| Change { service, old: known.plans.get(service), new: new.as_ref() })
        .filter(|change| change.old != change.new)
        .collect();
    if changes.is_empty() && node == known.node {
        let phases = Phases { plan: started.elapsed(), ..Phases::default() };
        return Ok((known, Synced { phases, ..Synced::default() }));
    }
    let planned = Instant::now();
    let result = backend.apply(family, &changes, (&known.node, &node));
    let committed = match result {
        Ok(committed) => committed,
        Err(error) => {
            state.remembered = known.plans;
            return Err(error);
        }
    };
    let mut stale: Vec<StaleFlows> =
        changes.iter().flat_map(|change| stale_flows(change.old, change.new)).collect();
    // An address that changed its owner ends for one service before it begins for the other.
    stale.sort_by_key(|flows| !flows.is_end());
    known.programmed.elements = committed.elements;
    for change in &changes {
        change.old.into_iter().for_each(|plan| known.programmed.remove(plan));
        change.new.into_iter().for_each(|plan| known.programmed.add(plan));
    }
    let phases = Phases::new(started, planned, &committed);
    let synced =
        Synced { full: false, services: changes.len(), committed, stale, phases, ..Synced::default() };
    for (service, new) in fresh {
        match new {
            Some(plan) => known.plans.insert(service, plan),
            None => known.plans.remove(&service),
        };
    }
    known.node = node;
    Ok((known, synced))
}

/// New plans of the dirty services, and of those that gained or lost an address through them.
fn plan_dirty(
    state: &mut FamilyState,
    known: &Known,
    family: Family,
    dirty: &[ServiceKey],
    planner: &dyn Planner,
) -> HashMap<ServiceKey, Option<ServicePlan>> {
    let mut fresh: HashMap<ServiceKey, Option<ServicePlan>> = HashMap::new();
    let mut affected: HashSet<ServiceKey> = HashSet::new();
    for service in dirty {
        let planned = planner.plan(service, family).filter(asks_something);
        let created = planned.as_ref().map_or(0, |planned| planned.created);
        let plan = planned.map(|planned| planned.plan);
        let wanted = plan.iter().flat_map(ServicePlan::wanted);
        affected.extend(state.claims.update(service, created, wanted));
        fresh.insert(service.clone(), plan);
    }
    for service in affected {
        fresh
            .entry(service)
            .or_insert_with_key(|service| planner.plan(service, family).map(|planned| planned.plan));
    }
    for (service, plan) in &mut fresh {
        let Some(plan) = plan else { continue };
        plan.retain(|protocol, at| state.claims.owns(service, protocol, at));
        if let Some(old) = known.plans.get(service) {
            keep_order(old, plan);
        }
    }
    fresh
}

/// Where a change takes two steps, this is the first, until [`Reconciler::swept`] allows the second.
fn take_steps<B: Backend>(
    backend: &B,
    state: &mut FamilyState,
    known: &Known,
    fresh: &mut HashMap<ServiceKey, Option<ServicePlan>>,
) {
    for (service, new) in fresh {
        let Some(plan) = new else {
            state.unpinned.remove(service);
            continue;
        };
        if state.unpinned.contains(service) {
            plan.affinity_seconds = None;
            continue;
        }
        let change = Change { service, old: known.plans.get(service), new: Some(&*plan) };
        if let Some(first) = backend.interim(&change) {
            state.unpinned.insert(service.clone());
            state.stepping.push(service.clone());
            *plan = first;
        }
    }
}

/// A service without an address of the family asks nothing of it, and is not kept.
fn asks_something(planned: &Planned) -> bool {
    planned.plan != ServicePlan::default()
}
