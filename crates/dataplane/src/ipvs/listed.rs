//! The virtual servers in the kernel as a document, for people who look for a mistake.

use std::error::Error;

use kernel::ipvs::{Connection, Transport as _};
use serde_json::{Value, json};

use crate::mode::Listed;

/// Virtual servers, and destinations of all of them.
const MOST_SERVERS: usize = 5000;
const MOST_DESTINATIONS: usize = 20_000;

pub(super) fn servers() -> Listed {
    let mut problems = Vec::new();
    let listed = read(&mut problems).map_err(|error| problems.push(format!("virtual servers: {error}"))).ok();
    (listed, problems)
}

fn read(problems: &mut Vec<String>) -> Result<Value, Box<dyn Error>> {
    let mut connection = Connection::open()?;
    let servers = connection.services()?;
    if servers.len() > MOST_SERVERS {
        problems.push(format!("{} virtual servers; the first {MOST_SERVERS} are listed", servers.len()));
    }
    let mut room = MOST_DESTINATIONS;
    let mut listed = Vec::new();
    for one in servers.into_iter().take(MOST_SERVERS) {
        let destinations = if room > 0 { connection.destinations(one.server)? } else { Vec::new() };
        room = room.saturating_sub(destinations.len());
        listed.push(json!({
            "server": one.server.to_string(),
            "scheduler": one.settings.scheduler,
            "flags": one.settings.flags,
            "persistenceSeconds": one.settings.persistence_timeout,
            "connections": one.statistics.connections,
            "destinations": destinations.iter().map(|to| json!({
                "at": to.destination.to_string(),
                "weight": to.weight,
                "masquerading": to.masquerading,
                "active": to.active,
                "inactive": to.inactive,
                "persistent": to.persistent,
            })).collect::<Vec<_>>(),
        }));
    }
    if room == 0 {
        problems
            .push(format!("more than {MOST_DESTINATIONS} destinations; those of later servers are left out"));
    }
    Ok(listed.into())
}
