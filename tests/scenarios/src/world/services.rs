//! The list itself. New services get new numbers: numbers are addresses, and traces are easier to read when
//! they stay.

use serde_json::json;

use super::*;

/// Ranges that hold the first client address and not the second, and the other way round. The blanks are
/// there to be trimmed.
const FIRST_CLIENT: [&str; 2] = [" 192.168.60.9/32", "fd00:60::9/128 "];
const SECOND_CLIENT: [&str; 2] = ["192.168.60.10/32", "fd00:60::10/128"];

const ALL: &[&str] = &["a", "b", "c"];

pub(super) fn all() -> Vec<Entry> {
    [inside(), ways_in(), endpoints(), hints(), guarded(), sticky(), odd()].concat()
}

/// Cluster IPs.
fn inside() -> Vec<Entry> {
    let tcp = |name: &'static str, port| (name, Tcp, port);
    vec![
        // Not number 1: a cluster gives its first address to the service `kubernetes`.
        Entry::new("web", 9).web_ports().endpoints(ALL),
        // Two ports of one protocol, each with its own target port.
        Entry::new("multi", 2).edit(|s| s.port("http", Tcp, 80, 0).port("metrics", Tcp, 9100, 0)).slice(
            &[tcp("http", MAIN_PORT), tcp("metrics", SECOND_PORT)],
            &["a", "c"],
            |_, e| e,
        ),
        // One port number for two protocols, with different target ports.
        Entry::new("dns", 3).edit(|s| s.port("udp", Udp, 53, 0).port("tcp", Tcp, 53, 0)).slice(
            &[("udp", Udp, MAIN_PORT), ("tcp", Tcp, SECOND_PORT)],
            &["a", "c"],
            |_, e| e,
        ),
        // No slice serves the second port.
        Entry::new("half", 4).edit(|s| s.port("http", Tcp, 80, 0).port("admin", Tcp, 81, 0)).slice(
            &[tcp("http", MAIN_PORT)],
            &["a", "c"],
            |_, e| e,
        ),
        Entry::new("inner", 5).with("internalTrafficPolicy", "Local").web_ports().endpoints(&["a", "c"]),
        Entry::new("inner-away", 6).with("internalTrafficPolicy", "Local").web_ports().endpoints(&["c"]),
        Entry::new("inner-empty", 7).with("internalTrafficPolicy", "Local").web_ports(),
        // The two policies are apart from each other.
        Entry::new("inner-open", 8)
            .open()
            .with("internalTrafficPolicy", "Local")
            .web_ports()
            .endpoints(&["c"]),
    ]
}

/// External IPs, balancer IPs and node ports.
fn ways_in() -> Vec<Entry> {
    let local = |entry: Entry| entry.with("externalTrafficPolicy", "Local");
    let shared = Family::BOTH.map(|family| address_in(Range::External, 18, family));
    vec![
        Entry::new("open", 10).open().web_ports().endpoints(ALL),
        local(Entry::new("local", 11)).open().web_ports().endpoints(ALL),
        local(Entry::new("away", 12)).open().web_ports().endpoints(&["c"]),
        Entry::new("empty", 13).open().web_ports(),
        local(Entry::new("empty-local", 14)).open().web_ports(),
        // Only itself to call.
        Entry::new("self", 15).open().web_ports().endpoints(&["b"]),
        local(Entry::new("self-local", 16)).open().web_ports().endpoints(&["b"]),
        // One node port number for two protocols.
        Entry::new("ports", 17)
            .with("type", "NodePort")
            .edit(|s| s.port("tcp", Tcp, 80, node_port(17)).port("udp", Udp, 80, node_port(17)))
            .slice(&[("tcp", Tcp, MAIN_PORT), ("udp", Udp, SECOND_PORT)], &["a", "c"], |_, e| e),
        // Two claim one external IP. The older one is behind the other in the alphabet.
        Entry::new("veteran", 18)
            .edit(|s| s.external_ips(&shared).created("2020-01-01T00:00:00Z"))
            .web_ports()
            .endpoints(&["a"]),
        Entry::new("rookie", 19)
            .edit(|s| s.external_ips(&shared).created("2024-01-01T00:00:00Z"))
            .web_ports()
            .endpoints(&["c"]),
        Entry::new("proxied", 20)
            .edit(|s| {
                let ips = Family::BOTH.map(|family| address_in(Range::Balancer, 20, family));
                ips.iter().fold(s.with("type", "LoadBalancer"), |s, ip| s.balancer_ip(*ip, "Proxy"))
            })
            .web_ports()
            .endpoints(ALL),
        // Reachable from outside without being of a type for it.
        local(Entry::new("bare-external", 21))
            .edit(|s| s.external_ips(&Family::BOTH.map(|family| address_in(Range::External, 21, family))))
            .web_ports()
            .endpoints(&["a", "c"]),
    ]
}

