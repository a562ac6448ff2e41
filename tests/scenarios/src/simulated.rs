//! The proxy modes over simulated kernels, for tests that every mode is held to.

pub mod elements;
pub mod ipvs;
mod rules;
pub mod userspace;

use std::collections::BTreeMap;

use dataplane::iptables::{Counters, INVALID_COUNTER, Iptables, LOCALHOST_COUNTER, refusal_counter};
use dataplane::nftables::Nftables;
use dataplane::{Backend, Setup};
use kernel::iptables::{Table, Tables};
use model::Family;
use simulate::iptables::Fault;
use simulate::{Host, Journey, Packet};

use crate::variant::SettingsVariant;
use crate::{Carrier, Dice};

/// What a kernel short of memory says.
const ENOMEM: i32 = 12;

/// The packet mark of bit 14.
pub const MASQUERADE_MARK: u32 = 0x4000;

/// Whatever a mode keeps things in, and what is there, in a form that does not depend on the order in which it came
/// about.
pub type Contents = BTreeMap<String, Vec<String>>;

/// A mode whose kernel is simulated.
pub trait Simulated: Backend {
    /// What else tests know of the mode.
    const CARRIER: Carrier;

    /// Who is masqueraded and where clients are sent do not change in the same moment.
    const MARKS_APART: bool = false;

    fn new(variant: SettingsVariant) -> Self;

    /// A copy of what the kernel holds.
    fn rules(&mut self) -> Rules;

    /// What the kernel holds, to be compared.
    fn contents(&mut self) -> Contents;

    fn walk(&mut self, host: &Host, packet: Packet, draw: &mut dyn FnMut(u32) -> u32) -> Journey;

    /// Move the clock, in milliseconds of any origin.
    fn set_now(&mut self, milliseconds: u64);

    /// Let the next commit fail.
    fn fail_next(&mut self, dice: &mut Dice);

    /// What others do to our rules; nothing where their changes are reported instead of looked for.
    fn damage(&mut self, _: Family, _: &mut Dice) {}

    /// What packets met between these rules and the present ones, where a sync is not one transaction.
    fn between(&mut self, _: Rules) -> Vec<Rules> {
        Vec::new()
    }

    /// Every connection ends, where the kernel keeps something for as long as they live.
    fn end_connections(&mut self) {}
}

/// What a simulated kernel holds.
#[derive(Clone)]
pub enum Rules {
    Nftables(simulate::nft::Simulator),
    /// By family.
    Iptables(Box<[simulate::iptables::Simulator; 2]>),
    Ipvs(Box<simulate::ipvs::Machine>),
    /// With where its forwarder leads clients now.
    Userspace(Box<(simulate::nft::Simulator, dataplane::userspace::Leads)>),
}

impl Rules {
    pub fn walk(&mut self, host: &Host, packet: Packet, draw: &mut dyn FnMut(u32) -> u32) -> Journey {
        match self {
            Rules::Nftables(simulator) => simulate::walk(simulator, host, packet, draw),
            Rules::Iptables(simulators) => {
                let simulator = &mut simulators[Family::of(packet.destination).index()];
                simulate::walk(simulator, host, packet, draw)
            }
            Rules::Ipvs(machine) => machine.walk(host, packet, draw),
            Rules::Userspace(both) => userspace::walk(&mut both.0, &both.1, host, packet, draw),
        }
    }
}

impl Simulated for Nftables<simulate::nft::Simulator> {
    const CARRIER: Carrier = Carrier::Nftables;

    fn new(variant: SettingsVariant) -> Self {
        Nftables::new(simulate::nft::Simulator::new(), &variant.detector(), MASQUERADE_MARK)
            .count_traffic(variant.counts_traffic())
    }

    fn rules(&mut self) -> Rules {
        Rules::Nftables(self.transport().clone())
    }

    fn contents(&mut self) -> Contents {
        elements::elements(self.transport()).unwrap()
    }

