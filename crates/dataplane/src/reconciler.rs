//! Keeps the kernel equal to the plans: only dirty services are planned and committed; after a failure or a
//! change by another process nothing is assumed and everything is rewritten.

mod asking;
mod explain;
mod lingering;
mod planning;
mod refusing;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use model::{
    Address, Change, Claims, ContestNews, Excess, Family, NodePlan, Planner, Protocol, ServiceKey,
    ServicePlan, StaleFlows, merge_stale, stale_flows,
};

use crate::backend::{Backend, Committed, Setup, SyncError};
use crate::nftables::{Pin, PinSweep};
use crate::pieces::{self, LARGE};
use crate::programmed::Programmed;
pub use asking::Position;
pub use explain::{Answer, Explained, HEAVIEST_PLANNED, Holder, Inquiry};
use lingering::Lingering;
use planning::{Fresh, LargeServices, Plans, plan_all, plan_dirty, settle_claims, take_steps};
pub use refusing::Refusing;
use refusing::{newly_limited, refusing};

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
    /// Services that are not up to date yet, large ones mostly: each has to be synced apart, with
    /// [`Reconciler::sync_piece`].
    pub unfinished: Vec<ServiceKey>,
    /// Services that ask for more than they may have, or no longer do, where that is news.
    pub limited: Vec<(ServiceKey, Excess)>,
    /// Services that refuse clients and did not before; after a full sync, all that do.
    pub refusing: Refusing,
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
    /// Nothing is known: at the start, after a failed commit, or when another process changed the rules.
    Unknown,
    Known(Box<Known>),
}

struct Known {
    plans: HashMap<ServiceKey, ServicePlan>,
    node: NodePlan,
    programmed: Programmed,
}

/// Plans of large services that are kept from one piece to the next: more would take up memory.
const MOST_UNDER_WAY: usize = 8;

