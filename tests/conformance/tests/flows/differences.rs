//! Where upstream's kube-proxy 1.37.1 does otherwise than the table says. Each entry is a decision of ours, or an
//! open question; none is a reason to let our agent off.

use test_support::Verdict;
use test_support::flows::{Flow, Target};
use test_support::world::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Always,
    /// It depends on the order in which upstream walks a map, or on the detector.
    Sometimes,
}

struct Difference {
    service: &'static str,
    /// Only with its external IP.
    external: bool,
    how: How,
    why: &'static str,
}

const DIFFERENCES: [Difference; 5] = [
    Difference {
        service: "headless-label",
        external: false,
        how: How::Always,
        why: "the label service.kubernetes.io/headless hides slices from upstream, but not services",
    },
    Difference {
        service: "doubted",
        external: false,
        how: How::Sometimes,
        why: "of two slices with one endpoint upstream believes whichever it comes to last",
    },
    Difference {
        service: "veteran",
        external: true,
        how: How::Sometimes,
        why: "of two services with one external IP upstream serves whichever it comes to last",
    },
    Difference {
        service: "far-self",
        external: false,
        how: How::Sometimes,
        why: "upstream masquerades only endpoints of its own node that reach themselves",
    },
    Difference {
        service: "nowhere-self",
        external: false,
        how: How::Always,
        why: "an endpoint without a node is none of upstream's own node",
    },
];

/// A known difference is no failure; one that is gone is, so that the list stays true.
pub(crate) fn review(flow: &Flow, verdict: Verdict) -> Verdict {
    let Some(known) = known(flow) else { return verdict };
    match verdict {
        Verdict::Failed(_) => Verdict::Passed,
        Verdict::Passed if known.how == How::Always => Verdict::Failed(format!(
            "upstream agrees with the table now; strike this off the list: {}",
            known.why
        )),
        other => other,
    }
}

/// The list, for the reader of the report.
pub(crate) fn lines() -> impl Iterator<Item = String> {
    DIFFERENCES.iter().map(|known| {
        let how = if known.how == How::Always { "always" } else { "at times" };
        format!("upstream does otherwise, {how}, with {}: {}", known.service, known.why)
    })
}

fn known(flow: &Flow) -> Option<&'static Difference> {
    let (service, external) = match flow.to {
        Target::Vip(range, service, _) => (service, range == Range::External),
        Target::NodePort(service) | Target::OtherNodePort(service) | Target::LoopbackNodePort(service) => {
            (service, false)
        }
        Target::OnNode(_) | Target::Unallocated(_) => return None,
    };
    DIFFERENCES.iter().find(|known| known.service == service && (external || !known.external))
}
