//! What is only known of a whole table, and checked as it is committed: no loops, not too deep, and targets only
//! where the hooks that lead to them allow them. Chains that nothing leads to are not looked at.

use std::collections::HashMap;

use super::rule::Target;
use super::state::TableState;

/// The variant over nf_tables allows so many chains below each other, the one on the hook included.
const DEPTH: usize = 16;

/// What a chain and all that it leads to come to.
#[derive(Clone, Copy, Default)]
struct Reach {
    depth: usize,
    redirects: bool,
    masquerades: bool,
}

enum Seen {
    /// On the way to the chain that is looked at: meeting it again is a loop.
    Above,
    Done(Reach),
}

pub(super) fn check(state: &TableState) -> Result<(), String> {
    let mut seen = HashMap::new();
    for hook in state.builtin() {
        let reach = reach(state, hook, 1, &mut seen)?;
        if reach.redirects && !matches!(*hook, "PREROUTING" | "OUTPUT") {
            return Err(format!("{hook} leads to a DNAT"));
        }
        if reach.masquerades && *hook != "POSTROUTING" {
            return Err(format!("{hook} leads to a MASQUERADE"));
        }
    }
    Ok(())
}

fn reach<'s>(
    state: &'s TableState,
    name: &'s str,
    level: usize,
    seen: &mut HashMap<&'s str, Seen>,
) -> Result<Reach, String> {
    match seen.get(name) {
        Some(Seen::Above) => return Err(format!("a loop through `{name}`")),
        Some(Seen::Done(reach)) if level + reach.depth <= DEPTH + 1 => return Ok(*reach),
        _ if level > DEPTH => return Err(format!("`{name}` is more than {DEPTH} chains deep")),
        _ => {}
    }
    seen.insert(name, Seen::Above);
    let mut found = Reach::default();
    for entry in state.chain(name).iter().flat_map(|chain| &chain.entries) {
        match &entry.rule.target {
            Target::Dnat { .. } => found.redirects = true,
            Target::Masquerade { .. } => found.masquerades = true,
            Target::Jump(target) | Target::Goto(target) => {
                let below = reach(state, target, level + 1, seen)?;
                found.depth = found.depth.max(below.depth);
                found.redirects |= below.redirects;
                found.masquerades |= below.masquerades;
            }
            _ => {}
        }
    }
    found.depth += 1;
    seen.insert(name, Seen::Done(found));
    Ok(found)
}
