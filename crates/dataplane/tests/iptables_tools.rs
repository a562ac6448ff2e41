//! The rules of iptables mode through the real programs: they take them, print them back, and what they print is
//! recognised as what was written.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{Fixture, MARK, pod_cidrs, service};
use dataplane::iptables::Iptables;
use dataplane::{Backend as _, Reconciler, Setup};
use kernel::iptables::{Table, Tables, Toolbox, Tools, Variant};
use kernel::netns::Namespace;
use model::{Family, Protocol, Service};

fn in_namespace(test: impl Fn(Reconciler<Iptables<Tools>>, Variant) + Send + Sync) {
    for variant in [Variant::Legacy, Variant::Nft] {
        let namespace = match Namespace::new() {
            Ok(namespace) => namespace,
            Err(error) => return println!("SKIPPED: no network namespace: {error}"),
        };
        namespace.run(|| {
            let tools = [false, true].map(|is_ipv6| Toolbox::default().of(variant, is_ipv6));
            let [Ok(v4), Ok(v6)] = tools else { return println!("SKIPPED: no iptables tools, {variant:?}") };
            let setup = Setup {
                detector: pod_cidrs(),
                masquerade_mark: MARK,
                drop_invalid: true,
                of_mode: model::ModeSettings::default(),
            };
            test(Reconciler::new(Iptables::new([Some(v4), Some(v6)], &setup).trying_matches()), variant);
        });
    }
}

fn saved(reconciler: &mut Reconciler<Iptables<Tools>>, family: Family) -> String {
    let tables = reconciler.backend().tables(family).unwrap();
    Table::BOTH.map(|table| tables.save(table).unwrap()).concat()
}

/// Each of our rules of which there is one kind, removed; and one added.
fn damages(saved: &str) -> Vec<String> {
    let mut damages = Vec::new();
    let mut table = "";
    for line in saved.lines() {
        if line.starts_with('*') {
            table = line;
        }
        let telling = [
            "-j KUBE-SVC-HAIRPIN",
            "-j KUBE-REJECT",
            "--random-fully",
            "PREROUTING",
            "default/away",
            "INVALID",
        ];
        if let Some(rule) =
            line.strip_prefix("-A ").filter(|rule| telling.iter().any(|word| rule.contains(word)))
        {
            damages.push(format!("{table}\n-D {rule}\nCOMMIT\n"));
        }
    }
    let kinds = damages.len().div_ceil(4);
    let mut damages: Vec<String> = damages.into_iter().step_by(kinds).collect();
    damages.push("*nat\n-A KUBE-SERVICES -j RETURN\nCOMMIT\n".to_owned());
    damages.push("*nat\n:KUBE-POSTROUTING - [0:0]\nCOMMIT\n".to_owned());
    damages
}

#[test]
fn what_is_written_is_found_again() {
    in_namespace(|mut reconciler, variant| {
        let mut fixture = Fixture::everything();
        for family in Family::BOTH {
            let synced = reconciler.sync(family, &[], &fixture).unwrap();
            assert!(synced.full && synced.committed.rules.total[1] > 20, "{synced:?}");
            // Another process writes: all rules are looked at, after the pause between two looks.
            let tables = reconciler.backend().tables(family).unwrap();
            tables.restore("*filter\n-A INPUT -i foreign0 -j ACCEPT\nCOMMIT\n").unwrap();
            let until = Instant::now() + Duration::from_secs(1);
            while Instant::now() < until {
                assert!(!reconciler.check(family), "{variant:?} {family}: taken for damaged");
            }
            for damage in damages(&saved(&mut reconciler, family)) {
                let tables = reconciler.backend().tables(family).unwrap();
                tables.restore(&damage).unwrap_or_else(|error| panic!("{damage}{error}"));
                let until = Instant::now() + Duration::from_secs(20);
                while !reconciler.check(family) {
                    assert!(Instant::now() < until, "{variant:?} {family}: unnoticed:\n{damage}");
                }
                assert!(reconciler.sync(family, &[], &fixture).unwrap().full);
            }
        }
        fixture.add("default/plain", service(1), &[("10.244.1.12", "here")]);
        let synced = reconciler.sync(Family::V4, &["default/plain".into()], &fixture).unwrap();
        assert!(!synced.full && synced.committed.rules.written[0] == 0, "{synced:?}");
        assert!(saved(&mut reconciler, Family::V4).contains("--to-destination 10.244.1.12:8080"));
    });
}

/// The nf_tables variant prints nothing of a table that holds a rule it cannot read, and ends well.
#[test]
fn a_table_that_cannot_be_read_is_written_all_the_same() {
    in_namespace(|mut reconciler, variant| {
        let fixture = Fixture::everything();
        reconciler.sync(Family::V4, &[], &fixture).unwrap();
        let other = ["add", "rule", "ip", "filter", "INPUT", "ct", "mark", "1", "accept"];
        if variant == Variant::Legacy {
            return;
        }
        if !Command::new("nft").args(other).status().is_ok_and(|status| status.success()) {
            return println!("SKIPPED: nft, which puts such a rule there, is not installed");
        }
        for _ in 0..3 {
            assert!(!reconciler.check(Family::V4));
            reconciler.distrust(Family::V4);
            assert!(reconciler.sync(Family::V4, &[], &fixture).unwrap().full);
        }
        let listed = Command::new("nft").args(["list", "chain", "ip", "filter", "FORWARD"]).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert_eq!(listed.matches("jump KUBE-FORWARD").count(), 1, "{listed}");
    });
}

/// What one family writes is distinguished from what another process writes by how often the tables were written.
#[test]
fn the_nf_tables_variant_counts_each_table_of_a_script_once() {
    in_namespace(|mut reconciler, variant| {
        let tables = reconciler.backend().tables(Family::V4).unwrap();
        for table in Table::BOTH {
            tables.save(table).unwrap();
        }
        let script = "*filter\n:A - [0:0]\n-A A -j RETURN\nCOMMIT\n*nat\n:B - [0:0]\n-A B -j RETURN\nCOMMIT\n*filter\n:A - [0:0]\nCOMMIT\n";
        for _ in 0..3 {
            let before = tables.stamp().unwrap();
            tables.restore(script).unwrap();
            let after = tables.stamp().unwrap();
            if variant == Variant::Nft {
                assert_eq!(after.0[0], before.0[0] + 3, "{before:?} {after:?}");
            }
        }
    });
}

/// Many kernels lack the match of SCTP, which then costs nobody else their rules.
#[test]
fn services_of_sctp_and_with_affinity_hold_no_others_up() {
    in_namespace(|mut reconciler, variant| {
        let pods = [("10.244.1.11", "here"), ("fd00:244:1::11", "here")];
        let mut cluster = Fixture::default();
        cluster.add("default/web", service(1), &pods);
        let mut signals = Service { affinity_seconds: Some(10), ..service(2) };
        cluster.add("default/pinned", signals.clone(), &pods);
        signals.ports[0].protocol = Protocol::Sctp;
        cluster.add("default/signals", signals, &pods);
        for family in Family::BOTH {
            reconciler.sync(family, &[], &cluster).unwrap();
            let missing = reconciler.backend().take_shortfalls(family);
            println!("{variant:?}, {family}: {missing:?}");
            let saved = saved(&mut reconciler, family);
            assert!(saved.contains("default/web:http") && saved.contains("default/pinned:http"), "{saved}");
            let is_sctp_missing = missing.iter().any(|one| one.note.contains("SCTP"));
            assert_eq!(saved.contains("default/signals:http"), !is_sctp_missing, "{saved}");
        }
    });
}
