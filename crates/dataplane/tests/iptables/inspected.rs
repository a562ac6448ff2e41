//! The rules of one address are found in the tables, and damage to them is shown.

use std::net::SocketAddr;

use dataplane::{Inquiry, Inspection};
use model::{Client, Protocol};

use super::*;
use crate::common::{ip, node};

fn inspect(reconciler: &mut Simulated, fixture: &Fixture, to: &str) -> Inspection {
    let client = Client { ip: Some(ip("10.244.1.99")), is_node: false, is_pod: Some(true) };
    let to: SocketAddr = to.parse().unwrap();
    let inquiry = Inquiry::new(Protocol::Tcp, to, vec![client]);
    reconciler.explain(&inquiry, fixture, &node()).look.unwrap().finish().unwrap()
}

#[test]
fn what_was_written_is_found_and_what_is_gone_or_new_is_shown() {
    let (mut reconciler, fixture) = synced();
    for to in
        ["10.96.0.1:80", "10.96.0.1:81", "10.96.0.2:80", "203.0.113.7:80", "198.51.100.6:80", "1.2.3.4:5"]
    {
        let found = inspect(&mut reconciler, &fixture, to);
        assert!(found.compared > 0 && found.differences.is_empty(), "{to}: {found:?}");
    }
    let tables = reconciler.backend().tables(Family::V4).unwrap();
    tables.run(Table::Nat, "-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j RETURN").unwrap();
    let chains = tables.chains(Table::Nat).into_iter().filter(|name| name.starts_with("KUBE-SVC-"));
    let chains: Vec<String> = chains.map(str::to_owned).collect();
    for chain in chains {
        tables.run(Table::Nat, &format!("-F {chain}")).unwrap();
    }
    let found = inspect(&mut reconciler, &fixture, "10.96.0.1:80");
    let places: Vec<&str> = found.differences.iter().map(|one| one.place.as_str()).collect();
    assert!(places.iter().any(|place| place.contains("chain KUBE-SVC-")), "{found:?}");
    let is_stray =
        |one: &dataplane::Difference| one.expected == "nothing" && one.found.ends_with("-j RETURN");
    assert!(found.differences.iter().any(is_stray), "{found:?}");
}

#[test]
fn one_service_is_compared_with_what_all_share() {
    let (mut reconciler, _) = synced();
    let mut compare = |wanted: Option<&str>, damage: &str| {
        let tables = reconciler.backend().tables(Family::V4).unwrap();
        let chains = tables.chains(Table::Nat).into_iter().filter(|name| name.starts_with(damage));
        let chains: Vec<String> = chains.map(str::to_owned).collect();
        for chain in chains.iter().filter(|_| !damage.is_empty()) {
            tables.run(Table::Nat, &format!("-F {chain}")).unwrap();
        }
        let wanted = wanted.map(ServiceKey::from);
        reconciler.inspect_all(Family::V4, wanted.as_ref()).unwrap().finish().unwrap()
    };
    let (all, one) = (compare(None, ""), compare(Some("default/plain"), ""));
    assert_eq!((all.difference_count, one.difference_count), (0, 0), "{one:?}");
    assert!(one.compared > 5 && one.compared < all.compared, "{} of {}", one.compared, all.compared);
    let (all, one) = (compare(None, "KUBE-SVC-"), compare(Some("default/plain"), ""));
    assert!(one.difference_count > 0 && one.difference_count < all.difference_count, "{one:?}");
    // What leads to services, or is used by all, has the same prefix.
    let of = |wanted: Option<&str>| {
        one.differences.iter().filter(|found| found.service.as_deref() == wanted).count()
    };
    assert_eq!(
        (of(Some("default/plain")) > 0, of(Some("default/plain")) + of(None)),
        (true, one.differences.len()),
        "{one:?}"
    );
    let shared = compare(Some("default/plain"), "KUBE-SERVICES");
    assert!(shared.differences.iter().any(|found| found.place.ends_with("KUBE-SERVICES")), "{shared:?}");
}
