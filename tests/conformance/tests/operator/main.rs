//! What an operator touches, of our agent beside upstream's kube-proxy: metrics, probes, pages, configurations, flags.
//! Both run in nftables mode on one control plane. Each difference is named in `differences.rs`, with its reason.
//!
//! Then events, and a configuration that changes, with the real apiserver.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ask;
mod configurations;
mod differences;
mod events;
mod exposition;
mod flags;
mod listing;
mod live;
mod metrics;
mod pages;
mod pair;
mod probes;
mod watched;

use std::process::ExitCode;

use conformance_support::cases;
use test_support::Report;

use pair::Pair;

type Named = (&'static str, fn(&Pair));

const BESIDE_UPSTREAM: &[Named] = &[
    ("metrics have upstream's names, types, labels and buckets", metrics::compared),
    ("/metrics/slis has upstream's names", metrics::slis),
    ("probes of a healthy and of a leaving node", probes::compared),
    ("pages have upstream's codes and content types", pages::compared),
    ("/configz and /proxyMode say what upstream's say", pages::contents),
    ("configurations are written as upstream writes them", configurations::compared),
    ("every flag of upstream is known", flags::compared),
    ("the list of what upstream has is true", listing::compared),
];

const EVENTS: &[Named] = &[
    ("events of a configuration that changes", events::configuration),
    ("an event of a metrics port in use", events::metrics_port),
    ("an event of a health check's port in use", events::health_check),
    ("another kubeconfig, and a broken one, in a running agent", live::kubeconfig),
    ("pod CIDRs that a changed configuration needs and that are not allocated", live::pod_cidrs),
];

fn main() -> ExitCode {
    let mut report = Report::from_args();
    // Taints and pages of one case are not to be seen by another.
    let _ = cases(&mut report, &[(BESIDE_UPSTREAM, 1), (EVENTS, 2)], Pair::start);
    report.finish()
}
