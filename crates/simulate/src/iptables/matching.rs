//! Whether a rule matches a packet.

use std::collections::BTreeMap;

use super::recent::Lists;
use super::rule::*;
use crate::{Flow, Host, Packet};

/// One packet at one hook, with all that rules see of it, and what they remember of packets.
pub(super) struct Situation<'a> {
    pub(super) packet: &'a Packet,
    pub(super) flow: &'a Flow,
    pub(super) host: &'a Host,
    /// Empty where no interface is involved yet.
    pub(super) in_interface: &'a str,
    pub(super) out_interface: &'a str,
    pub(super) lists: &'a mut Lists,
    pub(super) accounts: &'a mut BTreeMap<String, u64>,
    pub(super) now: u64,
    pub(super) draw: &'a mut dyn FnMut(u32) -> u32,
}

/// The header is asked first, then each match in its turn: what comes behind one that fails does not draw, count or
/// remember.
pub(super) fn matches(rule: &Rule, at: &mut Situation<'_>) -> bool {
    let (packet, input, output) = (at.packet, at.in_interface, at.out_interface);
    holds(&rule.source, |net| net.contains(&packet.source))
        && holds(&rule.destination, |net| net.contains(&packet.destination))
        && holds(&rule.in_interface, |interface| interface.is(input))
        && holds(&rule.out_interface, |interface| interface.is(output))
        && holds(&rule.protocol, |protocol| *protocol == packet.protocol)
        && rule.matches.iter().all(|one| match_one(one, at))
}

fn holds<T>(condition: &Option<Condition<T>>, matches: impl FnOnce(&T) -> bool) -> bool {
    condition.as_ref().is_none_or(|condition| condition.holds(matches))
}

fn match_one(one: &Match, at: &mut Situation<'_>) -> bool {
    let packet = at.packet;
    match one {
        Match::Ports { destination, .. } => {
            holds(destination, |(first, last)| (*first..=*last).contains(&packet.destination_port))
        }
        Match::Comment(_) => true,
        Match::Mark(mark) => mark.holds(|mark| packet.mark & mark.mask == mark.value),
        Match::Tracked { states, original } => {
            let flow = at.flow;
            holds(states, |states| states.0 & states_of(flow).0 != 0)
                && holds(original, |net| net.contains(&flow.original.destination.0))
        }
        Match::Local { source, destination } => {
            source.is_none_or(|wanted| at.host.is_local(packet.source) == wanted)
                && destination.is_none_or(|wanted| at.host.is_local(packet.destination) == wanted)
        }
        Match::Random(of) => (at.draw)(1 << 31) < *of,
        Match::Recent(recent) => at.lists.matches(recent, packet.source, at.now),
        Match::Account(name) => {
            *at.accounts.entry(name.clone()).or_default() += 1;
            true
        }
    }
}

fn states_of(flow: &Flow) -> States {
    let held = [
        (if flow.is_replied() { "ESTABLISHED" } else { "NEW" }, true),
        ("SNAT", flow.is_masqueraded()),
        ("DNAT", flow.is_redirected()),
    ];
    let bits = held.iter().filter(|(_, held)| *held).filter_map(|(name, _)| States::named(name));
    States(bits.fold(0, |all, one| all | one.0))
}
