//! iptables mode: services as chains of upstream's names, found through trees of addresses and ports.

mod cleanup;
mod dialect;
mod family;
mod frame;
mod inspect;
mod key;
mod leftovers;
mod matches;
mod mode;
mod names;
mod no_tools;
mod packet_counters;
mod pins;
mod rule;
pub(crate) mod saved;
mod script;
mod service;
mod shelf;
mod state;
mod tree;
mod watch;
mod writes;

use std::collections::HashMap;
use std::time::Duration;

use kernel::iptables::Tables;
use model::{Change, Family, NodePlan, Refusal, ServiceKey, ServicePlan};

use crate::backend::{Backend, Committed, Setup, SyncError};
use crate::check_pace::Looks;
use crate::inspection::{Inspected, Inspection, Look};
use crate::shortfall::Shortfall;
use dialect::Dialect;
use family::FamilyTables;
use packet_counters::Keeper;

pub use cleanup::{removal, removal_of_ipvs};
use frame::CANARY;
use matches::Lacks;
pub(crate) use mode::{MODE, RESTORE_FAILURES};
pub use no_tools::NoTools;

/// Which nfacct objects are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// [`INVALID_COUNTER`].
    pub invalid: bool,
    /// [`LOCALHOST_COUNTER`].
    pub localhost: bool,
    /// [`refusal_counter`], all of them.
    pub refusals: bool,
}

/// Counts packets dropped because conntrack found them invalid.
pub const INVALID_COUNTER: &str = "ct_state_invalid_dropped_pkts";
/// Counts packets to node ports by way of 127.0.0.1.
pub const LOCALHOST_COUNTER: &str = "localhost_nps_accepted_pkts";

/// Counts packets of a family that are refused for a reason.
pub fn refusal_counter(family: Family, why: Refusal) -> String {
    let family = match family {
        Family::V4 => "v4",
        Family::V6 => "v6",
    };
    format!("refused_{}_{family}", why.word())
}

/// iptables has no notifications, so the check itself has to come soon. It takes microseconds as long as
/// nothing changes there; what more it may take is `watch`'s care.
const WITHOUT_NOTIFICATIONS: Duration = Duration::from_secs(1);
/// Rules that are gone are services that do not answer: a fight over them is no reason to leave them so for long.
const LONGEST_FIGHT: Duration = Duration::from_secs(5);

/// The iptables data plane over real or simulated tables.
pub struct Iptables<T> {
    families: [FamilyTables<T>; 2],
    /// Sees to the nfacct objects that rules count in.
    counters: Option<Keeper>,
    /// The kernel does not have the family, so that its rules are not missed.
    is_absent: [bool; 2],
}

impl<T: Tables> Iptables<T> {
    /// `tables` by [`Family::index`]; a family without tools has none, which is an error once it has services.
    pub fn new(tables: [Option<T>; 2], setup: &Setup) -> Iptables<T> {
        let [v4, v6] = tables;
        let family = |family, tables: Option<T>| {
            let random_fully = tables.as_ref().is_some_and(Tables::has_random_fully);
            let Setup { detector, masquerade_mark, drop_invalid, of_mode: _ } = setup.clone();
            let counters = Counters::default();
            let lacks = Lacks::default();
            let dialect =
                Dialect { family, detector, masquerade_mark, drop_invalid, counters, random_fully, lacks };
            FamilyTables::new(tables, dialect)
        };
        let families = [family(Family::V4, v4), family(Family::V6, v6)];
        Iptables { families, counters: None, is_absent: [false; 2] }
    }

    /// Have the nfacct objects of this network namespace, where the kernel can.
    fn keeping_counters(mut self) -> Iptables<T> {
        self.counters = Some(Keeper::default());
        self
    }

    /// Write no rule with a match that only some services need before a rule with it was taken.
    pub fn trying_matches(mut self) -> Iptables<T> {
        self.families.iter_mut().for_each(|family| family.matches.are_tried = true);
        self
    }

    /// The kernel lacks these families ([`Family::index`]): there is nothing to do for them, ever.
    fn without_families(mut self, is_absent: [bool; 2]) -> Iptables<T> {
        self.is_absent = is_absent;
        self
    }

