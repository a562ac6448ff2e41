//! The right to make namespaces is acquired in `main`, before there are threads. Without the test harness,
//! which has threads.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use kernel::netns::{Namespace, acquire};

const ALONE: &str = "--alone";
const CROWDED: &str = "--crowded";

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some(ALONE) => report(),
        Some(CROWDED) => std::thread::spawn(report).join().unwrap(),
        _ => test(),
    }
}

/// In a process of its own: what we got, and whether it is worth something.
fn report() {
    match acquire() {
        Ok(privilege) => println!("{privilege:?}, {}", Namespace::new().is_ok()),
        Err(denied) => println!("{denied}"),
    }
}

fn test() {
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        assert_eq!(ask(ALONE, None).unwrap(), "Root, true");
    }
    let nobody = (std::fs::metadata("/proc/self").unwrap().uid() == 0).then_some(65534);
    let Some(alone) = ask(ALONE, nobody) else {
        return println!("SKIPPED: this binary is in a place that other users cannot read");
    };
    if alone.contains("refuses user namespaces") {
        return println!("SKIPPED: {alone}");
    }
    assert_eq!(alone, "UserNamespace, true");
    let crowded = ask(CROWDED, nobody).unwrap();
    assert!(crowded.contains("cannot be entered with several threads"), "{crowded}");
    println!("the right was acquired with one thread and refused with several");
}

fn ask(how: &str, user: Option<u32>) -> Option<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(how);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let output = command.output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
