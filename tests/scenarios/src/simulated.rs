//! The proxy modes over simulated kernels, for tests that every mode is held to.

pub mod elements;
mod rules;

use std::collections::BTreeMap;

use dataplane::iptables::{Counters, INVALID_COUNTER, Iptables, LOCALHOST_COUNTER};
use dataplane::nftables::Nftables;
use dataplane::{Backend, Setup};
use model::Family;
use simulate::{Host, Journey, Packet};

use crate::variant::SettingsVariant;

/// The packet mark of bit 14.
pub const MASQUERADE_MARK: u32 = 0x4000;

/// Whatever a mode keeps things in, and what is there, in a form that does not depend on the order in which it came
/// about.
pub type Contents = BTreeMap<String, Vec<String>>;

/// A mode whose kernel is simulated.
pub trait Simulated: Backend {
    const MODE: &'static str;

    fn new(variant: SettingsVariant) -> Self;

    /// A copy of what the kernel holds.
    fn rules(&mut self) -> Rules;

    /// What the kernel holds, to be compared.
    fn contents(&mut self) -> Contents;

    fn walk(&mut self, host: &Host, packet: Packet, draw: &mut dyn FnMut(u32) -> u32) -> Journey;

    /// Move the clock, in milliseconds of any origin.
    fn set_now(&mut self, milliseconds: u64);
}

/// What a simulated kernel holds.
#[derive(Clone)]
pub enum Rules {
    Nftables(simulate::nft::Simulator),
    /// By family.
    Iptables(Box<[simulate::iptables::Simulator; 2]>),
}

impl Rules {
    pub fn walk(&mut self, host: &Host, packet: Packet, draw: &mut dyn FnMut(u32) -> u32) -> Journey {
        match self {
            Rules::Nftables(simulator) => simulate::walk(simulator, host, packet, draw),
            Rules::Iptables(simulators) => {
                let simulator = &mut simulators[Family::of(packet.destination).index()];
                simulate::walk(simulator, host, packet, draw)
            }
        }
    }
}

impl Simulated for Nftables<simulate::nft::Simulator> {
    const MODE: &'static str = "nftables";

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
}

impl Simulated for Iptables<simulate::iptables::Simulator> {
    const MODE: &'static str = "iptables";

    fn new(variant: SettingsVariant) -> Self {
        let tables = Family::BOTH.map(|family| {
            let mut tables = simulate::iptables::Simulator::new(family == Family::V6);
            [INVALID_COUNTER, LOCALHOST_COUNTER].iter().for_each(|name| tables.add_account(name));
            Some(tables)
        });
        let setup = Setup {
            detector: variant.detector(),
            masquerade_mark: MASQUERADE_MARK,
            drop_invalid: true,
            ipvs: model::IpvsSettings::default(),
        };
        Iptables::new(tables, &setup).counting_in(Counters { invalid: true, localhost: true })
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
}
