//! Objects that cannot be read, among others that can. A user who may write an object must not be able to stop those of others.

use cluster::Kind;
use cluster::apiserver::{Encoding, Timing};
use serde_json::{Value, json};

use super::BOTH;
use super::log;
use super::server::{Answer, End, Scripts, Server, Wish};
use super::source::{Source, follow, settings};
use super::spell::{
    added, annotated, envelope, event, event_of, field, item, list, list_of, mark, service, stream,
};

/// The ways in which objects arrive: as a streaming list, as a list in pages, and as a change.
fn ways(encoding: Encoding, objects: &[Vec<u8>]) -> Vec<(&'static str, Vec<Answer>)> {
    let events: Vec<u8> = objects.iter().flat_map(|object| event_of(encoding, "ADDED", object)).collect();
    let streamed = [events.clone(), mark(encoding, 30)].concat();
    let (first, rest) = objects.split_at(objects.len() / 2);
    vec![
        ("stream", vec![Answer::ok(encoding, streamed, End::Silence)]),
        (
            "pages",
            vec![
                Answer::refusal(422, "Invalid"),
                Answer::ok(encoding, list_of(encoding, 30, "more", first), End::Proper),
                Answer::ok(encoding, list_of(encoding, 30, "", rest), End::Proper),
            ],
        ),
        (
            "watch",
            vec![
                Answer::ok(encoding, stream(encoding, 2, &[]), End::Cut),
                Answer::ok(encoding, events, End::Silence),
            ],
        ),
    ]
}

/// The annotation is not used, so it does no harm.
#[test]
fn an_annotation_that_is_no_text_changes_nothing() {
    for encoding in BOTH {
        let odd = annotated(encoding, &service("odd", "10.0.0.1", 11), b"\xff\xfe");
        let objects = [odd, item(encoding, &service("b", "10.0.0.2", 12))];
        for (way, answers) in ways(encoding, &objects) {
            let source = follow(encoding, answers);
            source.await_services("b=10.0.0.2 odd=10.0.0.1");
            let heard = source.observed.heard();
            assert_eq!(heard.passed_over, [0, 0], "{encoding:?} {way}");
        }
    }
}

/// The same on the other kinds, which are read by the same code.
#[test]
fn no_kind_is_stopped_by_an_annotation() {
    for encoding in BOTH {
        let slice = json!({
            "kind": "EndpointSlice", "addressType": "IPv4", "ports": [{"port": 80}],
            "endpoints": [{"addresses": ["10.1.0.1"]}],
            "metadata": {
                "name": "a-1", "namespace": "default", "resourceVersion": "5",
                "labels": {"kubernetes.io/service-name": "a"},
            },
        });
        let node = json!({"kind": "Node", "metadata": {"name": "node-1", "resourceVersion": "5"}});
        let cidr = super::spell::service_cidr("more", "10.99.0.0/16", 5);
        let scripts: Scripts = [(Kind::EndpointSlice, slice), (Kind::Node, node), (Kind::ServiceCidr, cidr)]
            .into_iter()
            .map(|(kind, object)| {
                let object = match (encoding, kind) {
                    // The JSON of this one has labels, which come first.
                    (Encoding::Json, Kind::EndpointSlice) => item(encoding, &object),
                    _ => annotated(encoding, &object, b"\xff\xfe"),
                };
                let body = [event_of(encoding, "ADDED", &object), mark(encoding, 30)].concat();
                (kind, vec![Answer::ok(encoding, body, End::Silence)].into())
            })
            .collect();
        let server = Server::start(scripts);
        let source = Source::start(server.clone(), settings(server.address, encoding), Timing::default());
        source.await_that("all kinds", |seen| {
            let counts = seen.state.counts();
            seen.state.is_complete()
                && counts.endpoints == 1
                && seen.state.node("node-1").is_some()
                && seen.state.service_cidrs().len() == 1
        });
    }
}

/// Objects that are wrong in every way, each with the name it should have.
fn spoiled(encoding: Encoding) -> Vec<(&'static str, Vec<u8>)> {
    let of = |name: &str| service(name, "10.0.0.9", 7);
    match encoding {
        Encoding::Protobuf => {
            let good = |name| item(encoding, &of(name));
            vec![
                ("truncated", [good("truncated"), vec![0x12, 0x7f, 0x0a]].concat()),
                ("wrong-wire-type", [good("wrong-wire-type"), vec![0x10, 0x01]].concat()),
                ("no-such-group", [good("no-such-group"), vec![0x0c]].concat()),
                ("endless-varint", [good("endless-varint"), vec![0xff; 16]].concat()),
                ("", vec![0xff; 12]),
                ("", field(1, &[0x0a, 0x7f])),
                ("", Vec::new()),
            ]
        }
        Encoding::Json => {
            let with = |name: &'static str, spoil: &dyn Fn(&mut Value)| {
                let mut object = of(name);
                spoil(&mut object);
                (name, object.to_string().into_bytes())
            };
            vec![
                with("port-is-text", &|object| object["spec"]["ports"][0]["port"] = json!("x")),
                with("ports-are-a-map", &|object| object["spec"]["ports"] = json!({})),
                with("labels-are-a-list", &|object| object["metadata"]["labels"] = json!([1])),
                with("spec-is-a-number", &|object| object["spec"] = json!(7)),
                (
                    "huge-number",
                    of("huge-number")
                        .to_string()
                        .replace("80", "8000000000000000000000000000000")
                        .into_bytes(),
                ),
                with("", &|object| object["metadata"] = json!([])),
                with("", &|object| object["metadata"]["name"] = json!(5)),
                ("", b"[]".to_vec()),
                ("", b"null".to_vec()),
                ("", b"{}".to_vec()),
            ]
        }
    }
}

