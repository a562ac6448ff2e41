//! The apiserver goes away and comes back.

use std::time::{Duration, Instant};

use conformance_support::Service;
use conformance_support::log::{end_of, errors, lines};
use conformance_support::site::SOON;
use test_support::{NodeAgent, patient, wait_until, watch_for};

use crate::world::World;

const OUTAGE: Duration = Duration::from_secs(30);
/// From a server that is ready to traffic that follows a change.
const CAUGHT_UP: Duration = Duration::from_secs(15);

/// Clients do not notice the outage, and its end is noticed at once.
pub(crate) fn long(world: &mut World) {
    let (steady, changing) = (Service::tcp("steady", 11), Service::tcp("changing", 12));
    world.create(steady, "a");
    world.create(changing, "a");
    let agent = world.agent("outage");
    world.await_answer(steady, "a");
    let traffic = world.traffic(steady);

    world.plane.apiserver.kill();
    let began = Instant::now();
    let healthy = |path: &str| agent.probe(path) == Some(200);
    let unhealthy =
        watch_for(OUTAGE.saturating_sub(began.elapsed()), || !(healthy("/healthz") && healthy("/readyz")));
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
    expect_soon(ready.elapsed(), "traffic that follows a change after a long outage", &agent);
    let asked = traffic.finish();
    assert!(asked > 100, "only {asked} connections");

    let log = agent.log();
    let complaints = errors(&log);
    // The cut, and that nothing listens any more.
    assert!((1..=2).contains(&complaints.len()), "{complaints:#?}");
    assert!(complaints.iter().all(|line| line.contains("keeping the current rules")), "{complaints:#?}");
    let over = || lines(&agent.log(), &["Watching the apiserver again"]).len() == 1;
    assert!(wait_until(SOON, over), "the end of the outage is not told\n{}", end_of(&agent.log()));
}

pub(crate) fn killed(world: &mut World) {
    let service = Service::tcp("killed", 13);
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

/// The rules of an earlier run stay, the operator is informed once, and the server is noticed at once.
pub(crate) fn started_without(world: &mut World) {
    let service = Service::tcp("earlier", 14);
    world.create(service, "a");
    let mut agent = world.agent("started-without");
    world.await_answer(service, "a");
    agent.stop().unwrap();
    world.plane.apiserver.kill();
    let traffic = world.traffic(service);
    agent.launch().unwrap();
    // Each kind was retried.
    let tries = |log: &str| lines(log, &["Still failing to list or watch the apiserver"]).len();
    assert!(wait_until(SOON, || tries(&agent.log()) >= 12), "{}", end_of(&agent.log()));
    traffic.go_on(20);
    let log = agent.log();
    let complaints = errors(&log);
    assert_eq!(complaints.len(), 1, "{complaints:#?}");
    for word in ["https://127.0.0.1:6443", "refused", "keeping the current rules and retrying"] {
        assert!(complaints[0].contains(word), "no {word:?} in {}", complaints[0]);
    }
    assert_eq!(agent.probe("/readyz"), Some(503), "ready without knowing anything");

    world.plane.apiserver.start().unwrap();
    let ready = Instant::now();
    agent.await_ready().unwrap();
    expect_soon(ready.elapsed(), "ready after a start without an apiserver", &agent);
    traffic.finish();
    world.point_at(service, "b");
    world.await_answer(service, "b");
}

/// A limit between the pause after a failed attempt and the half a minute and more of a client that backs off.
fn expect_soon(took: Duration, what: &str, agent: &NodeAgent) {
    println!("{what}: {took:?} after the apiserver was ready");
    assert!(took < patient(CAUGHT_UP), "{what}: {took:?}, not {CAUGHT_UP:?}\n{}", end_of(&agent.log()));
}
