//! Tokens expire and are replaced in their files.

use std::fs;
use std::path::Path;
use std::time::Instant;

use scenarios::wait_until;

use crate::traffic::Traffic;
use crate::world::{ROTATING, SOON, Service, World, lines};

pub(crate) fn replaced(world: &mut World) {
    let service = Service::new("token", 31);
    world.bind(ROTATING, "system:node-proxier");
    world.create(service, "a");
    let (kubeconfig, file) = world.plane.kubeconfig_with_token_file(ROTATING).unwrap();
    let agent = world.agent_with("token", &kubeconfig, &[]);
    world.await_answer(service, "a");
    let traffic = Traffic::start(world, service);

    let old = fs::read_to_string(&file).unwrap();
    let tokens = world.plane.folder().join("tokens.csv");
    rewrite(&tokens, &fs::read_to_string(&tokens).unwrap().replace(old.trim(), "another-token"));
    world.plane.apiserver.restart().unwrap();
    let rejected = || lines(&agent.log(), &["the credentials were rejected (401)"]).len();
    assert!(wait_until(SOON, || rejected() > 0), "{}", agent.log());

    rewrite(&file, "another-token");
    let began = Instant::now();
    world.point_at(service, "b");
    world.await_answer(service, "b");
    println!("a new token was in use after {:?}", began.elapsed());
    assert_eq!(rejected(), 1, "one line is enough\n{}", agent.log());
    traffic.finish();
}

/// As a whole, as whoever renews tokens does it.
fn rewrite(path: &Path, text: &str) {
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, text).unwrap();
    fs::rename(&unfinished, path).unwrap();
}
