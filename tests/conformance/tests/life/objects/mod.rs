//! Services and EndpointSlices as people and controllers change them through a real API, with one agent that lives
//! through all of it. What it makes of them is asked with packets.
//!
//! Most cases run side by side: each has services and addresses of its own.

mod burst;
mod endpoints;
mod families;
mod flows;
mod identity;
mod labels;
mod nft;
mod outside;
mod policies;
mod ports;
mod ranges;
mod stage;
mod types;

use stage::Stage;
use test_support::Report;

type Run = fn(&Stage);

/// More than the machine has processors: cases mostly wait.
const AT_ONCE: usize = 4;

/// One after the other: here a change of anything else would hide that a change went unnoticed.
const ALONE: &[(&str, Run)] = &[("a new ServiceCIDR, a service in it, and its end", ranges::second_range)];

const CASES: &[(&str, Run)] = &[
    ("every type in turn", types::in_turn),
    ("headless and back, by recreation", types::headless),
    ("a port renamed in the service, then in its slices", ports::renamed),
    ("another port number", ports::renumbered),
    ("another target port", ports::retargeted),
    ("a port added and taken away", ports::added),
    ("recreated with another cluster IP", identity::moved),
    ("recreated with the same cluster IP", identity::replaced),
    ("an address that passes to another service", identity::inherited),
    ("no selector, and slices made by hand", identity::by_hand),
    ("a namespace that is deleted with all that is in it", identity::namespace),
    ("a service without its slices, and slices without their service", identity::apart),
    ("one family, two families, one family", families::upgraded),
    ("a slice that is given to another service", labels::given_away),
    ("a slice for another proxy, and back", labels::slice_of_other_proxy),
    ("a service for another proxy, and back", labels::service_of_other_proxy),
    ("session affinity on and off", policies::affinity),
    ("external traffic kept on the node, and not", policies::external),
    ("internal traffic kept on the node, and not", policies::internal),
    ("addresses of a load balancer", outside::balancer),
    ("source ranges of a load balancer", outside::source_ranges),
    ("external IPs", outside::external_ips),
    ("endpoints that terminate", endpoints::terminating),
    ("endpoints spread over slices", endpoints::spread),
    ("UDP flows to a cluster IP", flows::at_cluster_ip),
    ("UDP flows from outside", flows::from_outside),
    ("connections that no change concerns", flows::held),
    ("50 services come and go at once", burst::come_and_go),
];

pub(crate) fn run(report: &mut Report) {
    let stage = conformance_support::cases(report, &[(ALONE, 1), (CASES, AT_ONCE)], |kit| Stage::set(&kit));
    if let Ok(stage) = &stage {
        report.count("the agent had nothing to complain of", stage.complaints());
    }
}
