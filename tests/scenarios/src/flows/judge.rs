//! Comparing what was seen with the table, however it was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::Family;

use super::{Asking, Expect, Flow, Position, Source};
use crate::directory::node_addresses;
use crate::variant::SettingsVariant;

/// What became of one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    Answered {
        by: String,
        seen_as: IpAddr,
    },
    Rejected,
    Silent,
    /// It went its way with the destination it had, and nothing is there.
    Untouched,
    /// The node's own datagram was refused as it was sent. The sender cannot tell rejected from dropped.
    RefusedAtSending,
    /// Nothing that the table knows.
    Odd(String),
}

/// A way to put the question of a flow.
pub trait Asker {
    /// One connection (or datagram) from this address, on a port of its own.
    fn ask(&mut self, source: IpAddr) -> Observed;
    /// What this way shows of a packet that the proxy leaves alone.
    fn untouched(&self) -> Observed;
}

/// With three servers, one of them stays unseen in so many draws with a probability of 10⁻²¹.
const COVER: usize = 120;
const STICKY: usize = 12;
const EVENLY: usize = 600;
/// Six standard deviations of a third of [`EVENLY`] draws, and more.
const EVENLY_SLACK: usize = 75;
pub const CLIENTS: u16 = 16;

/// One of the addresses of [`Asking::ManyClients`].
pub fn client_address(number: u16, family: Family) -> IpAddr {
    let (v4, v6) = (sandbox::address::CLIENT_V4.to_bits(), sandbox::address::CLIENT_V6.to_bits());
    match family {
        Family::V4 => std::net::Ipv4Addr::from_bits(v4 + 91 + u32::from(number)).into(),
        Family::V6 => std::net::Ipv6Addr::from_bits(v6 + 91 + u128::from(number)).into(),
    }
}

/// Ask as the flow says and compare; the error tells what was wrong.
pub fn judge(
    flow: &Flow,
    variant: SettingsVariant,
    family: Family,
    asker: &mut dyn Asker,
) -> Result<(), String> {
    let source = flow.from.address(family);
    let wanted = flow.expected(variant);
    let (servers, rule) = match wanted {
        Expect::Answered(servers, rule) => (*servers, *rule),
        Expect::Rejected | Expect::Dropped | Expect::Untouched => {
            let seen = asker.ask(source);
            let right = match (wanted, &seen) {
                (Expect::Rejected, Observed::Rejected | Observed::RefusedAtSending) => true,
                (Expect::Dropped, Observed::Silent | Observed::RefusedAtSending) => true,
                (Expect::Untouched, seen) => *seen == asker.untouched(),
                _ => false,
            };
            return if right {
                Ok(())
            } else {
                Err(format!("expected {wanted:?}, saw {seen:?} ({})", flow.why))
            };
        }
    };
    let mut answers = Answers { flow, variant, servers, rule, counts: BTreeMap::new() };
    let asked = match flow.asking {
        Asking::Cover => answers.cover(asker, source),
        Asking::Sticky => answers.sticky(asker, source),
        Asking::Evenly => answers.evenly(asker, source),
        Asking::ManyClients => answers.many_clients(asker, family),
    };
    asked.map_err(|problem| format!("{problem} ({})", flow.why))
}

struct Answers<'a> {
    flow: &'a Flow,
    variant: SettingsVariant,
    servers: &'static [&'static str],
    rule: Source,
    counts: BTreeMap<String, usize>,
}

impl Answers<'_> {
    /// Ask once and check everything that holds for a single answer.
    fn one(&mut self, asker: &mut dyn Asker, source: IpAddr) -> Result<String, String> {
        let (by, seen_as) = match asker.ask(source) {
            Observed::Answered { by, seen_as } => (by, seen_as),
            other => return Err(format!("expected an answer of {:?}, saw {other:?}", self.servers)),
        };
        if !self.servers.contains(&&*by) {
            return Err(format!("expected an answer of {:?}, got one of {by}", self.servers));
        }
        let of_node = node_addresses().contains(&seen_as) || seen_as.is_loopback();
        let right = match self.flow.from {
            // Which of its addresses the node uses is the kernel's choice.
            Position::Node => of_node,
            _ if self.rule == Source::OfTheNode => of_node,
            _ if self.flow.is_masqueraded(self.variant, self.rule, &by) => of_node && seen_as != source,
            _ => seen_as == source,
        };
        if !right {
            return Err(format!("{by} saw {seen_as}; source {:?}, client {source}", self.rule));
        }
        *self.counts.entry(by.clone()).or_default() += 1;
        Ok(by)
    }

    fn cover(&mut self, asker: &mut dyn Asker, source: IpAddr) -> Result<(), String> {
        for _ in 0..COVER {
            self.one(asker, source)?;
            if self.counts.len() == self.servers.len() {
                return Ok(());
            }
        }
        Err(format!("not all of {:?} answered in {COVER} tries: {:?}", self.servers, self.counts))
    }

    fn sticky(&mut self, asker: &mut dyn Asker, source: IpAddr) -> Result<(), String> {
        for _ in 0..STICKY {
            self.one(asker, source)?;
        }
        if self.counts.len() == 1 { Ok(()) } else { Err(format!("several answered: {:?}", self.counts)) }
    }

    fn evenly(&mut self, asker: &mut dyn Asker, source: IpAddr) -> Result<(), String> {
        for _ in 0..EVENLY {
            self.one(asker, source)?;
        }
        let share = EVENLY / self.servers.len();
        let fair = |server: &&str| {
            self.counts.get(*server).is_some_and(|count| count.abs_diff(share) <= EVENLY_SLACK)
        };
        if self.servers.iter().all(fair) { Ok(()) } else { Err(format!("uneven: {:?}", self.counts)) }
    }

    fn many_clients(&mut self, asker: &mut dyn Asker, family: Family) -> Result<(), String> {
        let mut met = BTreeSet::new();
        for number in 0..CLIENTS {
            let client = client_address(number, family);
            let first = self.one(asker, client)?;
            let again = self.one(asker, client)?;
            if first != again {
                return Err(format!("{client} met {first} and then {again}"));
            }
            met.insert(first);
        }
        if met.len() > 1 { Ok(()) } else { Err(format!("all clients met {met:?}")) }
    }
}
