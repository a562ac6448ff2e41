//! What IPVS needs of the node besides virtual servers: local routes, routing rules; and a device by which other software
//! knows the mode.
//!
//! IPVS takes only packets that are for this node. Cluster IPs are, by a local route for each ServiceCIDR (one route,
//! however many services there are; an address per service on a device costs quadratic time). External addresses are not:
//! their packets are marked by rules of the table, and routing rules lead what is marked to a table in which everything is
//! local. Other ports of such an address still reach their real owner.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kernel::IpFamily;
use kernel::link::{Action, LinkError, Links, LocalRoute, Mark, RoutingMonitor, Rule, TABLE_LOCAL, Wake};
use model::Family;

use super::DEVICE;
use crate::backend::SyncError;
use crate::drift::{Drift, TellDrift};

/// Marks our routes and rules as ours; nobody has registered it.
const PROTOCOL: u8 = 84;
/// Everything is local in it.
const TABLE: u32 = 27_504;
/// Apart from that of the kernel's own routes to addresses of the node: another kube-proxy has the addresses of services
/// there, and ours must be in place before these go.
const METRIC: u32 = 1024;
/// In front of the table of the node's own addresses, which is asked at 0 and again behind us.
const FIRST_PRIORITY: u32 = 89;
/// Has our routes. A device of IPv4 loses all its routes with its last address, and another kube-proxy had addresses on
/// [`DEVICE`], which we remove while packets flow.
const LOOPBACK: &str = "lo";
/// A burst of changes costs one look in this time.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// How packets of one family get to IPVS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayIn {
    /// Local by routes.
    pub prefixes: BTreeSet<IpNet>,
    /// Packets with it are local.
    pub local_mark: u32,
    /// What the node calls services from.
    pub source: Option<IpAddr>,
}

/// The routing around IPVS, of the kernel or simulated.
pub trait Ground {
    /// Have the device, the rules for packets with the mark, and local routes for at least the prefixes.
    fn lay(&mut self, family: Family, way: &WayIn) -> Result<(), SyncError>;

    /// Have local routes for no other prefixes, and rules for no other mark.
    fn keep_only(&mut self, family: Family, way: &WayIn) -> Result<(), SyncError>;

    /// Local routes for more prefixes.
    fn add(&mut self, prefixes: &[IpNet]) -> Result<(), SyncError>;

    fn remove(&mut self, prefixes: &[IpNet]) -> Result<(), SyncError>;

    /// Whether all that was laid is still there.
    fn is_intact(&mut self, family: Family) -> bool;

    /// Addresses on the device: another kube-proxy put them there, one for each address of a service.
    fn foreign_addresses(&mut self, family: Family) -> Result<HashSet<IpAddr>, SyncError>;

    /// Tell when another process changes it.
    fn watch(&mut self, tell: TellDrift);
}

/// The node this process runs on.
#[derive(Default)]
pub(super) struct Node {
    laid: Shared,
}

/// What is to be there, by family, for the thread that watches. What is added is there before it stands here, and what
/// is removed is gone from here first, so that our own changes never look like damage.
type Shared = Arc<Mutex<[Option<WayIn>; 2]>>;

impl Node {
    fn laid(&self) -> MutexGuard<'_, [Option<WayIn>; 2]> {
        self.laid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, prefixes: &[IpNet], are_there: bool) {
        let mut laid = self.laid();
        for net in prefixes {
            let Some(WayIn { prefixes, .. }) = &mut laid[Family::of_net(net).index()] else { continue };
            match are_there {
                true => prefixes.insert(*net),
                false => prefixes.remove(net),
            };
        }
    }
}

impl From<LinkError> for SyncError {
    fn from(error: LinkError) -> SyncError {
        SyncError::new(error)
    }
}

impl Ground for Node {
    fn lay(&mut self, family: Family, way: &WayIn) -> Result<(), SyncError> {
        let mut links = Links::open()?;
        make_device(&mut links)?;
        links.add_local_routes(&[default_route(family)])?;
        for rule in rules(family, way.local_mark) {
            links.add_rule(&rule)?;
        }
        let source = usable_source(&mut links, way)?;
        let way = WayIn { source, ..way.clone() };
        add_routes(&mut links, &routes(&way.prefixes, way.source))?;
        self.laid()[family.index()] = Some(way);
        Ok(())
    }

    fn keep_only(&mut self, family: Family, way: &WayIn) -> Result<(), SyncError> {
        let mut links = Links::open()?;
        let wanted = rules(family, way.local_mark);
        let is_stale = |rule: &Rule| rule.protocol == PROTOCOL && !wanted.contains(rule);
        for rule in links.rules(ip_family(family))?.into_iter().filter(is_stale) {
            links.delete_rule(&rule)?;
        }
        let source = usable_source(&mut links, way)?;
        let wanted: HashSet<LocalRoute> = routes(&way.prefixes, source).into_iter().collect();
        let is_stale = |route: &LocalRoute| {
            is_ours(route) && Family::of_net(&route.to) == family && !wanted.contains(route)
        };
        let stale: Vec<LocalRoute> = links.local_routes(TABLE_LOCAL)?.into_iter().filter(is_stale).collect();
        Ok(links.delete_local_routes(&stale)?)
    }

