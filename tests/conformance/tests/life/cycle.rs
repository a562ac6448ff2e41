//! The plain way of things, in both encodings.

use conformance::User;

use crate::world::{Service, World, end_of, errors};

pub(crate) fn protobuf(world: &mut World) {
    cycle(world, Service::new("cycle-protobuf", 51), "application/vnd.kubernetes.protobuf");
}

pub(crate) fn json(world: &mut World) {
    cycle(world, Service::new("cycle-json", 52), "application/json");
}

fn cycle(world: &World, service: Service, content_type: &str) {
    let kubeconfig = world.plane.kubeconfig(User::PROXY).unwrap();
    let encoding = format!("--kube-api-content-type={content_type}");
    let listed = Service::new(
        if service.number == 51 { "listed-protobuf" } else { "listed-json" },
        service.number + 5,
    );
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
