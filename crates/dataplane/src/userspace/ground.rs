//! Where the forwarder listens: an address of its own in each family, local by a route.
//!
//! Nobody else listens there, no interface needs an address (a redirect to the interface's own would drop packets that
//! come by one without), and ports at other addresses stay free. Only a program that binds one of ours at every address
//! at once finds it taken.

use std::net::IpAddr;

use ipnet::IpNet;
use kernel::link::{LinkError, Links, LocalRoute, TABLE_LOCAL};
use model::Family;

use super::redirect::Doors;

/// Marks our routes as ours; nobody has registered it.
const PROTOCOL: u8 = 85;
/// What IPv6 makes of none.
const METRIC: u32 = 1024;
const LOOPBACK: &str = "lo";
/// Always the same ports, so that the rules of the last agent lead to this one as soon as it listens. Where a program
/// listens on such a port at every address, the next pair is taken.
const PORTS: [u16; 8] = [20_850, 20_852, 20_854, 20_856, 20_858, 20_860, 20_862, 20_864];

pub(super) fn address(family: Family) -> IpAddr {
    forwarder::ADDRESSES[family.index()]
}

/// Where the forwarder may listen, for each pool, the usual place first.
pub(super) fn candidates(family: Family) -> impl Iterator<Item = Doors> {
    let at = move |port| (address(family), port).into();
    PORTS.into_iter().map(move |port| [at(port), at(port + 1)])
}

fn route(family: Family) -> LocalRoute {
    let to = IpNet::from(address(family));
    LocalRoute {
        to,
        device: LOOPBACK.to_owned(),
        table: TABLE_LOCAL,
        protocol: PROTOCOL,
        metric: METRIC,
        source: None,
    }
}

pub(super) fn lay(family: Family) -> Result<(), LinkError> {
    Links::open()?.add_local_routes(&[route(family)])
}

/// What cannot be read counts as there; the next commit will tell.
pub(super) fn is_laid(family: Family) -> bool {
    let routes = Links::open().and_then(|mut links| links.local_routes(TABLE_LOCAL));
    routes.map_or(true, |routes| routes.contains(&route(family)))
}

/// Whether there is anything of ours.
pub(super) fn is_there() -> bool {
    Links::open().and_then(|mut links| ours(&mut links)).is_ok_and(|ours| !ours.is_empty())
}

/// Returns whether there was anything.
pub(super) fn clear() -> Result<bool, LinkError> {
    let mut links = Links::open()?;
    let ours = ours(&mut links)?;
    links.delete_local_routes(&ours)?;
    Ok(!ours.is_empty())
}

fn ours(links: &mut Links) -> Result<Vec<LocalRoute>, LinkError> {
    let mut routes = links.local_routes(TABLE_LOCAL)?;
    routes.retain(|route| route.protocol == PROTOCOL);
    Ok(routes)
}
