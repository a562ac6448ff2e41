//! What is done to each mode beside syncs and packets.

use dataplane::iptables::Iptables;
use dataplane::nftables::Nftables;
use kernel::iptables::{Table, Tables};
use model::Family;
use scenarios::Dice;
use scenarios::simulated::{Rules, Simulated};
use simulate::iptables::Fault;

/// What a kernel short of memory says.
const ENOMEM: i32 = 12;

pub(crate) trait Tested: Simulated {
    /// Let the next commit fail.
    fn fail_next(&mut self, dice: &mut Dice);

    /// What others do to our rules.
    fn damage(&mut self, family: Family, dice: &mut Dice);

    /// What packets met between these rules and the present ones, where a sync is not one transaction.
    fn between(&mut self, before: Rules) -> Vec<Rules>;
}

impl Tested for Nftables<simulate::nft::Simulator> {
    fn fail_next(&mut self, _: &mut Dice) {
        self.transport().fail_next(ENOMEM);
    }

    fn damage(&mut self, _: Family, _: &mut Dice) {}

    fn between(&mut self, _: Rules) -> Vec<Rules> {
        Vec::new()
    }
}

impl Tested for Iptables<simulate::iptables::Simulator> {
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
