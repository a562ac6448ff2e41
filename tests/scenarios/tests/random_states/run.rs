//! One random history: changes, syncs, faults, and packets after each sync.

use std::net::{IpAddr, SocketAddr};

use cluster::{ClusterState, Kind};
use dataplane::Reconciler;
use model::{Family, PlannedEndpoint, Protocol, ServiceKey};
use simulate::{Delivery, Host, Journey, Origin, Outcome, Packet};
use test_support::directory::{NODE, node_addresses, node_of, server_at};
use test_support::flows::Position;
use test_support::interpreted::{StatePlanner, node_view, protocol, rejection};
use test_support::simulated::{Rules, Simulated};
use test_support::{Carrier, Dice, SettingsVariant};

use crate::explained;
use crate::generator;
use crate::oracle::{Answer, Oracle};

const SYNCS: u32 = 8;
const PACKETS_A_SYNC: u32 = 8;
/// More than services have ports: some modes look at one at a time.
const LOOKS: u32 = 40;

pub(crate) fn seed<B: Simulated>(seed: u64, variants: &[SettingsVariant]) {
    let mut history: History<B> = History::new(seed, variants);
    for _ in 0..SYNCS {
        history.change();
        history.sync();
    }
    history.settle();
    history.compare_with_a_fresh_start();
}

struct History<B> {
    dice: Dice,
    variant: SettingsVariant,
    state: ClusterState,
    /// Of our node, as of the last sync.
    zone: Option<String>,
    reconciler: Reconciler<B>,
    /// What must become of packets, as of the last sync.
    oracles: Option<[Oracle; 2]>,
    clock: u64,
    port: u16,
}

impl<B: Simulated> History<B> {
    fn new(seed: u64, variants: &[SettingsVariant]) -> History<B> {
        let mut dice = Dice::new(seed);
        let variant = dice.pick(variants);
        let mut state = ClusterState::default();
        generator::beginning().into_iter().for_each(|change| state.change(change));
        // Enough to begin with that packets meet something.
        (0..20).for_each(|_| state.change(generator::change(&mut dice)));
        Kind::ALL.into_iter().for_each(|kind| state.mark_synced(kind));
        let zone = node_view(&state).zone;
        let reconciler = Reconciler::new(B::new(variant));
        History { dice, variant, state, zone, reconciler, oracles: None, clock: 0, port: 1024 }
    }

    fn change(&mut self) {
        for _ in 0..=self.dice.below(4) {
            self.state.change(generator::change(&mut self.dice));
        }
    }

    /// As the agent does it; now and then the kernel refuses once, or another process interferes.
    fn sync(&mut self) {
        self.clock += u64::from(self.dice.below(5_000));
        self.reconciler.backend().set_now(self.clock);
        // Whatever lives on would keep what it needs.
        self.reconciler.backend().end_connections();
        let before = self.reconciler.backend().rules();
        let fails = self.dice.chance(10);
        if fails {
            self.reconciler.backend().fail_next(&mut self.dice);
        }
        let damaged = self.dice.chance(5);
        if damaged {
            self.reconciler.backend().damage(Family::V4, &mut self.dice);
            self.reconciler.distrust(Family::V4);
        }
        self.sync_dirty();
        if fails {
            self.look();
        }
        let oracles = {
            let planner = planner(&self.state, self.variant);
            Family::BOTH.map(|family| Oracle::new(&planner, self.variant, family))
        };
        if let Some(old) = self.oracles.take().filter(|_| !fails && !damaged) {
            for mut step in self.reconciler.backend().between(before) {
                (0..PACKETS_A_SYNC).for_each(|_| self.packet_between(&mut step, [&old, &oracles]));
            }
        }
        (0..PACKETS_A_SYNC).for_each(|_| self.packet(&oracles));
        self.oracles = Some(oracles);
    }

    /// As the agent does every second. What a failure has kept goes now.
    fn look(&mut self) {
        for family in Family::BOTH {
            assert!(!self.reconciler.check(family), "{family}: what we wrote is taken for damage");
        }
    }

