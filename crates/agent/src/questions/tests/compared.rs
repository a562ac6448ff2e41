//! What the kernel holds is compared in pieces.

use super::*;

/// One answer after the other: how many that were, and the differences.
fn compare(
    world: &mut World<Nftables<Simulator>>,
    families: [bool; 2],
) -> (usize, usize, Vec<dataplane::Difference>) {
    let keys = [ServiceKey::from("default/web")];
    let (mut rest, mut from, mut turns, mut total) = (&keys[..], Cursor::default(), 0, 0);
    let mut found = Vec::new();
    while !rest.is_empty() {
        let done = inspect(&Wanted::new(rest, from, families), &mut world.reconciler);
        let looks = done.looks.into_iter().map(|(_, look)| look.finish().unwrap());
        let compared = looks.map(|one| {
            found.extend(one.differences);
            one.compared
        });
        let compared: usize = compared.sum();
        assert!(compared < 200 + 161, "{compared}: one address more than enough");
        total += compared;
        let read: Cursor = done.next.to_string().parse().unwrap();
        assert_eq!(read, done.next);
        (rest, from) = (&rest[done.count..], done.next);
        turns += 1;
    }
    (turns, total, found)
}

#[test]
fn every_address_of_a_broad_service_is_compared() {
    let mut world = World::new();
    apply_service(&mut world.state, (1..=20).map(|at| port(&format!("p{at}"), Protocol::Tcp, at)).collect());
    world.sync();
    let (turns, compared, found) = compare(&mut world, [true; 2]);
    assert_eq!((turns, found), (compared.div_ceil(200), Vec::new()));
    let key = [192, 0, 2, 1, 6, 0, 0, 0, 0, 20, 0, 0];
    let simulator = world.reconciler.backend().transport();
    assert!(simulator.delete_element(TableFamily::Ip, TABLE_NAME, "no-endpoint-reject-ips", &key));
    let (_, _, found) = compare(&mut world, [true; 2]);
    let places: Vec<&str> = found.iter().map(|one| one.place.as_str()).collect();
    assert_eq!(places, ["ip kube-proxy no-endpoint-reject-ips { 192.0.2.1 . tcp . 20 }"]);
    assert_eq!(compare(&mut world, [false, true]), (1, 0, Vec::new()), "IPv4 is left out");
}

/// Each of its addresses is a hundred elements or more.
#[test]
fn a_service_of_many_endpoints_is_compared_in_many_answers() {
    let mut world = World::new();
    let ports = (1..=30).map(|at| port(&format!("p{at}"), Protocol::Tcp, at));
    apply_service(&mut world.state, ports.chain([port("http", Protocol::Tcp, 80)]).collect());
    fill_many(&mut world.state, 1);
    world.sync();
    let (turns, compared, found) = compare(&mut world, [true; 2]);
    assert!((compared / 361..=compared / 100).contains(&turns), "{turns} answers for {compared}");
    assert_eq!(found, []);
}
