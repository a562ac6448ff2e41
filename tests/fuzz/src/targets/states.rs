//! Random cluster states through translation, planning and rendering into the simulated kernels: no sync is refused,
//! and after any number of them the kernel holds what a fresh start would have written.

use cluster::apiserver::{Encoding, fuzz};
use cluster::{ClusterState, Kind, ObjectChange};
use dataplane::Reconciler;
use dataplane::iptables::Iptables;
use dataplane::nftables::Nftables;
use model::{Family, Planner, ServiceKey};
use test_support::SettingsVariant;
use test_support::interpreted::{StatePlanner, node_view};
use test_support::simulated::Simulated;
use test_support::simulated::ipvs::SimulatedIpvs;
use test_support::simulated::userspace::SimulatedUserspace;

use super::{Target, cluster_objects};
use crate::Limits;
use crate::choices::Choices;

/// Two simulated kernels with the frame of the layout in each.
const LIMITS: Limits = Limits { fixed: 128 << 20, per_byte: 16 << 10 };
/// Enough to come and go.
const MOST_SYNCS: usize = 5;
const MOST_CHANGES: usize = 12;
/// So many endpoints of one port are changed in several pieces.
const LONG_POOL: usize = 1_000;
/// Some modes look at a part of what they wrote at a time.
const LOOKS: usize = 40;

pub(super) const NFTABLES: Target = Target {
    name: "nftables_states",
    run: |input| {
        run::<Nftables<simulate::nft::Simulator>>(input, &SettingsVariant::ALL, &mut |_, _, _, _| {})
    },
    limits: LIMITS,
    seeds,
    dictionary: &[],
    longest: 1024,
};

pub(super) const IPTABLES: Target = Target {
    name: "iptables_states",
    run: |input| {
        run::<Iptables<simulate::iptables::Simulator>>(
            input,
            &SettingsVariant::OF_EVERY_MODE,
            &mut |_, _, _, _| {},
        );
    },
    limits: LIMITS,
    seeds,
    dictionary: &[],
    longest: 1024,
};

pub(super) const IPVS: Target = Target {
    name: "ipvs_states",
    run: |input| run::<SimulatedIpvs>(input, &SettingsVariant::ALL, &mut |_, _, _, _| {}),
    limits: LIMITS,
    seeds,
    dictionary: &[],
    longest: 1024,
};

pub(super) const USERSPACE: Target = Target {
    name: "userspace_states",
    run: |input| run::<SimulatedUserspace>(input, &SettingsVariant::ALL, &mut |_, _, _, _| {}),
    limits: LIMITS,
    seeds,
    dictionary: &[],
    longest: 1024,
};

/// Looks on before each sync, with the services that are dirty.
type Look<'a, B> = &'a mut dyn FnMut(&Reconciler<B>, Family, &[ServiceKey], &dyn Planner);

/// Which ways an input went that only large services go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// A port whose pools are not copied for each address.
    pub shared_pools: bool,
    /// A service that was changed in pieces.
    pub pieces: bool,
    /// One of them with a pool that is too long for a piece.
    pub long_pool: bool,
}

/// Where an input for nftables comes to.
pub fn reached(input: &[u8]) -> Reached {
    let mut reached = Reached::default();
    let mut look = |reconciler: &Reconciler<_>, family, services: &[ServiceKey], planner: &dyn Planner| {
        for service in services {
            let plan = planner.plan(service, family).map(|planned| planned.plan).unwrap_or_default();
            let in_pieces = !reconciler.is_unknown(family) && reconciler.is_large(family, service, planner);
            reached.shared_pools |= plan.ports.iter().any(|port| port.shares_pools());
            reached.pieces |= in_pieces;
            reached.long_pool |=
                in_pieces && plan.ports.iter().any(|port| port.cluster_pool.len() > LONG_POOL);
        }
    };
    run::<Nftables<simulate::nft::Simulator>>(input, &SettingsVariant::ALL, &mut look);
    reached
}

fn run<B: Simulated>(input: &[u8], variants: &[SettingsVariant], look: Look<'_, B>) {
    let mut choices = Choices::new(input);
    let variant = choices.pick(variants);
    let mut state = ClusterState::default();
    Kind::ALL.into_iter().for_each(|kind| state.mark_synced(kind));
    let mut reconciler = Reconciler::new(B::new(variant));
    for _ in 0..MOST_SYNCS {
        let before = node_view(&state);
        for _ in 0..=choices.below(MOST_CHANGES) {
            change(&mut state, &mut choices);
        }
        let node = node_view(&state);
        let is_same_node = (node.zone, node.primary) == (before.zone, before.primary);
        sync(&mut reconciler, &mut state, variant, is_same_node, look);
        if choices.is_over() {
            break;
        }
    }
    settle(&mut reconciler);
    let mut fresh = Reconciler::new(B::new(variant));
    sync(&mut fresh, &mut state, variant, false, &mut |_, _, _, _| {});
    let (held, wanted) = (reconciler.backend().contents(), fresh.backend().contents());
    for place in wanted.keys().chain(held.keys()) {
        assert_eq!(held.get(place), wanted.get(place), "{place}: left held, right wanted");
    }
}

/// What waits for connections to end goes, and no look takes what was written for damage.
fn settle<B: Simulated>(reconciler: &mut Reconciler<B>) {
    reconciler.backend().end_connections();
    for family in Family::BOTH {
        for _ in 0..LOOKS {
            assert!(!reconciler.check(family), "{family}: what we wrote is taken for damage");
        }
    }
}

fn change(state: &mut ClusterState, choices: &mut Choices<'_>) {
    let is_deleted = choices.chance(40);
    let (kind, object) = cluster_objects::any(choices);
    let decoded = fuzz::object(kind, Encoding::Json, object.to_string().as_bytes());
    let decoded = decoded.unwrap_or_else(|| panic!("{kind} was not taken: {object}"));
    match decoded {
        ObjectChange::Apply(object) if is_deleted => state.change(ObjectChange::Delete(object.key)),
        change => state.change(change),
    }
}

/// As the agent does it: where the node's zone or primary address changed, every plan may have.
fn sync<B: Simulated>(
    reconciler: &mut Reconciler<B>,
    state: &mut ClusterState,
    variant: SettingsVariant,
    is_same_node: bool,
    look: Look<'_, B>,
) {
    let dirty = state.take_dirty();
    let planner = StatePlanner {
        state,
        node: node_view(state),
        settings: variant.settings(),
        nodeport_addresses: variant.nodeport_addresses(),
    };
    let mut services: Vec<ServiceKey> = dirty.services.clone();
    if !is_same_node {
        services.extend(planner.services());
    }
    for family in Family::BOTH {
        look(reconciler, family, &services, &planner);
        let synced = reconciler.sync_and_sweep(family, &services, &planner);
        synced.unwrap_or_else(|error| panic!("{family}, {}: {error}", variant.name()));
    }
}

/// Random bytes are good objects.
fn seeds() -> Vec<Vec<u8>> {
    let mut random = simulate::Xorshift::new(1);
    (1..=12).map(|size| (0..size * 60).map(|_| random.draw(256) as u8).collect()).collect()
}