/// Conditions and places of endpoints.
fn endpoints() -> Vec<Entry> {
    let local = |entry: Entry| entry.with("externalTrafficPolicy", "Local");
    vec![
        // Ready, not ready, terminating.
        Entry::new("mixed", 30).web_ports().endpoints_as(ALL, |name, e| match name {
            "a" => e,
            "b" => e.conditions(false, false, false),
            _ => e.conditions(false, true, true),
        }),
        // No endpoint is ready, one still serves.
        Entry::new("fading", 31).web_ports().endpoints_as(ALL, |name, e| match name {
            "a" => e.conditions(false, true, true),
            "b" => e.conditions(false, false, false),
            _ => e.conditions(false, false, true),
        }),
        // On this node only a terminating one, elsewhere a ready one.
        local(Entry::new("fading-local", 32)).open().web_ports().endpoints_as(&["a", "c"], |name, e| {
            match name {
                "a" => e.conditions(false, true, true),
                _ => e,
            }
        }),
        // An endpoint in two slices counts once.
        Entry::new("merged", 38).web_ports().endpoints(&["a", "b"]).endpoints(&["b", "c"]),
        Entry::new("hosted", 39).open().web_ports().endpoints(&["node"]),
        Entry::new("far-hosted", 40).open().web_ports().endpoints(&["remote"]),
        local(Entry::new("hosted-local", 42)).open().web_ports().endpoints(&["node"]),
        // Of two words about one endpoint the better one counts.
        Entry::new("doubted", 43)
            .web_ports()
            .endpoints_as(&["a"], |_, e| e.conditions(false, false, false))
            .endpoints(&["a"]),
        // Everything there is, is unready: as good as nothing.
        Entry::new("unready", 44)
            .open()
            .web_ports()
            .endpoints_as(ALL, |_, e| e.conditions(false, false, false)),
        // A pod of another node that may reach itself through this one.
        local(Entry::new("far-self", 45)).open().web_ports().endpoints(&["far"]),
        // A pod of this node of which no slice says so.
        Entry::new("nowhere-self", 46).web_ports().endpoints_as(&["guest"], |_, e| e.nowhere()),
        // Policy Local counts on what slices say.
        local(Entry::new("nowhere-local", 47))
            .open()
            .web_ports()
            .endpoints_as(ALL, |name, e| if name == "b" { e.nowhere() } else { e }),
    ]
}

/// Topology hints, seen from node-1 in zone-1.
fn hints() -> Vec<Entry> {
    let zones = |zones: [&'static str; 3]| {
        move |name: &str, e: EndpointManifest| {
            let at = ALL.iter().position(|n| *n == name).unwrap_or_default();
            if zones[at].is_empty() { e } else { e.hint("forZones", zones[at]) }
        }
    };
    let local = |entry: Entry| entry.with("externalTrafficPolicy", "Local");
    vec![
        Entry::new("zoned", 33).web_ports().endpoints_as(ALL, zones(["zone-1", "zone-2", "zone-1"])),
        Entry::new("half-zoned", 34).web_ports().endpoints_as(ALL, zones(["zone-1", "", "zone-2"])),
        Entry::new("other-zone", 35).web_ports().endpoints_as(ALL, zones(["zone-9", "zone-9", "zone-8"])),
        Entry::new("node-hinted", 36).web_ports().endpoints_as(ALL, |name, e| {
            e.hint("forZones", "zone-1").hint("forNodes", if name == "b" { "node-1" } else { "node-2" })
        }),
        Entry::new("other-node", 37).web_ports().endpoints_as(ALL, |name, e| {
            e.hint("forNodes", "node-2").hint("forZones", if name == "b" { "zone-1" } else { "zone-2" })
        }),
        local(Entry::new("zoned-local", 41))
            .open()
            .web_ports()
            .endpoints_as(ALL, zones(["zone-2", "zone-2", "zone-1"])),
    ]
}