    fn walk(&mut self, host: &Host, packet: Packet, draw: &mut dyn FnMut(u32) -> u32) -> Journey {
        simulate::walk(self.transport(), host, packet, draw)
    }

    fn set_now(&mut self, milliseconds: u64) {
        self.transport().set_now(milliseconds);
    }

    fn fail_next(&mut self, _: &mut Dice) {
        self.transport().fail_next(ENOMEM);
    }
}

impl Simulated for Iptables<simulate::iptables::Simulator> {
    const CARRIER: Carrier = Carrier::IptablesLegacy;

    fn new(variant: SettingsVariant) -> Self {
        let tables = Family::BOTH.map(|family| {
            let mut tables = simulate::iptables::Simulator::new(family == Family::V6);
            [INVALID_COUNTER, LOCALHOST_COUNTER].iter().for_each(|name| tables.add_account(name));
            let refusals = model::Refusal::COUNTED.into_iter();
            refusals.for_each(|why| tables.add_account(&refusal_counter(family, why)));
            Some(tables)
        });
        let setup = Setup {
            detector: variant.detector(),
            masquerade_mark: MASQUERADE_MARK,
            drop_invalid: true,
            of_mode: model::ModeSettings::default(),
        };
        Iptables::new(tables, &setup).counting_in(Counters {
            invalid: true,
            localhost: true,
            refusals: false,
        })
    }

    fn rules(&mut self) -> Rules {
        Rules::Iptables(Box::new(Family::BOTH.map(|family| self.tables(family).unwrap().clone())))
    }

    fn contents(&mut self) -> Contents {
        let families =
            Family::BOTH.map(|family| rules::rules(self.tables(family).unwrap(), &family.to_string()));
        families.into_iter().flatten().collect()
    }

    fn walk(&mut self, host: &Host, packet: Packet, draw: &mut dyn FnMut(u32) -> u32) -> Journey {
        let tables = self.tables(Family::of(packet.destination)).unwrap();
        simulate::walk(tables, host, packet, draw)
    }

    fn set_now(&mut self, milliseconds: u64) {
        for family in Family::BOTH {
            self.tables(family).unwrap().set_now(milliseconds);
        }
    }

    /// Before anything, between two tables, or at some line, which there may be or not.
    fn fail_next(&mut self, dice: &mut Dice) {
        let faults = [
            Fault::Locked,
            Fault::AtCommit(Table::Filter),
            Fault::AtCommit(Table::Nat),
            Fault::AtLine(1 + dice.below(30) as usize),
        ];
        let (family, fault) = (dice.pick(&Family::BOTH), dice.pick(&faults));
        self.tables(family).unwrap().fail_next(fault);
    }

    /// One rule goes, or all of a table.
    fn damage(&mut self, family: Family, dice: &mut Dice) {
        let table = dice.pick(&Table::BOTH);
        let tables = self.tables(family).unwrap();
        if dice.chance(30) {
            return tables.run(table, "-F").unwrap();
        }
        let chains: Vec<String> = tables.chains(table).into_iter().map(str::to_owned).collect();
        let chain = dice.pick(&chains);
        if !tables.rules(table, &chain).unwrap().is_empty() {
            tables.run(table, &format!("-D {chain} 1")).unwrap();
        }
    }

    /// Each table is taken over by itself: the last script of each family, section by section.
    fn between(&mut self, before: Rules) -> Vec<Rules> {
        let Rules::Iptables(mut tables) = before else { return Vec::new() };
        let mut steps = Vec::new();
        for family in Family::BOTH {
            let now = self.tables(family).unwrap();
            if now.restores() != tables[family.index()].restores() + 1 {
                // Nothing was to do, or an earlier fault took effect only now.
                tables[family.index()] = now.clone();
                continue;
            }
            for section in now.last_script().split_inclusive("COMMIT\n") {
                tables[family.index()].restore(section).unwrap();
                steps.push(Rules::Iptables(tables.clone()));
            }
        }
        // The last is the present.
        steps.pop();
        steps
    }
}
