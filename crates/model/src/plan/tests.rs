//! The decisions of one service, case by case.

mod addresses;
mod endpoints;
mod limits;
mod policies;
mod why;

use super::*;
use crate::fixtures::{node, slice, slice_port};
use crate::{Endpoint, SlicePort};

/// The port that endpoints offer to the default service.
fn http() -> [SlicePort; 1] {
    [slice_port("", Protocol::Tcp, 8080)]
}

fn plan_v4(service: &Service, slices: &[EndpointSlice<'_>]) -> ServicePlan {
    plan(service, slices, &node(), &Settings::default(), Family::V4)
}

/// The plan of a service with one port, and all endpoints in one slice.
fn plan_one(service: &Service, endpoints: &[Endpoint<'_>]) -> PortPlan {
    let ports = http();
    let plan = plan_v4(service, &[slice(&ports, endpoints)]);
    plan.ports.first().map(|port| PortPlan::clone(port)).expect("the service has a port")
}

/// The last bytes of the addresses in a pool: enough to tell them apart.
fn tails(pool: &[PlannedEndpoint]) -> Vec<u8> {
    pool.iter().map(|backend| tail(backend.ip)).collect()
}

fn tail(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    }
}
