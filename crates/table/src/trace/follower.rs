//! Steps of packets and recorded flows put together: one sighting per connection. Pure; memory is bounded.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use kernel::conntrack::{Flow, status};
use kernel::nft::{Packet, Step};
use model::Protocol;

use super::bounded::Bounded;
use super::reasons::Reasons;
use super::{End, Entry, Matching, Sighting};
use crate::TABLE;

/// A packet of which nothing is heard for so long has not come through.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// Packets of a connection that was told are passed over for so long: longer than TCP waits between two tries.
const TOLD_FOR: Duration = Duration::from_secs(70);
const MOST_PENDING: usize = 1024;
const MOST_IDS: usize = 4096;
const MOST_TOLD: usize = 16 * 1024;

#[derive(Debug)]
struct Pending {
    since: Instant,
    entry: Entry,
    /// It was recorded as a connection that goes where it was sent to. If that is this node, a rule may still refuse it: it
    /// goes out through the loopback interface, and comes in again.
    passed: Option<End>,
}

#[derive(Debug)]
pub(super) struct Follower {
    matching: Matching,
    /// The table whose rules begin to follow packets.
    table: String,
    /// Packets whose end is not known.
    pending: Bounded<Packet, Pending>,
    /// The packet of each number, as it came in.
    ids: Bounded<u32, Packet>,
    /// When a connection was last told or heard of.
    told: Bounded<Packet, Instant>,
    crowded: u64,
}

impl Follower {
    pub(super) fn new(matching: Matching, table: &str) -> Follower {
        Follower {
            matching,
            table: table.to_owned(),
            pending: Bounded::new(MOST_PENDING),
            ids: Bounded::new(MOST_IDS),
            told: Bounded::new(MOST_TOLD),
            crowded: 0,
        }
    }

    /// Packets that were given up to make room for others.
    pub(super) fn crowded(&self) -> u64 {
        self.crowded
    }

    pub(super) fn step(&mut self, step: &Step<'_>, now: Instant, reasons: &mut Reasons) -> Option<Sighting> {
        if step.table == self.table {
            self.enter(step, now);
            return None;
        }
        let packet = *self.ids.get_mut(&step.id)?;
        let end = if step.table == TABLE {
            reasons.of(step, now)?
        } else if step.is_dropped {
            let table = format!("{} {}", family_word(step.family), step.table);
            End::DroppedElsewhere { table, chain: step.chain.to_owned() }
        } else {
            return None;
        };
        let pending = self.pending.remove(&packet)?;
        self.told.insert(packet, now);
        sighting(&packet, Some(pending.entry), end)
    }

    /// A packet is followed from here on.
    fn enter(&mut self, step: &Step<'_>, now: Instant) {
        let Some(packet) = step.packet.filter(|packet| self.is_wanted(packet)) else { return };
        if let Some(last) = self.told.get_mut(&packet)
            && now < *last + TOLD_FOR
        {
            *last = now;
            return;
        }
        self.ids.insert(step.id, packet);
        // A packet that the node sends to itself comes in again.
        if self.pending.contains(&packet) {
            return;
        }
        let entry = match step.chain {
            "output" => Entry::Node,
            _ => Entry::Interface(step.interface),
        };
        if self.pending.insert(packet, Pending { since: now, entry, passed: None }).is_some() {
            self.crowded += 1;
        }
    }

    /// A connection got through.
    pub(super) fn flow(&mut self, flow: &Flow, now: Instant) -> Option<Sighting> {
        let original = &flow.original;
        let (src, sport, dst, dport) = (original.src, original.sport, original.dst, original.dport);
        let packet = Packet { protocol: flow.protocol, src, sport, dst, dport };
        if !self.is_wanted(&packet) {
            return None;
        }
        let end = end_of(flow);
        if let (End::Passed { .. }, Some(pending)) = (&end, self.pending.get_mut(&packet)) {
            pending.passed = Some(end);
            return None;
        }
        let pending = self.pending.remove(&packet);
        self.told.insert(packet, now);
        sighting(&packet, pending.map(|pending| pending.entry), end)
    }

