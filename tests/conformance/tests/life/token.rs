//! How the agent says who it is: tokens that are replaced in their files, certificates, plugins.

use std::fs;
use std::path::Path;
use std::time::Instant;

use conformance_support::log::{end_of, errors, lines};
use conformance_support::site::SOON;
use conformance_support::{Service, User};
use test_support::wait_until;

use crate::world::{ROTATING, World};

pub(crate) fn replaced(world: &mut World) {
    let service = Service::tcp("token", 31);
    world.bind(ROTATING, "system:node-proxier");
    world.create(service, "a");
    let (kubeconfig, file) = world.plane.kubeconfig_with_token_file(ROTATING).unwrap();
    let agent = world.agent_with("token", &kubeconfig, &[]);
    world.await_answer(service, "a");
    let traffic = world.traffic(service);

    let old = fs::read_to_string(&file).unwrap();
    let tokens = world.plane.folder().join("tokens.csv");
    rewrite(&tokens, &fs::read_to_string(&tokens).unwrap().replace(old.trim(), "another-token"));
    // Killed, not stopped: no watch may be served to its end.
    world.plane.apiserver.kill();
    world.plane.apiserver.start().unwrap();
    let rejected = || !lines(&agent.log(), &["the credentials were rejected (401)"]).is_empty();
    assert!(wait_until(SOON, rejected), "{}", end_of(&agent.log()));

    rewrite(&file, "another-token");
    let began = Instant::now();
    world.point_at(service, "b");
    world.await_answer(service, "b");
    println!("a new token was in use after {:?}", began.elapsed());
    traffic.finish();
    let log = agent.log();
    let told = errors(&log).into_iter().filter(|line| line.contains("(401)")).count();
    assert!(told <= 1, "one line is enough\n{}", end_of(&log));
}

/// Each way comes up and follows a change.
pub(crate) fn ways(world: &mut World) {
    let service = Service::tcp("proof", 32);
    world.create(service, "a");
    let certificate = world.plane.kubeconfig_with_certificate().unwrap();
    let plugin = world.plane.kubeconfig_with_plugin(User::PROXY).unwrap();
    for (name, kubeconfig, pod) in [("certificate", certificate, "b"), ("plugin", plugin, "c")] {
        let agent = world.agent_with(name, &kubeconfig, &[]);
        world.point_at(service, pod);
        world.await_answer(service, pod);
        let log = agent.log();
        assert!(errors(&log).is_empty(), "{}", end_of(&log));
    }
    world.delete(service);
}

/// As a whole, as programs that renew tokens do.
fn rewrite(path: &Path, text: &str) {
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, text).unwrap();
    fs::rename(&unfinished, path).unwrap();
}
