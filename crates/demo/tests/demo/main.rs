//! `pointsman-demo` as a user starts it: what it shows, and that nothing is left behind.

mod room;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kernel::netns::enter_user_namespace;
use kernel::process::{Signal, send_signal};
use room::{DEMO, Room, kube_proxy, namespaces_in_use, possible, read_up_to, until};
use test_support::binary::OVERRIDE;

const NOBODY: u32 = 65534;

fn check_tour(text: &str) {
    for line in [
        "the pods see 10.244.1.12: the caller's own address",
        "the pods see fd00:244:1::12: the caller's own address",
        "the pods see 192.168.50.2: the node's address, put in for 192.168.60.9",
        "the pods see 192.168.60.9: the caller's own address",
        "0 of 1800 connections failed",
        "first answer from pod-d after ",
        "committed 1 service, ",
        "last answer from pod-b after ",
        "the UDP flow moved to ",
        "the TCP connection to pod-b stays open",
        "10.96.0.40:80   refused after ",
        "50 of 50 by pod-",
        "traffic flows again after ",
        "committed all rules: ",
        "Summary",
        "--shell",
    ] {
        assert!(text.contains(line), "{line:?} is missing:\n{text}");
    }
    let failures = text.lines().filter(|line| line.contains("connections failed") && !line.contains("while"));
    for line in failures {
        assert!(line.trim_start().starts_with("0 of "), "{line:?} in\n{text}");
    }
    assert!(!text.contains('\x1b'), "colours without a terminal:\n{text}");
}

#[test]
fn the_tour() {
    if !possible() {
        return;
    }
    let room = Room::new("tour");
    let output = room.command(&[]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    check_tour(&text);
    room.assert_empty();
}

#[test]
fn the_tour_of_an_ordinary_user() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return println!("SKIPPED: not root, so every test here is this one");
    }
    let room = Room::new("user");
    let binary = room.0.join("binary");
    fs::copy(DEMO, &binary).unwrap();
    fs::copy(kube_proxy(), room.0.join("kube-proxy")).unwrap();
    let work = room.0.join("work");
    fs::create_dir(&work).unwrap();
    fs::set_permissions(&work, fs::Permissions::from_mode(0o777)).unwrap();
    let as_nobody = |program: &Path| {
        let mut command = Command::new(program);
        command.uid(NOBODY).gid(NOBODY).current_dir("/").env("TMPDIR", &work).env_remove(OVERRIDE);
        command
    };
    let mut trial = as_nobody(Path::new("true"));
    enter_user_namespace(&mut trial);
    if !trial.status().is_ok_and(|status| status.success()) {
        return println!("SKIPPED: this machine refuses user namespaces to ordinary users");
    }
    let output = as_nobody(&binary).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("inside a user namespace"), "{text}");
    check_tour(&text);
    assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
    assert_eq!(room.agents(), Vec::<PathBuf>::new());
}

#[test]
fn an_interrupt_leaves_nothing() {
    if !possible() {
        return;
    }
    for (signal, code) in [(Signal::Interrupt, 130), (Signal::Terminate, 143)] {
        let room = Room::new(&format!("signal-{code}"));
        let mut child = room.command(&[]).spawn().unwrap();
        let output = read_up_to(&mut child, "1. Every way");
        let agents = room.agents();
        assert_eq!(agents.len(), 1, "{agents:?}");
        let namespace = fs::read_link(agents[0].join("ns/net")).unwrap();
        send_signal(child.id(), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        drop(output);
        room.assert_empty();
        assert!(!namespaces_in_use().contains(&namespace));
    }
}

#[test]
fn the_agent_does_not_outlive_a_killed_demo() {
    if !possible() {
        return;
    }
    let room = Room::new("kill");
    let mut child = room.command(&[]).spawn().unwrap();
    let _output = read_up_to(&mut child, "1. Every way");
    assert_eq!(room.agents().len(), 1);
    send_signal(child.id(), Signal::Kill).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    until("the agent is still there", || room.agents().is_empty());
}

#[test]
fn a_reader_who_goes_away_ends_it() {
    if !possible() {
        return;
    }
    let room = Room::new("pipe");
    let mut child = room.command(&[]).spawn().unwrap();
    drop(read_up_to(&mut child, "1. Every way"));
    assert_eq!(child.wait().unwrap().code(), Some(1));
    room.assert_empty();
}

#[test]
fn the_shell_reaches_every_namespace() {
    if !possible() {
        return;
    }
    if !Command::new("nsenter").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return println!("SKIPPED: no nsenter here");
    }
    let room = Room::new("shell");
    let mut child = room.command(&["--shell"]).stdin(Stdio::piped()).spawn().unwrap();
    let script = "for place in client node other-node pod-a pod-b pod-c pod-frontend\n\
                  do echo \"at $place $($place readlink /proc/self/ns/net)\"; done\n\
                  echo \"here $(readlink /proc/self/ns/net)\"\nls $MANIFESTS\nexit 3\n";
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let at = |place: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(&format!("{place} net:")));
        found.unwrap_or_else(|| panic!("{place} in {text}")).to_owned()
    };
    let places = ["client", "node", "other-node", "pod-a", "pod-b", "pod-c", "pod-frontend"];
    let distinct: BTreeSet<String> = places.iter().map(|place| at(&format!("at {place}"))).collect();
    assert_eq!(distinct.len(), places.len(), "{text}");
    assert_eq!(at("here"), at("at client"));
    assert!(text.contains("web-endpoints.yaml"), "{text}");
    room.assert_empty();
}

#[test]
fn without_namespaces_the_rules_are_interpreted() {
    let room = Room::new("interpreted");
    let output = room.command(&[]).env("POINTSMAN_DEMO_INTERPRETED", "1").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for line in [
        "No network namespaces here",
        "goto lb-3",
        "redirected to 10.244.",
        "masqueraded as 192.168.50.2",
        "0 of 1800 connections failed",
        "10.96.0.40:80   refused at once",
        "50 of 50 by pod-",
        "requests lead nowhere",
    ] {
        assert!(text.contains(line), "{line:?} is missing:\n{text}");
    }
    let joined = text.split("A pod joins").nth(1).unwrap().split("A pod leaves").next().unwrap();
    assert!(joined.contains("pod-b") && joined.contains("pod-d"), "{joined}");
    let left = text.split("A pod leaves").nth(1).unwrap().split("with no pod").next().unwrap();
    assert!(!left.contains("pod-b") && left.contains("pod-d"), "{left}");
    room.assert_empty();
}

#[test]
fn without_an_agent_it_says_where_it_looked() {
    if !possible() {
        return;
    }
    let room = Room::new("no-agent");
    let missing = room.0.join("kube-proxy");
    let output = room.command(&[]).env(OVERRIDE, &missing).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = format!("pointsman-demo: there is no kube-proxy at {}: build it", missing.display());
    assert!(said.starts_with(&expected) && said.lines().count() == 1, "{said}");
    room.assert_empty();
}

#[test]
fn arguments_and_help() {
    let room = Room::new("arguments");
    let help = room.command(&["--help"]).output().unwrap();
    assert!(help.status.success());
    assert!(String::from_utf8_lossy(&help.stdout).starts_with("Usage: pointsman-demo"));
    let wrong = room.command(&["--shel"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("unknown argument \"--shel\""));
    let refused = room.command(&["--shell"]).env("POINTSMAN_DEMO_INTERPRETED", "1").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot start a shell without a sandbox"));
    room.assert_empty();
}
