use std::net::SocketAddr;
use std::sync::mpsc::RecvTimeoutError;

use cluster::apiserver::Recorder;
use cluster::{ClusterPlanner, EndpointRecord, Kind, Object, ObjectKey, SliceRecord, Value};
use config::FeatureGates;
use dataplane::nftables::{Nftables, TABLE_NAME};
use dataplane::userspace::{Ground, Userspace};
use dataplane::{Backend, Setup, SyncError};
use kernel::nft::TableFamily;
use model::{
    LocalDetector, NodePortAddresses, NodeView, Service, ServicePort, Settings, SlicePort, TrafficPolicy,
};
use simulate::nft::Simulator;

use super::*;
use crate::inbox;
use telemetry::metrics::Metrics;

mod compared;
mod families;
mod listed;
mod reasons;

type Answer = oneshot::Receiver<Result<Option<ServiceStatus>, Unanswered>>;

fn ask(sender: &inbox::Sender) -> Answer {
    let (reply, answer) = oneshot::channel();
    sender.send(Event::Question(Question::ServiceStatus("default/web".into(), Reply(reply)))).unwrap();
    answer
}

fn arrived(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Question(_))).count()
}

#[test]
fn a_flood_of_questions_is_refused_and_does_not_come_all_at_once() {
    let (sender, receiver) = inbox::channel();
    let mut answers: Vec<Answer> = (0..1000).map(|_| ask(&sender)).collect();
    sender.send(Event::Stop).unwrap();
    let refused = answers.iter_mut().filter_map(|answer| answer.try_recv().ok());
    let refused: Vec<_> = refused.collect();
    assert_eq!(refused.len(), 1000 - MOST_WAITING);
    assert!(refused.iter().all(|answer| *answer == Err(Unanswered::TooMany)));
    let events = receiver.recv_timeout(Duration::ZERO).unwrap();
    assert!(matches!(events.first(), Some(Event::Stop)), "everything else comes first");
    let mut questions = arrived(&events);
    assert_eq!(questions, ANSWERS_PER_TURN);
    while let Ok(events) = receiver.recv_timeout(Duration::ZERO) {
        assert!(arrived(&events) <= ANSWERS_PER_TURN);
        questions += arrived(&events);
    }
    assert_eq!(questions, MOST_WAITING);
}

#[test]
fn who_no_longer_waits_takes_no_place() {
    let (sender, receiver) = inbox::channel();
    (0..1000).for_each(|_| drop(ask(&sender)));
    let mut waits = ask(&sender);
    assert!(waits.try_recv().is_err(), "it was refused");
    assert_eq!(arrived(&receiver.recv_timeout(Duration::ZERO).unwrap()), 1);
    assert_eq!(receiver.recv_timeout(Duration::ZERO).unwrap_err(), RecvTimeoutError::Timeout);
}

#[test]
fn an_agent_that_stops_says_so() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (sender, receiver) = inbox::channel();
    let asker = Asker::new(sender);
    runtime.block_on(async {
        let stop = async { drop(receiver) };
        let (answer, ()) = tokio::join!(asker.service_status("default/web".into()), stop);
        assert_eq!(answer, Err(Unanswered::Stopping));
        assert_eq!(asker.service_status("default/web".into()).await, Err(Unanswered::Stopping));
    });
}

/// `default/web` with IPv4 alone: two ports, and as many endpoints as given, the first of which is not ready.
fn fill(state: &mut ClusterState, endpoints: u8) {
    let ports = [port("http", Protocol::Tcp, 80), port("metrics", Protocol::Tcp, 9090)];
    apply_service(state, ports.into());
    apply_slice(state, "web-1", (1..=endpoints).map(endpoint).collect());
}

/// With 200 endpoints more in each of so many slices.
fn fill_many(state: &mut ClusterState, slices: u8) {
    for number in 0..slices {
        let ip = |last| [10, 244, 1 + number, last].into();
        let endpoints = (0..200).map(|last| EndpointRecord { ip: ip(last), ..endpoint(2) }).collect();
        apply_slice(state, &format!("web-many-{number}"), endpoints);
    }
}

fn port(name: &str, protocol: Protocol, port: u16) -> ServicePort {
    ServicePort { name: name.into(), protocol, port, node_port: None }
}

fn apply_service(state: &mut ClusterState, ports: Vec<ServicePort>) {
    let key = ObjectKey::new(Kind::Service, "default", "web");
    state.apply(Object { key, value: Value::Service(Box::new(service(ports))) });
}

fn service(ports: Vec<ServicePort>) -> Service {
    Service {
        cluster_ips: ["10.96.0.1".parse().unwrap()].into(),
        ports: ports.into(),
        external_ips: ["192.0.2.1".parse().unwrap()].into(),
        load_balancer_ips: [].into(),
        source_ranges: [].into(),
        affinity_seconds: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        created: 0,
    }
}

