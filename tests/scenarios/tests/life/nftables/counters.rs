//! `--service-counters`: the figures are those of the packets, as nft counts them at the clients' own ends.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use model::{Family, Protocol};
use sandbox::{Namespace, Server, address, probe};
use serde_json::Value;
use test_support::{Case, wait_until};

use super::super::case;
use super::super::nft;
use super::super::places::{PORT, at_cluster_ip, at_node_port, cluster_ip, external_ip};
use super::super::stage::{From, POD_PORT, SOON, Stage, answer};
use super::super::traffic::Traffic;

pub(crate) const COUNT: &str = "--service-counters";
const NODE_PORT: u16 = 30080;
/// Requests by each client to each address.
const EACH: usize = 2;

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("service counters say what was sent and received", exact),
        case("service counters outlive changes and restarts, not the service", lasting),
        case("services are listed with their rates", rates),
    ]
}

/// Service number, name and protocol. The last two are reached by one client each: the node, and their endpoint.
pub(crate) const WEB: (u8, &str, Protocol) = (1, "web", Protocol::Tcp);
pub(crate) const DNS: (u8, &str, Protocol) = (2, "dns", Protocol::Udp);
const HOST: (u8, &str, Protocol) = (3, "host", Protocol::Tcp);
const HAIRPIN: (u8, &str, Protocol) = (4, "hairpin", Protocol::Tcp);

fn exact() {
    let mut stage = Stage::new();
    for (number, name, protocol) in [WEB, DNS] {
        put_open(&stage, number, name, protocol);
        stage.put_endpoints(name, protocol, &["a", "c"]);
    }
    for (number, name, protocol) in [HOST, HAIRPIN] {
        stage.folder.put_service(&stage.service(name, number, protocol));
    }
    stage.put_endpoints(HAIRPIN.1, HAIRPIN.2, &["a"]);
    let own: [IpAddr; 2] = [address::NODE_V4.into(), address::NODE_V6.into()];
    stage.put_endpoints_at(HOST.1, HOST.2, own);
    let _servers =
        own.map(|ip| Server::tcp(&stage.sandbox.node, "node", SocketAddr::new(ip, POD_PORT)).unwrap());
    stage.start_with(&[COUNT]);
    let clients = [From::Guest, From::Outside, From::Node].map(|from| stage.namespace(from));
    let endpoint = &stage.sandbox.pod("a").unwrap().namespace;
    let witnesses = [&clients[..], &[endpoint]].concat();
    witnesses.iter().for_each(|namespace| nft::load(namespace, &tally()));
    let mut connections: BTreeMap<(&str, Family), u64> = BTreeMap::new();
    for family in Family::BOTH {
        for (number, name, protocol) in [WEB, DNS] {
            for (client, to) in clients.iter().flat_map(|client| ways(number, family).map(|to| (client, to)))
            {
                *connections.entry((name, family)).or_default() += ask(client, protocol, to);
            }
        }
        connections.insert((HOST.1, family), ask(clients[2], HOST.2, at_cluster_ip(HOST.0, family)));
        connections.insert((HAIRPIN.1, family), ask(endpoint, HAIRPIN.2, at_cluster_ip(HAIRPIN.0, family)));
        // Not redirected, so not counted.
        ask(clients[0], Protocol::Tcp, SocketAddr::new(stage.address("b", family), POD_PORT));
    }
    for ((name, family), connections) in connections {
        assert_counted(&stage, &witnesses, name, family, connections);
    }
}

/// Wait until the agent's counters of a service are what the clients sent and received.
fn assert_counted(stage: &Stage, witnesses: &[&Namespace], name: &str, family: Family, connections: u64) {
    let protocol = if name == DNS.1 { Protocol::Udp } else { Protocol::Tcp };
    let (mut found, mut wanted) = Default::default();
    let same = wait_until(SOON, || {
        let counted = |meter: &str| {
            let counter = format!("{meter}/default/{name}/{protocol}/main");
            counters(&stage.sandbox.node, nft::family_word(family), nft::TABLE)[&counter]
        };
        let witnessed = |way: &str| {
            let counter = format!("{way}-{name}-{}", nft::family_word(family));
            let each = witnesses.iter().map(|namespace| counters(namespace, "inet", "tally")[&counter]);
            each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        };
        found = [counted("request"), counted("reply")];
        wanted = [witnessed("sent"), witnessed("received")];
        found == wanted && counted("connections").0 == connections
    });
    println!("{name} {family}: {connections} connections, (packets, bytes) {found:?}");
    assert!(same, "{name} {family}: {found:?}, not {wanted:?}, of {connections} connections");
    assert!(found.iter().all(|(packets, bytes)| *packets >= connections && bytes > packets));
}

