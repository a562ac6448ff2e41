//! The settings every namespace gets, and work inside one with errors that name it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kernel::link::{Links, Route, Veth};
use kernel::netns::Namespace;
use kernel::sysctl;

use crate::SandboxError;
use crate::error::PartError;

/// Far more than the kernel needs to make a link ready.
const SETTLED: Duration = Duration::from_secs(60);

/// A namespace whose behaviour does not depend on the machine's defaults.
pub(crate) fn namespace(part: &str, forwards: bool) -> Result<Namespace, SandboxError> {
    let namespace =
        Namespace::new().map_err(|source| SandboxError::Namespace { part: part.to_owned(), source })?;
    inside(&namespace, part, |_| settle(forwards))?;
    Ok(namespace)
}

/// Work in `namespace` with a connection to its links.
pub(crate) fn inside<T: Send>(
    namespace: &Namespace,
    part: &str,
    work: impl FnOnce(&mut Links) -> Result<T, PartError> + Send,
) -> Result<T, SandboxError> {
    namespace
        .try_run(|| work(&mut Links::open()?))
        .map_err(|source| SandboxError::Namespace { part: part.to_owned(), source })?
        .map_err(|error| error.within(part))
}

fn settle(forwards: bool) -> Result<(), PartError> {
    // "default" before any link exists, so that links inherit it; "all" is joined with each link's own.
    for scope in ["all", "default"] {
        // Replies may leave by another link than the one the request came by.
        sysctl::write(&format!("net/ipv4/conf/{scope}/rp_filter"), 0)?;
        sysctl::write(&format!("net/ipv4/conf/{scope}/send_redirects"), 0)?;
        sysctl::write(&format!("net/ipv4/conf/{scope}/accept_redirects"), 0)?;
        sysctl::write(&format!("net/ipv6/conf/{scope}/accept_redirects"), 0)?;
        sysctl::write(&format!("net/ipv6/conf/{scope}/accept_dad"), 0)?;
        sysctl::write(&format!("net/ipv6/conf/{scope}/accept_ra"), 0)?;
    }
    // Every rejected connection must be seen to be rejected, however many there are in a second.
    sysctl::write("net/ipv4/icmp_ratemask", 0)?;
    sysctl::write("net/ipv6/icmp/ratelimit", 0)?;
    let forwarding = u8::from(forwards);
    sysctl::write("net/ipv4/ip_forward", forwarding)?;
    sysctl::write("net/ipv6/conf/all/forwarding", forwarding)?;
    Ok(())
}

/// An address alone, without the prefix around it.
pub(crate) fn host(address: impl Into<IpAddr>) -> IpNet {
    IpNet::from(address.into())
}

/// One end of a link between two namespaces.
pub(crate) struct End<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) part: &'a str,
    pub(crate) link: &'a str,
    pub(crate) nets: [IpNet; 2],
}

pub(crate) fn join(near: &End<'_>, far: &End<'_>) -> Result<(), SandboxError> {
    inside(near.namespace, near.part, |links| {
        // The far end takes the next free index, from 2 on; see `Veth::index`.
        let index = 100 + u32::try_from(links.links()?.len()).unwrap_or_default();
        let veth = Veth { name: near.link, index, peer_name: far.link, peer_namespace: far.namespace };
        Ok(links.create_veth(&veth)?)
    })?;
    for end in [near, far] {
        inside(end.namespace, end.part, |links| {
            links.set_up(end.link)?;
            for net in end.nets {
                links.add_address(end.link, net)?;
            }
            Ok(())
        })?;
    }
    await_ready(&[(near.namespace, near.part, near.link), (far.namespace, far.part, far.link)])
}

/// Wait until every end of a link carries packets, so that the first one is not lost.
pub(crate) fn await_ready(ends: &[(&Namespace, &str, &str)]) -> Result<(), SandboxError> {
    for (namespace, part, link) in ends {
        inside(namespace, part, |links| Ok(links.await_ready(link, SETTLED)?))?;
    }
    Ok(())
}

pub(crate) fn default_via(
    namespace: &Namespace,
    part: &str,
    (v4, v6): (Ipv4Addr, Ipv6Addr),
) -> Result<(), SandboxError> {
    inside(namespace, part, |links| {
        links.add_route(&Route::via(Ipv4Net::default().into(), v4.into()))?;
        Ok(links.add_route(&Route::via(Ipv6Net::default().into(), v6.into()))?)
    })
}
