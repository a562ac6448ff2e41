//! What an earlier kube-proxy of another mode left would go on steering traffic beside our rules. It is removed in the
//! background, once ours are in place; what cannot be removed is told.

use cluster::apiserver::Recorder;
use dataplane::{Backend, iptables};
use kernel::iptables::{Tables as _, Tools, Variant};
use model::Family;

use crate::cleanup::{self, CleanupError};
use crate::events;

/// What this agent has just written, and what therefore stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    Nftables,
    Iptables(Variant),
}

pub(crate) fn remove(own: Own, node: String, recorder: Recorder) {
    let remove = move || {
        for failure in remove_all(own) {
            tracing::error!("Rules of another mode may go on steering traffic beside ours: {failure}");
            recorder.record(events::other_rules(&node, &failure));
        }
    };
    if let Err(error) = std::thread::Builder::new().name("leftovers".into()).spawn(remove) {
        tracing::error!(%error, "Cannot look for rules of other modes: run kube-proxy --cleanup before the next start");
    }
}

fn remove_all(own: Own) -> Vec<CleanupError> {
    let mut failures = Vec::new();
    let keep = match own {
        Own::Nftables => None,
        Own::Iptables(variant) => Some(variant),
    };
    for family in Family::BOTH {
        let mut others = Variant::BOTH.into_iter().filter(|variant| Some(*variant) != keep);
        // No program is run where there is nothing to find.
        if others.any(|variant| cleanup::has_rules(variant, family)) {
            cleanup::remove_iptables(family, keep, &mut failures);
        }
    }
    if own != Own::Nftables {
        remove_tables(&mut failures);
    }
    match cleanup::remove_device() {
        Ok(true) => failures.extend(remove_rest_of_ipvs(own)),
        Ok(false) => {}
        Err(error) => failures.push(CleanupError::Device(error)),
    }
    failures
}

/// Of mode nftables.
fn remove_tables(failures: &mut Vec<CleanupError>) {
    let Some(mut tables) = cleanup::open_nftables(failures) else { return };
    for family in Family::BOTH {
        if !tables.exists(family) {
            continue;
        }
        match tables.cleanup(family) {
            Ok(()) => tracing::info!(%family, "Removed the rules of nftables mode"),
            Err(source) => failures.push(CleanupError::Nftables { family, source }),
        }
    }
}

/// The chains that mode ipvs shares with mode iptables have been written anew, and its own go here; in mode nftables
/// all have gone. What is in IPVS itself finds no packets without the addresses of the device.
fn remove_rest_of_ipvs(own: Own) -> Vec<CleanupError> {
    if let Some(left) = cleanup::ipvs_left() {
        tracing::warn!("{left}");
    }
    let mut failures = Vec::new();
    let Own::Iptables(variant) = own else { return failures };
    for family in Family::BOTH {
        let failed = |source| CleanupError::Iptables { family, source };
        let mut tools = Tools::installed(family == Family::V6).into_iter();
        let Some(mut tools) = tools.find(|tools| tools.variant() == variant) else { continue };
        let outcome = tools.save_all().and_then(|saved| match iptables::removal_of_ipvs(&saved) {
            Some(script) => tools.restore(&script),
            None => Ok(()),
        });
        failures.extend(outcome.err().map(failed));
    }
    failures
}
