//! Matches that only some services need and some kernels lack: a rule that uses a missing one is refused, and with it all
//! rules of all services. Such services get less instead.

use std::collections::HashMap;

use kernel::iptables::{Tables, ToolError};
use model::{PortPlan, Protocol, ServiceKey, ServicePlan};

use super::CANARY;
use crate::shortfall::{Shortfall, Shortfalls};

const NO_AFFINITY: &str = "Mode iptables needs the kernel's match \"recent\" (module xt_recent) for session affinity, which cannot be used on this node; clients of this service are not pinned. Load the module or use mode nftables";

const NO_SCTP: &str = "Mode iptables needs the kernel's match \"sctp\" (module xt_sctp) for SCTP, which cannot be used on this node; the SCTP ports of this service are not served. Load the module or use mode nftables";

/// What rules must not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lacks {
    pub(super) recent: bool,
    pub(super) sctp: bool,
}

impl Lacks {
    pub(super) fn has(self, port: &PortPlan) -> bool {
        !(self.sctp && needs_sctp(port))
    }
}

/// One match of one family.
struct Match {
    rule: &'static str,
    needs: fn(&PortPlan) -> bool,
    /// Whether rules may use it, once a service needed it.
    is_there: Option<bool>,
    without: Shortfalls,
}

pub(super) struct Matches {
    each: [Match; 2],
    /// Else all are taken to be there.
    pub(super) are_tried: bool,
}

impl Default for Matches {
    fn default() -> Matches {
        let one = |rule, needs, note| Match { rule, needs, is_there: None, without: Shortfalls::new(note) };
        let each = [
            one("-m recent --name KUBE-PROXY-CANARY --rcheck", needs_recent, NO_AFFINITY),
            one("-p sctp -m sctp --dport 9", needs_sctp, NO_SCTP),
        ];
        Matches { each, are_tried: false }
    }
}

impl Matches {
    /// All services are written. What was missing may be there now.
    pub(super) fn learn_all<T: Tables>(
        &mut self,
        tables: &mut T,
        plans: &HashMap<ServiceKey, ServicePlan>,
    ) -> Lacks {
        for one in &mut self.each {
            one.is_there = one.is_there.filter(|is_there| *is_there);
            one.without.retain(|service| plans.contains_key(service));
        }
        self.learn(tables, plans.iter().map(|(service, plan)| (service, Some(plan))))
    }

    /// These services change.
    pub(super) fn learn<'a, T: Tables>(
        &mut self,
        tables: &mut T,
        plans: impl Iterator<Item = (&'a ServiceKey, Option<&'a ServicePlan>)>,
    ) -> Lacks {
        let mut tried = [!self.are_tried; 2];
        for (service, plan) in plans {
            for (one, is_tried) in self.each.iter_mut().zip(&mut tried) {
                let is_needed = plan.is_some_and(|plan| plan.ports.iter().any(|port| (one.needs)(port)));
                if is_needed && one.is_there.is_none() && !std::mem::replace(is_tried, true) {
                    one.is_there = is_usable(tables, one.rule);
                }
                match is_needed && one.is_there == Some(false) {
                    true => one.without.begin(service),
                    false => one.without.end(service),
                }
            }
        }
        let [recent, sctp] = self.each.each_ref().map(|one| one.is_there == Some(false));
        Lacks { recent, sctp }
    }

    pub(super) fn take_shortfalls(&mut self) -> Vec<Shortfall> {
        self.each.iter_mut().flat_map(|one| one.without.take()).collect()
    }
}

/// Whether a rule may use it, tried in a chain that no packet comes to; `None` if it cannot be told. Once may be an accident.
fn is_usable<T: Tables>(tables: &mut T, rule: &str) -> Option<bool> {
    for _ in 0..2 {
        let tried = tables.try_rule(CANARY, Some(rule));
        let emptied = tables.try_rule(CANARY, None);
        match (tried, emptied) {
            (Ok(()), _) => return Some(true),
            (Err(ToolError::Refused { .. }), Ok(())) => {}
            _ => return None,
        }
    }
    Some(false)
}

fn needs_recent(port: &PortPlan) -> bool {
    port.affinity_seconds.is_some()
}

fn needs_sctp(port: &PortPlan) -> bool {
    port.protocol == Protocol::Sctp
}
