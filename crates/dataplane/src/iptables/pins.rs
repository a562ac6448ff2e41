//! Pinned clients, as the match `recent` lists them: one list for each endpoint.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use kernel::jiffies::Jiffies;

use crate::inspection::Pinned;

/// Where the kernel shows the lists.
pub(super) const FOLDER: &str = "/proc/net/xt_recent";
/// Of one list, which has at most 65,535 clients by default.
const MOST_READ: u64 = 16 << 20;

/// The lists of a service port, in the order in which rules ask them.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) seconds: u32,
    pub(super) each: Vec<(String, SocketAddr)>,
}

impl Lists {
    /// The first list that has the client counts, unless that was too long ago.
    pub(super) fn find(&self, client: IpAddr, folder: &Path, clock: Option<Jiffies>) -> Option<Pinned> {
        self.each.iter().find_map(|(list, to)| {
            let stamp = last_seen(&folder.join(list), client)?;
            let left = clock.zip(stamp).map(|(clock, stamp)| left(self.seconds, clock.since(stamp)));
            match left {
                Some(None) => None,
                left => Some(Pinned { to: *to, left: left.flatten() }),
            }
        })
    }
}

/// `None` if it is over.
fn left(seconds: u32, age: Duration) -> Option<Duration> {
    Duration::from_secs(seconds.into()).checked_sub(age).filter(|left| !left.is_zero())
}

/// When the client was seen last, if it is listed and that can be read.
fn last_seen(list: &Path, client: IpAddr) -> Option<Option<u64>> {
    let lines = BufReader::new(File::open(list).ok()?.take(MOST_READ)).lines();
    lines.map_while(Result::ok).find_map(|line| stamp(&line, client))
}

/// A line such as `src=10.0.0.1 ttl: 64 last_seen: 4295010720 oldest_pkt: 1 4295010720`.
fn stamp(line: &str, client: IpAddr) -> Option<Option<u64>> {
    let mut words = line.split(' ');
    let source: IpAddr = words.next()?.strip_prefix("src=")?.parse().ok()?;
    let stamp = words.skip_while(|word| *word != "last_seen:").nth(1).and_then(|number| number.parse().ok());
    (source == client).then_some(stamp)
}

#[cfg(test)]
#[path = "../../tests/unit/iptables_pins.rs"]
mod tests;
