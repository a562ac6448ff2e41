//! What each request does to tables, chains, rules, sets and counters, and when it is refused. Elements are in
//! `elements`.

use std::sync::Arc;

use kernel::nft::sys::*;

use super::Errno;
use super::decode::{self, Request};
use super::state::{Chain, Rule, Set, Table};
use super::transaction::{At, Transaction};
use super::{decode_rule, elements, registers};

const DESTROY_TABLE: u16 = 26;
const DESTROY_CHAIN: u16 = 27;
const DESTROY_RULE: u16 = 28;
const DESTROY_SET: u16 = 29;
const RULE_POSITION: u16 = 6;
/// What a set written by packets holds when it names no size.
const DYNAMIC_SIZE: usize = 65535;

pub(super) fn request(to: &mut Transaction<'_>, request: &Request<'_>, now: u64) -> Result<(), Errno> {
    match request.kind {
        NFT_MSG_NEWTABLE => new_table(to, request),
        NFT_MSG_DELTABLE => delete_table(to, request),
        NFT_MSG_NEWCHAIN => new_chain(to, request),
        NFT_MSG_DELCHAIN => delete_chain(to, request),
        NFT_MSG_NEWRULE => new_rule(to, request),
        NFT_MSG_DELRULE => delete_rule(to, request),
        NFT_MSG_NEWSET => new_set(to, request),
        NFT_MSG_DELSET => delete_set(to, request),
        NFT_MSG_NEWSETELEM => elements::add(to, request, now),
        NFT_MSG_DELSETELEM => elements::delete(to, request, false),
        NFT_MSG_DESTROYSETELEM => elements::delete(to, request, true),
        NFT_MSG_NEWOBJ => new_counter(to, request),
        NFT_MSG_DELOBJ => delete_counter(to, request),
        DESTROY_TABLE => forgive(delete_table(to, request)),
        DESTROY_CHAIN => forgive(delete_chain(to, request)),
        DESTROY_RULE => forgive(delete_rule(to, request)),
        DESTROY_SET => forgive(delete_set(to, request)),
        _ => Err(libc::EINVAL),
    }
}

/// Whether this is a message that Linux knows from 6.3 on.
pub(super) fn destroys(kind: u16) -> bool {
    kind >> 8 == NFNL_SUBSYS_NFTABLES && (DESTROY_TABLE..=NFT_MSG_DESTROYSETELEM).contains(&(kind & 0xff))
}

/// To destroy is to delete what may be absent.
fn forgive(result: Result<(), Errno>) -> Result<(), Errno> {
    if result == Err(libc::ENOENT) { Ok(()) } else { result }
}

pub(super) fn at<'a>(request: &Request<'a>, table: u16) -> Result<At<'a>, Errno> {
    let table = request.fields.name(table)?.ok_or(libc::EINVAL)?;
    Ok(At { family: request.family, table })
}

pub(super) fn asks(request: &Request<'_>, flag: i32) -> bool {
    i32::from(request.flags) & flag != 0
}

/// The flags that may forbid a request for something that exists.
fn existing(request: &Request<'_>) -> Result<(), Errno> {
    if asks(request, libc::NLM_F_EXCL) {
        Err(libc::EEXIST)
    } else if asks(request, libc::NLM_F_REPLACE) {
        Err(libc::EOPNOTSUPP)
    } else {
        Ok(())
    }
}

fn new_table(to: &mut Transaction<'_>, request: &Request<'_>) -> Result<(), Errno> {
    let at = at(request, NFTA_TABLE_NAME)?;
    if to.table(at).is_ok() {
        // The comment of a table that exists stays as it was.
        return existing(request);
    }
    let user_data = request.fields.bytes(NFTA_TABLE_USERDATA);
    to.put_table(at, Some(Table { user_data, ..Table::default() }));
    Ok(())
}

fn delete_table(to: &mut Transaction<'_>, request: &Request<'_>) -> Result<(), Errno> {
    let Some(name) = request.fields.name(NFTA_TABLE_NAME)? else {
        let names: Vec<String> = to.state().tables(request.family).keys().cloned().collect();
        for name in names {
            to.put_table(At { family: request.family, table: &name }, None);
        }
        return Ok(());
    };
    let at = At { family: request.family, table: name };
    to.table(at)?;
    to.put_table(at, None);
    Ok(())
}