    /// Packets that nothing more was heard of.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Sighting> {
        let is_old = |pending: &Pending| now >= pending.since + PATIENCE;
        let mut gone = Vec::new();
        while let Some((packet, pending)) = self.pending.take_oldest_if(is_old) {
            self.told.insert(packet, now);
            let end = pending.passed.unwrap_or(End::Vanished);
            gone.extend(sighting(&packet, Some(pending.entry), end));
        }
        gone
    }

    fn is_wanted(&self, packet: &Packet) -> bool {
        let Matching { protocol, to, port, from } = self.matching;
        packet.dst == to
            && port.is_none_or(|port| packet.dport == port)
            && from.is_none_or(|from| packet.src == from)
            && protocol.is_none_or(|protocol| packet.protocol == protocol.number())
    }
}

fn sighting(packet: &Packet, entry: Option<Entry>, end: End) -> Option<Sighting> {
    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let protocol = protocols.into_iter().find(|protocol| protocol.number() == packet.protocol)?;
    let client = SocketAddr::new(packet.src, packet.sport);
    let to = SocketAddr::new(packet.dst, packet.dport);
    Some(Sighting { protocol, client, to, entry, end })
}

/// Where a recorded flow goes.
pub(super) fn end_of(flow: &Flow) -> End {
    let source = SocketAddr::new(flow.reply.dst, flow.reply.dport);
    let to = SocketAddr::new(flow.reply.src, flow.reply.sport);
    let meant: (IpAddr, u16) = (flow.original.dst, flow.original.dport);
    // IPVS rewrites the flow without noting that it did.
    match flow.status & status::DST_NAT != 0 || (to.ip(), to.port()) != meant {
        true => End::Led { to, source },
        false => End::Passed { source },
    }
}

