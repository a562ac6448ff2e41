//! The rules of one address and port, found in a saved table and compared with what was written. Saving a table takes long,
//! so that another thread does it.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use kernel::iptables::{Table, Tables, words};
use kernel::jiffies::Jiffies;
use model::{Address, Destination, Pool, Protocol, ServiceKey};

use super::dialect::Dialect;
use super::family::All;
use super::key::{Key, Ports};
use super::names::{PortName, is_service_chain};
use super::pins::{self, Lists};
use super::rule::Rule;
use super::saved::{Saved, is_same};
use super::service::ServicePort;
use super::shelf::Shelf;
use super::state::Place;
use super::tree::{Chain, Leaf};
use super::writes::Writes;
use crate::inspection::{Inspected, Inspection, InspectionError, Look};

/// What is to be found.
struct Wanted {
    family: &'static str,
    /// Where the address and port is looked up, and what stands there.
    keys: Vec<Key>,
    leaves: Vec<(Table, Key, String)>,
    /// The chains of its service port.
    chains: Vec<(Table, Chain)>,
    /// The other ports of the address are refused.
    ip: IpAddr,
    is_live: bool,
    client: Option<IpAddr>,
    pins: Lists,
}

pub(super) fn look<T: Tables>(
    tables: &mut T,
    (shelf, writes): (&Shelf, &mut Writes),
    dialect: &Dialect,
    inspected: &Inspected<'_>,
) -> Look {
    let wanted = Wanted::new(dialect, inspected);
    let Some(save) = tables.saver() else {
        return Look::Done(save(tables).map(|saved| wanted.compare(&saved, &HashSet::new())));
    };
    let (stamp, shelf, since) = (tables.stamp(), shelf.clone(), writes.since_now());
    Look::Later(Box::new(move || {
        let compare = |saved: &_| wanted.compare(saved, &since.chains());
        let mut inspection = shelf.compare((stamp, since.count), &save, compare)?;
        let pins = Path::new(pins::FOLDER);
        inspection.pin = wanted.client.and_then(|client| wanted.pins.find(client, pins, Jiffies::now()));
        Ok(inspection)
    }))
}

/// All chains; `all` is asked when there is time.
pub(super) fn look_at_all<T: Tables>(
    tables: &mut T,
    (shelf, writes): (&Shelf, &mut Writes),
    all: impl FnOnce() -> All + Send + 'static,
) -> Look {
    let Some(save) = tables.saver() else {
        return Look::Done(save(tables).map(|saved| compare_all(&all(), &saved, &HashSet::new())));
    };
    let (stamp, shelf, since) = (tables.stamp(), shelf.clone(), writes.since_now());
    Look::Later(Box::new(move || {
        let all = all();
        shelf.compare((stamp, since.count), &save, |saved| compare_all(&all, saved, &since.chains()))
    }))
}

/// What is in chains that were `written` meanwhile is no difference, whatever it is.
fn compare_all(all: &All, saved: &[String; 2], written: &HashSet<String>) -> Inspection {
    let mut inspection = Inspection::default();
    let mut compare =
        |table: Table, chain: &str, wanted: Option<String>, found, service: Option<&ServiceKey>| {
            if written.contains(chain) && wanted != found {
                inspection.unsettled += 1;
                return;
            }
            let before = inspection.differences.len();
            inspection.compare(|| format!("table {}, chain {chain}", table.name()), wanted, found);
            inspection.differences[before..].iter_mut().for_each(|one| one.service = service.cloned());
        };
    for table in Table::BOTH {
        let saved = Saved::read(&saved[table as usize]);
        for (_, chain, service) in all.chains.iter().filter(|(at, ..)| *at == table) {
            let wanted = || Some(format!("{} rules, as they were written", chain.rules));
            let is_right = saved.holds(&chain.name, &chain.text);
            let found = if is_right { wanted() } else { saved.describe(&chain.name) };
            compare(table, &chain.name, wanted(), found, service.as_ref());
        }
        for (_, hook) in all.hooks.iter().filter(|(at, _)| *at == table) {
            let wanted = Some(hook.words.trim().to_owned());
            let found = wanted.clone().filter(|_| saved.has(hook.chain, &hook.words));
            compare(table, hook.chain, wanted, found, None);
        }
        let known: HashSet<&str> = all.chains.iter().map(|(_, chain, _)| chain.name.as_str()).collect();
        let is_strange = |chain: &&&str| all.is_whole && is_service_chain(chain) && !known.contains(**chain);
        for chain in saved.chains.iter().filter(is_strange) {
            let found = Some("a chain that no service has".to_owned());
            compare(table, chain, None, found, None);
        }
    }
    inspection
}

fn save<T: Tables>(tables: &mut T) -> Result<[String; 2], InspectionError> {
    Ok([tables.save(Table::Filter)?, tables.save(Table::Nat)?])
}

