//! The lines between `*table` and `COMMIT`: chains declared, rules put in and taken out.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernel::iptables::Table;

use super::parse::{self, Grammar};
use super::parse_target::TARGETS;
use super::rule::{Match, Rule, Target};
use super::state::{Counters, Entry, Policy, TableState};
use super::words::{Words, split};

/// `XT_EXTENSION_MAXNAMELEN`, without the zero at the end.
const NAME_LENGTH: usize = 28;

/// What a line's meaning depends on besides the table.
pub(super) struct Context<'c> {
    pub(super) grammar: Grammar,
    pub(super) accounts: &'c BTreeMap<String, u64>,
}

pub(super) fn run(state: &mut TableState, line: &str, context: &Context<'_>) -> Result<(), String> {
    if let Some(declaration) = line.strip_prefix(':') {
        return declare(state, declaration);
    }
    let (counters, command) = match line.strip_prefix('[') {
        Some(rest) => {
            let (counters, command) = rest.split_once("] ").ok_or("counters without an end")?;
            (self::counters(counters)?, command)
        }
        None => (Counters::default(), line),
    };
    let words = split(command)?;
    let mut words = Words::new(&words);
    let command = words.next().unwrap_or_default();
    match command {
        "-F" | "-X" | "-N" => of_chain(state, command, words),
        "-P" => {
            let (chain, policy) = (words.value("-P")?, words.value("-P")?);
            set_policy(state, chain, policy)
        }
        "-A" | "--append" | "-I" | "--insert" | "-D" | "--delete" | "-R" | "--replace" => {
            of_rule(state, command, words, counters, context)
        }
        other => Err(format!("bad argument or unknown option `{other}`")),
    }
}

/// `NAME POLICY [PACKETS:BYTES]`: a chain that is there already becomes empty, unless it is always there.
fn declare(state: &mut TableState, line: &str) -> Result<(), String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [name, policy, held] = words[..] else {
        return Err("a chain needs a policy and counters".to_owned());
    };
    let held = held.strip_prefix('[').and_then(|held| held.strip_suffix(']')).ok_or("bad counters")?;
    let held = counters(held)?;
    if !state.builtin().contains(&name) {
        if policy != "-" {
            return Err(format!("`{name}` can have no policy"));
        }
        check_name(name)?;
        state.make(name);
        return state.flush(name);
    }
    if policy != "-" {
        set_policy(state, name, policy)?;
        state.chain_mut(name)?.counters = held;
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    match name {
        _ if name.len() > NAME_LENGTH => Err(format!("chain name `{name}` too long ({NAME_LENGTH} at most)")),
        _ if name.starts_with(['-', '!']) => Err(format!("chain name `{name}` begins like an option")),
        _ if TARGETS.contains(&name) => Err(format!("chain name `{name}` clashes with a target")),
        _ => Ok(()),
    }
}

fn set_policy(state: &mut TableState, chain: &str, policy: &str) -> Result<(), String> {
    let known = [Policy::Accept, Policy::Drop].into_iter().find(|known| known.name() == policy);
    let known = known.ok_or_else(|| format!("bad policy `{policy}`"))?;
    let held = &mut state.chain_mut(chain)?.policy;
    match held.replace(known) {
        Some(_) => Ok(()),
        None => Err(format!("`{chain}` can have no policy")),
    }
}

fn counters(text: &str) -> Result<Counters, String> {
    let found = text.split_once(':').and_then(|(packets, bytes)| {
        Some(Counters { packets: packets.parse().ok()?, bytes: bytes.parse().ok()? })
    });
    found.ok_or_else(|| format!("bad counters `{text}`"))
}

