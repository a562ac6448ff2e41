//! Servers and destinations: what we write is what `ipvsadm` reads, and the other way round.

use std::time::{Duration, Instant};

use kernel::ipvs::{Batch, Connection, DumpedDestination, Settings, Transport, VirtualServer, flags};
use kernel::netns::privileged_test;

use crate::place::{destination, saved, server, told, with_ipvs};

fn committed(connection: &mut Connection, batch: &Batch) {
    let failures = connection.commit(batch).unwrap();
    let words: Vec<String> = failures.iter().map(|failure| batch.explain(*failure)).collect();
    assert!(words.is_empty(), "{words:?}");
}

fn listed(connection: &mut Connection) -> Vec<VirtualServer> {
    let mut found: Vec<_> = connection.services().unwrap().into_iter().map(|one| one.server).collect();
    found.sort();
    found
}

fn weights(found: &[DumpedDestination]) -> Vec<(String, u32)> {
    let mut weights: Vec<_> = found.iter().map(|one| (one.destination.to_string(), one.weight)).collect();
    weights.sort();
    weights
}

#[test]
fn ipvsadm_prints_what_was_asked_for() {
    privileged_test(|| {
        with_ipvs(|connection| {
            let mut batch = Batch::new();
            for (text, settings) in [
                ("10.96.0.1:80/tcp", Settings::new("rr")),
                ("10.96.0.1:53/udp", Settings::new("lc").persistent(10800)),
                (
                    "10.96.0.1:99/sctp",
                    Settings::new("sh").with_flags(flags::HASH_PORT | flags::HASH_FALLBACK),
                ),
                ("[fd00:96::1]:80/tcp", Settings::new("wrr").persistent(60)),
                ("[fd00:96::1]:443/tcp", Settings::new("mh").with_flags(flags::HASH_PORT)),
            ] {
                batch.new_service(server(text), &settings);
            }
            batch.new_destination(server("10.96.0.1:80/tcp"), destination("10.0.0.1:8080"), 1);
            batch.new_destination(server("10.96.0.1:80/tcp"), destination("10.0.0.2:8080"), 0);
            batch.new_destination(server("[fd00:96::1]:80/tcp"), destination("[fd00::7]:8080"), 3);
            committed(connection, &batch);
            let Some(lines) = saved() else { return };
            let expected = [
                "-A -t 10.96.0.1:80 -s rr",
                "-A -t [fd00:96::1]:443 -s mh -b mh-port",
                "-A -t [fd00:96::1]:80 -s wrr -p 60",
                "-A -u 10.96.0.1:53 -s lc -p 10800",
                "-A --sctp-service 10.96.0.1:99 -s sh -b sh-fallback,sh-port",
                "-a -t 10.96.0.1:80 -r 10.0.0.1:8080 -m -w 1",
                "-a -t 10.96.0.1:80 -r 10.0.0.2:8080 -m -w 0",
                "-a -t [fd00:96::1]:80 -r [fd00::7]:8080 -m -w 3",
            ];
            let mut expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
            expected.sort();
            assert_eq!(lines, expected);
            let listed = told("ipvsadm", "-Ln").unwrap();
            assert!(listed.contains("TCP  10.96.0.1:80 rr\n"), "{listed}");
        })
    });
}