fn new_chain(to: &mut Transaction<'_>, request: &Request<'_>) -> Result<(), Errno> {
    let at = at(request, NFTA_CHAIN_TABLE)?;
    to.table(at)?;
    let name = request.fields.name(NFTA_CHAIN_NAME)?.ok_or(libc::EINVAL)?;
    let has_policy = request.fields.get(NFTA_CHAIN_POLICY).is_some();
    let known = to.chain(at, name).ok().cloned();
    let is_base = known.as_ref().is_some_and(|chain| chain.hook.is_some());
    let will_be_base = known.is_none() && request.fields.get(NFTA_CHAIN_HOOK).is_some();
    if has_policy && !is_base && !will_be_base {
        return Err(libc::EOPNOTSUPP);
    }
    if known.is_some() {
        existing(request)?;
    }
    let hook = decode::hook(&request.fields)?;
    match known {
        None => {
            let chain = Chain { hook, registered: to.next_handle(), rules: Vec::new() };
            to.put_chain(at, name, Some(chain));
        }
        Some(chain) => update_chain(to, at, name, chain, hook, has_policy)?,
    }
    Ok(())
}

/// Only the policy of a chain can change; naming another type, hook or priority is refused. Naming it again
/// counts as a change, whether it is one or not.
fn update_chain(
    to: &mut Transaction<'_>,
    at: At<'_>,
    name: &str,
    mut chain: Chain,
    wanted: Option<decode::Hook>,
    has_policy: bool,
) -> Result<(), Errno> {
    to.touch();
    let Some(wanted) = wanted else { return Ok(()) };
    let Some(hook) = &mut chain.hook else { return Err(libc::EEXIST) };
    if hook.kind != wanted.kind {
        return Err(libc::EEXIST);
    }
    if (hook.number, hook.priority) != (wanted.number, wanted.priority) {
        return Err(libc::EOPNOTSUPP);
    }
    if has_policy && hook.accept != wanted.accept {
        hook.accept = wanted.accept;
        to.put_chain(at, name, Some(chain));
    }
    Ok(())
}

fn delete_chain(to: &mut Transaction<'_>, request: &Request<'_>) -> Result<(), Errno> {
    let at = at(request, NFTA_CHAIN_TABLE)?;
    let name = request.fields.name(NFTA_CHAIN_NAME)?.ok_or(libc::EINVAL)?;
    to.chain(at, name)?;
    if to.table(at)?.leads_to(name) {
        return Err(libc::EBUSY);
    }
    to.put_chain(at, name, None);
    Ok(())
}

fn new_rule(to: &mut Transaction<'_>, request: &Request<'_>) -> Result<(), Errno> {
    let at = at(request, NFTA_RULE_TABLE)?;
    to.table(at)?;
    let name = request.fields.name(NFTA_RULE_CHAIN)?.ok_or(libc::EINVAL)?;
    let chain = to.chain(at, name)?;
    if request.fields.get(NFTA_RULE_HANDLE).is_some() {
        return Err(libc::EOPNOTSUPP); // replacing one rule is not modelled
    }
    if !asks(request, libc::NLM_F_CREATE) || asks(request, libc::NLM_F_REPLACE) {
        return Err(libc::EINVAL);
    }
    let index = rule_index(request, chain)?;
    let instructions = decode_rule::instructions(request.family, &request.fields)?;
    registers::check(&instructions, to.table(at)?, request.family)?;
    let rule = Rule { handle: to.next_handle(), instructions };
    to.add_rule(at, name, index, rule);
    to.suspect(at);
    Ok(())
}

/// At the end with `NLM_F_APPEND`, else at the head; or behind or before the rule named as position.
fn rule_index(request: &Request<'_>, chain: &Chain) -> Result<usize, Errno> {
    let append = asks(request, libc::NLM_F_APPEND);
    match request.fields.long(RULE_POSITION)? {
        None if append => Ok(chain.rules.len()),
        None => Ok(0),
        Some(handle) => {
            let index = chain.rules.iter().position(|rule| rule.handle == handle).ok_or(libc::ENOENT)?;
            Ok(index + usize::from(append))
        }
    }
}

