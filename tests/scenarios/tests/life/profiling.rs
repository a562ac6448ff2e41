//! Profiles of an agent at work: the functions at work are in them, and taking one does no harm.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use test_support::{Case, Verdict, patient, wait_until, watch_for};

use super::case;
use super::churn::{assert_no_drift, crowd_member};
use super::stage::{PROMPT, SOON, Stage, list};

const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10249);
const CROWD: u16 = 500;

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        Case::new("profiles name the functions at work", || supported().unwrap_or_else(names)),
        Case::new("a profile ends with its client and with the agent", || {
            supported().unwrap_or_else(|| {
                ends();
                Verdict::Passed
            })
        }),
        case("without --profiling there are no profiles", off),
    ]
}

fn supported() -> Option<Verdict> {
    let why = format!("stacks cannot be walked on {}", std::env::consts::ARCH);
    (!kernel::profile::SUPPORTED).then_some(Verdict::Skipped(why))
}

/// The status and the body.
fn get(stage: &Stage, path: &str) -> (u16, Vec<u8>) {
    let answer = stage.sandbox.node.run(|| {
        let mut stream = ask(path);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    });
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head");
    let status = String::from_utf8_lossy(&answer[..head]);
    let status = status.split_whitespace().nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, answer[head + 4..].to_vec())
}

/// A connection on which the answer will come.
fn ask(path: &str) -> TcpStream {
    let mut stream = TcpStream::connect_timeout(&METRICS, patient(SOON)).unwrap();
    stream.set_read_timeout(Some(patient(SOON))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// SIGPROF has a handler in the agent.
fn has_handler(stage: &mut Stage) -> bool {
    let path = format!("/proc/{}/status", stage.agent().process());
    let status = std::fs::read_to_string(path).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    const SIGPROF: u32 = 27;
    caught >> (SIGPROF - 1) & 1 == 1
}

fn put_crowd(stage: &Stage, round: u16) {
    let items = (0..CROWD).flat_map(|number| crowd_member(number, 80, number % 200 + round % 7, 3));
    stage.folder.put("crowd", &list(items));
}

fn names() -> Verdict {
    let mut stage = Stage::new();
    put_crowd(&stage, 0);
    stage.start_with(&["--profiling", PROMPT]);
    let stage = &stage;
    let (mut round, mut read) = (0, String::new());
    // On a busy machine few samples fall into one profile.
    let named = wait_until(SOON, || {
        read = readable(stage, "profile", &profile_at_work(stage, &mut round));
        ["agent::sync::", "cluster::manifests::"].iter().all(|function| read.contains(function))
    });
    assert!(named, "functions are missing:\n{read}");
    // Samples too: there may be none of what is in use at the moment.
    let named = wait_until(SOON, || {
        round += 1;
        put_crowd(stage, round);
        let (status, heap) = get(stage, "/debug/pprof/heap");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&heap));
        read = readable(stage, "heap", &heap);
        read.contains("cluster::")
    });
    assert!(named, "functions are missing:\n{read}");
    let (_, table) = get(stage, "/debug/pprof/allocs?debug=1");
    let table = String::from_utf8_lossy(&table).into_owned();
    assert!(table.starts_with("alloc_space: ") && table.contains("cluster::"), "{table}");
    assert_no_drift(stage);
    Verdict::Passed
}

/// A profile of some seconds in which there is always something to do.
fn profile_at_work(stage: &Stage, round: &mut u16) -> Vec<u8> {
    let (status, profile) = std::thread::scope(|scope| {
        let profile = scope.spawn(|| get(stage, "/debug/pprof/profile?seconds=4"));
        while !profile.is_finished() {
            *round += 1;
            put_crowd(stage, *round);
            // The agent reads files as they come; another one at once would only be the same work.
            watch_for(Duration::from_millis(200), || profile.is_finished());
        }
        profile.join().unwrap()
    });
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&profile));
    profile
}

fn readable(stage: &Stage, name: &str, bytes: &[u8]) -> String {
    let file = stage.folder.path().join(format!(".{name}.pb"));
    std::fs::write(&file, bytes).unwrap();
    top(&file).unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned())
}

/// What Go's own reader makes of it; `None` where there is none.
fn top(file: &std::path::Path) -> Option<String> {
    let mut command = Command::new("go");
    command.args(["tool", "pprof", "-top", "-cum", "-nodefraction=0", "-nodecount=2000"]).arg(file);
    // Its cache belongs to the user who runs the test, who may have no home here.
    command.env("PPROF_TMPDIR", file.parent()?).stdin(Stdio::null());
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

fn ends() {
    let mut stage = Stage::new();
    stage.start_with(&["--profiling"]);
    assert!(!has_handler(&mut stage), "before any profile");
    let long = stage.sandbox.node.run(|| ask("/debug/pprof/profile?seconds=300"));
    assert!(wait_until(SOON, || has_handler(&mut stage)), "the profile does not begin");
    let (status, text) = get(&stage, "/debug/pprof/profile?seconds=1");
    assert_eq!(status, 503, "{}", String::from_utf8_lossy(&text));
    assert_eq!(get(&stage, "/healthz").0, 200, "others are answered meanwhile");
    drop(long);
    assert!(wait_until(SOON, || !has_handler(&mut stage)), "the client is gone, the profile is not");
    let (status, text) = get(&stage, "/debug/pprof/profile?seconds=1");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&text));
    assert!(!has_handler(&mut stage), "after a profile");

    for (path, wanted) in [
        ("/debug/pprof/profile?seconds=301", 400),
        ("/debug/pprof/profile?seconds=soon", 400),
        ("/debug/pprof/mutex", 501),
        ("/debug/pprof/nothing", 404),
        ("/debug/pprof/", 200),
    ] {
        assert_eq!(get(&stage, path).0, wanted, "{path}");
    }

    let _long = stage.sandbox.node.run(|| ask("/debug/pprof/profile?seconds=300"));
    assert!(wait_until(SOON, || has_handler(&mut stage)), "the profile does not begin");
    // Long before the profile would end.
    let status = stage.agent().stop().unwrap();
    assert!(status.success(), "{status}\n{}", stage.log());
}

fn off() {
    let mut stage = Stage::new();
    stage.start();
    for path in ["/debug/pprof/", "/debug/pprof/profile?seconds=1", "/debug/pprof/heap"] {
        assert_eq!(get(&stage, path).0, 404, "{path}");
    }
    assert!(!has_handler(&mut stage));
}
