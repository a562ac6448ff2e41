//! The instructions that look into sets, and those by which packets write to them.

use super::instruction::{Datum, Register, Write};
use super::machine::{Machine, Step, end};
use super::state::{Element, Key, Set};
use super::words;

impl Machine<'_, '_> {
    pub(super) fn lookup(&mut self, name: &str, key: Register, to: Option<Register>, invert: bool) -> Step {
        let table = self.state.table(self.at.family, self.at.table);
        let Some(set) = table.and_then(|table| table.sets.get(name)) else { return Step::Break };
        let key = self.load(key, set.layout.key_length);
        let found = set.find(key);
        if found.is_some() == invert {
            return Step::Break;
        }
        let key = words::concatenation(set.layout.key_type, key);
        let data = found.and_then(|element| element.data.clone());
        match (to, data) {
            (Some(to), Some(data)) => {
                self.words
                    .push(format!("@{name} has {key}: {}", words::datum(set.layout.data_type(), &data)));
                match data {
                    Datum::Value(value) => self.store(to, &value, None),
                    Datum::Verdict(verdict) => {
                        self.acted = true;
                        end(verdict)
                    }
                    Datum::Counter(_) => Step::On,
                }
            }
            _ => {
                self.words.push(format!("{key} is {}in @{name}", if invert { "not " } else { "" }));
                Step::On
            }
        }
    }

    pub(super) fn count(&mut self, name: &str) -> Step {
        let table = self.state.tables_mut(self.at.family).get_mut(self.at.table);
        if let Some(packets) = table.and_then(|table| table.counters.get_mut(name)) {
            *packets += 1;
        }
        self.words.push(format!("counted in {name}"));
        Step::On
    }

    pub(super) fn count_in(&mut self, map: &str, key: Register) -> Step {
        let table = self.state.tables_mut(self.at.family).get_mut(self.at.table);
        let Some(table) = table else { return Step::Break };
        let Some(set) = table.sets.get(map) else { return Step::Break };
        let found = set.find(self.registers.get(key.span(set.layout.key_length)).unwrap_or_default());
        let Some(Datum::Counter(name)) = found.and_then(|element| element.data.as_ref()) else {
            return Step::Break;
        };
        if let Some(packets) = table.counters.get_mut(name) {
            *packets += 1;
        }
        self.acted = true;
        self.words.push(format!("counted in {name}"));
        Step::On
    }

    /// Whether the rule goes on: it ends when an element finds no room.
    pub(super) fn dynset(
        &mut self,
        name: &str,
        op: Write,
        key: Register,
        data: Option<Register>,
        timeout: Option<u64>,
    ) -> bool {
        let table = self.state.table(self.at.family, self.at.table);
        let Some(layout) = table.and_then(|table| table.sets.get(name)).map(|set| set.layout.clone()) else {
            return false;
        };
        let key = Key::start(self.load(key, layout.key_length));
        let data = data.map(|data| Datum::Value(self.load(data, layout.data_length()).into()));
        let Some(set) = self.state.set_mut(self.at.family, self.at.table, name) else { return false };
        let written = match op {
            Write::Delete => delete(set, key),
            Write::Add | Write::Update => write(set, op, key, data, timeout, self.at.now),
        };
        self.acted = true;
        self.words.push(format!("{} @{name}", written.text));
        written.done
    }
}

struct Written {
    done: bool,
    text: String,
}

/// Deleting what is not there is as good as done.
fn delete(set: &mut Set, key: Key) -> Written {
    let shown = words::concatenation(set.layout.key_type, &key.bytes);
    let found = set.put(key, None).is_some();
    let text = if found { format!("deletes {shown} from") } else { format!("finds no {shown} to delete in") };
    Written { done: true, text }
}

/// An update leaves the data of an element that exists as it was, and only restarts its time.
fn write(set: &mut Set, op: Write, key: Key, data: Option<Datum>, timeout: Option<u64>, now: u64) -> Written {
    let shown = words::concatenation(set.layout.key_type, &key.bytes);
    let timeout = timeout.or(set.timeout).filter(|timeout| *timeout != 0);
    let expires_at = timeout.map(|timeout| now.saturating_add(timeout));
    let lasting = timeout.map(|timeout| format!("for {} s ", timeout / 1000)).unwrap_or_default();
    if let Some(known) = set.elements().get(&key) {
        if op == Write::Update && known.timeout.is_some() {
            let element = Element { expires_at, ..known.clone() };
            set.put(key, Some(element));
        }
        return Written { done: true, text: format!("keeps {shown} {lasting}in") };
    }
    if set.size != 0 && set.elements().len() >= set.size {
        return Written { done: false, text: format!("finds no room for {shown} in") };
    }
    let value = data.as_ref().map(|data| format!(": {}", words::datum(set.layout.data_type(), data)));
    set.put(key, Some(Element { data, timeout, expires_at, user_data: Box::default() }));
    Written { done: true, text: format!("writes {shown}{} {lasting}to", value.unwrap_or_default()) }
}