fn endpoint(last: u8) -> EndpointRecord {
    EndpointRecord {
        ip: [10, 244, 0, last].into(),
        ready: last > 1,
        serving: last > 1,
        terminating: false,
        node: None,
        hints: None,
    }
}

fn apply_slice(state: &mut ClusterState, name: &str, endpoints: Vec<EndpointRecord>) {
    apply_slice_over(Protocol::Tcp, state, name, endpoints);
}

fn apply_slice_over(
    protocol: Protocol,
    state: &mut ClusterState,
    name: &str,
    endpoints: Vec<EndpointRecord>,
) {
    let slice = SliceRecord {
        service: "default/web".into(),
        family: Family::V4,
        ports: [SlicePort { name: "http".into(), protocol, port: 8080 }].into(),
        endpoints,
        triggered_ms: None,
    };
    let key = ObjectKey::new(Kind::EndpointSlice, "default", name);
    state.apply(Object { key, value: Value::EndpointSlice(slice) });
}

const SETTINGS: Settings = Settings { masquerade_all: false, ignore_external_ips: false };

struct World<B> {
    state: ClusterState,
    node: NodeView,
    reconciler: Reconciler<B>,
    lanes: [Lane; 2],
}

impl World<Nftables<Simulator>> {
    fn new() -> World<Nftables<Simulator>> {
        World::with(Nftables::new(Simulator::new(), &LocalDetector::None, 1 << 14))
    }
}

impl<B: Backend> World<B> {
    fn with(backend: B) -> World<B> {
        let metrics = Metrics::of_mode("nftables", &FeatureGates::default());
        let lane = |family| {
            Lane::new(family, Duration::ZERO, metrics.sync().of(family).clone(), Recorder::nowhere())
        };
        World {
            state: ClusterState::default(),
            node: NodeView::default(),
            reconciler: Reconciler::new(backend),
            lanes: Family::BOTH.map(lane),
        }
    }

    fn sync(&mut self) {
        let planner = planner(&self.state, &self.node);
        for lane in &mut self.lanes {
            assert!(lane.sync(&mut self.reconciler, &planner).is_some());
        }
    }

    fn status(&self, service: &str) -> Option<ServiceStatus> {
        let planner = planner(&self.state, &self.node);
        ServiceStatus::of(&service.into(), &self.state, &planner, &self.reconciler, &self.lanes)
    }

    /// One answer of the sync thread.
    fn explain(&mut self, request: &ExplainRequest) -> Explanations {
        let World { state, node, reconciler, lanes } = self;
        let planner = &planner(state, node);
        let detector = &LocalDetector::None;
        request.answer(View { state, node, planner, reconciler, lanes, detector, mode: "nftables" })
    }

