//! Every endpoint that is known of a service port, with why it is used or not.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use super::candidate::Candidate;
use super::choice::NotUsed;
use super::offers::Offers;
use super::{Pool, PortPlan};
use crate::{EndpointSlice, Family, NodeView};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainedEndpoint<'a> {
    pub ip: IpAddr,
    /// `None` if its slice has no such port.
    pub port: Option<u16>,
    /// Where it runs, if its slice says so.
    pub node: Option<&'a str>,
    pub used: Result<(), NotUsed>,
}

/// The endpoints of one family that the slices have for a port, sorted, each address and port once. `planned` is the port
/// as it was planned from the same slices, and `pool` the one of its pools that is asked about.
pub fn explain_endpoints<'a>(
    planned: &PortPlan,
    pool: Pool,
    slices: &'a [EndpointSlice<'a>],
    node: &NodeView,
    family: Family,
) -> Vec<ExplainedEndpoint<'a>> {
    let mut offers = Offers::of(slices, node, family);
    let choice = offers.usable(&planned.name, planned.protocol).map(|usable| usable.pools.choice);
    let in_pool: HashSet<(IpAddr, u16)> = planned.pool(pool).iter().map(|one| (one.ip, one.port)).collect();
    let judge = |candidate: &Candidate, port: u16| {
        let choice = choice.ok_or(NotUsed::LeftOut)?;
        match pool {
            Pool::Cluster => choice.cluster(candidate),
            Pool::Local => choice.local(candidate),
        }?;
        let is_there = in_pool.contains(&(candidate.ip, port));
        if is_there { Ok(()) } else { Err(NotUsed::LeftOut) }
    };
    let mut found: BTreeMap<(IpAddr, Option<u16>), ExplainedEndpoint<'a>> = BTreeMap::new();
    for slice in slices {
        let offered =
            slice.ports.iter().filter(|at| (&*at.name, at.protocol) == (&*planned.name, planned.protocol));
        let offered: Vec<Option<u16>> = offered.map(|at| Some(at.port)).collect();
        let offered = if offered.is_empty() { vec![None] } else { offered };
        for endpoint in &slice.endpoints {
            let candidate = Candidate::of(endpoint, node, family);
            if candidate.as_ref().is_err_and(|why| *why == NotUsed::OtherFamily) {
                continue;
            }
            for port in &offered {
                let used = match (port, &candidate) {
                    (None, _) => Err(NotUsed::NoSuchPort),
                    (Some(0), _) => Err(NotUsed::BadPort),
                    (Some(_), Err(why)) => Err(*why),
                    (Some(port), Ok(candidate)) => judge(candidate, *port),
                };
                let explained = ExplainedEndpoint { ip: endpoint.ip, port: *port, node: endpoint.node, used };
                let place = found.entry((endpoint.ip, *port)).or_insert(explained);
                // Of an endpoint in two slices the better word counts.
                if place.used.is_err() && used.is_ok() {
                    *place = explained;
                }
            }
        }
    }
    found.into_values().collect()
}
