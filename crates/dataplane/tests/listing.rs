//! What we program, as the nft tool of the machine prints it and reads it back.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::{Fixture, in_namespace};
use dataplane::nftables::TABLE_NAME;
use model::Family;

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
