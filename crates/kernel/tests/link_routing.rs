//! The dummy device, local routes, policy rules and their monitor, compared with what `ip` prints.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command as Process;
use std::time::{Duration, Instant};

use kernel::IpFamily;
use kernel::link::{Action, Links, LocalRoute, Mark, RoutingMonitor, Rule, TABLE_LOCAL, Wake};
use kernel::netns::{Namespace, privileged_test};

const DEVICE: &str = "kube-ipvs0";
const OURS: u8 = 77;
const TABLE: u32 = 7001;
/// The kernel's own choice for IPv6.
const METRIC: u32 = 1024;

/// What `ip` prints, in single spaces; `None`, with the reason printed, if it is not installed.
fn ip(arguments: &str) -> Option<String> {
    let Ok(output) = Process::new("ip").args(arguments.split_whitespace()).output() else {
        println!("SKIPPED: ip is not installed");
        return None;
    };
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect())
}

fn route(to: &str, device: &str, table: u32) -> LocalRoute {
    LocalRoute {
        to: to.parse().unwrap(),
        device: device.to_owned(),
        table,
        protocol: OURS,
        metric: METRIC,
        source: None,
    }
}

fn rule(family: IpFamily, priority: u32, action: Action) -> Rule {
    Rule { family, priority, mark: None, input: None, action, protocol: OURS }
}

fn in_namespace(test: impl FnOnce(&mut Links) + Send) {
    Namespace::new().unwrap().run(|| {
        let mut links = Links::open().unwrap();
        links.set_up("lo").unwrap();
        test(&mut links);
    });
}