#[test]
fn whatever_is_wrong_with_an_object_the_others_arrive() {
    for encoding in BOTH {
        let spoiled = spoiled(encoding);
        let count = spoiled.len();
        let objects: Vec<Vec<u8>> = std::iter::once(item(encoding, &service("first", "10.0.0.1", 3)))
            .chain(spoiled.into_iter().map(|(_, object)| object))
            .chain([item(encoding, &service("last", "10.0.0.2", 12))])
            .collect();
        for (way, answers) in ways(encoding, &objects) {
            let source = follow(encoding, answers);
            source.await_services("first=10.0.0.1 last=10.0.0.2");
            let heard = source.observed.heard();
            assert_eq!(heard.passed_over, [count, 0], "{encoding:?} {way}");
        }
    }
}

#[test]
fn an_object_keeps_its_last_usable_version_through_lists_and_watches() {
    std::thread::scope(|scope| {
        for encoding in BOTH {
            for (name, object) in spoiled(encoding) {
                let name = if name.is_empty() { "nameless" } else { name };
                scope.spawn(move || assert_keeps_its_last_usable_version(encoding, name, object));
            }
        }
    });
}

fn assert_keeps_its_last_usable_version(encoding: Encoding, name: &str, object: Vec<u8>) {
    let other = |version| item(encoding, &service("other", &format!("10.0.1.{version}"), version));
    let first = [service(name, "10.0.0.1", 3), service("other", "10.0.1.4", 4)];
    let changed = [event_of(encoding, "MODIFIED", &object), event_of(encoding, "MODIFIED", &other(12))];
    let again = [event_of(encoding, "ADDED", &object), event_of(encoding, "ADDED", &other(13))];
    let source = follow(
        encoding,
        vec![
            Answer::ok(encoding, [stream(encoding, 10, &first), changed.concat()].concat(), End::Cut),
            Answer::refusal(410, "Expired"),
            Answer::ok(encoding, [again.concat(), mark(encoding, 20)].concat(), End::Cut),
            Answer::refusal(410, "Expired"),
            Answer::refusal(422, "Invalid"),
            Answer::ok(encoding, list_of(encoding, 30, "", &[object, other(14)]), End::Proper),
        ],
    );
    let seen = source.await_that(name, |seen| seen.services().contains("other=10.0.1.14"));
    assert!(seen.services.contains(&format!("{name}=10.0.0.1")), "{encoding:?} {}", seen.services);
    assert_eq!(seen.count("delete"), 0, "{encoding:?} {name}: {:?}", seen.updates);
    assert_eq!(source.wishes()[1], (Wish::Watch, "12".to_owned()), "the watch went on behind it");
}

/// What is gone without a name is found by the next list, and that comes when the watch is over.
#[test]
fn a_deletion_without_a_name_brings_a_new_list() {
    for encoding in BOTH {
        let objects = [service("a", "10.0.0.1", 3), service("b", "10.0.0.2", 4)];
        let nameless = event_of(encoding, "DELETED", if encoding == Encoding::Json { b"{}" } else { b"" });
        let later = event(encoding, "MODIFIED", &service("b", "10.0.0.3", 12));
        let source = follow(
            encoding,
            vec![
                Answer::ok(encoding, stream(encoding, 10, &objects), End::Cut),
                Answer::ok(encoding, [nameless, later].concat(), End::Proper),
                Answer::ok(encoding, stream(encoding, 20, &[service("b", "10.0.0.3", 12)]), End::Silence),
            ],
        );
        source.await_services("b=10.0.0.3");
        let wishes: Vec<Wish> = source.wishes().into_iter().map(|(wish, _)| wish).collect();
        assert_eq!(wishes, [Wish::Stream, Wish::Watch, Wish::Stream], "{encoding:?}");
    }
}

