//! Local routes: prefixes whose packets the machine takes for its own, though it has no such address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::address::{family, ip, octets};
use super::request::list;
use super::{LinkError, Links};
use crate::IpFamily;
use crate::netlink::{Batch, Exchange, Message, Protocol, Writer, attributes};

/// The table of the machine's own addresses, asked before any other.
pub const TABLE_LOCAL: u32 = libc::RT_TABLE_LOCAL as u32;

/// Routes sent together; if each is refused, the refusals must fit in a socket's default buffer.
const TOGETHER: usize = 128;
/// `struct rtmsg`.
const HEADER: usize = 12;
const DOING: &str = "listing local routes";

/// A route of type `local`: `ip route add local TO dev DEVICE table TABLE proto PROTOCOL metric METRIC src SOURCE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalRoute {
    pub to: IpNet,
    pub device: String,
    pub table: u32,
    /// Who made it, by a number of `/etc/iproute2/rt_protos`: 2 is the kernel, 4 an administrator.
    pub protocol: u8,
    /// Of routes to one prefix the least is asked first, and each may be there once. The kernel's own to an address of the
    /// machine have 0; IPv6 makes 1024 of 0 for anybody else.
    pub metric: u32,
    /// What the machine calls such an address from. Without it that is over IPv4 the very address that is called.
    pub source: Option<IpAddr>,
}

impl fmt::Display for LocalRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local {} dev {} table {}", self.to, self.device, self.table)
    }
}

impl Links {
    /// Add local routes; that there is a route to the same prefix already is fine, so look at
    /// [`Links::local_routes`] if that might be somebody else's. All are tried; the first failure is told.
    pub fn add_local_routes(&mut self, routes: &[LocalRoute]) -> Result<(), LinkError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.change_local_routes(libc::RTM_NEWROUTE, flags, "adding route", &[libc::EEXIST], routes)
    }

    /// Have these local routes instead of others to the same prefixes with the same metrics.
    pub fn replace_local_routes(&mut self, routes: &[LocalRoute]) -> Result<(), LinkError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.change_local_routes(libc::RTM_NEWROUTE, flags, "replacing route", &[], routes)
    }

    /// Delete local routes, whatever their source; that one is not there is fine. All are tried; the first failure is told.
    pub fn delete_local_routes(&mut self, routes: &[LocalRoute]) -> Result<(), LinkError> {
        let absent = [libc::ESRCH, libc::ENOENT];
        self.change_local_routes(libc::RTM_DELROUTE, 0, "deleting route", &absent, routes)
    }

    /// The local routes of a table, of anyone, without those of the kernel itself to addresses of the machine.
    pub fn local_routes(&mut self, table: u32) -> Result<Vec<LocalRoute>, LinkError> {
        let names = self.links()?;
        let mut found = Vec::new();
        for family in [IpFamily::V4, IpFamily::V6] {
            // Filtered by the kernel, where it can: a node may have very many other routes.
            let mut exchange = Exchange::open(Protocol::Route).map_err(LinkError::Socket)?;
            let _unfiltered_before_4_20 = exchange.socket().filter_dumps();
            let header = header(family.number(), 0, table, 0, libc::RT_SCOPE_UNIVERSE);
            let listed = list(
                &mut exchange,
                libc::RTM_GETROUTE,
                &header,
                DOING,
                |message| message.u32(libc::RTA_TABLE, table),
                |message| {
                    read(message, |index| Some(names.iter().find(|one| one.index == index)?.name.clone()))
                },
            );
            match listed {
                // The table has never had a route.
                Err(error) if error.errno() == Some(libc::ENOENT) => {}
                listed => found.extend(listed?),
            }
        }
        found.retain(|route| route.table == table && route.protocol != libc::RTPROT_KERNEL);
        Ok(found)
    }

    fn change_local_routes(
        &mut self,
        kind: u16,
        flags: libc::c_int,
        doing: &'static str,
        fine: &[i32],
        routes: &[LocalRoute],
    ) -> Result<(), LinkError> {
        let mut failure = Ok(());
        for routes in routes.chunks(TOGETHER) {
            let mut batch = Batch::default();
            for (left, route) in (0..routes.len()).rev().zip(routes) {
                let device = self.index(&route.device, || format!("{doing} {route}"))?;
                let scope = if kind == libc::RTM_DELROUTE { libc::RT_SCOPE_NOWHERE } else { scope(route) };
                let family = family(route.to.addr());
                let header = header(family, route.to.prefix_len(), route.table, route.protocol, scope);
                self.exchange.append(&mut batch, left == 0, kind, flags, &header, |message| {
                    write(message, route, device);
                    if let Some(source) = route.source.filter(|_| kind == libc::RTM_NEWROUTE) {
                        message.attribute(libc::RTA_PREFSRC, &octets(&source));
                    }
                });
            }
            let sent = self.exchange.send(&batch, |place, refusal| {
                if !fine.iter().any(|errno| refusal.errno() == Some(*errno)) && failure.is_ok() {
                    let doing =
                        routes.get(place).map_or(doing.to_owned(), |route| format!("{doing} {route}"));
                    failure = Err(LinkError::Refused { doing, refusal });
                }
                Ok(())
            });
            sent.map_err(|refusal| LinkError::Refused { doing: doing.to_owned(), refusal })?;
        }
        failure
    }
}

fn write(message: &mut Writer, route: &LocalRoute, device: u32) {
    // Without it, it is the default route.
    if route.to.prefix_len() > 0 {
        message.attribute(libc::RTA_DST, &octets(&route.to.network()));
    }
    message.u32(libc::RTA_OIF, device);
    message.u32(libc::RTA_TABLE, route.table);
    message.u32(libc::RTA_PRIORITY, route.metric);
}

fn scope(route: &LocalRoute) -> u8 {
    if route.to.addr().is_ipv4() { libc::RT_SCOPE_HOST } else { libc::RT_SCOPE_UNIVERSE }
}

fn header(family: u8, prefix: u8, table: u32, protocol: u8, scope: u8) -> [u8; HEADER] {
    // Above 255 only the attribute says which table.
    let table = u8::try_from(table).unwrap_or(libc::RT_TABLE_UNSPEC);
    [family, prefix, 0, 0, table, protocol, scope, libc::RTN_LOCAL, 0, 0, 0, 0]
}

pub(crate) fn read(message: &Message<'_>, name: impl Fn(u32) -> Option<String>) -> Option<LocalRoute> {
    let &[family, prefix, _, _, table, protocol, _, kind, ..] = message.payload.first_chunk::<HEADER>()?;
    if message.kind != libc::RTM_NEWROUTE || kind != libc::RTN_LOCAL {
        return None;
    }
    let mut to = match IpFamily::from_number(family)? {
        IpFamily::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpFamily::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let (mut table, mut device, mut metric, mut source) = (u32::from(table), None, 0, None);
    for attribute in attributes(message.payload.get(HEADER..)?) {
        match attribute.kind {
            libc::RTA_DST => to = ip(&attribute)?,
            libc::RTA_TABLE => table = attribute.u32()?,
            libc::RTA_OIF => device = name(attribute.u32()?),
            libc::RTA_PRIORITY => metric = attribute.u32()?,
            libc::RTA_PREFSRC => source = Some(ip(&attribute)?),
            _ => {}
        }
    }
    Some(LocalRoute { to: IpNet::new(to, prefix).ok()?, device: device?, table, protocol, metric, source })
}
