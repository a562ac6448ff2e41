//! What we program, as the nft tool of the machine prints it and reads it back.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::{Fixture, MARK, in_namespace, in_namespace_counting, pod_cidrs};
use dataplane::Reconciler;
use dataplane::nftables::{Nftables, TABLE_NAME};
use kernel::nft::Connection;
use model::{Family, Service};

#[test]
fn nft_prints_and_rereads_everything() {
    if Command::new("nft").arg("--version").output().is_err() {
        return println!("SKIPPED: the nft tool is not installed");
    }
    let (mut v4, mut v6) = (String::new(), String::new());
    in_namespace(|mut reconciler| {
        let fixture = Fixture::everything();
        for family in Family::BOTH {
            reconciler.sync(family, &[], &fixture).unwrap();
        }
        let json = nft(&["-j", "list", "ruleset"], "");
        assert!(json.starts_with("{\"nftables\""), "{json}");
        v4 = nft(&["list", "table", "ip", TABLE_NAME], "");
        v6 = nft(&["list", "table", "ip6", TABLE_NAME], "");
    });
    for expected in [
        "typeof ip daddr . meta l4proto . th dport . numgen random mod 2 : ip daddr . th dport",
        "10.96.0.1 . tcp . 80 comment \"default/plain:http\" : goto lb-2",
        "10.96.0.1 . tcp . 80 . 0 : 10.244.1.11 . 8080",
        "tcp . 30080 comment \"default/open:http\" : goto np-ext-2",
        "10.96.0.2 . tcp . 80 comment \"default/empty:http\"",
    ] {
        assert!(v4.contains(expected), "missing: {expected}\n{v4}");
    }
    assert!(v6.contains("fd00:96::1 . tcp . 80 . 1 : fd00:244:2::21 . 8080"), "{v6}");
    assert_reread("ip", &v4);
}