/// As nft writes it.
fn family_word(number: u8) -> &'static str {
    match number {
        1 => "inet",
        2 => "ip",
        5 => "netdev",
        7 => "bridge",
        10 => "ip6",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::conntrack::Tuple;
    use model::Refusal;

    fn matching() -> Matching {
        let to = "10.96.0.1".parse().unwrap();
        Matching { protocol: Some(Protocol::Tcp), to, port: Some(80), from: None }
    }

    fn packet(sport: u16) -> Packet {
        let ip = |text: &str| text.parse().unwrap();
        Packet { protocol: 6, src: ip("10.1.0.9"), sport, dst: ip("10.96.0.1"), dport: 80 }
    }

    fn step<'a>(id: u32, table: &'a str, chain: &'a str) -> Step<'a> {
        Step { id, family: 2, table, chain, rule: Some(5), is_dropped: false, packet: None, interface: None }
    }

    fn entering(id: u32, sport: u16) -> Step<'static> {
        Step { packet: Some(packet(sport)), interface: Some(3), ..step(id, "t", "prerouting") }
    }

    struct Rig {
        follower: Follower,
        reasons: Reasons,
        now: Instant,
    }

    impl Rig {
        fn new(end: Option<End>) -> Rig {
            let follower = Follower::new(matching(), "t");
            Rig { follower, reasons: Reasons::known([(5, end)]), now: Instant::now() }
        }

        fn step(&mut self, step: Step<'_>) -> Option<End> {
            self.follower.step(&step, self.now, &mut self.reasons).map(|seen| seen.end)
        }

        fn flow(&mut self, sport: u16, endpoint: &str, port: u16) -> Option<Sighting> {
            let packet = packet(sport);
            let original = Tuple::new((packet.src, sport), (packet.dst, 80));
            let reply = Tuple::new((endpoint.parse().unwrap(), port), (packet.src, sport));
            self.follower.flow(&Flow::new(6, original, reply), self.now)
        }
    }

    #[test]
    fn a_connection_is_told_once_with_its_endpoint_and_entry() {
        let mut rig = Rig::new(None);
        assert_eq!(rig.step(entering(1, 1000)), None);
        let seen = rig.flow(1000, "10.2.0.1", 8080).unwrap();
        assert_eq!(seen.entry, Some(Entry::Interface(Some(3))));
        let source = "10.1.0.9:1000".parse().unwrap();
        assert_eq!(seen.end, End::Led { to: "10.2.0.1:8080".parse().unwrap(), source });
        assert_eq!(rig.step(entering(2, 1000)), None, "another packet of it");
        rig.now += PATIENCE;
        assert_eq!(rig.follower.expire(rig.now), []);
        let passed = rig.flow(1001, "10.96.0.1", 80).unwrap();
        assert_eq!(
            (passed.entry, passed.end),
            (None, End::Passed { source: "10.1.0.9:1001".parse().unwrap() })
        );
    }

    #[test]
    fn a_refused_packet_is_told_with_the_reason_of_the_rule_once() {
        let why = End::Rejected(Refusal::NoEndpoints);
        let mut rig = Rig::new(Some(why.clone()));
        rig.step(entering(1, 1000));
        assert_eq!(rig.step(step(2, TABLE, "forward-new")), None, "another packet");
        assert_eq!(rig.step(step(1, TABLE, "forward-new")), Some(why));
        let rejecting = Step { rule: Some(6), is_dropped: true, ..step(1, TABLE, "reject-it") };
        assert_eq!(rig.step(rejecting), None, "it was told");
        rig.step(entering(3, 1000));
        assert_eq!(rig.step(step(3, TABLE, "forward-new")), None, "a second try");
    }

    #[test]
    fn what_others_drop_is_told_with_their_rule() {
        let mut rig = Rig::new(None);
        rig.step(entering(1, 1000));
        let dropping = Step { is_dropped: true, family: 1, ..step(1, "policies", "forward") };
        let end = End::DroppedElsewhere { table: "inet policies".to_owned(), chain: "forward".to_owned() };
        assert_eq!(rig.step(dropping), Some(end));
        rig.step(entering(2, 1001));
        let stale = Step { is_dropped: true, ..step(2, TABLE, "affinity-stale") };
        assert_eq!(rig.step(Step { rule: Some(6), ..stale }), None, "a rule that is gone since");
        assert_eq!(rig.step(stale), Some(End::StalePin));
    }

    #[test]
    fn what_the_node_sends_to_itself_may_be_refused_behind_its_flow() {
        let why = End::Rejected(Refusal::NoEndpoints);
        let mut rig = Rig::new(Some(why.clone()));
        rig.step(entering(1, 1000));
        assert_eq!(rig.flow(1000, "10.96.0.1", 80), None);
        assert_eq!(rig.step(step(1, TABLE, "input-new")), Some(why));
        rig.step(entering(2, 1001));
        assert_eq!(rig.flow(1001, "10.96.0.1", 80), None);
        let passed = rig.follower.expire(rig.now + PATIENCE);
        assert!(matches!(passed[..], [Sighting { end: End::Passed { .. }, .. }]), "{passed:?}");
    }

    #[test]
    fn what_is_not_heard_of_again_has_vanished() {
        let mut rig = Rig::new(None);
        rig.step(Step { chain: "output", ..entering(1, 1000) });
        assert_eq!(rig.follower.expire(rig.now), []);
        let gone = rig.follower.expire(rig.now + PATIENCE);
        assert_eq!((gone.len(), &gone[0].end, gone[0].entry), (1, &End::Vanished, Some(Entry::Node)));
    }

    #[test]
    fn other_connections_are_passed_over_and_memory_is_bounded() {
        let mut rig = Rig::new(None);
        let other = Packet { dport: 81, ..packet(1) };
        rig.step(Step { packet: Some(other), ..entering(1, 1) });
        assert_eq!(rig.follower.expire(rig.now + PATIENCE), []);
        for sport in 0..30_000u32 {
            rig.step(entering(sport, sport as u16));
        }
        assert_eq!(rig.follower.crowded(), 30_000 - MOST_PENDING as u64);
        assert_eq!(rig.follower.expire(rig.now + PATIENCE).len(), MOST_PENDING);
    }
}