#[test]
fn what_ipvsadm_made_is_read() {
    privileged_test(|| {
        with_ipvs(|connection| {
            for arguments in [
                "-A -t 10.96.0.1:80 -s wlc -p 77 -M 255.255.255.0",
                "-a -t 10.96.0.1:80 -r 10.0.0.1:8080 -m -w 5",
                "-a -t 10.96.0.1:80 -r 10.0.0.2:80 -g -w 0",
                "-A -u [fd00:96::1]:53 -s rr",
                "-a -u [fd00:96::1]:53 -r [fd00::7]:53 -m",
                "-A -f 7 -s rr",
            ] {
                if told("ipvsadm", arguments).is_none() {
                    return;
                }
            }
            let mut services = connection.services().unwrap();
            services.sort_by_key(|one| one.server);
            // The one by firewall mark is nobody's whom we could meet.
            let names: Vec<String> = services.iter().map(|one| one.server.to_string()).collect();
            assert_eq!(names, ["10.96.0.1:80/tcp", "[fd00:96::1]:53/udp"]);
            assert_eq!(services[0].settings, Settings::new("wlc").persistent(77));
            assert!(services[0].by_network && !services[1].by_network);
            assert_eq!(services[1].settings, Settings::new("rr"));
            let found = connection.destinations(server("10.96.0.1:80/tcp")).unwrap();
            assert_eq!(weights(&found), [("10.0.0.1:8080".to_owned(), 5), ("10.0.0.2:80".to_owned(), 0)]);
            let masquerading =
                |text| found.iter().any(|one| one.masquerading && one.destination == destination(text));
            assert!(masquerading("10.0.0.1:8080") && !masquerading("10.0.0.2:80"));
            let found = connection.destinations(server("[fd00:96::1]:53/udp")).unwrap();
            assert_eq!(weights(&found), [("[fd00::7]:53".to_owned(), 1)]);
        })
    });
}

#[test]
fn changes_and_deletions_are_seen() {
    privileged_test(|| {
        with_ipvs(|connection| {
            let web = server("10.96.0.1:80/tcp");
            let mut batch = Batch::new();
            batch.new_service(web, &Settings::new("rr").persistent(60));
            batch.new_destination(web, destination("10.0.0.1:80"), 1);
            batch.new_destination(web, destination("10.0.0.2:80"), 1);
            committed(connection, &batch);
            let found = connection.service(web).unwrap().unwrap();
            assert_eq!((found.server, found.settings), (web, Settings::new("rr").persistent(60)));

            let mut batch = Batch::new();
            batch.set_service(web, &Settings::new("lc"));
            batch.set_destination(web, destination("10.0.0.1:80"), 0);
            batch.delete_destination(web, destination("10.0.0.2:80"));
            committed(connection, &batch);
            assert_eq!(connection.service(web).unwrap().unwrap().settings, Settings::new("lc"));
            let found = connection.destinations(web).unwrap();
            assert_eq!(weights(&found), [("10.0.0.1:80".to_owned(), 0)]);
            if let Some(lines) = saved() {
                assert_eq!(lines, ["-A -t 10.96.0.1:80 -s lc", "-a -t 10.96.0.1:80 -r 10.0.0.1:80 -m -w 0"]);
            }

            let mut batch = Batch::new();
            batch.delete_service(web);
            committed(connection, &batch);
            assert_eq!(connection.service(web).unwrap(), None);
            assert!(connection.destinations(web).unwrap().is_empty());
            assert!(connection.services().unwrap().is_empty());
        })
    });
}

#[test]
fn thousands_are_written_and_listed() {
    privileged_test(|| {
        with_ipvs(|connection| {
            let mut batch = Batch::new();
            let all: Vec<_> =
                (0..1500).map(|n| server(&format!("10.96.{}.{}:80/tcp", n / 250, n % 250 + 1))).collect();
            for one in &all {
                batch.new_service(*one, &Settings::new("rr"));
                batch.new_destination(*one, destination("10.0.0.1:80"), 1);
            }
            committed(connection, &batch);
            // Other tests change servers of their namespaces meanwhile, which may hide some of ours from a listing.
            let deadline = Instant::now() + Duration::from_secs(20);
            while listed(connection) != all {
                assert!(Instant::now() < deadline, "listed {} of {}", listed(connection).len(), all.len());
            }
            let mut batch = Batch::new();
            all.iter().for_each(|one| {
                batch.delete_service(*one);
            });
            committed(connection, &batch);
            assert!(connection.services().unwrap().is_empty());
        })
    });
}
