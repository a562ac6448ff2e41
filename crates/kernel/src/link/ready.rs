//! When an interface that was just set up really carries packets.
//!
//! The kernel does three things in the background: it takes note of the carrier, it checks IPv6 addresses, and it
//! joins the multicast group in which a neighbour asks for such an address. What is sent before that is lost, and
//! a neighbour question that was lost is asked again only a second later.

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::address::ip;
use super::sys::{ADDRESS_HEADER, address_header};
use super::{Address, LinkError, Links};
use crate::netlink::{Message, attributes};

impl Links {
    /// Wait until an interface carries packets for all its addresses.
    pub fn await_ready(&mut self, name: &str, timeout: Duration) -> Result<(), LinkError> {
        let index = self.index(name, || format!("waiting for {name}"))?;
        let deadline = Instant::now() + timeout;
        while !(self.is_running(index)? && self.answers_neighbours(index)?) {
            if Instant::now() >= deadline {
                return Err(LinkError::NotReady { name: name.to_owned(), waited: timeout });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn is_running(&mut self, index: u32) -> Result<bool, LinkError> {
        Ok(self.links()?.iter().any(|link| link.index == index && link.running))
    }

    /// Whether every IPv6 address of the interface can be asked for. IPv4 needs no group.
    fn answers_neighbours(&mut self, index: u32) -> Result<bool, LinkError> {
        let header = address_header(libc::AF_INET6 as u8, 0, 0, 0, 0);
        let doing = "listing multicast groups";
        let groups = self.list(libc::RTM_GETMULTICAST, &header, doing, read_group)?;
        let joined = |ip: Ipv6Addr| groups.contains(&(index, solicited_node(ip).into()));
        let ready = |address: &Address| match address.ip() {
            IpAddr::V6(ip) => address.is_duplicate() || !address.is_tentative() && joined(ip),
            IpAddr::V4(_) => true,
        };
        Ok(self.addresses()?.iter().filter(|address| address.index == index).all(ready))
    }
}

/// The group in which neighbours ask for an address (RFC 4291, 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let low = address.to_bits() & 0xff_ffff;
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low)
}

fn read_group(message: &Message<'_>) -> Option<(u32, IpAddr)> {
    let &[_, _, _, _, a, b, c, d] = message.payload.first_chunk()?;
    let group = attributes(message.payload.get(ADDRESS_HEADER..)?).find(|a| a.kind == libc::IFA_MULTICAST)?;
    Some((u32::from_ne_bytes([a, b, c, d]), ip(&group)?))
}
