//! One virtual server, read back and compared with what was written.

use std::collections::BTreeSet;

use kernel::ipvs::{Destination, Error, Transport, VirtualServer};
use kernel::nft;
use model::{Family, IpvsSettings};

use super::carry_out::LeftOut;
use super::draining::Draining;
use super::pins;
use super::servers::{Offers, add_port, destination, protocol};
use super::steps::IN_USE;
use super::{FamilyState, Ground, Ipvs};
use crate::backend::Backend;
use crate::inspection::{Inspected, Inspection, Look};

/// Rules first: they lead to the server, or answer in its place.
pub(super) fn look<N: nft::Transport, V: Transport, G: Ground>(
    ipvs: &mut Ipvs<N, V, G>,
    family: Family,
    inspected: &Inspected<'_>,
) -> Look {
    let mut outcome = ipvs.rules.inspect(family, inspected).finish();
    if let Ok(inspection) = &mut outcome {
        let FamilyState { draining, left_out, .. } = &ipvs.families[family.index()];
        let servers = &mut ipvs.servers;
        if let Err(error) = inspect(servers, (draining, left_out), &ipvs.options, inspected, inspection) {
            return Look::Done(Err(error.into()));
        }
    }
    let pinned = inspected.client.zip(inspected.owner.filter(|owner| owner.port.affinity_seconds.is_some()));
    match (outcome, pinned) {
        (Ok(mut inspection), Some((client, _))) => {
            let server = virtual_server(inspected);
            Look::Later(Box::new(move || {
                inspection.pin = pins::find(server, client);
                Ok(inspection)
            }))
        }
        (outcome, _) => Look::Done(outcome),
    }
}

fn virtual_server(inspected: &Inspected<'_>) -> VirtualServer {
    let (address, port) = (inspected.to.ip(), inspected.to.port());
    VirtualServer { address, protocol: protocol(inspected.protocol), port }
}

fn inspect<T: Transport>(
    servers: &mut T,
    (draining, left_out): (&Draining, &LeftOut),
    options: &IpvsSettings,
    inspected: &Inspected<'_>,
    inspection: &mut Inspection,
) -> Result<(), Error> {
    let server = virtual_server(inspected);
    let mut offers = Offers::new();
    if let Some(owner) = inspected.owner {
        add_port(&mut offers, owner.port, &inspected.node.nodeport_ips);
    }
    let offer = offers.get(&server);
    let pool = offer.and_then(|offer| offer.pool);
    let found = servers.service(server)?;
    let place = || format!("virtual server {server}");
    let expected = offer.filter(|offer| offer.pool.is_some()).map(|offer| offer.settings(options));
    // One that nobody wants may still drain, and one of others is none of ours.
    if expected.is_some() {
        let words = |settings: &kernel::ipvs::Settings| {
            format!("scheduler {}, persistence {} s", settings.scheduler, settings.persistence_timeout)
        };
        let found = found.as_ref().map(|found| words(&found.settings));
        inspection.compare(place, expected.as_ref().map(words), found);
    }
    let Some(pool) = pool else { return Ok(()) };
    let found = servers.destinations(server)?;
    let in_use = found.iter().filter(|one| one.masquerading && one.weight == IN_USE);
    let in_use: BTreeSet<Destination> = in_use.map(|one| one.destination).collect();
    let wanted: BTreeSet<Destination> = pool.iter().map(destination).collect();
    let is_strange = |at: &Destination| !wanted.contains(at) && !draining.holds(server, at);
    let strange = found.iter().map(|one| one.destination).filter(is_strange);
    let strange: BTreeSet<Destination> = strange.collect();
    let there = || Some("in use".to_owned());
    for at in wanted.iter().filter(|at| !left_out.covers(at)) {
        let found = if in_use.contains(at) { there() } else { None };
        inspection.compare(|| format!("destination {at} of virtual server {server}"), there(), found);
    }
    for at in &strange {
        inspection.compare(|| format!("destination {at} of virtual server {server}"), None, there());
    }
    Ok(())
}
