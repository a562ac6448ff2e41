//! A pod of another node whose packets come and go through this node, over a link that is no pod's.
//!
//! The sandbox's own remote pods share a node with the endpoints there, so that an answer to a client whose
//! address was kept would take the short way and never be translated back. This one is behind a link of its
//! own, as if its node were at the other end of a tunnel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kernel::link::{LinkError, Links, Route, Veth};
use kernel::sysctl;
use sandbox::Namespace;

use crate::directory::TUNNEL;
use crate::{SOON, patient};

const FAR_LINK: &str = "eth0";
const GATEWAY: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1)), IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1))];

/// A namespace with these addresses, IPv4 first, behind the node's interface [`TUNNEL`].
pub(super) fn dig(node: &Namespace, addresses: [IpAddr; 2]) -> Result<Namespace, String> {
    let far = Namespace::new().map_err(|e| e.to_string())?;
    // A tentative address cannot be called from.
    far.run(|| sysctl::write("net/ipv6/conf/default/accept_dad", 0)).map_err(|e| e.to_string())?;
    within(node, |links| {
        let veth = Veth { name: TUNNEL, index: 400, peer_name: FAR_LINK, peer_namespace: &far };
        links.create_veth(&veth)?;
        links.set_up(TUNNEL)?;
        links.add_address(TUNNEL, GATEWAY[0].into())?;
        links.add_address(TUNNEL, IpNet::new(GATEWAY[1], 64).unwrap())?;
        addresses.iter().try_for_each(|ip| links.add_route(&Route::direct((*ip).into(), TUNNEL)))
    })?;
    within(&far, |links| {
        links.set_up(FAR_LINK)?;
        addresses.iter().try_for_each(|ip| links.add_address(FAR_LINK, (*ip).into()))?;
        let everywhere: [IpNet; 2] = [Ipv4Net::default().into(), Ipv6Net::default().into()];
        let mut ways = everywhere.into_iter().zip(GATEWAY);
        ways.try_for_each(|(to, gateway)| links.add_route(&Route::onlink(to, gateway, FAR_LINK)))?;
        links.await_ready(FAR_LINK, patient(SOON))
    })?;
    within(node, |links| links.await_ready(TUNNEL, patient(SOON)))?;
    Ok(far)
}

fn within(
    namespace: &Namespace,
    work: impl FnOnce(&mut Links) -> Result<(), LinkError> + Send,
) -> Result<(), String> {
    namespace.run(|| work(&mut Links::open()?)).map_err(|e| format!("the tunnel: {e}"))
}
