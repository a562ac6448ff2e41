//! Nothing outlives the sandbox, and an ordinary user can have one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kernel::link::{Links, Veth};
use kernel::netns::{enter_user_namespace, privileged_test};
use sandbox::{Namespace, Sandbox, SandboxSpec, Server};

/// A link from a namespace of the sandbox to one of our own: it goes when that namespace goes.
fn tether(observer: &Namespace, name: &str, to: &Namespace) {
    observer.run(|| {
        let veth = Veth { name, index: 0, peer_name: "tether", peer_namespace: to };
        Links::open().unwrap().create_veth(&veth).unwrap();
    });
}

/// Wait until only the loopback is left. The kernel takes namespaces down in the background.
fn all_gone(observer: &Namespace) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let links = observer.run(|| Links::open().unwrap().links().unwrap());
        if links.len() == 1 {
            return;
        }
        assert!(Instant::now() < deadline, "still there: {links:?}");
        std::thread::yield_now();
    }
}

fn tether_all(observer: &Namespace, world: &Sandbox) {
    tether(observer, "node", &world.node);
    tether(observer, "remote", &world.remote);
    tether(observer, "client", &world.client);
    for pod in world.pods() {
        tether(observer, &pod.name, &pod.namespace);
    }
}

#[test]
fn dropping_removes_every_namespace() {
    privileged_test(|| {
        let observer = Namespace::new().unwrap();
        let world = Sandbox::new(&SandboxSpec::default()).unwrap();
        tether_all(&observer, &world);
        let pod = world.pod("a").unwrap();
        let server = Server::tcp(&pod.namespace, "a", (pod.v4, 80).into()).unwrap();
        assert_eq!(observer.run(|| Links::open().unwrap().links().unwrap().len()), 7);
        drop(server);
        drop(world);
        all_gone(&observer);
    });
}

#[test]
fn a_panic_removes_every_namespace() {
    privileged_test(|| {
        let observer = Namespace::new().unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let world = Sandbox::new(&SandboxSpec::default()).unwrap();
            tether_all(&observer, &world);
            let pod = world.pod("a").unwrap();
            let _server = Server::udp(&pod.namespace, "a", (pod.v4, 53).into()).unwrap();
            world.node.run(|| std::panic::panic_any("as asked"));
        }));
        assert!(panic.is_err());
        all_gone(&observer);
    });
}

#[test]
fn nothing_is_bound_to_a_path() {
    privileged_test(|| {
        let count = || std::fs::read_dir("/var/run/netns").map_or(0, Iterator::count);
        let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
        let before = (count(), mounts());
        let _world = Sandbox::new(&SandboxSpec::default()).unwrap();
        assert_eq!((count(), mounts()), before);
    });
}

/// As root: the other tests of this file once more as the user nobody, the way an ordinary user runs them.
#[test]
fn an_ordinary_user_has_a_sandbox_too() {
    if !std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0) {
        println!("SKIPPED: not root, so every test takes this way already");
        return;
    }
    let mut may = Command::new("/bin/true");
    may.uid(65534).gid(65534);
    enter_user_namespace(&mut may);
    if let Err(error) = may.status() {
        println!("SKIPPED: this machine refuses user namespaces: {error}");
        return;
    }
    let binary = std::env::current_exe().unwrap();
    let mut command = Command::new(&binary);
    command
        .args(["--skip", "an_ordinary_user", "--nocapture"])
        .uid(65534)
        .gid(65534)
        .current_dir(Path::new("/"));
    let Ok(output) = command.output() else {
        println!("SKIPPED: the test binary is in a place that other users cannot read");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains("SKIPPED"), "{text}");
}