fn delete_rule(to: &mut Transaction<'_>, request: &Request<'_>) -> Result<(), Errno> {
    let at = at(request, NFTA_RULE_TABLE)?;
    let table = to.table(at)?;
    let Some(chain) = request.fields.name(NFTA_RULE_CHAIN)? else {
        let names: Vec<String> = table
            .chains
            .iter()
            .filter(|(_, chain)| !chain.rules.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            to.put_rules(at, &name, Vec::new());
        }
        return Ok(());
    };
    let rules = &to.chain(at, chain)?.rules;
    let left: Vec<Arc<Rule>> = match request.fields.long(NFTA_RULE_HANDLE)? {
        None => Vec::new(),
        Some(handle) if !rules.iter().any(|rule| rule.handle == handle) => return Err(libc::ENOENT),
        Some(handle) => rules.iter().filter(|rule| rule.handle != handle).cloned().collect(),
    };
    if left.len() != rules.len() {
        to.put_rules(at, chain, left);
    }
    Ok(())
}

fn new_set(to: &mut Transaction<'_>, request: &Request<'_>) -> Result<(), Errno> {
    let at = at(request, NFTA_SET_TABLE)?;
    let name = request.fields.name(NFTA_SET_NAME)?.ok_or(libc::EINVAL)?;
    let wanted = decode::set(&request.fields)?;
    to.table(at)?;
    if let Ok(known) = to.set(at, name) {
        existing(request)?;
        if known.layout != wanted.layout {
            return Err(libc::EEXIST);
        }
        to.resize_later(at, name, wanted.size, wanted.timeout);
        return Ok(());
    }
    if !asks(request, libc::NLM_F_CREATE) {
        return Err(libc::ENOENT);
    }
    let unsized_dynamic = wanted.size == 0 && wanted.layout.has(NFT_SET_EVAL);
    let size = if unsized_dynamic { DYNAMIC_SIZE } else { wanted.size };
    let set = Set::new(wanted.layout, size, wanted.timeout);
    to.put_set(at, name, Some(set));
    Ok(())
}

fn delete_set(to: &mut Transaction<'_>, request: &Request<'_>) -> Result<(), Errno> {
    let at = at(request, NFTA_SET_TABLE)?;
    let name = request.fields.name(NFTA_SET_NAME)?.ok_or(libc::EINVAL)?;
    to.set(at, name)?;
    if to.table(at)?.uses(name) {
        return Err(libc::EBUSY);
    }
    to.put_set(at, name, None);
    Ok(())
}

/// Objects are counters here; the kernel has further kinds.
fn counter<'a>(request: &Request<'a>) -> Result<(At<'a>, &'a str), Errno> {
    let at = at(request, NFTA_OBJ_TABLE)?;
    match request.fields.number(NFTA_OBJ_TYPE)?.ok_or(libc::EINVAL)? {
        NFT_OBJECT_COUNTER => Ok((at, request.fields.name(NFTA_OBJ_NAME)?.ok_or(libc::EINVAL)?)),
        _ => Err(libc::EOPNOTSUPP),
    }
}

/// What a counter that exists has counted stays.
fn new_counter(to: &mut Transaction<'_>, request: &Request<'_>) -> Result<(), Errno> {
    let (at, name) = counter(request)?;
    request.fields.get(NFTA_OBJ_DATA).ok_or(libc::EINVAL)?;
    if to.table(at)?.counters.contains_key(name) {
        return existing(request);
    }
    to.put_counter(at, name, Some(0));
    Ok(())
}

fn delete_counter(to: &mut Transaction<'_>, request: &Request<'_>) -> Result<(), Errno> {
    let (at, name) = counter(request)?;
    let table = to.table(at)?;
    table.counters.get(name).ok_or(libc::ENOENT)?;
    if table.counts_in(name) {
        return Err(libc::EBUSY);
    }
    to.put_counter(at, name, None);
    Ok(())
}
