//! The agent and its own Node object on a real control plane: waited for, changed, about to go, gone and back.
//!
//! Cases run side by side, each with a node of its own; what is programmed there is asked with packets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod addresses;
mod cluster;
mod leaving;
mod local;
mod name;
mod waiting;
mod zone;

use std::process::ExitCode;

use cluster::Cluster;
use test_support::Report;

type Run = fn(&Cluster);

const AT_ONCE: usize = 4;

/// The longest first.
const CASES: &[(&str, Run)] = &[
    ("no Node for half a minute: the kernel's addresses are used", waiting::in_vain),
    ("no Node at the start: nothing is programmed until it is there", waiting::for_node),
    ("a Node without addresses: nothing is programmed until it has some", waiting::for_addresses),
    ("a Node without pod CIDRs, told local traffic by them; and with others", waiting::for_pod_cidrs),
    ("the addresses of the Node change", addresses::changed),
    ("the zone of the Node changes", zone::changed),
    ("a Node that the autoscaler is about to delete", leaving::tainted),
    ("a Node that is being deleted", leaving::deleting),
    ("a Node that is deleted and registers again, under traffic", leaving::registered_again),
    ("a name in capitals and with blanks around it", name::as_people_write_it),
    ("local traffic by the pods' range", local::cluster_cidr),
    ("local traffic by the interface's name", local::interface_prefix),
    ("local traffic by the bridge", local::bridge),
];

fn main() -> ExitCode {
    let mut report = Report::from_args();
    let cluster = conformance_support::cases(&mut report, &[(CASES, AT_ONCE)], Cluster::start);
    drop(cluster);
    report.finish()
}
