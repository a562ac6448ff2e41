//! Which plans a sync has to write: of all services, or of those that changed and those that they change.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use model::{Address, Change, Family, Planned, Planner, Protocol, ServiceKey, ServicePlan, stale_flows};

use super::{FamilyState, Known};
use crate::backend::Backend;
use crate::pieces::LARGE;
use crate::slots::keep_order;

/// Of all large services together, so much is written in one transaction at most; the rest comes after it, in pieces.
const MOST_AT_ONCE: usize = 2_000_000;

/// Of services that gain or lose addresses through others, so many are planned in one sync, by their weight; each counts as
/// much as a small one at least. The rest loses what it loses and is planned in its turn.
const MOST_AFFECTED: usize = 4_000;
const LEAST_WEIGHT: usize = 40;

/// Hear every service before any is planned: who owns an address is settled between all of them. The plans
/// are thrown away at once, because keeping old and new ones of all services doubles the memory.
pub(super) fn settle_claims(state: &mut FamilyState, family: Family, planner: &dyn Planner) {
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
pub(super) fn plan_all(
    state: &mut FamilyState,
    family: Family,
    in_pieces: bool,
    planner: &dyn Planner,
) -> (HashMap<ServiceKey, ServicePlan>, Vec<ServiceKey>) {
    let mut remembered = std::mem::take(&mut state.remembered);
    let (mut room, mut unfinished) = (MOST_AT_ONCE, Vec::new());
    let waiting = state.pending_stale.len();
    let mut services = planner.services();
    if in_pieces {
        // Those that fit come first, so that no large one takes the room of others.
        services.sort_by_cached_key(|service| (planner.weight(service), service.clone()));
    }
    let mut plans = HashMap::with_capacity(services.len());
    for service in services {
        let old = remembered.remove(&service);
        let planned = match state.held.contains(&service) {
            true => old.clone(),
            false => planner.plan(&service, family).filter(asks_something).map(|planned| planned.plan),
        };
        let Some(mut plan) = planned else { continue };
        plan.retain(|protocol, at| state.claims.owns(&service, protocol, at));
        let weight = plan.weight();
        if in_pieces && weight > LARGE && weight > room {
            state.pending_stale.extend(stale_flows(old.as_ref(), None));
            unfinished.push(service);
            continue;
        }
        room = room.saturating_sub(weight);
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
    unfinished.extend(state.held.iter().cloned());
    (plans, unfinished)
}

pub(super) type Plans = HashMap<ServiceKey, Option<ServicePlan>>;

/// What is to be written; `None` is a service that is gone.
pub(super) struct Fresh {
    pub(super) plans: Plans,
    /// Services of which this is not all: large ones, and those that gain what many others gain with them.
    pub(super) unfinished: Vec<ServiceKey>,
    pub(super) started: Instant,
}

impl Default for Fresh {
    fn default() -> Fresh {
        Fresh { plans: Plans::new(), unfinished: Vec::new(), started: Instant::now() }
    }
}

/// What a sync does about services that weigh much.
#[derive(Clone, Copy)]
pub(super) enum LargeServices<'a> {
    /// Write them like all others.
    LikeOthers,
    /// Leave them for later, but for what they lose to others.
    Later,
    /// The same, except that this one is changed now.
    Only(&'a ServiceKey),
}

impl LargeServices<'_> {
    fn defers(self, service: &ServiceKey) -> bool {
        match self {
            LargeServices::LikeOthers => false,
            LargeServices::Later => true,
            LargeServices::Only(one) => one != service,
        }
    }
}

/// New plans of the dirty services, and of those that gained or lost an address through them.
pub(super) fn plan_dirty(
    state: &mut FamilyState,
    known: &Known,
    family: Family,
    dirty: &[ServiceKey],
    large: LargeServices<'_>,
    planner: &dyn Planner,
) -> Fresh {
    let mut result = Fresh::default();
    let fresh = &mut result.plans;
    let mut affected: HashSet<ServiceKey> = HashSet::new();
    for service in dirty {
        let planned = planner.plan(service, family).filter(asks_something);
        let created = planned.as_ref().map_or(0, |planned| planned.created);
        let plan = planned.map(|planned| planned.plan);
        let wanted = plan.iter().flat_map(ServicePlan::wanted);
        affected.extend(state.claims.update(service, created, wanted));
        fresh.insert(service.clone(), plan);
    }
    let (mut room, mut later) = (MOST_AFFECTED, HashSet::new());
    for service in affected {
        if fresh.contains_key(&service) {
            continue;
        }
        // What it gains has time, and what it has stays.
        let keeps_all = |plan: &ServicePlan| {
            let mut has = plan.wanted();
            has.all(|(protocol, at, _)| {
                state.claims.owns(&service, protocol, at) || state.lingering.is_of(&service, protocol, at)
            })
        };
        if large.defers(&service)
            && known.is_large(&service)
            && known.plans.get(&service).is_some_and(keeps_all)
        {
            state.under_way.remove(&service);
            result.unfinished.push(service);
            continue;
        }
        let weight = planner.weight(&service).max(LEAST_WEIGHT);
        if large.defers(&service) && (known.is_large(&service) || weight > room.min(LARGE)) {
            fresh.insert(service.clone(), None);
            later.insert(service);
        } else {
            room = room.saturating_sub(weight);
            let plan = planner.plan(&service, family).map(|planned| planned.plan);
            fresh.insert(service, plan);
        }
    }
    let taken = take_over(state, fresh, large);
    for holder in taken.values() {
        // What a large one is to become is planned when its turn comes.
        let plan = || planner.plan(holder, family).map(|planned| planned.plan);
        fresh.entry(holder.clone()).or_insert_with(|| if known.is_large(holder) { None } else { plan() });
    }
    // Those that wait lose what others take at once, and all else comes in its turn, large ones in pieces.
    for (service, plan) in fresh.iter_mut().filter(|(service, _)| large.defers(service)) {
        if later.contains(service)
            || known.is_large(service)
            || plan.as_ref().is_some_and(|plan| plan.weight() > LARGE)
        {
            result.unfinished.push(service.clone());
            *plan = known.plans.get(service).cloned();
        }
    }
    // What it was on the way to may be another plan now.
    state.under_way.retain(|service, _| !fresh.contains_key(service));
    for (service, plan) in &mut *fresh {
        let Some(plan) = plan else { continue };
        let is_deferred = result.unfinished.contains(service);
        plan.retain(|protocol, at| {
            let goes_later =
                || state.lingering.is_of(service, protocol, at) && !taken.contains_key(&(protocol, at));
            state.claims.owns(service, protocol, at) || is_deferred && goes_later()
        });
        // One that is deferred has the order that it had.
        if let Some(old) = known.plans.get(service).filter(|_| !is_deferred) {
            keep_order(old, plan);
        }
    }
    result
}

/// What ordinary services take of large ones that no longer want it and have not let go of it yet. (Large ones wait for it.)
fn take_over(
    state: &FamilyState,
    fresh: &Plans,
    large: LargeServices<'_>,
) -> HashMap<(Protocol, Address), ServiceKey> {
    let takes = |service: &ServiceKey, plan: &ServicePlan| large.defers(service) && plan.weight() <= LARGE;
    let plans = fresh.iter().filter_map(|(service, plan)| Some((service, plan.as_ref()?)));
    let wanted = state.lingering.wanted(plans.filter(|(service, plan)| takes(service, plan)));
    wanted.into_iter().map(|(at, holder)| (at, holder.clone())).collect()
}

/// Where a change takes two steps, this is the first, until [`Reconciler::swept`] allows the second.
pub(super) fn take_steps<B: Backend>(backend: &B, state: &mut FamilyState, known: &Known, fresh: &mut Plans) {
    for (service, new) in fresh {
        let Some(plan) = new else {
            state.unpinned.remove(service);
            continue;
        };
        if state.unpinned.contains(service) {
            *plan = std::mem::take(plan).without_affinity();
            continue;
        }
        let change = Change { service, old: known.plans.get(service), new: Some(&*plan) };
        if let Some(first) = backend.interim(&change) {
            state.unpinned.insert(service.clone());
            state.stepping.insert(service.clone());
            *plan = first;
        }
    }
}

/// A service without an address of the family asks nothing of it, and is not kept.
fn asks_something(planned: &Planned) -> bool {
    planned.plan != ServicePlan::default()
}