    fn add(&mut self, prefixes: &[IpNet]) -> Result<(), SyncError> {
        match prefixes {
            [] => Ok(()),
            _ => {
                let source = |net: &IpNet| self.laid()[Family::of_net(net).index()].as_ref()?.source;
                let source = prefixes.first().and_then(source);
                add_routes(&mut Links::open()?, &routes(prefixes, source))?;
                self.note(prefixes, true);
                Ok(())
            }
        }
    }

    fn remove(&mut self, prefixes: &[IpNet]) -> Result<(), SyncError> {
        match prefixes {
            [] => Ok(()),
            _ => {
                self.note(prefixes, false);
                Ok(Links::open()?.delete_local_routes(&routes(prefixes, None))?)
            }
        }
    }

    fn is_intact(&mut self, family: Family) -> bool {
        let laid = self.laid()[family.index()].clone();
        laid.is_none_or(|laid| is_there(family, &laid))
    }

    fn foreign_addresses(&mut self, family: Family) -> Result<HashSet<IpAddr>, SyncError> {
        let addresses = addresses_on_device(&mut Links::open()?)?;
        Ok(addresses.into_iter().map(|net| net.addr()).filter(|ip| Family::of(*ip) == family).collect())
    }

    fn watch(&mut self, tell: TellDrift) {
        let started = RoutingMonitor::open(DEVICE).map_err(SyncError::from).and_then(|monitor| {
            let thread = std::thread::Builder::new().name("routing".into());
            let laid = self.laid.clone();
            thread.spawn(move || watch_on(monitor, &laid, &tell)).map_err(SyncError::new)?;
            Ok(())
        });
        if let Err(error) = started {
            tracing::error!(
                %error,
                "Failed to watch routes and rules for changes by other processes; the next periodic check will find changes"
            );
        }
    }
}

/// What cannot be read counts as intact; the next commit will tell.
fn is_there(family: Family, laid: &WayIn) -> bool {
    look(family, laid).unwrap_or(true)
}

fn look(family: Family, WayIn { prefixes, local_mark, source }: &WayIn) -> Result<bool, LinkError> {
    let mut links = Links::open()?;
    let device = links.links()?.into_iter().find(|link| link.name == DEVICE);
    if !device.is_some_and(|link| link.up) {
        return Ok(false);
    }
    let found: HashSet<Rule> = links.rules(ip_family(family))?.into_iter().collect();
    if !rules(family, *local_mark).iter().all(|rule| found.contains(rule)) {
        return Ok(false);
    }
    let everything: HashSet<LocalRoute> = links.local_routes(TABLE)?.into_iter().collect();
    // Whatever their source: another one is given while this looks.
    let local = links.local_routes(TABLE_LOCAL)?.into_iter();
    let local: HashSet<LocalRoute> = local.map(|route| LocalRoute { source: None, ..route }).collect();
    let is_there = routes(prefixes, None).iter().all(|route| local.contains(route));
    // A route outlives the address that is its source, and its answers would get lost then.
    let has_source = match source {
        Some(source) => links.addresses()?.iter().any(|address| address.ip() == *source),
        None => true,
    };
    Ok(everything.contains(&default_route(family)) && is_there && has_source)
}

