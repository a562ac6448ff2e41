//! Addresses and prefixes as settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;

use super::node::Node;
use super::refusal::{Refusal, each};
use super::value::{Kind, Value, mismatch};

/// The node's own address, if it is to be another than its Node object says.
impl Value for IpAddr {
    fn read_flag(&mut self, text: &str) -> Result<(), Refusal> {
        if !text.is_empty() {
            *self = text.parse().map_err(|_| format!("{text:?} is not an IP address"))?;
        }
        Ok(())
    }

    fn read_field(&mut self, node: &Node) -> Result<(), Refusal> {
        match node {
            Node::Text(text) => self.read_flag(text),
            other => Err(format!("must be an IP address, not {}", other.describe()).into()),
        }
    }

    fn show(&self) -> Node {
        Node::text(self.to_string())
    }
}

/// Where something is served: `IP:PORT`, `[IPv6]:PORT`, or a bare IP with the usual port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint<const PORT: u16> {
    Nowhere,
    At(IpAddr, Option<u16>),
}

impl<const PORT: u16> Endpoint<PORT> {
    pub const ANY: Self = Endpoint::At(IpAddr::V4(Ipv4Addr::UNSPECIFIED), Some(PORT));
    pub const ANY_V6: Self = Endpoint::At(IpAddr::V6(Ipv6Addr::UNSPECIFIED), Some(PORT));
    pub const LOOPBACK: Self = Endpoint::At(IpAddr::V4(Ipv4Addr::LOCALHOST), Some(PORT));
    pub const LOOPBACK_V6: Self = Endpoint::At(IpAddr::V6(Ipv6Addr::LOCALHOST), Some(PORT));

    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Endpoint::Nowhere => None,
            Endpoint::At(ip, port) => Some(SocketAddr::new(ip, port.unwrap_or(PORT))),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let full = SocketAddr::from_str(text).ok().filter(|address| address.port() > 0);
        let full = full.map(|address| Endpoint::At(address.ip(), Some(address.port())));
        let bare = || IpAddr::from_str(text).ok().map(|ip| Endpoint::At(ip, None));
        full.or_else(bare).ok_or_else(|| {
            format!("{text:?} is not an address such as 0.0.0.0:{PORT} or [::]:{PORT} with a port from 1")
        })
    }
}

/// An empty text leaves what there is: that is what it does for Kubernetes' own.
impl<const PORT: u16> Value for Endpoint<PORT> {
    fn read_flag(&mut self, text: &str) -> Result<(), Refusal> {
        if !text.is_empty() {
            *self = Endpoint::parse(text)?;
        }
        Ok(())
    }

    fn read_field(&mut self, node: &Node) -> Result<(), Refusal> {
        match node {
            Node::Text(text) => self.read_flag(text),
            other => {
                Err(format!("must be an address such as 0.0.0.0:{PORT}, not {}", other.describe()).into())
            }
        }
    }

    fn show(&self) -> Node {
        Node::text(self.address().map(|address| address.to_string()).unwrap_or_default())
    }
}

pub(super) fn prefix(text: &str) -> Result<IpNet, String> {
    let item = text.trim();
    item.parse().map_err(|_| format!("{item:?} is not a prefix such as 10.244.0.0/16 or fd00:10:244::/56"))
}

/// The pods' prefixes, one text with a comma.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterCidrs(pub Vec<IpNet>);

impl Value for ClusterCidrs {
    fn read_flag(&mut self, text: &str) -> Result<(), Refusal> {
        self.0 = each(0, items(text), prefix)?;
        Ok(())
    }

    fn read_field(&mut self, node: &Node) -> Result<(), Refusal> {
        match node {
            Node::Text(text) => self.read_flag(text),
            other => Err(mismatch(Kind::Text, other).into()),
        }
    }

    fn show(&self) -> Node {
        let texts: Vec<String> = self.0.iter().map(IpNet::to_string).collect();
        Node::text(texts.join(","))
    }
}

/// A list of prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes(pub Vec<IpNet>);

impl Value for Prefixes {
    fn read_flag(&mut self, text: &str) -> Result<(), Refusal> {
        self.0.extend(each(self.0.len(), items(text), prefix)?);
        Ok(())
    }

    fn read_field(&mut self, node: &Node) -> Result<(), Refusal> {
        self.0 = each(0, texts(node)?, prefix)?;
        Ok(())
    }

    fn show(&self) -> Node {
        list(self.0.iter().map(IpNet::to_string))
    }
}

/// The items of a list flag.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|_| !text.is_empty())
}

/// The items of a list field.
pub(super) fn texts(node: &Node) -> Result<Vec<&str>, Refusal> {
    let Node::List(items) = node else {
        return Err(format!("must be a list, not {}", node.describe()).into());
    };
    each(0, items, |item| match item {
        Node::Text(text) => Ok(text.as_str()),
        other => Err(mismatch(Kind::Text, other)),
    })
}

/// An empty list is written as Go writes a nil one.
pub(super) fn list(texts: impl Iterator<Item = String>) -> Node {
    let items: Vec<Node> = texts.map(Node::Text).collect();
    if items.is_empty() { Node::Null } else { Node::List(items) }
}
