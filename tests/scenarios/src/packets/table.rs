//! The table of flows as cases of a report: which are asked under which variant, and how.

use std::collections::HashMap;

use model::{Family, Protocol};

use super::{Calls, Ground, no_sctp};
use crate::flows::{Flow, judge::judge};
use crate::world::World;
use crate::{Case, SettingsVariant, Verdict};

/// Most cases wait for silence.
pub const AT_ONCE: usize = 24;

pub type Asked<'a> = Vec<(&'a Flow, Family)>;

/// All under the base settings, and under each other variant the flows that it changes.
pub fn asked_in(variant: SettingsVariant, flows: &[Flow]) -> Asked<'_> {
    let asked =
        flows.iter().filter(|flow| variant == SettingsVariant::ClusterCidr || flow.differs_in(variant));
    asked.flat_map(|flow| flow.families.iter().map(move |family| (flow, *family))).collect()
}

/// How many flows of a protocol and family one is asked of, if not all; see docs/testing.md.
pub const SAMPLE: &str = "POINTSMAN_FLOWS_SAMPLE";

/// The sample that the environment asks for: the first flow of each protocol and family, and every so many after it.
pub fn sampled(asked: Asked<'_>) -> Result<Asked<'_>, String> {
    let every = match std::env::var(SAMPLE) {
        Err(_) => return Ok(asked),
        Ok(text) => match text.parse::<usize>() {
            Ok(every) if every > 0 => every,
            _ => return Err(format!("{SAMPLE} is {text:?}, not a number from 1")),
        },
    };
    let mut met: HashMap<(Protocol, Family), usize> = HashMap::new();
    let mut is_due = |flow: &Flow, family: Family| {
        let before = met.entry((flow.protocol, family)).or_default();
        *before += 1;
        (*before - 1).is_multiple_of(every)
    };
    Ok(asked.into_iter().filter(|(flow, family)| is_due(flow, *family)).collect())
}

pub fn name(variant: SettingsVariant, flow: &Flow, family: Family) -> String {
    format!("{}: {}", variant.name(), flow.name(family))
}

/// A case a flow; names begin with `prefix`, and `review` has the last word on each verdict.
pub fn cases<'a>(
    prefix: &str,
    ground: &'a Ground,
    world: &'a World,
    variant: SettingsVariant,
    asked: &Asked<'a>,
    review: &'a (dyn Fn(&Flow, Verdict) -> Verdict + Sync),
) -> Vec<Case<'a>> {
    let sctp = no_sctp();
    let case = |&(flow, family): &(&'a Flow, Family)| {
        let obstacle = sctp.clone().filter(|_| flow.protocol == Protocol::Sctp);
        Case::new(format!("{prefix}{}", name(variant, flow, family)), move || match &obstacle {
            Some(why) => Verdict::Skipped(why.clone()),
            None => review(flow, ask(ground, world, flow, variant, family)),
        })
    };
    asked.iter().map(case).collect()
}

fn ask(ground: &Ground, world: &World, flow: &Flow, variant: SettingsVariant, family: Family) -> Verdict {
    match judge(flow, variant, family, &mut Calls::new(ground, world, flow, variant, family)) {
        Ok(()) => Verdict::Passed,
        Err(problem) => Verdict::Failed(problem),
    }
}
