//! Namespaces: separate, held by descriptor only, reachable by threads and commands.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use kernel::link::Links;
use kernel::netns::{Namespace, enter_user_namespace, privileged_test};
use kernel::sysctl;

fn identity() -> String {
    std::fs::read_link("/proc/thread-self/ns/net").unwrap().display().to_string()
}

#[test]
fn a_new_namespace_has_only_a_loopback_that_is_up() {
    privileged_test(|| {
        let outside = identity();
        let links = Namespace::new().unwrap().run(|| {
            assert_ne!(identity(), outside);
            Links::open().unwrap().links().unwrap()
        });
        assert_eq!(identity(), outside);
        assert_eq!(links.len(), 1, "{links:?}");
        assert!(links[0].up && links[0].loopback && links[0].name == "lo", "{links:?}");
    });
}

#[test]
fn threads_and_commands_start_inside() {
    privileged_test(|| {
        let namespace = Namespace::new().unwrap();
        let inside = namespace.run(identity);
        assert_eq!(namespace.spawn("inside", identity).unwrap().join().unwrap(), inside);

        let mut command = Command::new("/bin/readlink");
        command.arg("/proc/self/ns/net");
        namespace.enter(&mut command).unwrap();
        assert_eq!(String::from_utf8_lossy(&command.output().unwrap().stdout).trim(), inside);
    });
}

#[test]
fn a_panic_inside_reaches_the_caller() {
    privileged_test(|| {
        let namespace = Namespace::new().unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| namespace.run(|| std::panic::panic_any(7_u8))));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&7_u8));
    });
}

#[test]
fn sysctls_are_those_of_the_namespace_of_the_thread() {
    privileged_test(|| {
        let (one, other) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        other.run(|| sysctl::write("net/ipv4/ip_forward", 0)).unwrap();
        assert!(one.run(|| sysctl::write("net/ipv4/ip_forward", 1).is_ok()));
        assert_eq!(one.run(|| sysctl::read("net/ipv4/ip_forward")).unwrap(), "1");
        assert_eq!(other.run(|| sysctl::read("net/ipv4/ip_forward")).unwrap(), "0");
    });
}

#[test]
fn an_unknown_sysctl_is_named() {
    let read = sysctl::read("net/ipv4/no_such_thing").unwrap_err();
    let write = sysctl::write("net/ipv4/no_such_thing", 1).unwrap_err();
    for error in [read, write] {
        assert!(matches!(error, sysctl::SysctlError::Absent { .. }), "{error:?}");
        assert!(error.to_string().contains("net/ipv4/no_such_thing"), "{error}");
    }
}

/// As root: the other tests of this file once more as the user nobody, the way an ordinary user runs them.
#[test]
fn an_ordinary_user_gets_there_through_a_user_namespace() {
    if !std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0) {
        println!("SKIPPED: not root, so the other tests take this way already");
        return;
    }
    let mut may = Command::new("/bin/true");
    may.uid(65534).gid(65534);
    enter_user_namespace(&mut may);
    if let Err(error) = may.status() {
        println!("SKIPPED: this machine refuses user namespaces: {error}");
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--skip", "an_ordinary_user", "--nocapture"]).uid(65534).gid(65534);
    let Ok(output) = command.output() else {
        println!("SKIPPED: the test binary is in a place that other users cannot read");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains("SKIPPED"), "{text}");
}
