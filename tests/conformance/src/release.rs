//! Which release the control plane is of, and what an older one than the reference cannot be asked.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use test_support::Verdict;

/// Major and minor version.
pub type Release = (u32, u32);

/// The one that our agent is compared with.
pub const REFERENCE: Release = (1, 37);

/// Parts of the names of cases, the first release that has what they are about, and the reason.
const SINCE: &[(&str, Release, &str)] = &[
    ("ServiceCIDR", (1, 33), NO_RANGES),
    (" on servicecidrs:", (1, 33), NO_RANGES),
    ("metrics in the shape of upstream's", REFERENCE, ANOTHER_UPSTREAM),
    ("metrics have upstream's names", REFERENCE, ANOTHER_UPSTREAM),
    ("/metrics/slis has upstream's names", REFERENCE, ANOTHER_UPSTREAM),
    ("probes of a healthy and of a leaving node", REFERENCE, ANOTHER_UPSTREAM),
    ("pages have upstream's codes", REFERENCE, ANOTHER_UPSTREAM),
    ("/configz and /proxyMode say what upstream's say", REFERENCE, ANOTHER_UPSTREAM),
    ("configurations are written as upstream writes them", REFERENCE, ANOTHER_UPSTREAM),
    ("every flag of upstream is known", REFERENCE, ANOTHER_UPSTREAM),
    ("the list of what upstream has is true", REFERENCE, ANOTHER_UPSTREAM),
];
const NO_RANGES: &str = "its API has no ServiceCIDRs";
const ANOTHER_UPSTREAM: &str = "its kube-proxy is not the one that ours is compared with";

static RUNNING: OnceLock<Release> = OnceLock::new();

/// Ask a program of the control plane, once.
pub(crate) fn learn(program: &Path) -> Result<(), String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|e| format!("{}: {e}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let release = parse(&text).ok_or_else(|| format!("{} is of no release: {text}", program.display()))?;
    let _ = RUNNING.set(release);
    Ok(())
}

/// From `Kubernetes v1.37.1`.
fn parse(text: &str) -> Option<Release> {
    let mut numbers = text.trim().strip_prefix("Kubernetes v")?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Of the control plane that [`crate::Kit::find`] found.
pub fn running() -> Release {
    RUNNING.get().copied().unwrap_or(REFERENCE)
}

/// Whether unallocated service addresses can be known.
pub fn has_service_cidrs() -> bool {
    running() >= (1, 33)
}

/// Whether endpoints can have hints for nodes; an older API drops them.
pub fn has_node_hints() -> bool {
    running() >= (1, 34)
}

/// Why a case is not for the release that runs.
pub fn obstacle(case: &str) -> Option<Verdict> {
    let (_, _, why) = SINCE.iter().find(|(part, since, _)| case.contains(part) && running() < *since)?;
    Some(too_old(why))
}

/// The verdict on what the release that runs does not have.
pub fn too_old(why: &str) -> Verdict {
    let (major, minor) = running();
    Verdict::Skipped(format!("the control plane is Kubernetes {major}.{minor}: {why}"))
}

/// What is asked of upstream's kube-proxy holds for the reference alone.
pub fn is_reference() -> Result<(), Verdict> {
    if running() == REFERENCE { Ok(()) } else { Err(too_old(ANOTHER_UPSTREAM)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_what_programs_say() {
        assert_eq!(parse("Kubernetes v1.31.4\n"), Some((1, 31)));
        assert_eq!(parse("Kubernetes v1.37.0-rc.1"), Some((1, 37)));
        assert_eq!(parse("etcd Version: 3.5.13"), None);
    }

    #[test]
    fn nothing_is_too_new_for_the_reference() {
        assert!(SINCE.iter().all(|(_, since, _)| *since <= REFERENCE));
        assert!(obstacle("a new ServiceCIDR, a service in it, and its end").is_none());
    }
}