    /// What somebody gets who asks the sync thread, which answers question by question.
    fn served<T>(&mut self, ask: impl AsyncFnOnce(&Asker) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (sender, receiver) = inbox::channel();
        let asker = Asker::new(sender);
        runtime.block_on(async {
            let serve = async {
                loop {
                    let events = receiver.recv_timeout(Duration::ZERO).unwrap_or_default();
                    for event in events {
                        match event {
                            Event::Question(Question::Explain(request, reply)) => {
                                reply.answer(self.explain(&request));
                            }
                            Event::Question(Question::ServiceRows(keys, reply)) => {
                                reply.answer(describe(&keys, &self.state, &self.reconciler, &self.lanes));
                            }
                            Event::Question(Question::Problematic(keys, reply)) => {
                                reply.answer(judge(&keys, &self.state, &self.reconciler));
                            }
                            Event::Question(Question::Ports(key, from, reply)) => {
                                reply.answer(judge_ports(&key, from, &self.state, &self.reconciler));
                            }
                            _ => panic!("another question"),
                        }
                    }
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                answer = ask(&asker) => answer,
                () = serve => unreachable!("it serves for ever"),
            }
        })
    }

    fn v4(&self) -> FamilyStatus {
        self.status("default/web").expect("the service").0[0].clone()
    }
}

fn planner<'a>(state: &'a ClusterState, node: &'a NodeView) -> ClusterPlanner<'a> {
    let nodeport_addresses = &NodePortAddresses::Primary;
    ClusterPlanner {
        state,
        node,
        settings: &SETTINGS,
        nodeport_addresses,
        nodeports_on_loopback: model::OnLoopback::Never,
    }
}

fn endpoints(rules: &Rules) -> [usize; 2] {
    match rules {
        Rules::Ports(2, ports) => [ports[0].cluster_endpoints, ports[1].cluster_endpoints],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_status_tells_what_is_planned_what_is_programmed_and_what_waits() {
    let mut world = World::new();
    fill(&mut world.state, 3);
    let ServiceStatus([v4, v6]) = world.status("default/web").unwrap();
    assert!(v4.is_pending && v4.programmed == Rules::Unknown, "{v4:?}");
    assert_eq!((v4.known_endpoints, endpoints(&v4.planned)), (3, [2, 0]));
    assert_eq!((v6.known_endpoints, &v6.planned), (0, &Rules::Ports(0, Vec::new())));

    world.sync();
    let v4 = world.v4();
    assert!(!v4.is_pending && v4.programmed == v4.planned, "{v4:?}");
    let Rules::Ports(_, ports) = &v4.programmed else { panic!("{v4:?}") };
    let at = |ip: &str| Address::Vip(ip.parse().unwrap(), 80);
    assert_eq!((&*ports[0].name, ports[0].address_count), ("http", 2));
    assert!([at("10.96.0.1"), at("192.0.2.1")].iter().all(|at| ports[0].addresses.contains(at)), "{ports:?}");

    fill(&mut world.state, 4);
    world.lanes[0].mark(&["default/web".into()], false);
    let v4 = world.v4();
    assert!(v4.is_pending);
    assert_eq!((endpoints(&v4.planned), endpoints(&v4.programmed)), ([3, 0], [2, 0]));

    assert_eq!(world.status("default/other"), None);
    world.state.delete(&ObjectKey::new(Kind::Service, "default", "web"));
    world.state.delete(&ObjectKey::new(Kind::EndpointSlice, "default", "web-1"));
    let v4 = world.v4();
    assert_eq!((&v4.planned, endpoints(&v4.programmed)), (&Rules::None, [2, 0]), "its rules are still there");
}

#[test]
fn a_large_service_is_not_planned_for_a_question() {
    let mut world = World::new();
    fill(&mut world.state, 3);
    fill_many(&mut world.state, 30);
    let v4 = world.v4();
    assert_eq!((v4.known_endpoints, &v4.planned), (6_003, &Rules::Unknown));
}

fn request(target: Target, reads_kernel: bool) -> ExplainRequest {
    ExplainRequest { target, from: None, written: [true; 2], reads_kernel, most_endpoints: 400 }
}

/// A forwarder that listens always at the same place.
struct Doors;

impl Ground for Doors {
    fn open(&mut self, _: Family) -> Result<[SocketAddr; 2], SyncError> {
        Ok([20_850, 20_851].map(|port| SocketAddr::from(([169, 254, 84, 85], port))))
    }

    fn is_intact(&mut self, _: Family) -> bool {
        true
    }

    fn configure(&mut self, _: &model::UserspaceSettings, _: u32) {}
}

/// What people read of `default/web`, if it is listed among services with problems.
fn problems<B: Backend>(world: &mut World<B>, protocol: Protocol) -> Option<Vec<String>> {
    apply_service(&mut world.state, vec![port("http", protocol, 80)]);
    apply_slice_over(protocol, &mut world.state, "web-1", vec![endpoint(2)]);
    world.lanes.iter_mut().for_each(|lane| lane.mark(&["default/web".into()], false));
    world.sync();
    let key = "default/web".into();
    let row = ServiceRow::of(&key, &world.state, &world.reconciler, &world.lanes).expect("the service");
    let lines = crate::problems::of_port(&row, &row.ports[0]);
    let (judged, found) = judge(&[key], &world.state, &world.reconciler);
    assert_eq!(judged, 1);
    (!found.is_empty()).then_some(lines)
}

#[test]
fn a_port_that_the_mode_does_not_carry_is_a_problem() {
    let setup = Setup {
        detector: LocalDetector::None,
        masquerade_mark: 1 << 14,
        drop_invalid: true,
        of_mode: Default::default(),
    };
    let mut carried = World::new();
    let mut forwarded = World::with(Userspace::new(Simulator::new(), Doors, &setup));
    assert_eq!(problems(&mut carried, Protocol::Sctp), None);
    assert_eq!(problems(&mut forwarded, Protocol::Tcp), None);
    let lines = problems(&mut forwarded, Protocol::Sctp).expect("a problem");
    assert_eq!(
        lines,
        ["rejects all clients: this mode does not carry the protocol; use another mode for it"]
    );
}

#[test]
fn all_addresses_of_a_service_with_many_ports_are_counted() {
    let mut world = World::new();
    let ports = (1..=700).map(|number| port(&format!("p{number}"), Protocol::Tcp, number)).collect();
    apply_service(&mut world.state, ports);
    apply_slice(&mut world.state, "web-1", vec![endpoint(2)]);
    world.sync();
    for (words, addresses) in [("default/web", 1400), ("default/web:p700", 2)] {
        let target = commands::targets::read_service(words).unwrap();
        let request = request(target, false);
        let found = world.served(async |asker| asker.explain(request).await.unwrap());
        assert_eq!(found.each.len() + found.left_out, addresses, "{words}");
    }
}

/// Rules redirect a connection once: what is at the address of an endpoint is not looked up again.
#[test]
fn endpoints_at_cluster_ips_and_at_the_forwarder_are_said_to_lead_nowhere() {
    let mut world = World::new();
    fill(&mut world.state, 3);
    let mut other = service(vec![port("http", Protocol::Tcp, 80)]);
    other.cluster_ips = ["10.96.0.2".parse().unwrap()].into();
    other.external_ips = [].into();
    let key = ObjectKey::new(Kind::Service, "default", "other");
    world.state.apply(Object { key, value: Value::Service(Box::new(other)) });
    let lines_of = |world: &mut World<_>, ips: &[&str]| {
        let at = |ip: &&str| EndpointRecord { ip: ip.parse().unwrap(), ..endpoint(2) };
        apply_slice(&mut world.state, "web-1", ips.iter().map(at).collect());
        world.lanes.iter_mut().for_each(|lane| lane.mark(&["default/web".into()], false));
        world.sync();
        let target = commands::targets::read_service("default/web:http").unwrap();
        let request = request(target, false);
        let document = crate::explain::document(&world.explain(&request), &[None, None]);
        assert_eq!(document["verdict"], "forward");
        let explained = &document["explanations"][0];
        let text = document["text"].as_str().unwrap().to_owned();
        for warning in explained["warnings"].as_array().unwrap() {
            assert!(text.contains(&format!("Warning    {}", warning.as_str().unwrap())), "{text}");
        }
        let known = explained["clients"][0]["known"].as_array().unwrap();
        let words: Vec<String> = known.iter().map(|known| known["leadsNowhere"].to_string()).collect();
        let key = "default/web".into();
        let row = ServiceRow::of(&key, &world.state, &world.reconciler, &world.lanes).unwrap();
        let is_judged = !judge(&[key], &world.state, &world.reconciler).1.is_empty();
        (
            words.join(" "),
            crate::problems::of_port(&row, &row.ports[0]),
            is_judged,
            explained["warnings"].clone(),
        )
    };
    world.state.apply(Object {
        key: ObjectKey::new(Kind::Service, "default", "web"),
        value: Value::Service(Box::new(service(vec![port("http", Protocol::Tcp, 80)]))),
    });
    let (words, problems, is_judged, _) = lines_of(&mut world, &["10.244.0.2", "192.0.2.1"]);
    assert_eq!(
        (words.as_str(), problems.len(), is_judged),
        ("null null", 0, false),
        "pods, and an external IP"
    );
    let (words, problems, is_judged, warnings) = lines_of(&mut world, &["10.244.0.2", "10.96.0.2"]);
    assert_eq!(words, "\"clusterIP\" null", "in the order of addresses");
    let wanted = "endpoint 10.96.0.2 is the cluster IP of default/other; connections to it usually go nowhere: point the \
                  EndpointSlice at pods";
    assert_eq!((problems, is_judged, &warnings[0]), (vec![wanted.to_owned()], true, &wanted.into()));
    let (words, problems, is_judged, _) = lines_of(&mut world, &["169.254.84.85"]);
    assert_eq!((words.as_str(), is_judged), ("\"forwarder\"", true));
    assert!(problems[0].starts_with("endpoint 169.254.84.85 is kube-proxy's own"), "{problems:?}");
}

#[test]
fn a_service_of_many_endpoints_is_explained_address_by_address() {
    let mut world = World::new();
    fill(&mut world.state, 3);
    let ask = |world: &mut World<_>| {
        let target = commands::targets::read_service("default/web").unwrap();
        let request = request(target, true);
        (world.explain(&request), world.served(async |asker| asker.explain(request).await.unwrap()))
    };
    let at = |all: &Explanations| all.each.iter().map(|one| one.explained.to).collect::<Vec<_>>();
    world.sync();
    let (first, small) = ask(&mut world);
    assert_eq!((first.rest.len(), at(&first)), (0, at(&small)), "at once");
    assert_eq!(small.each.len(), 4);
    fill_many(&mut world.state, 1);
    let (first, large) = ask(&mut world);
    assert_eq!((first.each.len() + first.rest.len(), first.rest.is_empty()), (4, false));
    assert_eq!(at(&large), at(&small));
    let named = large.each.iter().flat_map(|one| &one.explained.answers).map(|answer| answer.known.len());
    assert_eq!(named.max(), Some(100), "a share for each address");
    assert!(large.each.iter().flat_map(|one| &one.explained.answers).all(|one| one.known_count == 203));

    fill_many(&mut world.state, 30);
    let (_, large) = ask(&mut world);
    assert_eq!(at(&large), at(&small)[..3], "by what was written");
    assert_eq!(large.left_out, 1);
    assert!(large.each.iter().all(|one| one.explained.owner.as_ref().unwrap().is_large));
}