/// Without a name, `-F` and `-X` are about all chains.
fn of_chain(state: &mut TableState, command: &str, mut words: Words<'_>) -> Result<(), String> {
    let named = words.next();
    if let Some(more) = words.next() {
        return Err(format!("bad argument `{more}`"));
    }
    match (command, named) {
        ("-F", Some(name)) => state.flush(name),
        ("-X", Some(name)) => state.delete(name),
        ("-N", Some(name)) if state.chain(name).is_none() => {
            check_name(name)?;
            state.make(name);
            Ok(())
        }
        ("-N", Some(_)) => Err("chain already exists".to_owned()),
        (_, None) => {
            let all: Vec<String> = state.names().map(str::to_owned).collect();
            let own = all.iter().filter(|name| !state.builtin().contains(&name.as_str()));
            match command {
                "-F" => all.iter().try_for_each(|name| state.flush(name)),
                "-X" => own.cloned().collect::<Vec<_>>().iter().try_for_each(|name| state.delete(name)),
                _ => Err("-N requires a name".to_owned()),
            }
        }
        _ => Err(format!("unknown command `{command}`")),
    }
}

fn of_rule(
    state: &mut TableState,
    command: &str,
    mut words: Words<'_>,
    counters: Counters,
    context: &Context<'_>,
) -> Result<(), String> {
    let chain = words.value(command)?;
    let length = state.chain(chain).ok_or_else(|| format!("no chain `{chain}`"))?.entries.len();
    let number = match words.peek().map(str::parse::<usize>) {
        Some(Ok(number)) if !matches!(command, "-A" | "--append") => {
            words.next();
            Some(number.checked_sub(1).ok_or("invalid rule number `0`")?)
        }
        _ => None,
    };
    if let (Some(at), None) = (number, words.peek())
        && matches!(command, "-D" | "--delete")
    {
        return state.remove(chain, at);
    }
    let rule = parse::rule(words, context.grammar)?;
    check_place(state, chain, &rule, context)?;
    let entry = |rule| Entry { rule: Arc::new(rule), counters };
    match (command, number) {
        ("-A" | "--append", None) => state.insert(chain, length, entry(rule)),
        ("-I" | "--insert", at) => state.insert(chain, at.unwrap_or(0), entry(rule)),
        ("-R" | "--replace", Some(at)) => {
            state.remove(chain, at)?;
            state.insert(chain, at, entry(rule))
        }
        ("-D" | "--delete", None) => {
            let entries = state.chain(chain).map(|chain| chain.entries.iter());
            let at = entries.and_then(|mut all| all.position(|entry| *entry.rule == rule));
            state.remove(chain, at.ok_or("does a matching rule exist in that chain?")?)
        }
        _ => Err(format!("bad use of {command}")),
    }
}

/// What the tools and the kernel refuse whatever leads to the chain.
fn check_place(state: &TableState, chain: &str, rule: &Rule, context: &Context<'_>) -> Result<(), String> {
    if let Some(target) = rule.leads_to() {
        match state.chain(target) {
            None => return Err(format!("no chain or target `{target}`")),
            Some(chain) if chain.policy.is_some() => return Err(format!("nothing can lead to `{target}`")),
            Some(_) => {}
        }
    }
    let is_nat = state.table == Table::Nat;
    match rule.target {
        Target::Drop | Target::Reject(_) if is_nat => return Err("table nat is not for filtering".to_owned()),
        Target::Dnat { .. } | Target::Masquerade { .. } if !is_nat => {
            return Err("addresses can only be translated in table nat".to_owned());
        }
        _ => {}
    }
    if rule.in_interface.is_some() && matches!(chain, "OUTPUT" | "POSTROUTING") {
        return Err(format!("can't use -i with {chain}"));
    }
    if rule.out_interface.is_some() && matches!(chain, "INPUT" | "PREROUTING") {
        return Err(format!("can't use -o with {chain}"));
    }
    for one in &rule.matches {
        if let Match::Account(name) = one
            && !context.accounts.contains_key(name)
        {
            return Err(format!("nfacct: there is no object `{name}`"));
        }
    }
    Ok(())
}
