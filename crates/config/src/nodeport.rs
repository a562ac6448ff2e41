//! `nodePortAddresses`: prefixes and words.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use model::NodePortAddresses;

use super::address::{items, list, prefix, texts};
use super::node::Node;
use super::refusal::{Refusal, each};
use super::value::Value;

const LOOPBACK: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePortItem {
    /// The primary addresses of the Node object.
    Primary,
    /// Loopback addresses.
    Localhost,
    All,
    Within(IpNet),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePortItems(pub Vec<NodePortItem>);

impl NodePortItems {
    fn add(&mut self, text: &str) -> Result<(), String> {
        let item = match text.trim() {
            "primary" => NodePortItem::Primary,
            "localhost" => NodePortItem::Localhost,
            "all" => NodePortItem::All,
            other => NodePortItem::Within(
                prefix(other)
                    .map_err(|problem| format!("{problem}, nor one of primary, localhost and all"))?,
            ),
        };
        let is_word = !matches!(item, NodePortItem::Within(_));
        if is_word && self.0.contains(&item) {
            return Err(format!("{text:?} is named twice"));
        }
        self.0.push(item);
        Ok(())
    }

    fn extend<'a>(mut self, texts: impl IntoIterator<Item = &'a str>) -> Result<Self, Refusal> {
        each(self.0.len(), texts, |text| self.add(text))?;
        Ok(self)
    }

    fn names(&self, wanted: NodePortItem) -> bool {
        self.0.contains(&wanted)
    }

    pub(super) fn names_loopback(&self) -> bool {
        let is_loopback = |item: &NodePortItem| match item {
            NodePortItem::Within(net) => net.addr().is_loopback(),
            item => *item == NodePortItem::Localhost,
        };
        self.0.iter().any(is_loopback)
    }

    /// What serves node ports. Loopback prefixes stay in: they keep their family from meaning all of it.
    pub(super) fn select(&self) -> NodePortAddresses {
        let nets: Vec<IpNet> = self.0.iter().flat_map(|item| item.prefixes()).collect();
        match self.names(NodePortItem::Primary) {
            _ if self.names(NodePortItem::All) => NodePortAddresses::All,
            true if nets.is_empty() => NodePortAddresses::Primary,
            true => NodePortAddresses::PrimaryAndWithin(nets),
            false => NodePortAddresses::Within(nets),
        }
    }
}

impl NodePortItem {
    fn prefixes(self) -> Vec<IpNet> {
        match self {
            NodePortItem::Localhost => LOOPBACK.to_vec(),
            NodePortItem::Within(net) => vec![net.trunc()],
            NodePortItem::Primary | NodePortItem::All => Vec::new(),
        }
    }
}

impl Value for NodePortItems {
    fn read_flag(&mut self, text: &str) -> Result<(), Refusal> {
        *self = self.clone().extend(items(text))?;
        Ok(())
    }

    fn read_field(&mut self, node: &Node) -> Result<(), Refusal> {
        *self = NodePortItems::default().extend(texts(node)?)?;
        Ok(())
    }

    fn show(&self) -> Node {
        list(self.0.iter().map(|item| match item {
            NodePortItem::Primary => "primary".to_owned(),
            NodePortItem::Localhost => "localhost".to_owned(),
            NodePortItem::All => "all".to_owned(),
            NodePortItem::Within(net) => net.to_string(),
        }))
    }

    fn words(&self) -> Vec<&'static str> {
        vec!["primary", "localhost", "all"]
    }
}
