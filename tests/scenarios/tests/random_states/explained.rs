//! What the agent would explain of a packet, held to what must become of it and to what the kernel holds.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use dataplane::{Inquiry, Look, Reconciler};
use model::{Client, Family, Fate, MasqueradeCause, Planner, Protocol};
use test_support::SettingsVariant;
use test_support::flows::Position;
use test_support::interpreted::StatePlanner;
use test_support::simulated::Simulated;

use crate::oracle::Answer;

/// Ask for one packet, and compare.
pub(crate) fn check<B: Simulated>(
    reconciler: &mut Reconciler<B>,
    planner: &StatePlanner<'_>,
    variant: SettingsVariant,
    (from, source, protocol, to): (Position, IpAddr, Protocol, SocketAddr),
    answer: &Answer,
) -> Result<(), String> {
    let family = Family::of(to.ip());
    let is_pod = (variant != SettingsVariant::NoDetector).then(|| variant.is_pod(from));
    let found = variant.detector().is_pod(family, Some(source), from.interface().as_deref());
    if found != is_pod {
        return Err(format!("{source} counts as a pod: {found:?}, and not {is_pod:?}"));
    }
    let client = Client { ip: Some(source), is_node: from.is_node(), is_pod };
    let inquiry = Inquiry::new(protocol, to, vec![client]);
    let explained = reconciler.explain(&inquiry, planner, &planner.node);
    let said = explained.answers.first().ok_or("no answer")?;
    let is_right = match (answer, said.fate) {
        (Answer::Rejected, Fate::Reject(_)) | (Answer::Dropped, Fate::Drop(_)) => true,
        (Answer::Untouched, Fate::NotOurs) => true,
        (Answer::Forwarded { to, masqueraded, .. }, Fate::Forward { masquerade, .. }) => {
            let wanted: BTreeSet<_> = to.iter().map(|one| SocketAddr::new(one.ip, one.port)).collect();
            let used = said.known.iter().filter(|known| known.used.is_ok());
            let used: BTreeSet<_> =
                used.filter_map(|known| Some(SocketAddr::new(known.ip, known.port?))).collect();
            let named: BTreeSet<_> = said.endpoints.iter().copied().collect();
            wanted == named
                && wanted == used
                && match B::CARRIER.is_a_process() {
                    true => masquerade == Some(MasqueradeCause::OwnConnection),
                    false => masqueraded.is_none_or(|masqueraded| masqueraded == masquerade.is_some()),
                }
        }
        _ => false,
    };
    if !is_right {
        return Err(format!("explained as {explained:#?}"));
    }
    if explained.owner.as_ref().is_some_and(|owner| !owner.is_written) {
        return Err(format!("not written after a sync: {explained:#?}"));
    }
    let look = explained.look.ok_or("nothing is known after a sync")?;
    // A fault that was meant for a sync may be left over.
    let look = look.finish().or_else(|_| {
        let again = reconciler.explain(&inquiry, planner, &planner.node).look;
        again.ok_or_else(|| "nothing is known after a sync".into()).and_then(Look::finish)
    });
    let inspection = look.map_err(|error| error.to_string())?;
    match inspection.compared > 0 && inspection.differences.is_empty() {
        true => Ok(()),
        false => Err(format!("the kernel differs: {inspection:#?}; node {:?}", planner.node(family))),
    }
}
