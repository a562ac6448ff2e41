//! Adding and deleting elements of sets and maps.

use kernel::nft::sys::*;

use super::Errno;
use super::apply::{asks, at};
use super::decode::{self, DataLayout, ElementFields, Request};
use super::instruction::Datum;
use super::state::{Element, Key, Set};
use super::transaction::{At, Transaction};
use super::{interval, registers};

fn set_name<'a>(request: &Request<'a>) -> Result<&'a str, Errno> {
    request.fields.name(NFTA_SET_ELEM_LIST_SET)?.ok_or(libc::EINVAL)
}

pub(super) fn add(to: &mut Transaction<'_>, request: &Request<'_>, now: u64) -> Result<(), Errno> {
    let list = request.fields.get(NFTA_SET_ELEM_LIST_ELEMENTS).ok_or(libc::EINVAL)?;
    let (at, set) = (at(request, NFTA_SET_ELEM_LIST_TABLE)?, set_name(request)?);
    to.set(at, set)?;
    let exclusive = asks(request, libc::NLM_F_EXCL);
    for one in list.nested() {
        let fields = decode::element(one.value)?;
        add_one(to, at, set, fields, exclusive, now)?;
    }
    Ok(())
}

fn add_one(
    to: &mut Transaction<'_>,
    at: At<'_>,
    name: &str,
    fields: ElementFields,
    exclusive: bool,
    now: u64,
) -> Result<(), Errno> {
    let table = to.table(at)?;
    let set = table.sets.get(name).ok_or(libc::ENOENT)?;
    check_key(set, &fields)?;
    check_data(set, &fields)?;
    check_timeout(set, &fields)?;
    if let Some(Datum::Verdict(verdict)) = &fields.data {
        registers::check_verdict(verdict, table)?;
    }
    if let Some(Datum::Counter(name)) = &fields.data
        && !table.counters.contains_key(name)
    {
        return Err(libc::ENOENT);
    }
    let leads_on = matches!(&fields.data, Some(Datum::Verdict(verdict)) if verdict.target().is_some());
    let key = Key { bytes: fields.key.clone(), is_start: !fields.interval_end };
    if let Some(known) = set.elements().get(&key) {
        let wanted = again(known, &fields, exclusive, now)?;
        if wanted != *known {
            to.put_element(at, name, key, Some(wanted));
        }
        return Ok(());
    }
    if set.layout.has(NFT_SET_INTERVAL) {
        interval::check_insert(set.elements(), &key)?;
    }
    if set.size != 0 && set.elements().len() >= set.size {
        return Err(libc::ENFILE);
    }
    let element = element(set, fields, now);
    to.put_element(at, name, key, Some(element));
    if leads_on {
        to.suspect(at);
    }
    Ok(())
}

fn check_key(set: &Set, fields: &ElementFields) -> Result<(), Errno> {
    let has_end = fields.interval_end && !set.layout.has(NFT_SET_INTERVAL);
    if has_end || fields.key.len() != set.layout.key_length { Err(libc::EINVAL) } else { Ok(()) }
}

fn check_data(set: &Set, fields: &ElementFields) -> Result<(), Errno> {
    let fits = match (&fields.data, set.layout.data) {
        (Some(Datum::Counter(_)), None) => set.layout.has(NFT_SET_OBJECT),
        (None, None) => !set.layout.has(NFT_SET_OBJECT) || fields.interval_end,
        (None, Some(_)) => fields.interval_end,
        (Some(Datum::Verdict(_)), Some(DataLayout::Verdict)) => true,
        (Some(Datum::Value(value)), Some(DataLayout::Value { length, .. })) => value.len() == length,
        _ => false,
    };
    if fits { Ok(()) } else { Err(libc::EINVAL) }
}

fn check_timeout(set: &Set, fields: &ElementFields) -> Result<(), Errno> {
    let names_time = fields.timeout.is_some() || fields.expiration.is_some();
    let timeout = fields.timeout.or(set.timeout).unwrap_or_default();
    match fields.expiration {
        _ if names_time && !set.layout.has(NFT_SET_TIMEOUT) => Err(libc::EINVAL),
        Some(_) if timeout == 0 => Err(libc::EINVAL),
        Some(expiration) if expiration > timeout => Err(libc::ERANGE),
        _ => Ok(()),
    }
}

/// Adding what is there: with other data it is a clash; else only a new timeout takes effect (6.12).
fn again(known: &Element, fields: &ElementFields, exclusive: bool, now: u64) -> Result<Element, Errno> {
    if exclusive || known.data != fields.data {
        return Err(libc::EEXIST);
    }
    let mut element = known.clone();
    if let Some(timeout) = fields.timeout.filter(|timeout| element.timeout.is_some_and(|old| old != *timeout))
    {
        element.timeout = Some(timeout);
        element.expires_at = Some(now.saturating_add(fields.expiration.unwrap_or(timeout)));
    }
    Ok(element)
}

fn element(set: &Set, fields: ElementFields, now: u64) -> Element {
    let timeout = match fields.timeout {
        Some(timeout) => Some(timeout),
        None if fields.interval_end => None,
        None => set.timeout,
    };
    let timeout = timeout.filter(|timeout| *timeout != 0);
    let expires_at = timeout.map(|timeout| now.saturating_add(fields.expiration.unwrap_or(timeout)));
    Element { data: fields.data, timeout, expires_at, user_data: fields.user_data }
}

/// Elements are found by key alone; a request without any empties the set.
pub(super) fn delete(to: &mut Transaction<'_>, request: &Request<'_>, forgive: bool) -> Result<(), Errno> {
    let (at, name) = (at(request, NFTA_SET_ELEM_LIST_TABLE)?, set_name(request)?);
    let set = to.set(at, name)?;
    let Some(list) = request.fields.get(NFTA_SET_ELEM_LIST_ELEMENTS) else {
        let keys: Vec<Key> = set.elements().keys().cloned().collect();
        for key in keys {
            to.put_element(at, name, key, None);
        }
        return Ok(());
    };
    for one in list.nested() {
        let fields = decode::element(one.value)?;
        let set = to.set(at, name)?;
        check_key(set, &fields)?;
        let key = Key { bytes: fields.key, is_start: !fields.interval_end };
        match set.elements().contains_key(&key) {
            true => to.put_element(at, name, key, None),
            false if forgive => {}
            false => return Err(libc::ENOENT),
        }
    }
    Ok(())
}