fn rates() {
    let mut stage = Stage::new();
    for (number, name, protocol) in [WEB, HOST] {
        put_open(&stage, number, name, protocol);
        stage.put_endpoints(name, protocol, &["a", "c"]);
    }
    stage.start_with(&[COUNT]);
    let traffic = Traffic::start(&stage, &[(From::Guest, at_cluster_ip(WEB.0, Family::V4))]);
    let mut page = Value::Null;
    let mut rate = |stage: &mut Stage, name: &str, of: &str| {
        page = serde_json::from_str(&stage.agent().page("/pointsman/v1/services").unwrap()).unwrap();
        let services = page["services"].as_array().cloned().unwrap_or_default();
        let service = services.iter().find(|service| service["name"] == name).cloned().unwrap_or_default();
        (page["traffic"].clone(), service["ports"][0]["rates"][of].as_f64())
    };
    assert_eq!(rate(&mut stage, WEB.1, "connections"), ("pending".into(), None), "nobody has asked yet");
    let moves = wait_until(SOON, || {
        let (traffic, connections) = rate(&mut stage, WEB.1, "connections");
        traffic == "counted" && connections.is_some_and(|rate| rate > 1.0)
    });
    assert!(moves, "{:?}", rate(&mut stage, WEB.1, "connections"));
    for of in ["requestPackets", "requestBytes", "replyPackets", "replyBytes"] {
        let (_, found) = rate(&mut stage, WEB.1, of);
        assert!(found.is_some_and(|rate| rate > 1.0), "{of}: {found:?}");
    }
    assert_eq!(rate(&mut stage, HOST.1, "replyBytes"), ("counted".into(), Some(0.0)), "nobody calls it");
    traffic.finish();
}

fn lasting() {
    let mut stage = Stage::new();
    let (number, name, protocol) = WEB;
    put_open(&stage, number, name, protocol);
    stage.put_endpoints(name, protocol, &["a", "c"]);
    stage.start_with(&[COUNT]);
    let count = |stage: &Stage| counters(&stage.sandbox.node, "ip", nft::TABLE);
    let connections = |stage: &Stage| count(stage)["connections/default/web/tcp/main"].0;
    let ask_once = |stage: &Stage| {
        let before = connections(stage);
        stage.who(protocol, From::Guest, at_cluster_ip(number, Family::V4));
        assert_eq!(connections(stage), before + 1);
        before + 1
    };
    assert_eq!(ask_once(&stage), 1);
    stage.put_endpoints(name, protocol, &["b"]);
    stage.await_pool(number, Family::V4, &["b"]);
    assert_eq!(ask_once(&stage), 2, "after a change of endpoints");
    for kill in [false, true] {
        let before = connections(&stage);
        stage.restart(kill);
        assert_eq!(ask_once(&stage), before + 1, "after a restart");
    }
    nft::run(&stage.sandbox.node, &["flush", "table", "ip", nft::TABLE]).unwrap();
    stage.await_answer(protocol, From::Guest, at_cluster_ip(number, Family::V4), "b");
    assert!(ask_once(&stage) > 4, "after a repair");
    assert_shown(&mut stage);
    stage.folder.remove("service-web");
    // Those of refused packets belong to no service.
    let of_services = |stage: &Stage| count(stage).into_keys().any(|name| name.contains('/'));
    assert!(wait_until(SOON, || !of_services(&stage)), "{:?}\n{}", count(&stage), stage.log());
    // Another service shows that the counters were read since.
    let (other, other_name, protocol) = DNS;
    put_open(&stage, other, other_name, protocol);
    stage.put_endpoints(other_name, protocol, &["a"]);
    stage.await_answer(protocol, From::Guest, at_cluster_ip(other, Family::V4), "a");
    let shown = |stage: &mut Stage| stage.agent().metrics().unwrap_or_default();
    let is_gone =
        |page: &str| page.contains(&format!("service=\"{other_name}\"")) && !page.contains("service=\"web\"");
    assert!(wait_until(SOON, || is_gone(&shown(&mut stage))), "{}", shown(&mut stage));
}

/// Wait until `/metrics` shows what the kernel has counted, of IPv4 only: nothing else was asked.
fn assert_shown(stage: &mut Stage) {
    let (mut wanted, mut page) = (Vec::new(), String::new());
    let same = wait_until(SOON, || {
        wanted = lines(&counters(&stage.sandbox.node, "ip", nft::TABLE));
        page = stage.agent().metrics().unwrap_or_default();
        let shown: Vec<&str> = page.lines().filter(|line| line.starts_with("pointsman_service_")).collect();
        shown == wanted
    });
    assert!(same, "{wanted:#?}\nnot in\n{page}");
}

