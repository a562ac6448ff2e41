//! What the kernel checks before it commits: that no packet can go round in circles, and that each
//! instruction is only reached from hooks where it makes sense.

use std::collections::BTreeMap;

use super::Errno;
use super::decode::Hook;
use super::instruction::Instruction;
use super::state::{Chain, Table};

/// `NFT_JUMP_STACK_SIZE`: how many chains deep a packet may get; a goto counts here too.
const DEPTH_LIMIT: usize = 16;

const PREROUTING: u32 = 0;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;

/// Only what a base chain reaches is looked at, as in the kernel.
pub(super) fn check(table: &Table) -> Result<(), Errno> {
    for chain in table.chains.values() {
        if let Some(hook) = &chain.hook {
            let mut walk = Walk { table, hook, depths: BTreeMap::new() };
            if walk.depth(chain)? > DEPTH_LIMIT {
                return Err(libc::EMLINK);
            }
        }
    }
    Ok(())
}

struct Walk<'t> {
    table: &'t Table,
    hook: &'t Hook,
    /// The chains below each chain seen; `None` while its own walk is under way.
    depths: BTreeMap<&'t str, Option<usize>>,
}

impl<'t> Walk<'t> {
    fn depth(&mut self, chain: &'t Chain) -> Result<usize, Errno> {
        let mut deepest = 0;
        for one in chain.rules.iter().flat_map(|rule| &rule.instructions) {
            deepest = deepest.max(self.instruction(one)?);
        }
        Ok(deepest + 1)
    }

    fn instruction(&mut self, one: &'t Instruction) -> Result<usize, Errno> {
        match one {
            Instruction::Verdict(verdict) => verdict.target().map_or(Ok(0), |chain| self.visit(chain)),
            Instruction::Lookup { set, .. } => {
                let Some(set) = self.table.sets.get(set).filter(|set| set.is_verdict_map()) else {
                    return Ok(0);
                };
                set.targets().try_fold(0, |deepest, chain| Ok(deepest.max(self.visit(chain)?)))
            }
            Instruction::Dnat { .. } => {
                self.only(self.hook.is_nat() && matches!(self.hook.number, PREROUTING | OUTPUT))
            }
            Instruction::Masquerade => self.only(self.hook.is_nat() && self.hook.number == POSTROUTING),
            Instruction::Reject(_) => self.only(self.hook.number != POSTROUTING),
            _ => Ok(0),
        }
    }

    fn only(&self, allowed: bool) -> Result<usize, Errno> {
        if allowed { Ok(0) } else { Err(libc::EOPNOTSUPP) }
    }

    fn visit(&mut self, name: &'t str) -> Result<usize, Errno> {
        match self.depths.get(name) {
            Some(Some(depth)) => return Ok(*depth),
            // A loop. Linux before 6.11 says ELOOP; since then it finds loops by their depth alone.
            Some(None) => return Err(libc::EMLINK),
            None => {}
        }
        let Some(chain) = self.table.chains.get(name) else { return Ok(0) };
        self.depths.insert(name, None);
        let depth = self.depth(chain)?;
        self.depths.insert(name, Some(depth));
        Ok(depth)
    }
}
