//! The plain way of things, in both encodings.

use conformance_support::log::{end_of, errors};
use conformance_support::{Service, User};

use crate::world::World;

pub(crate) fn protobuf(world: &mut World) {
    let services = [Service::tcp("listed-protobuf", 51), Service::tcp("cycle-protobuf", 52)];
    cycle(world, services, "application/vnd.kubernetes.protobuf");
}

pub(crate) fn json(world: &mut World) {
    let services = [Service::tcp("listed-json", 53), Service::tcp("cycle-json", 54)];
    cycle(world, services, "application/json");
}

/// One service is there before the agent, the other one comes and goes under its eyes.
fn cycle(world: &World, [listed, service]: [Service<'_>; 2], content_type: &str) {
    let kubeconfig = world.plane.kubeconfig(User::PROXY).unwrap();
    let encoding = format!("--kube-api-content-type={content_type}");
    world.create(listed, "c");
    let agent = world.agent_with(service.name, &kubeconfig, &[&encoding]);
    world.await_answer(listed, "c");
    world.create(service, "a");
    world.await_answer(service, "a");
    world.point_at(service, "b");
    let took = world.await_answer(service, "b");
    println!("{content_type}: traffic follows {took:?} after the change was made");
    world.delete(service);
    world.await_silence(service);
    world.await_answer(listed, "c");
    let log = agent.log();
    assert!(errors(&log).is_empty(), "{}", end_of(&log));
}