/// An envelope that holds no object is one that cannot be read.
#[test]
fn an_event_whose_envelope_is_broken_is_passed_over() {
    let encoding = Encoding::Protobuf;
    let broken = |raw: &[u8]| {
        let body = [field(1, b"MODIFIED"), field(2, &field(1, raw))].concat();
        [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
    };
    let good = envelope(&item(encoding, &service("a", "10.0.0.7", 11)));
    let events = [
        broken(&good[2..]),
        broken(&good[..good.len() / 2]),
        broken(b""),
        event(encoding, "MODIFIED", &service("a", "10.0.0.9", 12)),
    ];
    let body = [stream(encoding, 10, &[service("a", "10.0.0.1", 3)]), events.concat()].concat();
    let source = follow(encoding, vec![Answer::ok(encoding, body, End::Silence)]);
    source.await_services("a=10.0.0.9");
    assert_eq!(source.wishes().len(), 1);
}

/// An object that changes all the time does not fill the log; that it can be used again is said once.
#[test]
fn an_object_is_complained_about_once() {
    for encoding in BOTH {
        let name = format!("repeated-{encoding:?}").to_lowercase();
        let changes: Vec<u8> = (0..500)
            .flat_map(|i| event(encoding, "MODIFIED", &service(&name, "10.0.0.one", 11 + i)))
            .collect();
        let repaired = event(encoding, "MODIFIED", &service(&name, "10.0.0.2", 600));
        let body = [stream(encoding, 10, &[service(&name, "10.0.0.1", 3)]), changes].concat();
        let answers = vec![
            Answer::ok(encoding, body, End::Cut),
            Answer::ok(encoding, list(encoding, 0, "", &[]), End::Cut),
            Answer::ok(encoding, repaired, End::Silence),
        ];
        let source = follow(encoding, answers);
        source.await_services(&format!("{name}=10.0.0.2"));
        let said = log::complaints(&[&format!("default/{name}")]);
        assert_eq!(said.len(), 1, "{said:#?}");
        let heard = source.observed.heard();
        assert_eq!(heard.passed_over, [500, 0]);
        assert_eq!(heard.unusable[&Kind::Service], [0, 0]);
        assert_eq!(log::lines(&[&format!("default/{name}"), "Resolved"]).len(), 1);
    }
}

/// An entry that cannot be used does not hold the rest of its object back.
#[test]
fn a_change_with_a_bad_entry_takes_effect() {
    for encoding in BOTH {
        let name = format!("entries-{encoding:?}").to_lowercase();
        let mut changed = service(&name, "10.0.0.2", 12);
        changed["spec"]["ports"] = json!([{"port": 0}, {"port": 70000}, {"port": 443}]);
        let body = [
            added(encoding, &[service(&name, "10.0.0.1", 3)]),
            mark(encoding, 10),
            event(encoding, "MODIFIED", &changed),
        ];
        let source = follow(encoding, vec![Answer::ok(encoding, body.concat(), End::Silence)]);
        source.await_services(&format!("{name}=10.0.0.2"));
        let said = log::complaints(&[&format!("default/{name}"), "Ignoring entries", "70000"]);
        assert_eq!(said.len(), 1, "{said:#?}");
        let heard = source.observed.heard();
        assert_eq!((heard.passed_over, heard.unusable[&Kind::Service]), ([0, 1], [0, 1]));
    }
}

/// Where the one who wrote the object looks.
#[test]
fn an_event_on_the_object_says_what_is_wrong() {
    let encoding = Encoding::Protobuf;
    let slice = json!({
        "kind": "EndpointSlice", "addressType": "IPv4", "ports": [{"port": 0}],
        "metadata": {
            "name": "a-1", "namespace": "team", "resourceVersion": "5",
            "labels": {"kubernetes.io/service-name": "a"},
        },
    });
    let answer = |object: &Value| {
        vec![Answer::ok(encoding, stream(encoding, 30, std::slice::from_ref(object)), End::Silence)].into()
    };
    let server = Server::start(Scripts::from([
        (Kind::Service, answer(&service("bad", "10.0.0.one", 3))),
        (Kind::EndpointSlice, answer(&slice)),
        (Kind::ServiceCidr, answer(&super::spell::service_cidr("more", "10.99/16", 5))),
    ]));
    let source = Source::start(server.clone(), settings(server.address, encoding), Timing::default());
    source.await_that("all kinds", |seen| seen.state.is_complete());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while server.events().len() < 3 {
        assert!(std::time::Instant::now() < deadline, "{:#?}", server.events());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut told: Vec<String> = server
        .events()
        .iter()
        .map(|event| {
            let [kind, name, note] = ["/regarding/kind", "/regarding/name", "/note"]
                .map(|at| event.pointer(at).unwrap().as_str().unwrap());
            format!(
                "{} on {kind} {}/{name}: {note}",
                event["reason"].as_str().unwrap(),
                event["metadata"]["namespace"].as_str().unwrap()
            )
        })
        .collect();
    told.sort();
    assert_eq!(
        told,
        [
            "IgnoredEntries on EndpointSlice team/a-1: Node node-1 ignores entries of this object and uses the rest: ports[0].port: 0 is not a port (1-65535)",
            "IgnoredEntries on ServiceCIDR default/more: Node node-1 ignores entries of this object and uses the rest: spec.cidrs[0]: \"10.99/16\" is not a CIDR like 10.0.0.0/8",
            "UnusableObject on Service default/bad: Node node-1 cannot use this object and keeps its last usable version: spec.clusterIPs[0]: \"10.0.0.one\" is not an IP address",
        ]
    );
}