/// `loadBalancerSourceRanges`.
fn guarded() -> Vec<Entry> {
    let ranges = |entry: Entry, ranges: &[&str]| entry.with("loadBalancerSourceRanges", json!(ranges));
    // An address of the balancer that the clients of `Position::OutsideAsBalancer` have.
    let second_ip = |entry: Entry| {
        let ips = Family::BOTH.map(|family| address_in(Range::Balancer, SECOND_BALANCER, family));
        entry.edit(|s| ips.iter().fold(s, |s, ip| s.balancer_ip(*ip, "VIP")))
    };
    let with_node = ["192.168.50.0/24", "fd00:50::/64"];
    let nets = ["10.244.0.0/16", "fd00:244::/32", SECOND_CLIENT[0], SECOND_CLIENT[1]];
    let everyone = ["0.0.0.0/0", "::/0", FIRST_CLIENT[0], FIRST_CLIENT[1]];
    let open = |name, number| Entry::new(name, number).open().web_ports();
    vec![
        ranges(open("guarded", 50), &FIRST_CLIENT).endpoints(ALL),
        second_ip(ranges(open("guarded-node", 51), &with_node)).endpoints(ALL),
        ranges(open("guarded-open", 52), &everyone).endpoints(ALL),
        ranges(open("guarded-nets", 53), &nets).endpoints(ALL),
        ranges(open("guarded-local", 54), &FIRST_CLIENT)
            .with("externalTrafficPolicy", "Local")
            .endpoints(ALL),
        ranges(open("guarded-empty", 55), &FIRST_CLIENT),
        ranges(open("guarded-v4", 56), &FIRST_CLIENT[..1]).endpoints(ALL),
    ]
}

/// ClientIP affinity.
fn sticky() -> Vec<Entry> {
    let sticky = |name, number| Entry::new(name, number).open().with("sessionAffinity", "ClientIP");
    vec![
        sticky("sticky", 60).web_ports().endpoints(ALL),
        sticky("sticky-local", 61).with("externalTrafficPolicy", "Local").web_ports().endpoints(ALL),
    ]
}

/// Services that are not ours, and services of one family.
fn odd() -> Vec<Entry> {
    let single = |name, number, family| {
        let mut entry = Entry::new(name, number);
        entry.manifest = ServiceManifest::new(name, &[address_in(Range::Cluster, number, family)]);
        entry.open().web_ports().endpoints(ALL)
    };
    vec![
        Entry::new("foreign", 70)
            .open()
            .edit(|s| s.label("service.kubernetes.io/service-proxy-name", "other"))
            .web_ports()
            .endpoints(ALL),
        Entry::new("headless-label", 71)
            .open()
            .edit(|s| s.label("service.kubernetes.io/headless", ""))
            .web_ports()
            .endpoints(ALL),
        Entry::new("named", 72)
            .open()
            .with("type", "ExternalName")
            .with("externalName", "example.org")
            .web_ports()
            .endpoints(ALL),
        Entry::new("headless", 73)
            .open()
            .with("clusterIP", "None")
            .with("clusterIPs", json!(["None"]))
            .web_ports()
            .endpoints(ALL),
        single("only-v4", 74, Family::V4),
        single("only-v6", 75, Family::V6),
    ]
}
