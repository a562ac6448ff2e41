//! An entry point for `tests/fuzz` to the reader of saved iptables rules, which is private otherwise.

use crate::iptables::saved::Saved;

/// Read what `iptables-save` printed; says whether a chain holds just these lines of a script.
pub fn saved(text: &str, chain: &str, lines: &str) -> bool {
    let saved = Saved::read(text);
    let _used = saved.used_by_others(|chain| chain.starts_with("KUBE-"));
    saved.has(chain, lines.lines().next().unwrap_or_default());
    saved.holds(chain, lines)
}