/// A port with many endpoints has a map and chains of its own.
#[test]
fn nft_prints_and_rereads_pools_of_their_own() {
    if Command::new("nft").arg("--version").output().is_err() {
        return println!("SKIPPED: the nft tool is not installed");
    }
    let mut listing = String::new();
    in_namespace(|mut reconciler| {
        let pods: Vec<String> =
            (0..300).map(|number| format!("10.244.{}.{}", number / 250, number % 250 + 1)).collect();
        let pods: Vec<(&str, &'static str)> = pods.iter().map(|pod| (&**pod, "here")).collect();
        let mut fixture = Fixture::default();
        let sticky = Service { affinity_seconds: Some(61), ..common::service(1) };
        fixture.add("default/sticky", sticky, &pods);
        fixture.add("default/plain", common::service(2), &pods);
        reconciler.sync(Family::V4, &[], &fixture).unwrap();
        listing = nft(&["list", "table", "ip", TABLE_NAME], "");
    });
    for expected in [
        "typeof numgen random mod 2 : ip daddr . th dport",
        "numgen random mod 300 map @pool-",
        "299 : 10.244.",
    ] {
        assert!(listing.contains(expected), "missing: {expected}\n{listing}");
    }
    assert_reread("ip", &listing);
}

/// The kernel takes a rewrite in place, and prints the same afterwards.
#[test]
fn a_rewrite_in_place_changes_nothing() {
    if Command::new("nft").arg("--version").output().is_err() {
        return println!("SKIPPED: the nft tool is not installed");
    }
    in_namespace(|mut reconciler| {
        let fixture = Fixture::everything();
        let mut listings = Vec::new();
        for _ in 0..2 {
            for family in Family::BOTH {
                reconciler.distrust(family);
                reconciler.sync(family, &[], &fixture).unwrap();
            }
            listings.push(words(&nft(&["list", "ruleset"], "")));
        }
        assert_eq!(listings[0], listings[1]);
    });
}

/// nft before 1.0.9 aborts when it reads IPv6 map statements, so this is asked of a table without affinity.
#[test]
fn nft_rereads_ipv6_without_affinity() {
    if Command::new("nft").arg("--version").output().is_err() {
        return println!("SKIPPED: the nft tool is not installed");
    }
    let mut listing = String::new();
    in_namespace(|mut reconciler| {
        let mut fixture = Fixture::everything();
        fixture.services.retain(|_, (service, ..)| service.affinity_seconds.is_none());
        reconciler.sync(Family::V6, &[], &fixture).unwrap();
        listing = nft(&["list", "table", "ip6", TABLE_NAME], "");
    });
    assert_reread("ip6", &listing);
}

/// Counters, the maps that lead to them and the rules that count, for an IPv6 table without affinity as above.
#[test]
fn nft_prints_and_rereads_counters() {
    if Command::new("nft").arg("--version").output().is_err() {
        return println!("SKIPPED: the nft tool is not installed");
    }
    let mut listings = [String::new(), String::new()];
    in_namespace_counting(true, |mut reconciler| {
        let mut fixture = Fixture::everything();
        fixture.services.retain(|_, (service, ..)| service.affinity_seconds.is_none());
        listings = [(Family::V4, "ip"), (Family::V6, "ip6")].map(|(family, name)| {
            reconciler.sync(family, &[], &fixture).unwrap();
            nft(&["list", "table", name, TABLE_NAME], "")
        });
    });
    let [v4, v6] = &listings;
    for expected in [
        "counter request/default/plain/tcp/http {",
        "type ipv4_addr . inet_proto . inet_service . ct_dir : counter",
        "10.96.0.1 . tcp . 80 . reply : \"reply/default/plain/tcp/http\"",
        "tcp . 30080 . original : \"request/default/open/tcp/http\"",
        "203.0.113.3 . tcp . 80 : \"connections/default/open/tcp/http\"",
        "ct status dnat iifname != \"lo\" goto count-traffic",
        "counter name ct original ip daddr . meta l4proto . ct original proto-dst . ct direction map @traffic-ips return",
    ] {
        assert!(v4.is_empty() || v4.contains(expected), "missing: {expected}\n{v4}");
    }
    assert_reread("ip", v4);
    assert_reread("ip6", v6);
}

/// A table that counted and one that never did are the same as soon as counting is off.
#[test]
fn counting_leaves_nothing_behind() {
    if Command::new("nft").arg("--version").output().is_err() {
        return println!("SKIPPED: the nft tool is not installed");
    }
    in_namespace(|mut never| {
        let fixture = Fixture::everything();
        let connection = || Connection::open().unwrap();
        let counting =
            |on| Reconciler::new(Nftables::new(connection(), &pod_cidrs(), MARK).count_traffic(on));
        for family in Family::BOTH {
            never.sync(family, &[], &fixture).unwrap();
            let before = nft(&["list", "ruleset"], "");
            counting(true).sync(family, &[], &fixture).unwrap();
            let meanwhile = nft(&["list", "ruleset"], "");
            assert!(meanwhile.contains("map traffic-nodeports"), "{meanwhile}");
            counting(false).sync(family, &[], &fixture).unwrap();
            assert_eq!(words(&nft(&["list", "ruleset"], "")), words(&before));
        }
    });
}

/// Load a listing into an empty namespace: it must print the same there.
fn assert_reread(family: &str, listing: &str) {
    if listing.is_empty() {
        return;
    }
    in_namespace(|_| {
        nft(&["-f", "-"], listing);
        let again = nft(&["list", "table", family, TABLE_NAME], "");
        assert_eq!(words(&again), words(listing), "printed:\n{listing}\nread back:\n{again}");
    });
}

/// A listing without its order, which maps do not keep.
fn words(listing: &str) -> Vec<String> {
    let mut words: Vec<String> =
        listing.split_whitespace().map(|word| word.trim_matches(',').to_owned()).collect();
    words.sort_unstable();
    words
}

fn nft(arguments: &[&str], input: &str) -> String {
    let mut command = Command::new("nft");
    let mut child = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "nft {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
