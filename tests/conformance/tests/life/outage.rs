//! The apiserver goes away and comes back.

use std::time::{Duration, Instant};

use scenarios::wait_until;

use crate::traffic::Traffic;
use crate::world::{SOON, Service, World, at_load, end_of, errors, lines};

const OUTAGE: Duration = Duration::from_secs(30);
/// From a server that is ready to traffic that follows a change.
const CAUGHT_UP: Duration = Duration::from_secs(2);

/// Nobody notices the outage, and its end is noticed at once.
pub(crate) fn long(world: &mut World) {
    let (steady, changing) = (Service::new("steady", 11), Service::new("changing", 12));
    world.create(steady, "a");
    world.create(changing, "a");
    let agent = world.agent("outage");
    world.await_answer(steady, "a");
    let traffic = Traffic::start(world, steady);

    world.plane.apiserver.kill();
    let began = Instant::now();
    let healthy = |path: &str| agent.probe(path) == Some(200);
    let unhealthy =
        wait_until(OUTAGE.saturating_sub(began.elapsed()), || !(healthy("/healthz") && healthy("/readyz")));
    assert!(
        !unhealthy,
        "the agent lost its health {:?} into the outage\n{}",
        began.elapsed(),
        end_of(&agent.log())
    );

    world.plane.apiserver.start().unwrap();
    let ready = Instant::now();
    world.point_at(changing, "b");
    world.await_answer(changing, "b");
    let (took, limit) = (ready.elapsed(), at_load(CAUGHT_UP));
    println!("after {OUTAGE:?} without an apiserver: traffic follows {took:?} after it was ready");
    assert!(took < limit, "{took:?}, not {limit:?}\n{}", end_of(&agent.log()));
    let asked = traffic.finish();
    assert!(asked > 100, "only {asked} connections");

    let log = agent.log();
    let complaints = errors(&log);
    // The cut, and that nobody listens any more.
    assert!((1..=2).contains(&complaints.len()), "{complaints:#?}");
    assert!(complaints.iter().all(|line| line.contains("the rules stay as they are")), "{complaints:#?}");
    let over = || lines(&agent.log(), &["The apiserver is followed again"]).len() == 1;
    assert!(wait_until(SOON, over), "the end of the outage is not told\n{}", end_of(&agent.log()));
}

pub(crate) fn killed(world: &mut World) {
    let service = Service::new("killed", 13);
    world.create(service, "a");
    let agent = world.agent("killed");
    world.await_answer(service, "a");
    world.plane.apiserver.kill();
    world.plane.apiserver.start().unwrap();
    world.point_at(service, "b");
    world.await_answer(service, "b");
    world.delete(service);
    world.await_silence(service);
    drop(agent);
}

/// The rules of an earlier run stay, the operator is told once, and the server is noticed at once.
pub(crate) fn started_without(world: &mut World) {
    let service = Service::new("earlier", 14);
    world.create(service, "a");
    let mut agent = world.agent("started-without");
    world.await_answer(service, "a");
    agent.stop().unwrap();
    world.plane.apiserver.kill();
    let traffic = Traffic::start(world, service);
    agent.launch().unwrap();
    // Each kind was tried again and again.
    let tries = |log: &str| lines(log, &["Still no news from the apiserver"]).len();
    assert!(wait_until(SOON, || tries(&agent.log()) >= 12), "{}", end_of(&agent.log()));
    traffic.go_on(20);
    let log = agent.log();
    let complaints = errors(&log);
    assert_eq!(complaints.len(), 1, "{complaints:#?}");
    for word in ["https://127.0.0.1:6443", "refused", "the rules stay as they are and it is tried again"] {
        assert!(complaints[0].contains(word), "no {word:?} in {}", complaints[0]);
    }
    assert_eq!(agent.probe("/readyz"), Some(503), "ready without knowing anything");

    world.plane.apiserver.start().unwrap();
    let ready = Instant::now();
    agent.await_ready().unwrap();
    let (took, limit) = (ready.elapsed(), at_load(CAUGHT_UP));
    println!("started without an apiserver: ready {took:?} after it was");
    assert!(took < limit, "{took:?}, not {limit:?}\n{}", end_of(&agent.log()));
    traffic.finish();
    world.point_at(service, "b");
    world.await_answer(service, "b");
}
