//! Routes of the main table.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::address::{family, octets};
use super::sys;
use super::{LinkError, Links};
use crate::netlink::{Writer, attributes};

/// A unicast route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub to: IpNet,
    pub gateway: Option<IpAddr>,
    pub device: Option<String>,
    /// The gateway is reached through the device directly, whatever the other routes say.
    pub onlink: bool,
    /// The source of connections that begin here.
    pub source: Option<IpAddr>,
}

impl Route {
    /// To a prefix directly behind a device.
    pub fn direct(to: IpNet, device: &str) -> Route {
        Route { to, gateway: None, device: Some(device.to_owned()), onlink: false, source: None }
    }

    pub fn via(to: IpNet, gateway: IpAddr) -> Route {
        Route { to, gateway: Some(gateway), device: None, onlink: false, source: None }
    }

    /// Through a gateway that is on the link of `device` though no prefix of ours contains it.
    pub fn onlink(to: IpNet, gateway: IpAddr, device: &str) -> Route {
        Route { gateway: Some(gateway), onlink: true, ..Route::direct(to, device) }
    }

    pub fn from(self, source: IpAddr) -> Route {
        Route { source: Some(source), ..self }
    }

    fn scope(&self) -> u8 {
        match (self.to, self.gateway) {
            (IpNet::V4(_), None) => libc::RT_SCOPE_LINK,
            _ => libc::RT_SCOPE_UNIVERSE,
        }
    }
}

impl Links {
    pub fn add_route(&mut self, route: &Route) -> Result<(), LinkError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.change_route(libc::RTM_NEWROUTE, flags, route, || format!("adding route {route}"))
    }

    pub fn delete_route(&mut self, route: &Route) -> Result<(), LinkError> {
        self.change_route(libc::RTM_DELROUTE, 0, route, || format!("deleting route {route}"))
    }

    /// The interface through which packets leave for an address; `None` if there is no route to it.
    pub fn interface_toward(&mut self, ip: IpAddr) -> Result<Option<String>, LinkError> {
        let width = if ip.is_ipv4() { 32 } else { 128 };
        let header = [family(ip), width, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut index = None;
        let fill = |message: &mut Writer| message.attribute(libc::RTA_DST, &octets(&ip));
        let asked = self.exchange.ask(libc::RTM_GETROUTE, &header, fill, |message| {
            let parts = attributes(message.payload.get(header.len()..).unwrap_or_default());
            index = parts.into_iter().find(|part| part.kind == libc::RTA_OIF).and_then(|part| part.u32());
        });
        let none = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EINVAL];
        match asked {
            Err(refusal) if refusal.errno().is_some_and(|errno| none.contains(&errno)) => Ok(None),
            Err(refusal) => Err(LinkError::Refused { doing: format!("finding the route to {ip}"), refusal }),
            Ok(()) => {
                let links = self.links()?;
                Ok(links.into_iter().find(|link| Some(link.index) == index).map(|link| link.name))
            }
        }
    }

    fn change_route(
        &mut self,
        kind: u16,
        flags: libc::c_int,
        route: &Route,
        doing: impl Fn() -> String,
    ) -> Result<(), LinkError> {
        let device = route.device.as_deref().map(|name| self.index(name, &doing)).transpose()?;
        self.command(kind, flags, &header(route), doing, |message| {
            message.attribute(libc::RTA_DST, &octets(&route.to.network()));
            if let Some(gateway) = &route.gateway {
                message.attribute(libc::RTA_GATEWAY, &octets(gateway));
            }
            if let Some(source) = &route.source {
                message.attribute(libc::RTA_PREFSRC, &octets(source));
            }
            if let Some(index) = device {
                message.u32(libc::RTA_OIF, index);
            }
        })
    }
}

/// `struct rtmsg`.
fn header(route: &Route) -> [u8; 12] {
    let options: u32 = if route.onlink { sys::RTNH_F_ONLINK } else { 0 };
    let [a, b, c, d] = options.to_ne_bytes();
    let (table, protocol, kind) = (libc::RT_TABLE_MAIN, libc::RTPROT_STATIC, libc::RTN_UNICAST);
    [family(route.to.addr()), route.to.prefix_len(), 0, 0, table, protocol, route.scope(), kind, a, b, c, d]
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "to {}", self.to)?;
        if let Some(gateway) = self.gateway {
            write!(f, " via {gateway}")?;
        }
        if let Some(device) = &self.device {
            write!(f, " dev {device}")?;
        }
        if let Some(source) = self.source {
            write!(f, " from {source}")?;
        }
        Ok(())
    }
}