/// Local routes come and go with every interface, so that news are only a reason to look.
fn watch_on(mut monitor: RoutingMonitor, laid: &Shared, tell: &TellDrift) {
    loop {
        match monitor.wait(LONGEST_WAIT) {
            Ok(Wake::Quiet) => continue,
            Ok(Wake::Changed | Wake::Overrun) => {}
            Err(error) => {
                tracing::error!(%error, "Lost the notifications of routes and rules; the next periodic check will find changes");
                return;
            }
        }
        for family in Family::BOTH {
            let laid = laid.lock().unwrap_or_else(PoisonError::into_inner)[family.index()].clone();
            if laid.is_some_and(|laid| !is_there(family, &laid)) {
                let why =
                    "Another process removed a route, a routing rule or the device that mode ipvs needs";
                if !tell(Drift { family: Some(family), why: why.into() }) {
                    return;
                }
            }
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

fn make_device(links: &mut Links) -> Result<(), LinkError> {
    let device = links.links()?.into_iter().find(|link| link.name == DEVICE);
    if device.is_none() {
        links.create_dummy(DEVICE)?;
    }
    links.set_up(DEVICE)
}

/// All rules, routes and the device go; virtual servers then find no packets. Returns whether there was anything.
pub(super) fn clear() -> Result<bool, LinkError> {
    let mut links = Links::open()?;
    let mut had_some = false;
    for family in [IpFamily::V4, IpFamily::V6] {
        for rule in links.rules(family)?.into_iter().filter(|rule| rule.protocol == PROTOCOL) {
            links.delete_rule(&rule)?;
            had_some = true;
        }
    }
    for table in [TABLE, TABLE_LOCAL] {
        let ours: Vec<LocalRoute> = links.local_routes(table)?.into_iter().filter(is_ours).collect();
        had_some |= !ours.is_empty();
        links.delete_local_routes(&ours)?;
    }
    if links.links()?.iter().any(|link| link.name == DEVICE) {
        links.delete(DEVICE)?;
        had_some = true;
    }
    Ok(had_some)
}

/// Prefixes that are local by our routes, and addresses on the device.
pub(super) fn local_prefixes() -> Result<Vec<IpNet>, LinkError> {
    let mut links = Links::open()?;
    let routes = links.local_routes(TABLE_LOCAL)?.into_iter().filter(is_ours).map(|route| route.to);
    let mut prefixes: Vec<IpNet> = routes.collect();
    prefixes.extend(addresses_on_device(&mut links)?.into_iter().map(|net| IpNet::from(net.addr())));
    Ok(prefixes)
}

pub(super) fn addresses_on_device(links: &mut Links) -> Result<Vec<IpNet>, LinkError> {
    let Some(device) = links.links()?.into_iter().find(|link| link.name == DEVICE) else {
        return Ok(Vec::new());
    };
    let addresses = links.addresses()?.into_iter().filter(|address| address.index == device.index);
    // The kernel gives every device an address of its own for IPv6.
    let of_services = addresses.filter(|address| address.is_global());
    Ok(of_services.map(|address| address.net).collect())
}

/// Whether the device may be there: what cannot be looked for is not taken for gone.
pub(crate) fn has_device() -> bool {
    let links = Links::open().and_then(|mut links| links.links());
    links.map_or(true, |links| links.iter().any(|link| link.name == DEVICE))
}

/// Rules of the nat table route reverse-path checks by the mark of the packet, which would find every source local: what
/// the node sends, and such a check looks like it, jumps over the rule.
fn rules(family: Family, local_mark: u32) -> [Rule; 3] {
    let rule = |priority, mark, input: Option<&str>, action| Rule {
        family: ip_family(family),
        priority,
        mark,
        input: input.map(str::to_owned),
        action,
        protocol: PROTOCOL,
    };
    let [first, second, third] = [FIRST_PRIORITY, FIRST_PRIORITY + 1, FIRST_PRIORITY + 2];
    let marked = Some(Mark { value: local_mark, mask: local_mark });
    [
        rule(third, None, None, Action::Nop),
        rule(second, marked, None, Action::Lookup(TABLE)),
        rule(first, None, Some(LOOPBACK), Action::Goto(third)),
    ]
}

fn default_route(family: Family) -> LocalRoute {
    let to = match family {
        Family::V4 => IpNet::V4(Ipv4Net::default()),
        Family::V6 => IpNet::V6(Ipv6Net::default()),
    };
    local_route(to, TABLE)
}

fn local_route(to: IpNet, table: u32) -> LocalRoute {
    let device = LOOPBACK.to_owned();
    LocalRoute { to, device, table, protocol: PROTOCOL, metric: METRIC, source: None }
}

/// The source of the node's own connections over IPv4 would be the address that is called. They could not outlive the
/// route then, as when another mode takes over. IPv6 chooses an address of the node by itself.
fn usable_source(links: &mut Links, way: &WayIn) -> Result<Option<IpAddr>, LinkError> {
    let Some(source) = way.source.filter(IpAddr::is_ipv4) else { return Ok(None) };
    // The kernel refuses it otherwise.
    let is_here = links.addresses()?.iter().any(|address| address.ip() == source);
    Ok(is_here.then_some(source))
}

fn routes<'a>(prefixes: impl IntoIterator<Item = &'a IpNet>, source: Option<IpAddr>) -> Vec<LocalRoute> {
    let route = |to: &IpNet| LocalRoute { source, ..local_route(*to, TABLE_LOCAL) };
    prefixes.into_iter().map(route).collect()
}

fn add_routes(links: &mut Links, routes: &[LocalRoute]) -> Result<(), LinkError> {
    match routes.first().is_some_and(|route| route.to.addr().is_ipv4()) {
        // There may be one whose source is the address that the node had before: never is there none.
        true => links.replace_local_routes(routes),
        false => links.add_local_routes(routes),
    }
}

fn is_ours(route: &LocalRoute) -> bool {
    route.protocol == PROTOCOL
}

fn ip_family(family: Family) -> IpFamily {
    match family {
        Family::V4 => IpFamily::V4,
        Family::V6 => IpFamily::V6,
    }
}