struct FamilyState {
    applied: Applied,
    /// The plans from before a loss of trust: they still show which flows become stale.
    remembered: HashMap<ServiceKey, ServicePlan>,
    /// Flows that become stale with the next successful rewrite.
    pending_stale: Vec<StaleFlows>,
    claims: Claims,
    /// Services that go without affinity until a sweep is done.
    unpinned: HashSet<ServiceKey>,
    /// Those of them that have not wholly taken the first step.
    stepping: HashSet<ServiceKey>,
    /// Those that take the last of it with the sync that runs.
    stepped: Vec<ServiceKey>,
    /// Large services that are being changed piece by piece, and what each is to become; some of them.
    under_way: HashMap<ServiceKey, Option<ServicePlan>>,
    /// What large services that are being changed still have and no longer want.
    lingering: Lingering,
    /// Large services whose last change the kernel refused: they keep what they had until it is tried again.
    held: HashSet<ServiceKey>,
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
            stepping: HashSet::new(),
            stepped: Vec::new(),
            under_way: HashMap::new(),
            lingering: Lingering::default(),
            held: HashSet::new(),
        });
        Reconciler { backend, families }
    }

    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Another process changed the rules: rewrite everything at the next sync.
    pub fn distrust(&mut self, family: Family) {
        self.families[family.index()].forget();
    }

    /// What the rules depend on from now on. A family whose rules say something else is rewritten at the next sync.
    /// Returns whether there is one.
    pub fn configure(&mut self, setup: &Setup) -> bool {
        let is_due = Family::BOTH.map(|family| {
            let is_due = self.backend.configure(family, setup);
            if is_due {
                self.distrust(family);
            }
            is_due
        });
        is_due.contains(&true)
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

    /// This node as the kernel's rules have it; `None` if nothing is known.
    pub fn node(&self, family: Family) -> Option<&NodePlan> {
        match &self.families[family.index()].applied {
            Applied::Unknown => None,
            Applied::Known(known) => Some(&known.node),
        }
    }

    /// The rules of a service as the kernel has them; `None` if it has none, or if nothing is known.
    pub fn plan(&self, family: Family, service: &ServiceKey) -> Option<&ServicePlan> {
        match &self.families[family.index()].applied {
            Applied::Unknown => None,
            Applied::Known(known) => known.plans.get(service),
        }
    }

    /// What changed about addresses that several services want, since this was last asked.
    pub fn contest_news(&mut self, family: Family) -> Option<ContestNews> {
        self.families[family.index()].claims.news()
    }

    /// Whether a service is to be synced apart from the others, with [`sync_piece`](Reconciler::sync_piece).
    pub fn is_large(&self, family: Family, service: &ServiceKey, planner: &dyn Planner) -> bool {
        self.backend.works_in_pieces()
            && (planner.weight(service) > LARGE
                || match &self.families[family.index()].applied {
                    Applied::Unknown => false,
                    Applied::Known(known) => known.is_large(service),
                })
    }

    /// Whether other programs write the rules, so that what a sync costs is not what this process computes.
    pub fn runs_programs(&self) -> bool {
        !self.backend.works_in_pieces()
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
            Applied::Unknown => rewrite(&mut self.backend, state, family, planner.node(family), planner),
            Applied::Known(known) => {
                let large = match self.backend.works_in_pieces() {
                    true => LargeServices::Later,
                    false => LargeServices::LikeOthers,
                };
                let mut fresh = plan_dirty(state, &known, family, dirty, large, planner);
                take_steps(&self.backend, state, &known, &mut fresh.plans);
                state.lingering.note(&fresh, &state.claims);
                update(&mut self.backend, state, *known, family, fresh, planner)
            }
        };
        self.settle(family, result)
    }

    /// Take a large service a step further: a piece of its change that is committed quickly. The service is named in
    /// [`Synced::unfinished`] until all is done.
    pub fn sync_piece(
        &mut self,
        family: Family,
        service: &ServiceKey,
        planner: &dyn Planner,
    ) -> Result<Synced, SyncError> {
        let state = &mut self.families[family.index()];
        let known = match std::mem::replace(&mut state.applied, Applied::Unknown) {
            Applied::Unknown => return self.sync(family, &[], planner),
            Applied::Known(known) => *known,
        };
        let planned_before = state.under_way.remove(service);
        let is_new = planned_before.is_none();
        let mut fresh = match planned_before {
            Some(wanted) => Fresh { plans: HashMap::from([(service.clone(), wanted)]), ..Fresh::default() },
            None => {
                let dirty = std::slice::from_ref(service);
                plan_dirty(state, &known, family, dirty, LargeServices::Only(service), planner)
            }
        };
        take_steps(&self.backend, state, &known, &mut fresh.plans);
        let wanted = fresh.plans.remove(service).flatten();
        let free = state.without_lingering(service, wanted.as_ref());
        let towards = free.as_ref().or(wanted.as_ref());
        let (in_force, together) = (known.plans.get(service), known.destinations(&fresh.plans));
        let piece = pieces::next(in_force, towards, &together, self.backend.most_turned());
        fresh.plans.insert(service.clone(), piece.plan);
        if !piece.is_last || free.is_some() {
            // Without it, it is planned again for the next piece.
            if state.under_way.len() < MOST_UNDER_WAY {
                state.under_way.insert(service.clone(), wanted);
            }
            fresh.unfinished.push(service.clone());
        }
        match is_new {
            true => state.lingering.note(&fresh, &state.claims),
            false => {
                let (old, new) = (known.plans.get(service), fresh.plans.get(service));
                state.lingering.note_piece(service, old, new.and_then(Option::as_ref));
            }
        }
        let result = update(&mut self.backend, state, known, family, fresh, planner);
        match &result {
            Ok(_) => state.held.remove(service),
            Err(_) => state.held.insert(service.clone()),
        };
        self.settle(family, result)
    }

    fn settle(
        &mut self,
        family: Family,
        result: Result<(Known, Synced), SyncError>,
    ) -> Result<Synced, SyncError> {
        let state = &mut self.families[family.index()];
        let (known, mut synced) = match result {
            Ok(result) => result,
            Err(error) => {
                state.under_way.clear();
                return Err(error);
            }
        };
        state.applied = Applied::Known(Box::new(known));
        synced.sweeps = self.backend.take_sweeps(family);
        let doors = self.backend.doors(family);
        if !doors.is_empty() {
            synced.stale.iter_mut().for_each(|flows| flows.spare(doors));
        }
        let stepped = std::mem::take(&mut state.stepped);
        if !stepped.is_empty() {
            // Perhaps no client was pinned where a pin could be wrong.
            let mut last = synced.sweeps.pop().unwrap_or_else(|| PinSweep::of_nothing(family));
            last.awaited_by = stepped;
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
        // In turn: one may wait for what another lets go of.
        let mut unfinished = VecDeque::from(std::mem::take(&mut synced.unfinished));
        let mut sweeps = std::mem::take(&mut synced.sweeps);
        loop {
            let next = if let Some(service) = unfinished.pop_front() {
                self.sync_piece(family, &service, planner)?
            } else if let Some(sweep) = sweeps.pop() {
                self.backend.sweep(&sweep)?;
                match self.swept(family, &sweep) {
                    waiting if waiting.is_empty() => continue,
                    // One that is large takes its second step in pieces too.
                    waiting => self.sync(family, &waiting, planner)?,
                }
            } else {
                return Ok(synced);
            };
            synced.committed.bytes += next.committed.bytes;
            synced.services += next.services;
            synced.stale.extend(next.stale);
            unfinished.retain(|service| !next.unfinished.contains(service));
            unfinished.extend(next.unfinished);
            sweeps.extend(next.sweeps);
        }
    }

    /// Delete pins that a sweep found. Returns how many went.
    pub fn forget_pins(&mut self, family: Family, pins: &[Pin]) -> Result<usize, SyncError> {
        self.backend.forget(family, pins)
    }

    /// The pins of a sweep are gone. Returns the services that waited for it: they have to be planned once more.
    pub fn swept(&mut self, family: Family, sweep: &PinSweep) -> Vec<ServiceKey> {
        let unpinned = &mut self.families[family.index()].unpinned;
        sweep.awaited_by.iter().filter(|service| unpinned.remove(*service)).cloned().collect()
    }
}