/// What Prometheus should read of the service `web`.
fn lines(counted: &BTreeMap<String, (u64, u64)>) -> Vec<String> {
    let labels = "namespace=\"default\",service=\"web\",port=\"main\",protocol=\"TCP\",ip_family=\"IPv4\"";
    let of = |meter: &str| counted[&format!("{meter}/default/web/tcp/main")];
    let line = |figure: &str, direction: &str, value: u64| {
        format!("pointsman_service_{figure}_total{{{labels},direction=\"{direction}\"}} {value}")
    };
    let connections = of("connections").0;
    vec![
        line("packets", "request", of("request").0),
        line("packets", "reply", of("reply").0),
        line("bytes", "request", of("request").1),
        line("bytes", "reply", of("reply").1),
        format!("pointsman_service_connections_total{{{labels}}} {connections}"),
    ]
}

/// A service with an address of every kind.
pub(crate) fn put_open(stage: &Stage, number: u8, name: &str, protocol: Protocol) {
    let ips = Family::BOTH.map(|family| cluster_ip(number, family));
    let service = test_support::ServiceManifest::new(name, &ips)
        .with("type", "LoadBalancer")
        .port("main", protocol, PORT, NODE_PORT)
        .external_ips(&Family::BOTH.map(external_ip));
    let balancers = Family::BOTH.map(balancer_ip);
    stage.folder.put_service(&balancers.iter().fold(service, |service, ip| service.balancer_ip(*ip, "VIP")));
}

fn balancer_ip(family: Family) -> IpAddr {
    match family {
        Family::V4 => [203, 0, 113, 7].into(),
        Family::V6 => [0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 7].into(),
    }
}

pub(crate) fn ways(number: u8, family: Family) -> [SocketAddr; 4] {
    let at = |ip| SocketAddr::new(ip, PORT);
    [
        at_cluster_ip(number, family),
        at_node_port(NODE_PORT, family),
        at(external_ip(family)),
        at(balancer_ip(family)),
    ]
}

/// Some connections, each of which must be answered; how many.
fn ask(from: &Namespace, protocol: Protocol, to: SocketAddr) -> u64 {
    for _ in 0..EACH {
        let outcome = match protocol {
            Protocol::Udp => probe::udp(from, None, to, answer()),
            _ => probe::tcp(from, None, to, answer()),
        };
        assert!(outcome.by().is_some(), "{protocol} {to}: {outcome:?}");
    }
    EACH as u64
}

/// Rules for a client's own namespace: what it sends before any rewriting, and what it gets after all of it.
fn tally() -> String {
    let (mut names, mut out, mut back) = (String::new(), String::new(), String::new());
    for (number, name, protocol) in [WEB, DNS, HOST, HAIRPIN] {
        for family in Family::BOTH {
            let word = nft::family_word(family);
            let all: Vec<String> = ways(number, family).iter().map(|at| at.ip().to_string()).collect();
            let (all, ports) = (all.join(", "), format!("{{ {PORT}, {NODE_PORT} }}"));
            let [sent, received] = ["sent", "received"].map(|way| format!("{way}-{name}-{word}"));
            names += &format!("counter {sent} {{ }}; counter {received} {{ }};\n");
            let own = if number <= DNS.0 { all } else { cluster_ip(number, family).to_string() };
            out +=
                &format!("{word} daddr {{ {own} }} {protocol} dport {ports} counter name {sent} return;\n");
            back += &format!(
                "{word} saddr {{ {own} }} {protocol} sport {ports} counter name {received} return;\n"
            );
        }
    }
    format!(
        "table inet tally {{ {names} \
         chain out {{ type filter hook output priority -150; {out} }}; \
         chain back {{ type filter hook input priority 200; {back} }}; }}"
    )
}

/// Packets and bytes by name of counter.
fn counters(namespace: &Namespace, family: &str, table: &str) -> BTreeMap<String, (u64, u64)> {
    let text = nft::run(namespace, &["-j", "list", "counters", "table", family, table]).unwrap();
    let listing: Value = serde_json::from_str(&text).unwrap();
    let all = listing["nftables"].as_array().unwrap().iter().filter_map(|item| item.get("counter"));
    let number = |counter: &Value, field: &str| counter[field].as_u64().unwrap();
    all.map(|counter| {
        let name = counter["name"].as_str().unwrap().to_owned();
        (name, (number(counter, "packets"), number(counter, "bytes")))
    })
    .collect()
}