    fn sync_dirty(&mut self) {
        let dirty = self.state.take_dirty();
        let zone = node_view(&self.state).zone;
        let services: Vec<ServiceKey> = match std::mem::replace(&mut self.zone, zone.clone()) == zone {
            true => dirty.services.clone(),
            false => self.state.services().chain(&dirty.services).cloned().collect(),
        };
        let failed = Family::BOTH.map(|family| self.sync_family(family, &services).is_err());
        for (family, failed) in Family::BOTH.into_iter().zip(failed) {
            if failed {
                assert!(self.reconciler.is_unknown(family), "a failed commit must not be trusted");
                self.sync_family(family, &[]).unwrap();
            }
        }
    }

    fn sync_family(&mut self, family: Family, dirty: &[ServiceKey]) -> Result<(), dataplane::SyncError> {
        let planner = planner(&self.state, self.variant);
        self.reconciler.sync_and_sweep(family, dirty, &planner).map(drop)
    }

    /// While a sync is under way, a packet is served as before or as afterwards. One to a service that comes or goes may
    /// be refused meanwhile.
    fn packet_between(&mut self, rules: &mut Rules, oracles: [&[Oracle; 2]; 2]) {
        let (from, protocol, to) = generator::question(&mut self.dice);
        let family = Family::of(to.ip());
        let source = from.address(family);
        let packet = self.packet_of(from, source, protocol, to);
        let host = Host::new(node_addresses());
        let journey = rules.walk(&host, packet, &mut |below| self.dice.below(below));
        let answers =
            oracles.map(|oracles| oracles[family.index()].ask(B::CARRIER, from, source, protocol, to));
        let right =
            |answer: &Answer| check(answer, B::CARRIER, from, source, protocol, to, &journey.outcome).is_ok();
        let is_served = || {
            let endpoints = oracles.map(|oracles| oracles[family.index()].endpoints(protocol, to)).concat();
            answers.iter().any(Answer::forwards) && is_answered(from, &endpoints, &journey.outcome)
        };
        let refused = matches!(journey.outcome, Outcome::Rejected(_) | Outcome::Dropped);
        let comes_or_goes = answers.iter().filter(|answer| answer.forwards()).count() != 2
            && answers.iter().any(|answer| *answer != Answer::Untouched);
        assert!(
            answers.iter().any(right) || refused && comes_or_goes || B::MARKS_APART && is_served(),
            "{from} {source} to {protocol} {to}, {}: between {answers:#?}\n{:?}\n{:#?}",
            self.variant.name(),
            journey.outcome,
            journey.trace
        );
    }

    fn packet(&mut self, oracles: &[Oracle; 2]) {
        let (from, protocol, to) = generator::question(&mut self.dice);
        let family = Family::of(to.ip());
        let source = from.address(family);
        let oracle = &oracles[family.index()];
        let answer = oracle.ask(B::CARRIER, from, source, protocol, to);
        let explained = {
            let planner = planner(&self.state, self.variant);
            let packet = (from, source, protocol, to);
            explained::check(&mut self.reconciler, &planner, self.variant, packet, &answer)
        };
        let first = self.walk(from, source, protocol, to);
        let described = format!(
            "{from} {source} to {protocol} {to}, {}: {answer:?}\n{:#?}",
            self.variant.name(),
            first.trace
        );
        explained.unwrap_or_else(|problem| panic!("{problem}\n{described}"));
        let met = check(&answer, B::CARRIER, from, source, protocol, to, &first.outcome);
        let met = met.unwrap_or_else(|problem| panic!("{problem}\n{described}"));
        if matches!(answer, Answer::Forwarded { affine: true, .. }) {
            let second = self.walk(from, source, protocol, to);
            let again = second.delivery().map(|delivery| (delivery.to, delivery.port));
            assert_eq!(again, met, "affinity was not kept\n{described}");
        }
    }

    fn walk(&mut self, from: Position, source: IpAddr, over: Protocol, to: SocketAddr) -> Journey {
        let packet = self.packet_of(from, source, over, to);
        let host = Host::new(node_addresses());
        self.reconciler.backend().walk(&host, packet, &mut |below| self.dice.below(below))
    }