impl Known {
    fn is_large(&self, service: &ServiceKey) -> bool {
        self.plans.get(service).is_some_and(|plan| plan.weight() > LARGE)
    }

    /// Every destination that some services have or are to have.
    fn destinations(&self, fresh: &Plans) -> HashSet<(Protocol, Address)> {
        let plans = fresh.iter().flat_map(|(service, new)| self.plans.get(service).into_iter().chain(new));
        let ports = plans.flat_map(|plan| &plan.ports);
        ports.flat_map(|port| port.destinations.iter().map(|at| (port.protocol, at.at))).collect()
    }
}

impl FamilyState {
    /// The plan without what other large services have not let go of yet, if there is anything like that in it.
    fn without_lingering(&self, service: &ServiceKey, plan: Option<&ServicePlan>) -> Option<ServicePlan> {
        let plan = plan?;
        let waits = self.lingering.wanted(std::iter::once((service, plan)));
        if waits.is_empty() {
            return None;
        }
        let mut free = plan.clone();
        free.retain(|protocol, at| !waits.contains_key(&(protocol, at)));
        Some(free)
    }

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
    node: NodePlan,
    planner: &dyn Planner,
) -> Result<(Known, Synced), SyncError> {
    let started = Instant::now();
    // Whatever pins there are, the rewrite looks at each.
    state.unpinned.clear();
    state.stepping.clear();
    state.stepped.clear();
    state.under_way.clear();
    state.lingering.clear();
    settle_claims(state, family, planner);
    let (plans, unfinished) = plan_all(state, family, backend.works_in_pieces(), planner);
    let planned = Instant::now();
    match backend.rewrite(family, &plans, &node) {
        Ok(committed) => {
            let stale = std::mem::take(&mut state.pending_stale);
            let phases = Phases::new(started, planned, &committed);
            let mut programmed = Programmed { elements: committed.elements, ..Programmed::default() };
            plans.values().for_each(|plan| programmed.replace(None, Some(plan)));
            let limited = plans.iter().filter(|(_, plan)| !plan.excess.is_none());
            let limited = limited.map(|(service, plan)| (service.clone(), plan.excess)).collect();
            let refusing = refusing(plans.iter().map(|(service, plan)| (service, None, Some(plan))));
            let services = plans.len();
            let synced = Synced {
                full: true,
                services,
                committed,
                stale,
                unfinished,
                limited,
                refusing,
                phases,
                sweeps: Vec::new(),
            };
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

fn update<B: Backend>(
    backend: &mut B,
    state: &mut FamilyState,
    mut known: Known,
    family: Family,
    fresh: Fresh,
    planner: &dyn Planner,
) -> Result<(Known, Synced), SyncError> {
    let Fresh { plans: fresh, unfinished, started } = fresh;
    let is_whole = |service: &ServiceKey| fresh.contains_key(service) && !unfinished.contains(service);
    state.stepped = state.stepping.extract_if(is_whole).collect();
    let node = planner.node(family);
    if backend.is_rewritten_for(&known.node, &node) {
        state.remembered = known.plans;
        return rewrite(backend, state, family, node, planner);
    }
    let changes: Vec<Change<'_>> = fresh
        .iter()
        .map(|(service, new)| Change { service, old: known.plans.get(service), new: new.as_ref() })
        .filter(|change| change.old != change.new)
        .collect();
    if changes.is_empty() && node == known.node {
        let phases = Phases { plan: started.elapsed(), ..Phases::default() };
        return Ok((known, Synced { unfinished, phases, ..Synced::default() }));
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
        known.programmed.replace(change.old, change.new);
    }
    let phases = Phases::new(started, planned, &committed);
    let limited = changes.iter().filter_map(newly_limited).collect();
    let refusing = refusing(changes.iter().map(|change| (change.service, change.old, change.new)));
    let (full, services, sweeps) = (false, changes.len(), Vec::new());
    let synced = Synced { full, services, committed, stale, unfinished, limited, refusing, phases, sweeps };
    for (service, new) in fresh {
        match new {
            Some(plan) => known.plans.insert(service, plan),
            None => known.plans.remove(&service),
        };
    }
    known.node = node;
    Ok((known, synced))
}
