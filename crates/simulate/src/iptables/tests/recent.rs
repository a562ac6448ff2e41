//! The lists of `-m recent`, with a clock that is moved.

use super::*;

const STICKY: &str = ":S - [0:0]
-A PREROUTING -d 10.96.0.1 -j S
-A S -p tcp -m recent --name ONE --update --seconds 10 --reap -j DNAT --to-destination 10.0.0.1:80
-A S -p tcp -m recent --name TWO --update --seconds 10 --reap -j DNAT --to-destination 10.0.0.2:80
-A S -p tcp -m statistic --mode random --probability 0.5 -m recent --name ONE --set -j DNAT --to-destination 10.0.0.1:80
-A S -p tcp -m recent --name TWO --set -j DNAT --to-destination 10.0.0.2:80";

/// Where a client is sent if the draw is this.
fn ask(simulator: &mut Simulator, client: &str, drawn: u32) -> IpAddr {
    arrived(&walk(simulator, &host(), packet(client, "10.96.0.1", 80), &mut |_| drawn)).0
}

#[test]
fn a_client_stays_where_it_was_until_its_time_is_up() {
    let mut simulator = holding(STICKY, "");
    assert_eq!(ask(&mut simulator, "1.1.1.1", 0), ip("10.0.0.1"));
    simulator.set_now(9_000);
    assert_eq!(ask(&mut simulator, "1.1.1.1", u32::MAX), ip("10.0.0.1"));
    assert_eq!(ask(&mut simulator, "2.2.2.2", u32::MAX), ip("10.0.0.2"), "each client for itself");
    simulator.set_now(18_500);
    assert_eq!(ask(&mut simulator, "1.1.1.1", u32::MAX), ip("10.0.0.1"), "asking again prolongs it");
    simulator.set_now(29_000);
    assert_eq!(ask(&mut simulator, "1.1.1.1", u32::MAX), ip("10.0.0.2"));
    assert!(simulator.seen("ONE").is_empty(), "reaped");
}

#[test]
fn a_list_lives_as_long_as_a_rule_names_it() {
    let mut simulator = holding(STICKY, "");
    ask(&mut simulator, "1.1.1.1", 0);
    let again = STICKY.replace("-A PREROUTING -d 10.96.0.1 -j S\n", "");
    restore(&mut simulator, &again, "").unwrap();
    assert_eq!(simulator.seen("ONE"), [ip("1.1.1.1")], "rewritten in one go");
    restore(&mut simulator, ":S - [0:0]", "").unwrap();
    restore(&mut simulator, &again, "").unwrap();
    assert!(simulator.seen("ONE").is_empty());
}

#[test]
fn a_list_forgets_who_came_first_when_it_is_full() {
    let mut simulator = holding(STICKY, "");
    for last in 0..101 {
        ask(&mut simulator, &format!("1.1.1.{last}"), 0);
    }
    let held = simulator.seen("ONE");
    assert_eq!((held.len(), held[0]), (100, ip("1.1.1.1")));
}

#[test]
fn a_match_that_fails_keeps_those_behind_it_from_remembering() {
    let rule = "-A PREROUTING -p tcp -m mark --mark 1 -m recent --set --name L";
    let mut simulator = holding(rule, "");
    ask(&mut simulator, "1.1.1.1", 0);
    assert!(simulator.seen("L").is_empty());
}