    fn packet_of(&mut self, from: Position, source: IpAddr, over: Protocol, to: SocketAddr) -> Packet {
        self.port += 1;
        Packet {
            protocol: protocol(over),
            source,
            source_port: self.port,
            destination: to.ip(),
            destination_port: to.port(),
            mark: 0,
            origin: from.interface().map_or(Origin::Host, Origin::Interface),
        }
    }

    /// What waits for connections to end goes with them, and no look finds anything wrong.
    fn settle(&mut self) {
        self.reconciler.backend().end_connections();
        (0..LOOKS).for_each(|_| self.look());
    }

    fn compare_with_a_fresh_start(&mut self) {
        let mut fresh = Reconciler::new(B::new(self.variant));
        let planner = planner(&self.state, self.variant);
        for family in Family::BOTH {
            fresh.sync_and_sweep(family, &[], &planner).unwrap();
        }
        let wanted = fresh.backend().contents();
        let held = self.reconciler.backend().contents();
        for place in wanted.keys().chain(held.keys()) {
            assert_eq!(held.get(place), wanted.get(place), "{place}: left held, right wanted");
        }
    }
}

fn planner(state: &ClusterState, variant: SettingsVariant) -> StatePlanner<'_> {
    StatePlanner {
        state,
        node: node_view(state),
        settings: variant.settings(),
        nodeport_addresses: variant.nodeport_addresses(),
    }
}

/// Compare, and tell which endpoint it met, if any.
fn check(
    answer: &Answer,
    carrier: Carrier,
    from: Position,
    source: IpAddr,
    over: Protocol,
    to: SocketAddr,
    outcome: &Outcome,
) -> Result<Option<(IpAddr, u16)>, String> {
    let right = match (answer, outcome) {
        (Answer::Rejected, Outcome::Rejected(how)) => *how == rejection(over),
        (Answer::Dropped, Outcome::Dropped) => true,
        (Answer::Untouched, Outcome::Delivered(delivery) | Outcome::Local(delivery)) => {
            (delivery.to, delivery.port, delivery.source) == (to.ip(), to.port(), source)
        }
        (Answer::Forwarded { to, .. }, Outcome::Delivered(delivery) | Outcome::Local(delivery)) => {
            let met = to.iter().find(|endpoint| (endpoint.ip, endpoint.port) == (delivery.to, delivery.port));
            let endpoint = met.ok_or_else(|| format!("{delivery:?} is not in the pool"))?;
            let right = match carrier.is_a_process() {
                true => node_addresses().contains(&delivery.source),
                false => source_is_right(answer, from, source, endpoint, delivery),
            };
            return if right { Ok(Some((delivery.to, delivery.port))) } else { Err(format!("{delivery:?}")) };
        }
        _ => false,
    };
    if right { Ok(None) } else { Err(format!("saw {outcome:?}")) }
}

/// Whether a client gets an answer from one of these, which it does not if that passes this node by.
fn is_answered(from: Position, endpoints: &[(IpAddr, u16)], outcome: &Outcome) -> bool {
    let (Outcome::Delivered(delivery) | Outcome::Local(delivery)) = outcome else { return false };
    let at = SocketAddr::new(delivery.to, delivery.port);
    let is_here = server_at(at).is_some_and(|by| node_of(by.split('/').next().unwrap_or(&by)) == NODE);
    let returns = from.is_node() || matches!(from, Position::Guest | Position::EndpointB);
    endpoints.contains(&(delivery.to, delivery.port)) && (delivery.masqueraded || is_here || returns)
}

fn source_is_right(
    answer: &Answer,
    from: Position,
    source: IpAddr,
    endpoint: &PlannedEndpoint,
    delivery: &Delivery,
) -> bool {
    if from == Position::Node || (from.is_node() && node_addresses().contains(&endpoint.ip)) {
        // Which of its addresses the node uses says nothing: the simulator's favourite, or toward itself.
        return node_addresses().contains(&delivery.source);
    }
    let right = match delivery.masqueraded {
        true => node_addresses().contains(&delivery.source),
        false => delivery.source == source,
    };
    right && answer.rewrites(source, endpoint).is_none_or(|rewritten| rewritten == delivery.masqueraded)
}
