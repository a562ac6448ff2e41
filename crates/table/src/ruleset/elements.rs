//! The elements of a set as nft prints them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kernel::nft::sys::{NFT_DATA_VERDICT, NFT_SET_INTERVAL};
use kernel::nft::{Connection, DumpedElement, ElementData, Error, ListedSet, TableFamily, Transport};
use serde_json::{Value, json};

use super::types::{self, Type};

pub(super) struct Elements {
    key: Vec<Type>,
    data: Vec<Type>,
    /// Most bytes of text.
    most: usize,
    text: String,
    is_truncated: bool,
    /// Where intervals begin and, with `true`, where they end; of sets of intervals.
    bounds: Option<Vec<(Vec<u8>, bool)>>,
}

impl Elements {
    pub(super) fn of(set: &ListedSet<'_>, most: usize) -> Elements {
        let data = set.data_type.filter(|number| *number != NFT_DATA_VERDICT);
        Elements {
            key: types::of(set.key_type),
            data: data.map(types::of).unwrap_or_default(),
            most,
            text: String::new(),
            is_truncated: false,
            bounds: (set.flags & NFT_SET_INTERVAL != 0).then(Vec::new),
        }
    }

    pub(super) fn read(
        &mut self,
        connection: &mut Connection,
        family: TableFamily,
        table: &str,
        set: &str,
    ) -> Result<(), Error> {
        match connection.dump_elements(family, table, set, &mut |element| self.add(&element)) {
            // What was read is as good as what comes next would be: the agent writes all the time.
            Err(Error::Interrupted { .. }) => Ok(()),
            other => other,
        }
    }

    fn add(&mut self, element: &DumpedElement<'_>) {
        match &mut self.bounds {
            Some(bounds) if bounds.len() < self.most / 16 => {
                bounds.push((element.key.to_vec(), element.interval_end))
            }
            Some(_) => self.is_truncated = true,
            None => {
                let document = self.document(element);
                self.push(&document);
            }
        }
    }

    fn push(&mut self, document: &Value) {
        let text = document.to_string();
        if self.text.len() + text.len() + 2 > self.most {
            self.is_truncated = true;
            return;
        }
        if !self.text.is_empty() {
            self.text.push(',');
        }
        self.text.push_str(&text);
    }

    /// The array, and whether something is missing.
    pub(super) fn finish(mut self) -> (String, bool) {
        if let Some(bounds) = self.bounds.take() {
            intervals(bounds).iter().for_each(|interval| self.push(interval));
        }
        (format!("[{}]", self.text), self.is_truncated)
    }

    fn document(&self, element: &DumpedElement<'_>) -> Value {
        let mut key = types::value(&self.key, element.key);
        let seconds = |millis: u64| millis / 1000;
        let timeout = element.timeout_ms.filter(|timeout| *timeout > 0);
        if element.comment.is_some() || timeout.is_some() {
            let mut object = json!({ "val": key });
            if let Some(comment) = element.comment {
                object["comment"] = comment.into();
            }
            if let Some(timeout) = timeout {
                object["timeout"] = seconds(timeout).into();
                object["expires"] = seconds(element.expires_ms.unwrap_or_default()).into();
            }
            key = json!({ "elem": object });
        }
        match element.data {
            ElementData::None => key,
            ElementData::Value(bytes) => json!([key, types::value(&self.data, bytes)]),
            ElementData::Goto(chain) => json!([key, { "goto": { "target": chain } }]),
            ElementData::Counter(name) => json!([key, name]),
        }
    }
}

/// From bounds, in any order, to what lies between them. An interval that reaches the last address has no end.
fn intervals(mut bounds: Vec<(Vec<u8>, bool)>) -> Vec<Value> {
    bounds.sort_by(|(one, is_end), (other, other_ends)| one.cmp(other).then(other_ends.cmp(is_end)));
    let mut found = Vec::new();
    let mut bounds = bounds.into_iter().peekable();
    while let Some((first, is_end)) = bounds.next() {
        if is_end {
            continue;
        }
        let end = bounds.next_if(|(_, is_end)| *is_end);
        let last = end.map_or_else(|| vec![0xff; first.len()], |(end, _)| before(end));
        found.push(interval(&first, &last));
    }
    found
}

/// The number in front of this one.
fn before(mut bytes: Vec<u8>) -> Vec<u8> {
    for byte in bytes.iter_mut().rev() {
        let (less, borrows) = byte.overflowing_sub(1);
        *byte = less;
        if !borrows {
            break;
        }
    }
    bytes
}

fn interval(first: &[u8], last: &[u8]) -> Value {
    let word = |bytes: &[u8]| -> String {
        let ip = bytes.first_chunk::<16>().map(|ip| IpAddr::from(Ipv6Addr::from(*ip)));
        let ip = ip.or_else(|| bytes.first_chunk::<4>().map(|ip| IpAddr::from(Ipv4Addr::from(*ip))));
        ip.map(|ip| ip.to_string()).unwrap_or_default()
    };
    let differing: Vec<u8> = first.iter().zip(last).map(|(one, other)| one ^ other).collect();
    let common: u32 = match differing.iter().position(|byte| *byte != 0) {
        None => return word(first).into(),
        Some(at) => 8 * at as u32 + differing.get(at).map_or(0, |byte| byte.leading_zeros()),
    };
    // A prefix leaves every bit behind it open.
    let is_open = |at: u32| {
        let bit = |bytes: &[u8]| bytes.get(at as usize / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
        (bit(first), bit(last)) == (0, 1)
    };
    match (common..8 * first.len() as u32).all(is_open) {
        true => json!({ "prefix": { "addr": word(first), "len": common } }),
        false => json!({ "range": [word(first), word(last)] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_become_prefixes_ranges_and_addresses() {
        let ip = |text: &str| text.parse::<Ipv4Addr>().unwrap().octets().to_vec();
        let bounds = vec![
            (ip("10.97.0.0"), true),
            (ip("10.96.0.0"), false),
            (ip("0.0.0.0"), true),
            (ip("10.97.0.0"), false),
            (ip("10.97.0.1"), true),
            (ip("10.98.0.1"), false),
            (ip("10.98.0.4"), true),
            (ip("128.0.0.0"), false),
        ];
        let wanted = json!([
            { "prefix": { "addr": "10.96.0.0", "len": 16 } },
            "10.97.0.0",
            { "range": ["10.98.0.1", "10.98.0.3"] },
            { "prefix": { "addr": "128.0.0.0", "len": 1 } },
        ]);
        assert_eq!(json!(intervals(bounds)), wanted);
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_said() {
        let mut elements = Elements {
            key: types::of(7),
            data: Vec::new(),
            most: 24,
            text: String::new(),
            is_truncated: false,
            bounds: None,
        };
        for last in 1..4 {
            let key = [10, 0, 0, last];
            let element = DumpedElement {
                key: &key,
                data: ElementData::None,
                interval_end: false,
                timeout_ms: None,
                expires_ms: None,
                comment: None,
            };
            elements.add(&element);
        }
        assert_eq!(elements.finish(), ("[\"10.0.0.1\",\"10.0.0.2\"]".to_owned(), true));
    }
}
