//! Sysctls that mode ipvs needs: set at the start, and looked at while it runs.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use kernel::sysctl::{OpenFiles, Root, SysctlError};

use crate::check_pace::{CheckPace, Looks};

/// Another process that sets them to something else repeatedly slows the looks down.
const LOOKS: Looks = Looks { usual: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// That one of them was changed again is told once in this time.
const BETWEEN_WORDS: Duration = Duration::from_secs(600);

/// Sysctls that IPVS needs, and their values.
fn sysctls(strict_arp: bool) -> Vec<(&'static str, i64)> {
    let mut wanted = vec![
        // Without it, what IPVS redirects cannot be masqueraded.
        ("/proc/sys/net/ipv4/vs/conntrack", 1),
        // A connection to a destination that is gone is refused, not left to time out.
        ("/proc/sys/net/ipv4/vs/expire_nodest_conn", 1),
        // A client leaves a destination that drains.
        ("/proc/sys/net/ipv4/vs/expire_quiescent_template", 1),
        ("/proc/sys/net/ipv4/ip_forward", 1),
    ];
    if strict_arp {
        wanted.push(("/proc/sys/net/ipv4/conf/all/arp_ignore", 1));
        wanted.push(("/proc/sys/net/ipv4/conf/all/arp_announce", 2));
    }
    wanted
}

/// What came of a look at the sysctls.
#[derive(Debug, Default)]
struct Look {
    changed: Vec<(&'static str, i64)>,
    failed: Vec<(&'static str, SysctlError)>,
}

/// Write the sysctls that are different.
fn set(files: &mut OpenFiles, strict_arp: bool) -> Look {
    let mut look = Look::default();
    for (name, value) in sysctls(strict_arp) {
        if files.read(name).is_ok_and(|found| found == value.to_string()) {
            continue;
        }
        match files.root().write(name, value) {
            Ok(()) => look.changed.push((name, value)),
            Err(error) => look.failed.push((name, error)),
        }
    }
    look
}

/// Before the mode starts. Returns those that cannot be written, and why.
pub(super) fn set_up(strict_arp: bool) -> Vec<SysctlError> {
    let look = set(&mut OpenFiles::below(Root::system()), strict_arp);
    look.changed.into_iter().for_each(tell_changed);
    look.failed.into_iter().map(|(_, error)| error).collect()
}

fn tell_changed((name, value): (&'static str, i64)) {
    tracing::info!(file = name, after = value, "Changed a node setting that mode ipvs needs");
}

/// Keeps the sysctls as they are to be, by one look a second at most. What cannot be written is told once, what another
/// process keeps changing once in a while.
#[derive(Debug)]
pub(super) struct Sysctls {
    files: OpenFiles,
    strict_arp: bool,
    /// `None` until the first look.
    pace: Option<CheckPace>,
    failing: HashSet<&'static str>,
    told: HashMap<&'static str, Instant>,
}

impl Sysctls {
    pub(super) fn new(root: Root) -> Sysctls {
        let files = OpenFiles::below(root);
        Sysctls { files, strict_arp: false, pace: None, failing: HashSet::new(), told: HashMap::new() }
    }

    /// Look, unless it is too early.
    pub(super) fn keep(&mut self, strict_arp: bool, now: Instant) {
        let is_early = self.pace.as_ref().is_some_and(|pace| !pace.wait(now).is_zero());
        if is_early && strict_arp == self.strict_arp {
            return;
        }
        self.strict_arp = strict_arp;
        let look = set(&mut self.files, strict_arp);
        let is_damaged = !look.changed.is_empty();
        self.pace.get_or_insert_with(|| CheckPace::new(LOOKS, now)).done(now, is_damaged);
        for changed in look.changed {
            let since = self.told.get(changed.0).map(|told| now.saturating_duration_since(*told));
            if since.is_none_or(|since| since >= BETWEEN_WORDS) {
                self.told.insert(changed.0, now);
                tell_changed(changed);
            }
        }
        self.failing.retain(|name| look.failed.iter().any(|(failed, _)| failed == name));
        for (name, error) in look.failed {
            if self.failing.insert(name) {
                tracing::error!(%error, "Failed to set a sysctl that mode ipvs needs; set it on the node, or run --init-only");
            }
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ipvs_sysctls.rs"]
mod tests;
