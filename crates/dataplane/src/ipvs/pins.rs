//! Pinned clients of a virtual server: the templates among the connections of IPVS, as `/proc` shows them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use kernel::ipvs::VirtualServer;

use crate::inspection::Pinned;

const CONNECTIONS: &str = "/proc/net/ip_vs_conn";
/// About 700,000 connections.
const MOST_READ: u64 = 64 << 20;

/// Where this client is pinned. It reads all connections: not for the sync thread.
pub(super) fn find(server: VirtualServer, client: IpAddr) -> Option<Pinned> {
    find_in(BufReader::new(File::open(CONNECTIONS).ok()?.take(MOST_READ)), server, client)
}

fn find_in(connections: impl BufRead, server: VirtualServer, client: IpAddr) -> Option<Pinned> {
    connections.lines().map_while(Result::ok).find_map(|line| template(&line, server, client))
}

/// `TCP 0A000001 0000 0A60000A 0050 0AF40105 1F90 NONE           10790`. Port 0 of the client makes it a template.
fn template(line: &str, server: VirtualServer, client: IpAddr) -> Option<Pinned> {
    let mut words = line.split_whitespace();
    let protocol = words.next()?;
    let mut end =
        || Some(SocketAddr::new(address(words.next()?)?, u16::from_str_radix(words.next()?, 16).ok()?));
    let (from, to, leads_to) = (end()?, end()?, end()?);
    let is_meant = protocol.eq_ignore_ascii_case(&server.protocol.to_string())
        && from == SocketAddr::new(client, 0)
        && to == SocketAddr::new(server.address, server.port);
    let seconds = words.nth(1).and_then(|seconds| seconds.parse().ok());
    is_meant.then_some(Pinned { to: leads_to, left: seconds.map(Duration::from_secs) })
}

/// Eight digits, or eight groups of four.
fn address(word: &str) -> Option<IpAddr> {
    match word.contains(':') {
        true => word.trim_matches(['[', ']']).parse().ok(),
        false => u32::from_str_radix(word, 16).ok().map(|number| Ipv4Addr::from(number).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::ipvs::Protocol;

    const TABLE: &str = "\
Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData
TCP 0A000001 C350 0A60000A 0050 0AF40106 1F90 ESTABLISHED     899
UDP 0A000001 0000 0A60000A 0050 0AF40107 1F90 NONE             17
TCP 0A000001 0000 0A60000A 0051 0AF40108 1F90 NONE             18
TCP 0A000001 0000 0A60000A 0050 0AF40105 1F90 NONE          10790
TCP FD00:0000:0000:0000:0000:0000:0000:0001 0000 FD00:0096:0000:0000:0000:0000:0000:000A 0050 FD00:0244:0000:0000:0000:0000:0000:0005 1F90 ASSURED        12
TCP nonsense
";

    fn pin(server: &str, client: &str) -> Option<(String, Option<u64>)> {
        let address = server.parse().unwrap();
        let server = VirtualServer { address, protocol: Protocol::Tcp, port: 80 };
        let found = find_in(TABLE.as_bytes(), server, client.parse().unwrap());
        found.map(|pin| (pin.to.to_string(), pin.left.map(|left| left.as_secs())))
    }

    #[test]
    fn templates_say_where_clients_are_pinned_and_for_how_long() {
        assert_eq!(pin("10.96.0.10", "10.0.0.1"), Some(("10.244.1.5:8080".to_owned(), Some(10790))));
        assert_eq!(pin("fd00:96::a", "fd00::1"), Some(("[fd00:244::5]:8080".to_owned(), Some(12))));
        assert_eq!(pin("10.96.0.10", "10.0.0.2"), None);
        assert_eq!(pin("10.96.0.11", "10.0.0.1"), None);
    }
}