impl Wanted {
    fn new(dialect: &Dialect, inspected: &Inspected<'_>) -> Wanted {
        let keys = inspected.addresses().map(|at| Key::of(at, inspected.protocol)).collect();
        let mut wanted = Wanted {
            family: if inspected.to.is_ipv4() { "iptables" } else { "ip6tables" },
            keys,
            leaves: Vec::new(),
            chains: Vec::new(),
            ip: inspected.to.ip(),
            is_live: inspected.is_live,
            client: inspected.client,
            pins: Lists::default(),
        };
        let Some(owner) = inspected.owner else { return wanted };
        let name = PortName::new(owner.service, &owner.port.name, owner.port.protocol);
        let port = ServicePort { port: owner.port, name };
        wanted.add_leaves(&port, owner.destination);
        wanted
            .chains
            .extend(port.kinds().into_iter().map(|(table, kind)| (table, port.chain(kind, dialect))));
        if let Some(seconds) = owner.port.affinity_seconds {
            let backends = Pool::BOTH.into_iter().flat_map(|pool| owner.port.pool(pool));
            let list =
                |one: &model::PlannedEndpoint| (port.name.pins(one), SocketAddr::new(one.ip, one.port));
            wanted.pins = Lists { seconds, each: backends.map(list).collect() };
        }
        wanted
    }

    fn add_leaves(&mut self, port: &ServicePort<'_>, destination: &Destination) {
        let own = Key::of(destination.at, port.port.protocol);
        port.leaves(|place: Place, key: Key, rule: Rule| {
            if key == own {
                let mut text = String::new();
                key.write_match(&mut text);
                rule.write(&key, &mut text);
                self.leaves.push((place.table(), key, text));
            }
        });
    }

    /// What is in chains that were `written` meanwhile is no difference, nor a rule that is missing if there are any: it does
    /// not say in which chain it was.
    fn compare(&self, saved: &[String; 2], written: &HashSet<String>) -> Inspection {
        let mut inspection = Inspection::default();
        let is_written =
            |chain: Option<&str>| chain.map_or(!written.is_empty(), |chain| written.contains(chain));
        let mut compare =
            |chain: Option<&str>, place: &dyn Fn() -> String, wanted, found| match wanted != found {
                true if is_written(chain) => inspection.unsettled += 1,
                _ => inspection.compare(place, wanted, found),
            };
        for table in Table::BOTH {
            let saved = Saved::read(&saved[table as usize]);
            let name = table.name();
            let mut found: Vec<(Key, &str, &str)> = self.found(&saved);
            for (_, key, wanted) in self.leaves.iter().filter(|(at, ..)| *at == table) {
                let at = found.iter().position(|(_, _, rule)| is_same(wanted, rule));
                let there = at.map(|at| found.swap_remove(at));
                let place = || format!("{} -t {name}, a rule for{}", self.family, key_words(key));
                let wanted = Some(wanted.trim().to_owned());
                compare(None, &place, wanted.clone(), wanted.filter(|_| there.is_some()));
            }
            for (key, chain, rule) in found {
                let place =
                    || format!("{} -t {name}, chain {chain}, a rule for{}", self.family, key_words(&key));
                compare(Some(chain), &place, None, Some(rule.to_owned()));
            }
            for (_, chain) in self.chains.iter().filter(|(at, _)| *at == table) {
                let is_right = saved.holds(&chain.name, &chain.text);
                let wanted = || Some(format!("{} rules, as they were written", chain.rules));
                let found = if is_right { wanted() } else { saved.describe(&chain.name) };
                let place = || format!("{} -t {name}, chain {}", self.family, chain.name);
                compare(Some(&chain.name), &place, wanted(), found);
            }
            if table == Table::Filter {
                let mut rest = String::new();
                Key::whole(self.ip).write_match(&mut rest);
                Rule::RejectRest.write(&Key::whole(self.ip), &mut rest);
                let place =
                    || format!("{} -t {name}, a rule for the other ports of {}", self.family, self.ip);
                let there = |is_there: bool| is_there.then(|| rest.trim().to_owned());
                let is_found = saved.ours().any(|(_, rule)| is_same(&rest, rule));
                compare(None, &place, there(self.is_live), there(is_found));
            }
        }
        inspection
    }

    /// The rules in chains of ours that are for this address and port alone.
    fn found<'a>(&self, saved: &Saved<'a>) -> Vec<(Key, &'a str, &'a str)> {
        let ours = saved.ours().filter(|(_, rule)| !rule.ends_with("-j ACCEPT"));
        ours.filter_map(|(chain, rule)| {
            let key = exact_key(rule)?;
            self.keys.contains(&key).then_some((key, chain, rule))
        })
        .collect()
    }
}

/// What a rule asks of the destination, if that is one protocol and port and no source.
fn exact_key(rule: &str) -> Option<Key> {
    let (mut ip, mut protocol, mut port) = (None, None, None);
    let mut words = words(rule);
    while let Some(word) = words.next() {
        match word {
            "-s" | "!" => return None,
            "-d" => ip = Some(words.next()?.split('/').next()?.parse().ok()?),
            "-p" => protocol = Some(read_protocol(words.next()?)?),
            "--dport" => port = Some(words.next()?.parse().ok()?),
            _ => {}
        }
    }
    Some(Key { ip, ports: Ports::One(protocol?, port?) })
}

fn read_protocol(word: &str) -> Option<Protocol> {
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|one| one.to_string() == word)
}

fn key_words(key: &Key) -> String {
    match (key.ip, key.ports) {
        (Some(ip), Ports::One(protocol, port)) => format!(" {}/{protocol}", Address::Vip(ip, port)),
        (None, Ports::One(protocol, port)) => format!(" {}/{protocol}", Address::NodePort(port)),
        (Some(ip), Ports::Any) => format!(" {ip}"),
        (None, Ports::Any) => String::new(),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/iptables_inspect.rs"]
mod tests;
