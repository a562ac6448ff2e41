//! A family whose rules cannot be written does not keep the other from being asked about.

use serde_json::json;

use super::*;

#[test]
fn a_service_is_explained_in_the_families_that_are_written() {
    let mut world = World::new();
    fill(&mut world.state, 3);
    world.node.primary = [Some("192.168.1.1".parse().unwrap()), Some("fd00::1".parse().unwrap())];
    world.node.addresses = world.node.primary.iter().flatten().copied().collect();
    let mut dual = service(vec![port("http", Protocol::Tcp, 80)]);
    dual.cluster_ips = ["10.96.0.1".parse().unwrap(), "fd00:96::1".parse().unwrap()].into();
    let key = ObjectKey::new(Kind::Service, "default", "web");
    world.state.apply(Object { key, value: Value::Service(Box::new(dual)) });
    world.sync();
    for (words, addresses) in [("default/web", [2, 1]), ("node:30080", [1, 1])] {
        let target = match words.contains('/') {
            true => commands::targets::read_service(words).unwrap(),
            false => commands::targets::read_packet(words).unwrap(),
        };
        let mut explain = |written| {
            let request = ExplainRequest { written, ..request(target.clone(), false) };
            let found = world.explain(&request);
            let read: Vec<_> = found.each.iter().map(|_| None).collect();
            (found.each.len(), crate::explain::document(&found, &read))
        };
        let (count, document) = explain([true, true]);
        assert_eq!((count, &document["unwritten"]), (addresses[0] + addresses[1], &json!([])), "{words}");
        for (written, unwritten) in [([true, false], Family::V6), ([false, true], Family::V4)] {
            let (count, document) = explain(written);
            let other = addresses[1 - unwritten.index()];
            assert_eq!((count, &document["problem"]), (other, &json!(null)), "{words} without {unwritten}");
            assert_eq!(document["unwritten"], json!([unwritten.to_string()]));
            let words = format!("not explained for {unwritten}: nothing is programmed there yet\n");
            assert!(document["text"].as_str().unwrap().ends_with(&words), "{document}");
        }
    }
}

#[test]
fn a_family_that_a_service_does_not_have_is_not_missed() {
    let mut world = World::new();
    fill(&mut world.state, 3);
    world.sync();
    let target = commands::targets::read_service("default/web").unwrap();
    let found = world.explain(&ExplainRequest { written: [true, false], ..request(target, false) });
    assert_eq!((found.each.len(), found.unwritten.len()), (4, 0));
}
