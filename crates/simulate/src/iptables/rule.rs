//! A rule: what it asks of a packet, and what it does with one.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::Protocol;

/// Something asked of a packet, or its opposite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition<T> {
    pub(super) negated: bool,
    pub(super) value: T,
}

impl<T> Condition<T> {
    pub(super) fn holds(&self, matches: impl FnOnce(&T) -> bool) -> bool {
        matches(&self.value) != self.negated
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) source: Option<Condition<IpNet>>,
    pub(super) destination: Option<Condition<IpNet>>,
    pub(super) in_interface: Option<Condition<Interface>>,
    pub(super) out_interface: Option<Condition<Interface>>,
    pub(super) protocol: Option<Condition<Protocol>>,
    pub(super) matches: Vec<Match>,
    pub(super) target: Target,
}

impl Rule {
    /// The protocol that every packet the rule matches has.
    pub(super) fn certain_protocol(&self) -> Option<Protocol> {
        self.protocol.as_ref().filter(|protocol| !protocol.negated).map(|protocol| protocol.value)
    }

    /// The chain it leads to.
    pub(super) fn leads_to(&self) -> Option<&str> {
        match &self.target {
            Target::Jump(chain) | Target::Goto(chain) => Some(chain),
            _ => None,
        }
    }
}

/// A name, or the beginning of names, written with a `+` behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface(pub(super) String);

impl Interface {
    pub(super) fn is(&self, name: &str) -> bool {
        match self.0.strip_suffix('+') {
            Some(prefix) => name.starts_with(prefix),
            None => self.0 == name,
        }
    }
}

/// What `-m` brings in. They are asked in the order in which they stand in the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Ports {
        protocol: Protocol,
        /// The first and the last.
        destination: Option<Condition<(u16, u16)>>,
    },
    Comment(String),
    Mark(Condition<Mark>),
    Tracked {
        states: Option<Condition<States>>,
        /// Where the connection was to go before any translation.
        original: Option<Condition<IpNet>>,
    },
    Local {
        /// Whether it must be an address of the host or must not.
        source: Option<bool>,
        destination: Option<bool>,
    },
    /// How many of 2³¹ draws match.
    Random(u32),
    Recent(Recent),
    /// Counts in the accounting object of this name.
    Account(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) value: u32,
    pub(super) mask: u32,
}

/// Bits by the place in [`States::NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct States(pub(super) u8);

impl States {
    /// In the order in which they are printed.
    pub(super) const NAMES: [&str; 7] =
        ["INVALID", "NEW", "RELATED", "ESTABLISHED", "UNTRACKED", "SNAT", "DNAT"];

    pub(super) fn named(name: &str) -> Option<States> {
        let place = States::NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        Some(States(1 << place))
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        States::NAMES
            .into_iter()
            .enumerate()
            .filter(move |(place, _)| self.0 & 1 << place != 0)
            .map(|(_, name)| name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recent {
    pub(super) list: String,
    pub(super) action: RecentAction,
    pub(super) negated: bool,
    pub(super) seconds: Option<u32>,
    pub(super) reap: bool,
    /// Of the address: all bits count.
    pub(super) mask: IpAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecentAction {
    Set,
    Check,
    Update,
    Remove,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Target {
    /// The rule only counts.
    #[default]
    None,
    Accept,
    Drop,
    Return,
    Reject(Refusal),
    Dnat {
        to: IpAddr,
        port: Option<u16>,
    },
    Masquerade {
        random_fully: bool,
    },
    /// Clears the bits of the mask, then turns those of the value.
    SetMark(Mark),
    Jump(String),
    Goto(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    TcpReset,
    PortUnreachable { is_ipv6: bool },
}