    /// The same with rules of both families that count in these nfacct objects, which are there.
    pub fn counting_in(mut self, counters: Counters) -> Iptables<T> {
        Family::BOTH.into_iter().for_each(|family| self.count_in(family, counters));
        self
    }

    /// Which nfacct objects there are from now on, for the next full sync.
    fn count_in(&mut self, family: Family, counters: Counters) {
        self.families[family.index()].dialect.counters = counters;
    }

    pub fn tables(&mut self, family: Family) -> Option<&mut T> {
        self.families[family.index()].tables.as_mut()
    }
}

impl<T: Tables> Iptables<T> {
    /// Another process may have removed the counters of rules.
    fn ensure_counters(&mut self, family: Family) {
        let Some(tables) = self.families[family.index()].tables.as_mut() else { return };
        if let Some(usable) = self.counters.as_mut().map(|counters| counters.ensure(tables)) {
            self.count_in(family, usable);
        }
    }

    /// The nf_tables variant counts the writes to both families as one: what one writes must not alarm the other.
    fn write<R>(&mut self, family: Family, write: impl FnOnce(&mut FamilyTables<T>) -> R) -> R {
        let (outcome, written) = self.families[family.index()].written(write);
        self.families[1 - family.index()].note_other(&written);
        outcome
    }
}

impl<T: Tables> Backend for Iptables<T> {
    fn rewrite(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Result<Committed, SyncError> {
        if self.is_absent[family.index()] {
            return Ok(Committed::default());
        }
        self.ensure_counters(family);
        self.write(family, |tables| tables.rewrite(plans, node))
    }

    fn apply(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        if self.is_absent[family.index()] {
            return Ok(Committed::default());
        }
        self.write(family, |tables| tables.apply(changes, node))
    }

    fn configure(&mut self, family: Family, setup: &Setup) -> bool {
        let dialect = &mut self.families[family.index()].dialect;
        let rules = |dialect: &Dialect| (dialect.if_pod(true), dialect.masquerade_mark, dialect.drop_invalid);
        let before = rules(dialect);
        dialect.detector = setup.detector.clone();
        dialect.masquerade_mark = setup.masquerade_mark;
        dialect.drop_invalid = setup.drop_invalid;
        rules(dialect) != before
    }

    fn take_shortfalls(&mut self, family: Family) -> Vec<Shortfall> {
        self.families[family.index()].matches.take_shortfalls()
    }

    fn looks(&mut self, sync_period: Duration) -> Looks {
        Looks { usual: sync_period.min(WITHOUT_NOTIFICATIONS), longest: sync_period.min(LONGEST_FIGHT) }
    }

    fn damage_found(&self) -> &'static str {
        "Another process changed our rules in iptables"
    }

    fn is_intact(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> bool {
        self.families[family.index()].is_intact(plans, node)
    }

    fn inspect(&mut self, family: Family, inspected: &Inspected<'_>) -> Look {
        let FamilyTables { tables, dialect, shelf, writes, .. } = &mut self.families[family.index()];
        // A port that is left out has no rules.
        let owner = inspected.owner.filter(|owner| dialect.lacks.has(owner.port));
        let inspected = &Inspected { owner, ..*inspected };
        match tables {
            Some(tables) => inspect::look(tables, (shelf, writes), dialect, inspected),
            None => Look::Done(Ok(Inspection::default())),
        }
    }

    fn inspect_all(
        &mut self,
        family: Family,
        (plans, wanted): (&HashMap<ServiceKey, ServicePlan>, Option<&ServiceKey>),
        node: &NodePlan,
    ) -> Option<Look> {
        let tables = &mut self.families[family.index()];
        let mut all = tables.common(node);
        all.is_whole = wanted.is_none();
        let plans = match wanted {
            Some(one) => {
                plans.get_key_value(one).map(|(one, plan)| (one.clone(), plan.clone())).into_iter().collect()
            }
            None => plans.clone(),
        };
        let dialect = tables.dialect.clone();
        let all = move || {
            all.add_services(&plans, &dialect);
            all
        };
        Some(match &mut tables.tables {
            Some(known) => inspect::look_at_all(known, (&tables.shelf, &mut tables.writes), all),
            None => Look::Done(Ok(Inspection::default())),
        })
    }

    fn cleanup(&mut self, family: Family) -> Result<(), SyncError> {
        self.families[family.index()].cleanup()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/iptables.rs"]
mod tests;