/// Make and set up the device, or say why not.
fn dummy(links: &mut Links) -> bool {
    match links.create_dummy(DEVICE) {
        Ok(()) => {
            links.set_up(DEVICE).unwrap();
            true
        }
        Err(error) if error.errno() == Some(libc::EOPNOTSUPP) => {
            println!("SKIPPED: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn routes_of_a_dummy_are_local_and_go_with_it() {
    privileged_test(|| {
        in_namespace(|links| {
            if !dummy(links) {
                return;
            }
            assert!(links.links().unwrap().iter().any(|link| link.name == DEVICE && link.up));
            let routes =
                [route("10.96.0.0/12", DEVICE, TABLE_LOCAL), route("fd00:96::/112", DEVICE, TABLE_LOCAL)];
            links.add_local_routes(&routes).unwrap();
            links.add_local_routes(&routes).unwrap();
            assert_eq!(links.local_routes(TABLE_LOCAL).unwrap(), routes);
            if let Some(said) = ip("route get 10.100.1.2") {
                assert!(said.starts_with("local 10.100.1.2 dev lo"), "{said}");
            }
            if let Some(said) = ip("-6 route show table local dev kube-ipvs0") {
                assert!(said.contains("local fd00:96::/112 proto 77"), "{said}");
            }
            links.delete_local_routes(&routes[..1]).unwrap();
            links.delete_local_routes(&routes[..1]).unwrap();
            assert_eq!(links.local_routes(TABLE_LOCAL).unwrap(), routes[1..]);
            links.delete(DEVICE).unwrap();
            assert_eq!(links.local_routes(TABLE_LOCAL).unwrap(), []);
        });
    });
}

#[test]
fn a_table_of_its_own_makes_everything_local() {
    privileged_test(|| {
        in_namespace(|links| {
            assert_eq!(links.local_routes(TABLE).unwrap(), []);
            let routes = [route("0.0.0.0/0", "lo", TABLE), route("::/0", "lo", TABLE)];
            links.add_local_routes(&routes).unwrap();
            assert_eq!(links.local_routes(TABLE).unwrap(), routes);
            if let Some(said) = ip("route show table 7001") {
                assert_eq!(said, "local default dev lo proto 77 scope host metric 1024\n");
            }
            if let Some(said) = ip("-6 route show table 7001") {
                assert!(said.starts_with("local default dev lo proto 77 metric 1024"), "{said}");
            }
            links.delete_local_routes(&routes).unwrap();
            assert_eq!(links.local_routes(TABLE).unwrap(), []);
        });
    });
}

/// Another kube-proxy has its services' addresses on a device; our routes to them are there before these go.
#[test]
fn a_route_with_a_metric_stands_beside_the_kernels_and_has_a_source() {
    privileged_test(|| {
        in_namespace(|links| {
            let [vip, home] =
                ["10.96.0.10/32", "192.168.50.2/24"].map(|net| net.parse::<ipnet::IpNet>().unwrap());
            for net in [vip, home] {
                links.add_address("lo", net).unwrap();
            }
            let plain = route("10.96.0.10/32", "lo", TABLE_LOCAL);
            let sourced = LocalRoute { source: Some(home.addr()), ..plain.clone() };
            links.add_local_routes(std::slice::from_ref(&plain)).unwrap();
            assert_eq!(links.local_routes(TABLE_LOCAL).unwrap(), std::slice::from_ref(&plain));
            for _ in 0..2 {
                links.replace_local_routes(std::slice::from_ref(&sourced)).unwrap();
                assert_eq!(links.local_routes(TABLE_LOCAL).unwrap(), std::slice::from_ref(&sourced));
            }
            links.replace_local_routes(std::slice::from_ref(&plain)).unwrap();
            assert_eq!(links.local_routes(TABLE_LOCAL).unwrap(), std::slice::from_ref(&plain));
            links.replace_local_routes(std::slice::from_ref(&sourced)).unwrap();
            links.delete_address("lo", vip).unwrap();
            if let Some(said) = ip("route get 10.96.0.10") {
                assert!(said.starts_with("local 10.96.0.10 dev lo src 192.168.50.2"), "{said}");
            }
            links.delete_local_routes(&[plain]).unwrap();
            assert_eq!(links.local_routes(TABLE_LOCAL).unwrap(), []);
        });
    });
}

#[test]
fn many_routes_are_added_at_once() {
    privileged_test(|| {
        in_namespace(|links| {
            let all: Vec<_> =
                (0..1000).map(|n| route(&format!("10.96.{}.{}/32", n / 256, n % 256), "lo", TABLE)).collect();
            links.add_local_routes(&all).unwrap();
            let mut found = links.local_routes(TABLE).unwrap();
            found.sort();
            assert_eq!(found, all);
            links.delete_local_routes(&all).unwrap();
            assert_eq!(links.local_routes(TABLE).unwrap(), []);
        });
    });
}

#[test]
fn a_route_that_is_refused_is_named() {
    privileged_test(|| {
        in_namespace(|links| {
            let error = links.add_local_routes(&[route("10.96.0.0/12", "nosuch", TABLE)]).unwrap_err();
            assert_eq!(error.errno(), Some(libc::ENODEV));
            assert!(error.to_string().contains("10.96.0.0/12"), "{error}");
        });
    });
}

#[test]
fn rules_are_as_ip_prints_them() {
    privileged_test(|| {
        in_namespace(|links| {
            for family in [IpFamily::V4, IpFamily::V6] {
                let mark = Some(Mark { value: 0x2000, mask: 0x2000 });
                let ours = [
                    Rule { input: Some("lo".to_owned()), ..rule(family, 89, Action::Goto(91)) },
                    Rule { mark, ..rule(family, 90, Action::Lookup(TABLE)) },
                    rule(family, 91, Action::Nop),
                ];
                for one in &ours {
                    links.add_rule(one).unwrap();
                    links.add_rule(one).unwrap();
                }
                let found = links.rules(family).unwrap();
                let of_us: Vec<_> = found.iter().filter(|one| one.protocol == OURS).cloned().collect();
                assert_eq!(of_us, ours);
                // The kernel's own for the tables local and main.
                assert!(found.iter().any(|one| one.action == Action::Lookup(TABLE_LOCAL)), "{found:?}");
                let option = if family == IpFamily::V4 { "-4" } else { "-6" };
                if let Some(said) = ip(&format!("{option} rule show")) {
                    assert!(said.contains("89: from all iif lo goto 91 proto 77\n"), "{said}");
                    assert!(
                        said.contains("90: from all fwmark 0x2000/0x2000 lookup 7001 proto 77\n"),
                        "{said}"
                    );
                    assert!(said.contains("91: from all nop proto 77\n"), "{said}");
                }
                for one in &ours {
                    links.delete_rule(one).unwrap();
                    links.delete_rule(one).unwrap();
                }
                assert!(links.rules(family).unwrap().iter().all(|one| one.protocol != OURS));
            }
        });
    });
}

#[test]
fn rules_that_ask_for_more_are_not_taken_for_simpler_ones() {
    privileged_test(|| {
        in_namespace(|links| {
            let before = links.rules(IpFamily::V4).unwrap();
            for selector in ["from 10.0.0.0/8", "to 10.0.0.0/8", "not fwmark 7", "oif lo", "ipproto tcp"] {
                if ip(&format!("rule add pref 50 {selector} lookup main")).is_none() {
                    return;
                }
            }
            assert_eq!(links.rules(IpFamily::V4).unwrap(), before);
        });
    });
}

fn awaits_change(monitor: &mut RoutingMonitor) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while monitor.wait(Duration::from_millis(100)).unwrap() == Wake::Quiet {
        assert!(Instant::now() < deadline, "no word of the change");
    }
}

#[test]
fn the_monitor_tells_of_routes_rules_and_the_device() {
    privileged_test(|| {
        in_namespace(|links| {
            let routes = [route("10.96.0.0/12", "lo", TABLE), route("fd00:96::/112", "lo", TABLE)];
            links.add_local_routes(&routes).unwrap();
            links.add_rule(&rule(IpFamily::V6, 91, Action::Nop)).unwrap();
            let mut monitor = RoutingMonitor::open("br-watched").unwrap();
            for one in &routes {
                links.delete_local_routes(std::slice::from_ref(one)).unwrap();
                awaits_change(&mut monitor);
            }
            links.delete_rule(&rule(IpFamily::V6, 91, Action::Nop)).unwrap();
            awaits_change(&mut monitor);
            links.create_bridge("br-watched").unwrap();
            awaits_change(&mut monitor);
            links.create_bridge("br-other").unwrap();
            assert_eq!(monitor.wait(Duration::from_millis(50)).unwrap(), Wake::Quiet);
        });
    });
}
