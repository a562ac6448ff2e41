//! The part of the layout that counts traffic; only there where it was asked for.
//!
//! NAT chains see the first packet of a connection only, so these hang behind them: where packets come in, and
//! where the node's own begin. A packet that the node sends to itself comes in again through the loopback
//! interface and is not counted a second time there. What conntrack has noted as redirected is looked up by the
//! destination the client meant, in both directions.

use kernel::nft::{Batch, Chain, Hook, HookKind, VerdictCode};
use model::Protocol;

use crate::code::{Code, Field};
use crate::layout::{OUTPUT, PREROUTING, PROTOCOLS, TableSetup, key_of, original_key, rule};
use crate::meter::Counting;
use crate::sets::{Door, SetName, counting};

/// Behind the redirection, before anything that may drop.
const AFTER_DNAT: i32 = -90;

pub(crate) const CHAINS: [&str; 4] =
    ["count-prerouting", "count-output", "count-traffic", "count-connections"];

impl TableSetup {
    pub(crate) fn declare_counting(&self, batch: &mut Batch) {
        for (name, number) in [("count-prerouting", PREROUTING), ("count-output", OUTPUT)] {
            let hook = Hook { kind: HookKind::Filter, number, priority: AFTER_DNAT };
            batch.add_chain(&Chain { name, hook: Some(hook) });
        }
        for name in ["count-traffic", "count-connections"] {
            batch.add_chain(&Chain { name, hook: None });
        }
        let from_outside = self.code().redirected().interface("lo", true, false);
        rule(batch, "count-prerouting", from_outside.then(VerdictCode::Goto("count-traffic")));
        rule(batch, "count-output", self.code().redirected().then(VerdictCode::Goto("count-traffic")));
        let first = self.code().first_redirected();
        rule(batch, "count-traffic", first.then(VerdictCode::Jump("count-connections")));
        for door in Door::BOTH {
            self.count_rules(batch, "count-connections", &[], SetName::Connections(door), door);
            self.count_rules(batch, "count-traffic", &[Field::Direction], SetName::Traffic(door), door);
        }
    }

    /// The maps, before the rules that count in them.
    pub(crate) fn declare_counting_sets(&self, batch: &mut Batch) {
        counting(self.counting).for_each(|set| self.declare_set(batch, set));
    }

    /// Count a packet for its service where the rule behind refuses it. A rule of its own, so that a packet without a
    /// counter is refused all the same.
    pub(super) fn count_refused(&self, batch: &mut Batch, chain: &str, refused: Code<'_>, door: Door) {
        if self.counting != Counting::Nothing {
            let key = key_of(door);
            rule(batch, chain, refused.count_in(key, &SetName::Refused(door).name()));
        }
    }

    /// A rule per protocol: without one, nft cannot print a port of conntrack.
    fn count_rules(&self, batch: &mut Batch, chain: &str, beside: &[Field], map: SetName, door: Door) {
        let key = [original_key(door), beside].concat();
        for protocol in PROTOCOLS.map(Protocol::number) {
            let code: Code<'_> = self.code().protocol(protocol);
            let code = match door {
                Door::Vip => code,
                Door::NodePort => code.within(&[Field::OriginalDestination], "nodeport-addresses"),
            };
            rule(batch, chain, code.count_in(&key, &map.name()).then(VerdictCode::Return));
        }
    }
}
