//! A pod: a namespace with one link to its node, reached by a host route.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kernel::link::{Links, Route, Veth};
use kernel::netns::Namespace;

use crate::error::PartError;
use crate::wiring::{await_ready, host, inside, namespace};
use crate::{SandboxError, address};

const POD_LINK: &str = "eth0";
/// The first pod of a range has this number in it.
const FIRST: u16 = 10;

/// On which node a pod runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Local,
    Remote,
}

#[derive(Debug)]
pub struct Pod {
    pub name: String,
    pub place: Place,
    pub namespace: Namespace,
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
    /// The node's end of its link.
    pub node_link: String,
}

impl Pod {
    /// Both addresses, IPv4 first.
    pub fn addresses(&self) -> [IpAddr; 2] {
        [self.v4.into(), self.v6.into()]
    }

    /// The address of the same family as `other`.
    pub fn address_like(&self, other: IpAddr) -> IpAddr {
        if other.is_ipv4() { self.v4.into() } else { self.v6.into() }
    }

    /// Make the `number`th pod of its place and join it to its node.
    pub(crate) fn create(
        node: &Namespace,
        place: Place,
        name: &str,
        number: u16,
    ) -> Result<Pod, SandboxError> {
        let node_link = format!("{}{name}", address::POD_LINK_PREFIX);
        let (v4, v6) =
            place.nth(number).ok_or_else(|| SandboxError::OutOfAddresses { name: name.to_owned() })?;
        let pod =
            Pod { name: name.to_owned(), place, namespace: namespace(&node_link, false)?, v4, v6, node_link };
        inside(node, place.part(), |links| pod.attach(links, number))?;
        inside(&pod.namespace, &pod.node_link, |links| pod.settle(links))?;
        await_ready(&[(node, place.part(), &pod.node_link), (&pod.namespace, &pod.node_link, POD_LINK)])?;
        Ok(pod)
    }

    /// The node's side.
    fn attach(&self, links: &mut Links, number: u16) -> Result<(), PartError> {
        let veth = Veth {
            name: &self.node_link,
            index: 200 + u32::from(number),
            peer_name: POD_LINK,
            peer_namespace: &self.namespace,
        };
        links.create_veth(&veth)?;
        links.set_up(veth.name)?;
        links.add_address(veth.name, host(address::GATEWAY_V4))?;
        links.add_address(veth.name, link_local(address::GATEWAY_V6))?;
        let (from_v4, from_v6) = self.place.node();
        links.add_route(&Route::direct(host(self.v4), veth.name).from(from_v4.into()))?;
        links.add_route(&Route::direct(host(self.v6), veth.name).from(from_v6.into()))?;
        Ok(())
    }

    /// The pod's side.
    fn settle(&self, links: &mut Links) -> Result<(), PartError> {
        links.set_up(POD_LINK)?;
        links.add_address(POD_LINK, host(self.v4))?;
        links.add_address(POD_LINK, host(self.v6))?;
        links.add_route(&Route::onlink(Ipv4Net::default().into(), address::GATEWAY_V4.into(), POD_LINK))?;
        links.add_route(&Route::onlink(Ipv6Net::default().into(), address::GATEWAY_V6.into(), POD_LINK))?;
        Ok(())
    }

    /// Take the pod's link away; its address is unreachable from then on.
    pub(crate) fn detach(&self, node: &Namespace) -> Result<(), SandboxError> {
        inside(node, self.place.part(), |links| Ok(links.delete(&self.node_link)?))
    }
}

impl Place {
    pub(crate) fn part(self) -> &'static str {
        match self {
            Place::Local => "node",
            Place::Remote => "remote",
        }
    }

    fn node(self) -> (Ipv4Addr, Ipv6Addr) {
        match self {
            Place::Local => (address::NODE_V4, address::NODE_V6),
            Place::Remote => (address::REMOTE_V4, address::REMOTE_V6),
        }
    }

    fn nth(self, number: u16) -> Option<(Ipv4Addr, Ipv6Addr)> {
        let (v4, v6) = match self {
            Place::Local => (address::LOCAL_PODS_V4, address::LOCAL_PODS_V6),
            Place::Remote => (address::REMOTE_PODS_V4, address::REMOTE_PODS_V6),
        };
        let number = number.checked_add(FIRST)?;
        let last = u8::try_from(number).ok().filter(|n| *n < 255)?;
        let v4 = Ipv4Addr::from_bits(v4.network().to_bits() | u32::from(last));
        // In decimal, so that 10.244.1.12 is fd00:244:1::12: easier to read in a trace.
        let v6 = Ipv6Addr::from_bits(v6.network().to_bits() | u128::from(decimal(last)));
        Some((v4, v6))
    }
}

/// The number whose hexadecimal digits are the decimal digits of `n`.
fn decimal(n: u8) -> u16 {
    let n = u16::from(n);
    n / 100 * 0x100 + n / 10 % 10 * 0x10 + n % 10
}

fn link_local(address: Ipv6Addr) -> IpNet {
    Ipv6Net::new_assert(address, 64).into()
}
