//! Everything that was measured, as it is written to JSON and read back.

use bench_support::gauge::{Resident, quantile};
use bench_support::machine::Machine;
use bench_support::variant::ToolVariant;
use serde::{Deserialize, Serialize};

use crate::cases::Case;
use crate::churn::Churn;
use crate::contestant::{Contestant, Mode};
use crate::traffic::MeasuredChange;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) mode: Mode,
    pub(crate) endpoints_per_service: u32,
    pub(crate) versions: Versions,
    /// Where CPU times come from.
    pub(crate) cpu_account: String,
    pub(crate) sizes: Vec<SizeResult>,
}

/// What each says of itself.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Versions {
    pub(crate) ours: String,
    pub(crate) upstream: String,
    pub(crate) apiserver: String,
    pub(crate) nft: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) iptables: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SizeResult {
    pub(crate) services: u32,
    /// Of the iptables tools, in that mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) variant: Option<ToolVariant>,
    pub(crate) ours: Measured,
    /// `None` where it would not come to an end.
    pub(crate) upstream: Option<Measured>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// With `minSyncPeriod` of 10 ms.
    pub(crate) start: Start,
    pub(crate) resident: Resident,
    /// After all changes.
    pub(crate) resident_at_end: Resident,
    /// Of one CPU, 1 is all of it.
    pub(crate) idle_cpu: f64,
    pub(crate) changes: Vec<MeasuredChange>,
    pub(crate) cpu_per_change_ms: f64,
    pub(crate) churn: Churn,
    /// With default settings, in a process of its own.
    pub(crate) default_start: Start,
    pub(crate) default_changes: Vec<MeasuredChange>,
}

/// From the start of the process until every probe was answered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) ms: f64,
    pub(crate) cpu_ms: f64,
}

impl Results {
    pub(crate) fn find(&self, case: Case) -> Option<&SizeResult> {
        self.sizes.iter().find(|size| size.case() == case)
    }
}

impl SizeResult {
    pub(crate) fn case(&self) -> Case {
        Case { services: self.services, variant: self.variant }
    }

    pub(crate) fn of(&self, who: Contestant) -> Option<&Measured> {
        match who {
            Contestant::Ours => Some(&self.ours),
            Contestant::Upstream => self.upstream.as_ref(),
        }
    }
}

impl Measured {
    pub(crate) fn resident_mb(&self) -> f64 {
        megabytes(self.resident.now_kib)
    }

    pub(crate) fn peak_mb(&self) -> f64 {
        megabytes(self.resident_at_end.peak_kib)
    }

    pub(crate) fn moved_ms(&self, share: f64) -> f64 {
        moved(&self.changes, share)
    }

    pub(crate) fn default_moved_ms(&self, share: f64) -> f64 {
        moved(&self.default_changes, share)
    }
}

fn moved(changes: &[MeasuredChange], share: f64) -> f64 {
    quantile(&changes.iter().map(|change| change.moved_ms).collect::<Vec<_>>(), share)
}

fn megabytes(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}

/// Upstream takes 400 MB and 400 ms for everything.
#[cfg(test)]
pub(crate) fn sample(mode: Mode, case: Case, ours_mb: f64, ours_ms: f64) -> Results {
    let measured = |mb: f64, ms: f64| {
        let now_kib = (mb * 1e6 / 1024.0) as u64;
        let (start, change) = (Start { ms, cpu_ms: ms }, MeasuredChange { stored_ms: 1.0, moved_ms: ms });
        Measured {
            start,
            resident: Resident { now_kib, peak_kib: now_kib },
            resident_at_end: Resident { now_kib, peak_kib: now_kib },
            idle_cpu: 0.0,
            changes: vec![change; 3],
            cpu_per_change_ms: ms,
            churn: Churn { seconds: 1.0, changes: 60, cpu: 0.1 },
            default_start: start,
            default_changes: vec![change; 3],
        }
    };
    let upstream = case.has_upstream().then(|| measured(400.0, 400.0));
    let Case { services, variant } = case;
    let size = SizeResult { services, variant, ours: measured(ours_mb, ours_ms), upstream };
    Results {
        machine: Machine::default(),
        mode,
        endpoints_per_service: 5,
        versions: Versions {
            ours: "ours".to_owned(),
            upstream: "Kubernetes v1".to_owned(),
            apiserver: String::new(),
            nft: String::new(),
            iptables: String::new(),
        },
        cpu_account: String::new(),
        sizes: vec![size],
    }
}
