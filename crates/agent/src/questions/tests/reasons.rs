//! Why no endpoint of a service is used, and what to do about it.

use super::*;

/// What there is to do about `default/web`, port `http`, whose slices have these ports and endpoints; and the reasons.
fn advice(slices: &[(SlicePort, EndpointRecord)]) -> (String, Vec<String>) {
    let mut world = World::new();
    apply_service(&mut world.state, vec![port("http", Protocol::Tcp, 80)]);
    for (number, (port, endpoint)) in slices.iter().enumerate() {
        let slice = SliceRecord {
            service: "default/web".into(),
            family: Family::V4,
            ports: [port.clone()].into(),
            endpoints: vec![endpoint.clone()],
            triggered_ms: None,
        };
        let key = ObjectKey::new(Kind::EndpointSlice, "default", &format!("web-{number}"));
        world.state.apply(Object { key, value: Value::EndpointSlice(slice) });
    }
    world.sync();
    let target = commands::targets::read_packet("10.96.0.1:80").unwrap();
    let document = crate::explain::document(&world.explain(&request(target, false)), &[None]);
    assert_eq!(document["verdict"], "reject");
    let text = document["text"].as_str().unwrap();
    let known = document["explanations"][0]["clients"][0]["known"].as_array().unwrap();
    (
        text.split_once("To do").unwrap().1.trim().to_owned(),
        known.iter().map(|known| known["why"].as_str().unwrap().to_owned()).collect(),
    )
}

#[test]
fn each_reason_has_its_advice() {
    let at = |name: &str, port: u16| SlicePort { name: name.into(), protocol: Protocol::Tcp, port };
    let multicast = EndpointRecord { ip: [224, 0, 0, 5].into(), ..endpoint(3) };
    for (slice, why, words) in [
        ((at("http", 0), endpoint(3)), "badPort", "give the port of the EndpointSlice a number"),
        ((at("web", 8080), endpoint(3)), "noSuchPort", "no slice has a port named \"http\" of tcp"),
        ((at("http", 8080), endpoint(1)), "notReady", "make a pod of the service ready"),
        ((at("http", 8080), multicast), "badAddress", "point the EndpointSlice at addresses of pods"),
    ] {
        let (lines, reasons) = advice(&[slice]);
        assert_eq!(reasons, [why]);
        assert!(lines.starts_with(words), "{why}: {lines}");
    }
}

#[test]
fn a_slice_of_another_port_does_not_hide_pods_that_are_not_ready() {
    let at = |name: &str| SlicePort { name: name.into(), protocol: Protocol::Tcp, port: 8080 };
    let (lines, reasons) = advice(&[(at("http"), endpoint(1)), (at("web"), endpoint(3))]);
    assert_eq!(reasons, ["notReady", "noSuchPort"]);
    assert!(lines.contains("not every slice has a port named"), "{lines}");
    assert!(lines.contains("; make a pod of the service ready"), "{lines}");
}

#[test]
fn what_an_address_that_is_refused_needs() {
    let mut world = World::new();
    let limited = Service {
        load_balancer_ips: [[203, 0, 113, 1].into()].into(),
        source_ranges: ["10.0.0.0/8".parse().unwrap()].into(),
        ..service(vec![port("http", Protocol::Tcp, 80)])
    };
    let key = ObjectKey::new(Kind::Service, "default", "web");
    world.state.apply(Object { key, value: Value::Service(Box::new(limited)) });
    apply_slice(&mut world.state, "web-1", vec![endpoint(2)]);
    world.sync();
    let target = commands::targets::read_packet("203.0.113.1:80").unwrap();
    let from = Some(Sender { ip: [192, 0, 2, 9].into(), interface: None });
    let request = ExplainRequest { from, ..request(target, false) };
    let document = crate::explain::document(&world.explain(&request), &[None]);
    // A range, as the field takes it.
    assert!(document["text"].as_str().unwrap().contains("add 192.0.2.9/32 to spec.loadBalancerSourceRanges"));
}

#[test]
fn a_pin_decides_where_a_client_goes() {
    let mut world = World::new();
    fill(&mut world.state, 4);
    let mut sticky = service(vec![port("http", Protocol::Tcp, 80)]);
    sticky.affinity_seconds = Some(60);
    let key = ObjectKey::new(Kind::Service, "default", "web");
    world.state.apply(Object { key, value: Value::Service(Box::new(sticky)) });
    world.sync();
    let target = commands::targets::read_packet("10.96.0.1:80").unwrap();
    let from = Some(Sender { ip: [10, 244, 9, 9].into(), interface: None });
    let explained = world.explain(&ExplainRequest { from, ..request(target, false) });
    let verdict = |pin: Option<&str>| {
        let pin = pin.map(|to| dataplane::Pinned { to: to.parse().unwrap(), left: None });
        let read = Some(Ok(dataplane::Inspection { compared: 1, pin, ..Default::default() }));
        let text = crate::explain::document(&explained, &[read])["text"].as_str().unwrap().to_owned();
        let line = text.lines().find(|line| line.starts_with("Verdict")).unwrap();
        line["Verdict    ".len()..].to_owned()
    };
    let usual = "forwarded to one of 3 endpoints, each equally likely";
    assert_eq!(verdict(None), usual);
    assert_eq!(verdict(Some("10.244.0.3:8080")), "forwarded to 10.244.0.3:8080, where it is pinned");
    let stale = verdict(Some("10.244.0.1:8080"));
    assert!(
        stale.starts_with(&format!("{usual}; it is pinned to 10.244.0.1:8080, which is not used")),
        "{stale}"
    );
}
