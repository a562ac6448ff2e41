//! What the kernel holds is compared in pieces.

use super::*;

#[test]
fn every_address_of_a_broad_service_is_compared() {
    let mut world = World::new();
    apply_service(&mut world.state, (1..=20).map(|at| port(&format!("p{at}"), Protocol::Tcp, at)).collect());
    world.sync();
    let keys = [ServiceKey::from("default/web")];
    let compare = |world: &mut World<Nftables<Simulator>>| {
        let (mut rest, mut skipped, mut turns, mut found) = (&keys[..], 0, 0, Vec::new());
        while !rest.is_empty() {
            let done = inspect(rest, skipped, &mut world.reconciler);
            assert!(done.looks.len() <= 2 * MOST_LOOKS, "{}", done.looks.len());
            for (service, look) in done.looks {
                found
                    .extend(look.finish().unwrap().differences.into_iter().map(|one| (service.clone(), one)));
            }
            (rest, skipped) = (&rest[done.count..], done.addresses);
            turns += 1;
        }
        (turns, found)
    };
    assert_eq!(compare(&mut world), ((20 * 2_usize).div_ceil(MOST_LOOKS), Vec::new()));
    let key = [192, 0, 2, 1, 6, 0, 0, 0, 0, 20, 0, 0];
    let simulator = world.reconciler.backend().transport();
    assert!(simulator.delete_element(TableFamily::Ip, TABLE_NAME, "no-endpoint-reject-ips", &key));
    let (_, found) = compare(&mut world);
    let places: Vec<&str> = found.iter().map(|(_, one)| one.place.as_str()).collect();
    assert_eq!(places, ["ip kube-proxy no-endpoint-reject-ips { 192.0.2.1 . tcp . 20 }"]);
}
